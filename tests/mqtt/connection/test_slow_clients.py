"""Clients that read slowly: memory stays bounded, and nothing is out of order."""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packets import Puback
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.connection.session_writer import MAX_GATHERED_BYTES
from tests.mqtt.broker_api import BrokerApi, Client

ONE_AT_A_TIME = Properties(receive_maximum=1)
COUNT = 400
SIZE = 10_000


def full_broker() -> tuple[BrokerApi, Client]:
    """A broker with 4 MB of retained messages, and a client."""
    broker_api = BrokerApi()
    publisher = broker_api.connect("p")
    for number in range(COUNT):
        publisher.publish(f"a/{number}", bytes(SIZE), qos=number % 2, retain=True)
    return broker_api, broker_api.connect("c")


def test_many_retained_messages_come_in_pieces() -> None:
    broker_api, client = full_broker()
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


def test_at_qos_1_retained_messages_follow_acknowledgements() -> None:
    broker_api, _ = full_broker()
    client = broker_api.connect("d", properties=Properties(receive_maximum=2))
    client.subscribe("#", qos=1)
    assert len(client.take_publications()) == COUNT


def test_a_new_retained_message_is_not_followed_by_its_predecessor() -> None:
    broker_api, client = full_broker()
    client.subscribe("#", qos=0)
    broker_api.connect("q").publish(f"a/{COUNT - 1}", b"new", retain=True)
    broker_api.connect("q").publish(f"a/{COUNT - 2}", b"", retain=True)
    broker_api.after(1)
    last = [packet.payload for packet in client.take() if packet.topic == f"a/{COUNT - 1}"]
    assert last[-1] == b"new"
    assert set(last) == {b"new"}


@pytest.mark.parametrize("again", [False, True])
def test_pending_retained_messages_end_with_their_subscription(again: bool) -> None:
    broker_api, client = full_broker()
    client.subscribe("#", qos=0)
    client.unsubscribe("#")
    client.take()
    if again:
        client.subscribe("#", qos=0)
    broker_api.after(1)
    assert len(client.take()) == COUNT * again


def test_a_returning_client_gets_the_remaining_retained_messages() -> None:
    broker_api, _ = full_broker()
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
        broker_api.after(3)  # no publisher waits for a hanging client
    assert client.connection.session.queued == 50
    assert client.connection.session.dropped == 150
    broker_api.carry_out(client.connection.resume(broker_api.now_us))
    assert len(client.take_publications()) == 50


def test_qos_0_messages_do_not_overtake_queued_ones() -> None:
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
