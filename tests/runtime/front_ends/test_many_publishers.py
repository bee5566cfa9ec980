"""The cost of a front end's publishers on its loop."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from shoal.broker.effects import Requested
from shoal.broker.messages import Advertise
from shoal.clients.messages import Relocate, Resume
from shoal.mqtt.front_end.publishers import MAX_HELD_BACK, FrontEndPublishers
from shoal.runtime.front_ends.publishers import LivePublishers
from tests.broker.transcript import advertisement, publish

NOW_US = 1_000


class Node:
    """Has clients, and accepts their requests."""

    id = "B1"
    clock = SimpleNamespace(now_us=lambda: NOW_US)

    def __init__(self) -> None:
        self.clients: dict[str, Any] = {}
        self.rows = SimpleNamespace(record=lambda row: None)
        self.attach = self.clients.__setitem__
        self.client = self.clients.get
        self.loop = SimpleNamespace(call_later=lambda *_: SimpleNamespace(cancel=lambda: None))

    def request(self, *about: Any, **more: Any) -> None: ...

    def at_flush(self, *about: Any) -> None: ...

    def schedule_flush(self) -> None: ...


def publishers(*clients: str) -> LivePublishers:
    node: Any = Node()
    forwarding_channels: Any = SimpleNamespace(owner=None, ask=lambda *_: None)
    found = LivePublishers(node, forwarding_channels)
    for client in clients:
        found.request(Requested(client, Advertise(advertisement("a"))))
    return found


def test_a_full_channel_checks_only_its_own_publishers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A check of all 100,000 would take 32 ms each time."""
    live = publishers("P", *(f"c{number}" for number in range(20)))
    live.noticed("B1", "P", Relocate(("B1", "B3")))
    live.noticed("B3", "P", Resume(NOW_US + 1, True))
    waits: list[tuple[str, bool]] = []
    live.at_wait = lambda client, wait: waits.append((client, wait))
    looked: list[str] = []
    must_wait = FrontEndPublishers.must_wait
    monkeypatch.setattr(
        FrontEndPublishers,
        "must_wait",
        lambda self, client: (looked.append(client), must_wait(self, client))[1],
    )
    live.filled("B3", True)
    live.filled("B3", False)
    assert waits == [("P", True), ("P", False)]
    assert looked == ["P", "P"]


def test_a_client_with_too_many_held_requests_is_not_read() -> None:
    """The bound holds even if no channel is full."""
    live = publishers("P")
    waits: list[tuple[str, bool]] = []
    live.at_wait = lambda client, wait: waits.append((client, wait))
    live.noticed("B1", "P", Relocate(("B1", "B3")))
    for number in range(MAX_HELD_BACK):
        assert waits == []
        live.request(Requested("P", publish(number)))
    assert waits == [("P", True)]
    live.noticed("B3", "P", Resume(NOW_US + 1, True))
    assert waits == [("P", True), ("P", False)]
