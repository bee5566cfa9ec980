"""Rules that change while many clients are there."""

from __future__ import annotations

import pytest

from shoal.mqtt.access import ALL_PERMISSIONS, Admission, Credentials, Permissions
from shoal.mqtt.codec.packets import Disconnect
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from tests.mqtt.house import KEPT, SECOND, House, will


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


class Changing:
    """Lets everyone in, to subscribe only to topics that begin with `allowed`."""

    def __init__(self) -> None:
        self.allowed = ""
        self.lasts_us: int | None = None

    def admit(self, credentials: Credentials) -> Admission:
        permissions: Permissions = _BeginningWith(self.allowed)
        return Admission(permissions=permissions, lasts_us=self.lasts_us, checks_session=True)

    def permissions(self, user: str, client_id: str) -> Permissions:
        return ALL_PERMISSIONS


class _BeginningWith:
    def __init__(self, allowed: str) -> None:
        self._allowed = allowed

    def may_publish(self, topic: str) -> bool:
        return True

    def may_subscribe(self, topic_filter: str) -> bool:
        return topic_filter.startswith(self._allowed)


def test_who_comes_again_with_less_loses_subscriptions_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shoal.mqtt.renewing.MOST_AT_ONCE", 10)
    access = Changing()
    house = House(access=access)
    names = [f"c{number}" for number in range(30)]
    for name in names:
        client = house.connect(name, **KEPT)
        for topic in (f"{kind}/{number}" for kind in "ab" for number in range(5)):
            client.subscribe(topic)
        client.disconnect()
    access.allowed = "b"
    for name in names:
        house.connect(name, **KEPT)
    count = house.clients.subscriptions
    house.clients.advance(house.now_us)
    assert 150 < count.count < 300
    house.after(1)
    assert count.count == 150
    for name in names:
        session = house.clients.sessions[name]
        assert list(session.subscriptions) == [f"b/{number}" for number in range(5)]
    assert len(house.clients.problems) == 30


@pytest.mark.parametrize("version", [4, 5])
def test_a_connection_ends_when_what_let_it_in_does(version: int) -> None:
    access = Changing()
    house = House(access=access)
    listener = house.connect("l")
    listener.subscribe("#", qos=0)
    access.lasts_us = 5 * SECOND
    client = house.connect("c", version=version, will=will("w"))
    assert client.connection.client_id == "c"
    house.after(4.9)
    assert not client.closed
    house.after(0.2)
    assert client.closed
    said = [each for each in client.take() if isinstance(each, Disconnect)]
    if version == 5:
        why = Properties(reason_string="what let you in has expired")
        assert said == [Disconnect(ReasonCode.NOT_AUTHORIZED, why)]
    assert [each.topic for each in listener.take()] == ["w"]
    # One that is gone by then is not ended.
    gone = house.connect("d", version=version)
    gone.disconnect()
    house.after(10)
    assert house.clients.statistics.notices.refusals["closed", "not authorized"] == 1
