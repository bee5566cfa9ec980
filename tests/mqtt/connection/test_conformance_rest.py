"""Statements of the standard without a test elsewhere: sizes, expiry, and refused messages.

Numbers are those of MQTT Version 5.0.
"""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import (
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsubscribe,
)
from shoal.mqtt.codec.properties import Properties
from tests.mqtt.broker_api import BrokerApi
from tests.mqtt.connection.standard import CODES, VERSIONS, kept, subscribed_to_all
from tests.mqtt.connection.test_conformance_admission import RuleBrokerApi

LONGEST = 65_535


# --- sizes: sections 3.1.2.11.4 and 4.7.3 ---------------------------------------------------------


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_3_1_2_24_and_25_exactly_as_large_as_the_client_takes(qos: int) -> None:
    """A message with one byte more is dropped as if it had arrived: it takes no place in flight."""
    size = len(encode(Publish("a", b"x" * 50, qos, packet_id=1 if qos else 0), MQTT_5))
    limits = Properties(maximum_packet_size=size, receive_maximum=1)
    publisher, subscriber = subscribed_to_all(properties=limits)
    for payload in (b"x" * 51, b"x" * 50, b"x" * 51, b"y" * 50):
        publisher.publish("a", payload, qos=qos)
    assert subscriber.take_payloads() == [b"x" * 50, b"y" * 50]
    assert subscriber.connection.session.inflight == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_mqtt_4_7_3_3_topics_of_65535_bytes(version: int) -> None:
    """The properties beside it may be as large as ever."""
    broker_api = BrokerApi()
    publisher, subscriber = broker_api.connect("p", version), broker_api.connect("s", version)
    topic = "é" * (LONGEST // 2) + "x"
    assert len(topic.encode()) == LONGEST
    assert subscriber.subscribe(topic, qos=1).reason_codes == (1,)
    publisher.publish(topic, b"there", qos=1)
    [packet] = subscriber.take_publications()
    assert (packet.topic, packet.payload) == (topic, b"there")


# --- expiry: section 3.3.2.3.3 --------------------------------------------------------------------


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_4_3_3_7_a_sent_message_does_not_expire(qos: int) -> None:
    """[MQTT-4.3.3-13]: the exchange goes to its end, also over connections."""
    publisher, subscriber = subscribed_to_all(clean_start=False, properties=kept(100))
    soon = Properties(message_expiry_interval_s=2)
    publisher.publish("a", b"x", qos=qos, properties=soon)
    [sent] = subscriber.take()
    subscriber.lose()
    publisher.broker_api.after(10)
    again = publisher.broker_api.connect("subscriber", clean_start=False, properties=kept(100))
    [repeated] = again.take()
    assert (repeated.packet_id, repeated.duplicate) == (sent.packet_id, True)
    if qos == 1:
        again.send(Puback(1))
    else:
        again.send(Pubrec(1))
        assert again.take() == [Pubrel(1)]
        again.send(Pubcomp(1))
    assert again.connection.session.inflight == 0


def test_mqtt_4_3_3_13_a_publisher_is_answered_to_the_end() -> None:
    """Its message has expired meanwhile."""
    publisher, subscriber = subscribed_to_all(clean_start=False, properties=kept(100))
    subscriber.lose()
    soon = Properties(message_expiry_interval_s=2)
    publisher.send(Publish("a", b"x", 2, packet_id=5, properties=soon))
    publisher.broker_api.after(10)
    publisher.send(Publish("a", b"x", 2, duplicate=True, packet_id=5, properties=soon), Pubrel(5))
    assert publisher.take() == [Pubrec(5), Pubrec(5), Pubcomp(5)]
    again = publisher.broker_api.connect("subscriber", clean_start=False, properties=kept(100))
    assert again.take() == []


def test_mqtt_3_3_2_5_an_interval_of_0_is_over_at_once() -> None:
    """No later subscriber receives it, and it is not retained."""
    publisher, subscriber = subscribed_to_all(clean_start=False, properties=kept(100))
    subscriber.lose()
    now = Properties(message_expiry_interval_s=0)
    publisher.publish("a", b"x", qos=1, retain=True, properties=now)
    publisher.broker_api.after(1)
    again = publisher.broker_api.connect("subscriber", clean_start=False, properties=kept(100))
    assert again.take() == []
    again.subscribe("#", qos=1)
    assert again.take() == []


# --- refused by the receiver: section 4.4 ---------------------------------------------------------


@pytest.mark.parametrize(("qos", "refusal"), [(1, Puback), (2, Pubrec)])
def test_mqtt_4_4_0_2_a_refused_message_is_not_retransmitted(qos: int, refusal: type) -> None:
    """[MQTT-4.9.0-2]: and its place is free for the next."""
    properties = Properties(session_expiry_interval_s=100, receive_maximum=1)
    publisher, subscriber = subscribed_to_all(clean_start=False, properties=properties)
    for payload in (b"1", b"2"):
        publisher.publish("a", payload, qos=qos)
    [first] = subscriber.take()
    subscriber.send(refusal(first.packet_id, CODES.QUOTA_EXCEEDED))
    [second] = subscriber.take()
    assert (first.payload, second.payload) == (b"1", b"2")
    subscriber.lose()
    again = publisher.broker_api.connect("subscriber", clean_start=False, properties=properties)
    assert [each.payload for each in again.take()] == [b"2"]


def test_mqtt_4_3_3_9_an_identifier_that_was_refused_is_free_again() -> None:
    """A PUBREC with an error ends the exchange, so the next PUBLISH is a new message."""
    broker_api = RuleBrokerApi()
    client = broker_api.connect("c")
    client.subscribe("mine/#")
    client.send(Publish("other", b"1", 2, packet_id=7))
    assert [each.reason_code for each in client.take()] == [CODES.NOT_AUTHORIZED]
    client.send(Publish("mine/a", b"2", 2, packet_id=7), Pubrel(7))
    found = client.take()
    assert [each.payload for each in found if isinstance(each, Publish)] == [b"2"]
    assert [each for each in found if not isinstance(each, Publish)] == [
        Pubrec(7),
        Pubcomp(7),
    ]


# --- flow control: section 4.9 --------------------------------------------------------------------


def test_mqtt_4_9_0_3_and_3_3_4_10_a_client_with_a_full_window_is_still_answered() -> None:
    """[MQTT-4.9.0-1, 4.9.0-2]: the quota is the client's receive maximum, and is used up."""
    publisher, subscriber = subscribed_to_all(properties=Properties(receive_maximum=1))
    for payload in (b"1", b"2"):
        publisher.publish("a", payload, qos=1)
    [first] = subscriber.take()
    assert isinstance(subscriber.subscribe("b"), Suback)
    assert subscriber.unsubscribe("b").reason_codes == (0,)
    subscriber.send(Pingreq())
    assert subscriber.take() == [Pingresp()]
    subscriber.send(Puback(first.packet_id), Puback(first.packet_id))
    [second] = subscriber.take()
    publisher.publish("a", b"3", qos=1)
    assert subscriber.take() == []  # a second acknowledgement of the first makes no more room
    assert second.payload == b"2"


# --- shared subscriptions: section 4.8.2 ----------------------------------------------------------


def test_mqtt_4_8_2_4_at_qos_2_the_chosen_member_receives_it_on_return() -> None:
    broker_api = BrokerApi()
    group = [broker_api.connect(f"w{number}", properties=kept()) for number in range(2)]
    for each in group:
        each.subscribe("$share/g/a", qos=2)
    broker_api.connect("p").publish("a", b"x", qos=2)
    [[packet], []] = [each.take() for each in group]
    group[0].lose()
    assert group[1].take() == []
    back = broker_api.connect("w0", clean_start=False, properties=kept())
    assert back.take() == [Publish("a", b"x", 2, duplicate=True, packet_id=packet.packet_id)]


def test_mqtt_4_8_2_5_at_qos_2_an_ended_sessions_message_goes_to_no_other() -> None:
    broker_api = BrokerApi()
    group = [broker_api.connect(f"w{number}", properties=kept(5)) for number in range(2)]
    for each in group:
        each.subscribe("$share/g/a", qos=2)
    broker_api.connect("p").publish("a", b"x", qos=2)
    [[_], []] = [each.take() for each in group]
    group[0].lose()
    broker_api.after(10)
    assert group[1].take() == []


# --- reason strings -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [20, 1_000])
def test_mqtt_3_4_2_2_and_3_5_2_2_and_3_11_2_1_reason_strings_only_if_they_fit(size: int) -> None:
    """[MQTT-3.9.2-1, 3.2.2-20]: the string is omitted, and no packet is too large."""
    broker_api = RuleBrokerApi()
    client = broker_api.connect("c", properties=Properties(maximum_packet_size=size))
    client.written = b""
    client.send(Publish("other", b"", 1, packet_id=1), Publish("other", b"", 2, packet_id=2))
    client.send(Subscribe(3, (SubscriptionRequest("other"),)), Unsubscribe(4, ("other",)))
    answers = client.take()
    codes = [getattr(each, "reason_code", None) or each.reason_codes[0] for each in answers]
    assert codes == [CODES.NOT_AUTHORIZED] * 3 + [CODES.NO_SUBSCRIPTION_EXISTED]
    assert all(len(encode(each, MQTT_5)) <= size for each in answers)
    with_words = [each.properties.reason_string is not None for each in answers]
    assert any(with_words) == (size > 20)


# --- before a CONNACK: section 3.14 ---------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    ["e0 00", "c0 00", "f0 00", "30 04 0001 61 00", "82 06 0001 00 0001 61", "20 03 000000", "ff"],
)
def test_mqtt_3_14_0_1_no_disconnect_before_the_connack(data: str) -> None:
    """[MQTT-3.2.0-1]: nothing at all."""
    client = BrokerApi().open()
    client.send_bytes(data)
    assert client.closed
    assert client.written == b""
