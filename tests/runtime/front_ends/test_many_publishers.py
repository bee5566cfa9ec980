"""What a front end's publishers cost its loop, however many there are."""

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
    """Has clients, and takes what they ask."""

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


def test_only_those_that_publish_at_a_broker_are_looked_at_when_its_channel_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All were, each time: 32 ms where there were 100,000."""
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


def test_who_asks_too_much_while_its_publisher_moves_is_read_no_more() -> None:
    """Nobody looked at how much was held back, unless some channel was full."""
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
