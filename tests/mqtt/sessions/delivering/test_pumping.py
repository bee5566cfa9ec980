"""What waits for many clients, or is retained, is sent in turns: whoever reads again is not alone.

Before, each took up to a megabyte of the smallest messages in one go, some 150 ms, one behind the
other.
"""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packets import Publish, Subscribe, SubscriptionRequest
from shoal.mqtt.connection.connection import FEW
from shoal.mqtt.due import MOST_SENT
from shoal.mqtt.sessions.delivering.delivery import MOST_AT_ONCE
from tests.mqtt.house import Client, House

CLIENTS = 8
COUNT = 3 * MOST_AT_ONCE


def got(clients: list[Client]) -> int:
    return sum(isinstance(each, Publish) for client in clients for each in client.take())


def in_turns(house: House, clients: list[Client], first: int) -> list[int]:
    """How many messages come in each turn, until all have come."""
    turns: list[int] = []
    while first + sum(turns) < COUNT * len(clients):
        assert house.clients.deadline_us is not None
        house.now_us = max(house.now_us, house.clients.deadline_us)
        house.carry_out(house.clients.advance(house.now_us))
        turns.append(got(clients))
    return turns


def test_retained_messages() -> None:
    house = House()
    publisher = house.connect("p")
    for number in range(COUNT):
        publisher.publish(f"r/{number}", b"x", retain=True)
    clients = [house.connect(f"c{number}") for number in range(CLIENTS)]
    for client in clients:
        client.send(Subscribe(1, (SubscriptionRequest("#"),)))
        house.carry_out(client.connection.resume(house.now_us))
    first = got(clients)
    assert first <= CLIENTS * (MOST_AT_ONCE + FEW)
    assert max(in_turns(house, clients, first)) <= MOST_SENT + MOST_AT_ONCE


@pytest.mark.parametrize("qos", [0, 1])
def test_what_waited_for_who_reads_again(qos: int) -> None:
    house = House(maximum_inflight=65_535)
    clients = [house.connect(f"c{number}", version=4) for number in range(CLIENTS)]
    for client in clients:
        client.subscribe("#", qos=qos)
        client.connection.pause()
    publisher = house.connect("p")
    for number in range(COUNT):
        publisher.publish("a", b"%d" % number, qos=qos)
    for client in clients:
        house.carry_out(client.connection.resume(house.now_us))
    first = got(clients)
    assert first <= CLIENTS * FEW
    assert max(in_turns(house, clients, first)) <= MOST_SENT + MOST_AT_ONCE
