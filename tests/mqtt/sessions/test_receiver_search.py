"""The search for a message's receivers may take several time slices (`receivers.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from shoal.matching.topics.memory import MOST_BYTES
from shoal.mqtt.codec.packets import (
    Pingreq,
    Pingresp,
    Publish,
    Subscribe,
    SubscriptionRequest,
)
from shoal.mqtt.sessions.session import Session
from tests.examples import at_length
from tests.mqtt.broker_api import BrokerApi, Client
from tests.mqtt.sessions.slices import go_on, payloads, turn

LEVELS = 13
WIDE = "/".join(f"l{at}" for at in range(LEVELS))


def wide(broker_api: BrokerApi, options: str = "", **kwargs: Any) -> list[Client]:
    """Two clients with 2 ** LEVELS topic filters that all match WIDE."""
    texts = [
        "/".join("+" if number >> at & 1 else f"l{at}" for at in range(LEVELS)) + options
        for number in range(2**LEVELS)
    ]
    clients = [broker_api.connect(name) for name in "ab"]
    for client, own in zip(clients, (texts[::2], texts[1::2]), strict=True):
        for at in range(0, len(own), 100):
            requests = [SubscriptionRequest(text, **kwargs) for text in own[at : at + 100]]
            client.send(Subscribe(1, tuple(requests)))
        client.written = b""
    return clients


class CountedNodes(BrokerApi):
    """The number of filter nodes read in each slice."""

    def __init__(self) -> None:
        super().__init__()
        self.clients.spreading.most = 500
        self.places: list[int] = [0]
        index = self.clients.subscriptions._index
        for name in ("survey", "matching"):
            setattr(index, name, partial(self._counted, getattr(index, name)))

    def _counted(self, steps: Callable[..., Iterator[int]], *given: Any) -> Iterator[int]:
        for places in steps(*given):
            self.places[-1] += places
            yield places

    def take_turns(self) -> None:
        while self.clients.spreading.is_on:
            self.places.append(0)
            turn(self)


@pytest.mark.parametrize(
    ("qos", "options", "no_local"),
    [
        (0, "", False),
        (1, "?n>1", False),
        (1, "", True),
        *at_length([(1, "", False), (0, "?n>1", False), (0, "", True)]),
    ],
)
def test_the_search_for_receivers_is_sliced(qos: int, options: str, no_local: bool) -> None:
    """130,000 filters, which two users may have, take a fifth of a second in one go."""
    broker_api = CountedNodes()
    clients = wide(broker_api, options, no_local=no_local)
    writer = clients[0] if no_local else broker_api.connect("w")
    for number in (2, 3):
        body = b'{"n": %d}' % number
        for topic in (WIDE, WIDE + "x"):
            broker_api.places.append(0)
            writer.send(Publish(topic, body, qos, packet_id=number if qos else None))
            assert broker_api.clients.spreading.is_on is (number == 2 or bool(options))
            broker_api.take_turns()
    assert max(broker_api.places) <= (500 + 100) * 20
    for client in clients:
        got = payloads(client)
        assert got == ([] if client is writer else [b'{"n": 2}'] * 2 + [b'{"n": 3}'] * 2)


def test_publications_meanwhile_wait_behind_it() -> None:
    broker_api = CountedNodes()
    one, other = wide(broker_api)
    other.send(Subscribe(1, (SubscriptionRequest("b"),)))
    writers = broker_api.connect("w"), broker_api.connect("v")
    other.written = b""
    writers[0].send(Publish(WIDE, b"1"), Publish("b", b"2"))
    writers[1].send(Publish("b", b"3"), Pingreq())
    assert writers[1].take() == [Pingresp()]
    while broker_api.clients.spreading.is_on:
        turn(broker_api)
        for writer in writers:
            go_on(writer)
    assert payloads(one) == [b"1"]
    first, *rest = payloads(other)
    assert (first, sorted(rest)) == (b"1", [b"2", b"3"])


def test_churn_during_the_search_does_not_block_it() -> None:
    broker_api = CountedNodes()
    one, other = wide(broker_api)
    steps = 0
    for _ in broker_api.clients.subscriptions.search(WIDE):
        steps += 1
        broker_api.clients.subscriptions.remove(*next_of(other))
    assert 0 < steps < 20
    broker_api.connect("w").send(Publish(WIDE, b"1"))
    broker_api.take_turns()
    assert payloads(one) == payloads(other) == [b"1"]


def next_of(client: Client) -> tuple[Session, str]:
    session = client.broker_api.clients.sessions["b"]
    assert session is not None
    return session, next(iter(session.subscriptions))


def test_long_topics_are_remembered_within_a_limit() -> None:
    broker_api = BrokerApi()
    reader, publisher = broker_api.connect("a"), broker_api.connect("b")
    reader.subscribe("#")
    reader.is_listening = False
    for number in range(1_300):
        publisher.publish(f"{number:_>60000}")
        reader.written = b""
    known = broker_api.clients.subscriptions.known
    assert 100 < len(known) < 1_150
    assert sum(map(len, known)) <= MOST_BYTES
