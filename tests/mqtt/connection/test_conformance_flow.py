"""The standard's statements about flow control and the largest packets.

Numbers are those of MQTT Version 5.0, sections 3.1.2.11, 3.2.2.3 and 4.9.
"""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import (
    Disconnect,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.connection.serving import TURN
from tests.mqtt.broker_api import BrokerApi
from tests.mqtt.connection.standard import CODES, subscribed_to_all


def test_mqtt_3_3_4_7_and_9_no_more_in_flight_than_the_client_takes() -> None:
    """QoS 0 is not counted [MQTT-3.3.4-10]."""
    publisher, subscriber = subscribed_to_all(properties=Properties(receive_maximum=2))
    for number in range(4):
        publisher.publish("a", b"%d" % number, qos=2)
    publisher.publish("a", b"now", qos=0)
    assert [packet.payload for packet in subscriber.take()] == [b"0", b"1", b"now"]
    subscriber.send(Pubrec(1))
    assert subscriber.take() == [Pubrel(1)]
    subscriber.send(Pubcomp(1))
    assert [packet.payload for packet in subscriber.take()] == [b"2"]
    subscriber.send(Pubrec(2, CODES.UNSPECIFIED_ERROR))
    assert [packet.payload for packet in subscriber.take()] == [b"3"]


@pytest.mark.parametrize(
    "behind",
    [[], [Publish("b", b"")] * (2 * TURN), [Disconnect()]],
    ids=["nothing", "much", "end"],
)
def test_messages_follow_acknowledgements_in_order(behind: list[Packet]) -> None:
    """Also where the rest of the read has to wait for another time slice."""
    publisher, subscriber = subscribed_to_all(properties=Properties(receive_maximum=2))
    for number in range(5):
        publisher.publish("a", b"%d" % number, qos=1)
    said = [Puback(packet.packet_id) for packet in subscriber.take()]
    data = b"".join(encode(packet, MQTT_5) for packet in (*said, *behind))
    effects = subscriber.connection.receive(data, subscriber.broker_api.now_us)
    assert subscriber.connection.holds == (len(behind) > TURN)
    subscriber.broker_api.carry_out(effects)
    assert subscriber.take_payloads()[:2] == [b"2", b"3"]


def test_retransmissions_respect_a_smaller_receive_maximum() -> None:
    kept = {"session_expiry_interval_s": 9}
    publisher, subscriber = subscribed_to_all(properties=Properties(**kept))
    for number in range(3):
        publisher.publish("a", b"%d" % number, qos=1)
    subscriber.lose()
    broker_api = publisher.broker_api
    again = broker_api.connect(
        "subscriber", clean_start=False, properties=Properties(receive_maximum=1, **kept)
    )
    publisher.publish("a", b"3", qos=1)
    for number in range(4):
        [packet] = again.take()
        assert packet.payload == b"%d" % number
        again.send(Puback(packet.packet_id))
    assert again.take() == []


def test_mqtt_3_3_4_8_exceeding_the_brokers_receive_maximum_ends_the_connection() -> None:
    broker_api = BrokerApi(receive_maximum=2)
    publisher = broker_api.connect("p")
    assert publisher.connack.properties.receive_maximum == 2
    publisher.send(*(Publish("a", b"", 2, packet_id=number) for number in (1, 2, 1)))
    assert [packet.packet_id for packet in publisher.take()] == [1, 2, 1]
    publisher.send(Pubrel(1), Publish("a", b"", 2, packet_id=3))
    assert not publisher.closed
    publisher.take()
    publisher.send(Publish("a", b"", 2, packet_id=4))
    assert publisher.take()[0].reason_code is CODES.RECEIVE_MAXIMUM_EXCEEDED
    assert publisher.closed


def test_3_1_1_has_no_receive_maximum() -> None:
    """All identifiers may be in use at once, and are then released, as in MQTT 5."""
    broker_api = BrokerApi(receive_maximum=2)
    subscriber = broker_api.connect("s")
    subscriber.subscribe("a", qos=0)
    publisher = broker_api.connect("p", version=4)
    ids = range(1, 65_536)
    publisher.send(*(Publish("a", b"", 2, packet_id=each) for each in ids))
    assert [each.packet_id for each in publisher.take()] == list(ids)
    assert len(publisher.connection.session.received) == 65_535
    publisher.send(*map(Pubrel, ids))
    assert publisher.take() == [Pubcomp(each) for each in ids]
    assert publisher.connection.session.received == set()
    assert len(subscriber.take_payloads()) == 65_535


def test_mqtt_3_1_2_24_and_25_nothing_larger_than_the_client_takes() -> None:
    """It counts as sent: later messages arrive, and nothing stays in flight."""
    publisher, subscriber = subscribed_to_all(properties=Properties(maximum_packet_size=30))
    for size in (100, 10):
        for qos in (0, 1, 2):
            publisher.publish("a", bytes(size), qos=qos)
    assert [len(payload) for payload in subscriber.take_payloads()] == [10] * 3
    assert subscriber.connection.session.inflight == 0


def test_mqtt_3_2_2_15_packets_larger_than_the_broker_takes() -> None:
    broker_api = BrokerApi(maximum_packet_size=64)
    publisher = broker_api.connect("p")
    assert publisher.connack.properties.maximum_packet_size == 64
    publisher.send(Publish("a", bytes(64)))
    assert publisher.take()[0].reason_code is CODES.PACKET_TOO_LARGE
    assert publisher.closed


def test_a_slow_clients_queue_is_bounded() -> None:
    broker_api = BrokerApi(maximum_queued_messages=3)
    publisher, subscriber = broker_api.connect("p"), broker_api.connect("s")
    subscriber.subscribe("#", qos=1)
    subscriber.connection.pause()
    for number in range(5):
        publisher.publish("a", b"%d" % number, qos=number % 2)
        broker_api.after(3)  # no publisher waits for a hanging client
    assert subscriber.take() == []
    broker_api.carry_out(subscriber.connection.resume(broker_api.now_us))
    assert subscriber.take_payloads() == [b"0", b"1", b"2"]
    assert subscriber.connection.session.dropped == 2


def test_a_queue_is_bounded_in_bytes() -> None:
    broker_api = BrokerApi(maximum_queued_bytes=250)
    publisher, subscriber = broker_api.connect("p"), broker_api.connect("s")
    subscriber.subscribe("#", qos=1)
    subscriber.connection.pause()
    for _ in range(4):
        publisher.publish("a", bytes(100), qos=1)
        broker_api.after(3)
    broker_api.carry_out(subscriber.connection.resume(broker_api.now_us))
    assert len(subscriber.take_payloads()) == 2
    subscriber.connection.pause()
    publisher.publish("a", bytes(100), qos=1)
    broker_api.carry_out(subscriber.connection.resume(broker_api.now_us))
    assert len(subscriber.take_payloads()) == 1
