"""Rules that change while many clients are there."""

from __future__ import annotations

import pytest

from shoal.mqtt.access import ALL_PERMISSIONS, Credentials, Permissions
from tests.mqtt.house import House


def test_who_does_not_stay_is_closed_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 clients were asked and closed in one turn, of 0.24 s."""
    monkeypatch.setattr("shoal.mqtt.renewing.MOST_AT_ONCE", 10)
    house = House()
    clients = [house.connect(f"c{number}") for number in range(40)]
    asked: list[str] = []

    def permissions(credentials: Credentials) -> Permissions | None:
        asked.append(credentials.client_id)
        return ALL_PERMISSIONS if int(credentials.client_id[1:]) % 4 else None

    house.clients._renewing.begin(house.clients.limits, permissions, house.now_us)
    assert len(asked) == 5
    house.after(0.1)
    assert asked == [f"c{number}" for number in range(40)]
    closed = [number for number, client in enumerate(clients) if client.closed]
    assert closed == list(range(0, 40, 4))
