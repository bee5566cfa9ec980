"""Clients that take less than they asked for: memory stays bounded, and nothing is out of order."""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packets import Puback
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.connection.session_writer import MAX_GATHERED_BYTES
from tests.mqtt.broker_api import BrokerApi, Client

ONE_AT_A_TIME = Properties(receive_maximum=1)
COUNT = 400
SIZE = 10_000


def full_house() -> tuple[BrokerApi, Client]:
    """4 MB of retained messages, and a client."""
    broker_api = BrokerApi()
    publisher = broker_api.connect("p")
    for number in range(COUNT):
        publisher.publish(f"a/{number}", bytes(SIZE), qos=number % 2, retain=True)
    return broker_api, broker_api.connect("c")


def test_many_retained_messages_come_in_pieces() -> None:
    broker_api, client = full_house()
    client.subscribe("#", qos=0)
    first = len(client.written)
    assert first < MAX_GATHERED_BYTES + 2 * SIZE
    assert broker_api.clients.deadline_us == 0
    client.connection.pause()
    broker_api.after(1)
    assert len(client.written) == first
    broker_api.carry_out(client.connection.resume(broker_api.now_us))
    broker_api.after(1)
    assert [packet.topic for packet in client.take()] == [f"a/{number}" for number in range(COUNT)]


def test_at_qos_1_they_come_as_the_client_takes_them() -> None:
    broker_api, _ = full_house()
    client = broker_api.connect("d", properties=Properties(receive_maximum=2))
    client.subscribe("#", qos=1)
    assert len(client.take_publications()) == COUNT


def test_what_is_published_meanwhile_is_not_followed_by_what_it_replaced() -> None:
    broker_api, client = full_house()
    client.subscribe("#", qos=0)
    broker_api.connect("q").publish(f"a/{COUNT - 1}", b"new", retain=True)
    broker_api.connect("q").publish(f"a/{COUNT - 2}", b"", retain=True)
    broker_api.after(1)
    last = [packet.payload for packet in client.take() if packet.topic == f"a/{COUNT - 1}"]
    assert last[-1] == b"new"
    assert set(last) == {b"new"}


@pytest.mark.parametrize("again", [False, True])
def test_they_end_with_their_subscription(again: bool) -> None:
    broker_api, client = full_house()
    client.subscribe("#", qos=0)
    client.unsubscribe("#")
    client.take()
    if again:
        client.subscribe("#", qos=0)
    broker_api.after(1)
    assert len(client.take()) == COUNT * again


def test_a_client_that_was_cut_off_gets_the_rest_when_it_is_back() -> None:
    broker_api, _ = full_house()
    kept = Properties(session_expiry_interval_s=100, receive_maximum=10)
    client = broker_api.connect("d", properties=kept)
    client.subscribe("#", qos=1)
    taken = {packet.topic for packet in client.take() if not client.send(Puback(packet.packet_id))}
    client.lose()
    again = broker_api.connect("d", clean_start=False, properties=kept)
    taken |= {packet.topic for packet in again.take_publications()}
    assert len(taken) == COUNT


def test_a_flood_of_live_messages_is_bounded_by_the_queue() -> None:
    broker_api = BrokerApi(maximum_queued_messages=50)
    publisher, client = broker_api.connect("p"), broker_api.connect("c")
    client.subscribe("#", qos=1)
    client.connection.pause()
    for _ in range(200):
        publisher.publish("a", bytes(SIZE), qos=1)
        broker_api.after(3)  # nobody waits for one who hangs
    assert client.connection.session.queued == 50
    assert client.connection.session.dropped == 150
    broker_api.carry_out(client.connection.resume(broker_api.now_us))
    assert len(client.take_publications()) == 50


def test_messages_of_qos_0_do_not_overtake_those_that_wait() -> None:
    broker_api = BrokerApi()
    publisher, client = broker_api.connect("p"), broker_api.connect("c", properties=ONE_AT_A_TIME)
    client.subscribe("#", qos=1)
    client.connection.pause()
    for number in range(4):
        publisher.publish("a", b"%d" % number, qos=number % 2)
    broker_api.carry_out(client.connection.resume(broker_api.now_us))
    publisher.publish("a", b"4", qos=0)
    at_0 = [packet.payload for packet in client.take_publications() if packet.qos == 0]
    assert at_0 == [b"0", b"2", b"4"]
    publisher.publish("a", b"5", qos=0)
    assert client.take_payloads() == [b"5"]
