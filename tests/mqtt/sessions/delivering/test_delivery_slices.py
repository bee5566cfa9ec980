"""Queued and retained messages for many clients are sent in time slices.

Otherwise each client takes up to a megabyte of small messages at once, some 150 ms, one behind the
other.
"""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packets import Publish, Subscribe, SubscriptionRequest
from shoal.mqtt.connection.connection import FEW
from shoal.mqtt.sessions.delivering.delivery import MOST_AT_ONCE
from shoal.mqtt.timer_dispatch import MOST_SENT
from tests.mqtt.broker_api import BrokerApi, Client

CLIENTS = 8
COUNT = 3 * MOST_AT_ONCE


def got(clients: list[Client]) -> int:
    return sum(isinstance(each, Publish) for client in clients for each in client.take())


def in_turns(broker_api: BrokerApi, clients: list[Client], first: int) -> list[int]:
    """The number of messages in each slice, until all have come."""
    turns: list[int] = []
    while first + sum(turns) < COUNT * len(clients):
        assert broker_api.clients.deadline_us is not None
        broker_api.now_us = max(broker_api.now_us, broker_api.clients.deadline_us)
        broker_api.carry_out(broker_api.clients.advance(broker_api.now_us))
        turns.append(got(clients))
    return turns


def test_retained_messages_of_many_clients_are_sent_in_slices() -> None:
    broker_api = BrokerApi()
    publisher = broker_api.connect("p")
    for number in range(COUNT):
        publisher.publish(f"r/{number}", b"x", retain=True)
    clients = [broker_api.connect(f"c{number}") for number in range(CLIENTS)]
    for client in clients:
        client.send(Subscribe(1, (SubscriptionRequest("#"),)))
        broker_api.carry_out(client.connection.resume(broker_api.now_us))
    first = got(clients)
    assert first <= CLIENTS * (MOST_AT_ONCE + FEW)
    assert max(in_turns(broker_api, clients, first)) <= MOST_SENT + MOST_AT_ONCE


@pytest.mark.parametrize("qos", [0, 1])
def test_queued_messages_of_resuming_readers_are_sent_in_slices(qos: int) -> None:
    broker_api = BrokerApi(maximum_inflight=65_535)
    clients = [broker_api.connect(f"c{number}", version=4) for number in range(CLIENTS)]
    for client in clients:
        client.subscribe("#", qos=qos)
        client.connection.pause()
    publisher = broker_api.connect("p")
    for number in range(COUNT):
        publisher.publish("a", b"%d" % number, qos=qos)
    for client in clients:
        broker_api.carry_out(client.connection.resume(broker_api.now_us))
    first = got(clients)
    assert first <= CLIENTS * FEW
    assert max(in_turns(broker_api, clients, first)) <= MOST_SENT + MOST_AT_ONCE
