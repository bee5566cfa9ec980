"""The standard's statements about publications, QoS 0 to 2, order and flow control.

Numbers are those of MQTT Version 5.0, sections 3.3 to 3.7, 4.3, 4.4, 4.6 and 4.9.
"""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from tests.mqtt.broker_api import BrokerApi
from tests.mqtt.connection.standard import CODES, VERSIONS, subscribed_to_all


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("asked", [0, 1, 2])
@pytest.mark.parametrize("sent", [0, 1, 2])
def test_mqtt_3_8_4_8_the_lower_qos_of_both(version: int, asked: int, sent: int) -> None:
    broker_api = BrokerApi()
    subscriber, publisher = broker_api.connect("s", version), broker_api.connect("p")
    subscriber.subscribe("a", qos=asked)
    publisher.publish("a", b"x", qos=sent)
    [packet] = subscriber.take_publications()
    assert packet.qos == min(asked, sent)
    assert subscriber.take() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_mqtt_3_3_1_1_and_2_3_1_a_subscriber_gets_its_own_header(version: int) -> None:
    """[MQTT-3.3.1-3]: DUP does not travel on."""
    publisher, subscriber = subscribed_to_all(version)
    publisher.send(Publish("a", b"x", 1, duplicate=True, packet_id=77))
    assert publisher.take() == [Puback(77)]
    assert subscriber.take() == [Publish("a", b"x", 1, packet_id=1)]


def test_mqtt_3_3_2_4_and_others_properties_arrive_unaltered() -> None:
    """[MQTT-3.3.2-4, 3.3.2-15 to 17 and 3.3.2-20]: also the order of user properties."""
    publisher, subscriber = subscribed_to_all()
    properties = Properties(
        payload_format_indicator=1,
        content_type="text/plain",
        response_topic="answers/here",
        correlation_data=b"\x00\x01",
        user_properties=(("b", "1"), ("a", "2"), ("b", "1")),
    )
    publisher.publish("a", b"x", properties=properties)
    assert subscriber.take() == [Publish("a", b"x", properties=properties)]


def test_3_1_1_subscribers_get_no_properties() -> None:
    publisher, subscriber = subscribed_to_all(MQTT_3_1_1)
    publisher.publish("a", b"x", properties=Properties(content_type="text/plain"))
    assert subscriber.take() == [Publish("a", b"x")]


def test_mqtt_3_3_2_5_and_6_messages_expire_and_their_interval_shrinks() -> None:
    publisher, subscriber = subscribed_to_all(
        clean_start=False, properties=Properties(session_expiry_interval_s=100)
    )
    broker_api = publisher.broker_api
    subscriber.lose()
    for expiry_s in (5, 30):
        properties = Properties(message_expiry_interval_s=expiry_s)
        publisher.publish("a", b"%d" % expiry_s, qos=1, properties=properties)
    broker_api.after(10)
    back = broker_api.connect("subscriber", clean_start=False)
    [packet] = back.take()
    assert (packet.payload, packet.properties.message_expiry_interval_s) == (b"30", 20)


def test_a_message_that_expires_is_sent_with_its_interval_at_once() -> None:
    publisher, subscriber = subscribed_to_all()
    properties = Properties(message_expiry_interval_s=5)
    publisher.publish("a", properties=properties)
    assert subscriber.take()[0].properties == properties


# --- topic aliases: section 3.3.2.3.4 -------------------------------------------------------------


def aliased(alias: int, topic: str = "", payload: bytes = b"") -> Publish:
    return Publish(topic, payload, properties=Properties(topic_alias=alias))


def test_mqtt_3_3_2_12_a_client_may_reassign_its_topic_aliases() -> None:
    publisher, subscriber = subscribed_to_all()
    assert publisher.connack.properties.topic_alias_maximum == 64
    publisher.send(aliased(1, "a"), aliased(2, "b"), aliased(1), aliased(1, "c"), aliased(1))
    assert [packet.topic for packet in subscriber.take()] == ["a", "b", "a", "c", "c"]
    assert all(packet.properties == Properties() for packet in subscriber.take())


def test_mqtt_3_3_2_7_aliases_do_not_outlive_the_connection() -> None:
    publisher, _ = subscribed_to_all()
    publisher.send(aliased(1, "a"))
    again = publisher.broker_api.connect("publisher", clean_start=False)
    again.send(aliased(1))
    assert again.take()[0].reason_code is CODES.PROTOCOL_ERROR
    assert again.closed


@pytest.mark.parametrize("alias", [0, 65, 65_535])
def test_mqtt_3_3_2_8_and_9_aliases_out_of_range(alias: int) -> None:
    publisher, subscriber = subscribed_to_all()
    publisher.send(aliased(alias, "a"))
    assert publisher.take()[0].reason_code is CODES.TOPIC_ALIAS_INVALID
    assert publisher.closed
    assert subscriber.take() == []


def test_mqtt_3_1_2_26_and_27_the_broker_shortens_topics_as_the_client_allows() -> None:
    publisher, subscriber = subscribed_to_all(properties=Properties(topic_alias_maximum=2))
    for topic in ("a", "b", "c", "a", "b", "c"):
        publisher.publish(topic, qos=1)
    found = [(each.topic, each.properties.topic_alias) for each in subscriber.take()]
    assert found == [("a", 1), ("b", 2), ("c", None), ("", 1), ("", 2), ("c", None)]


def test_without_a_topic_alias_maximum_the_broker_uses_no_alias() -> None:
    publisher, subscriber = subscribed_to_all()
    publisher.publish("a")
    publisher.publish("a")
    assert subscriber.take() == [Publish("a")] * 2


# --- malformed and forbidden packets --------------------------------------------------------------


def test_mqtt_3_3_4_6_a_client_sends_no_subscription_identifier() -> None:
    publisher, subscriber = subscribed_to_all()
    publisher.send(Publish("a", properties=Properties(subscription_identifiers=(1,))))
    assert publisher.take()[0].reason_code is CODES.PROTOCOL_ERROR
    assert publisher.closed
    assert subscriber.take() == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("36 05 0001 61 0001", CODES.MALFORMED_PACKET),
        ("30 03 0001 2b", CODES.MALFORMED_PACKET),
        ("30 05 0003 61 7f 62", CODES.MALFORMED_PACKET),
        ("30 03 0001 00", CODES.MALFORMED_PACKET),
        ("32 05 0001 61 0000", CODES.PROTOCOL_ERROR),
        ("00 00", CODES.PROTOCOL_ERROR),
        ("00", CODES.PROTOCOL_ERROR),
        ("20 ff ff", CODES.PROTOCOL_ERROR),
        ("20 03 000000", CODES.PROTOCOL_ERROR),
        ("d0 00", CODES.PROTOCOL_ERROR),
    ],
)
def test_mqtt_4_13_1_and_2_an_error_ends_one_connection(
    version: int, data: str, code: ReasonCode
) -> None:
    """MQTT 5 gets a DISCONNECT with the reason, 3.1.1 nothing; no other client is disturbed."""
    broker_api = BrokerApi()
    wrong, right = broker_api.connect("wrong", version), broker_api.connect("right", version)
    right.subscribe("a")
    wrong.send(Publish("a", b"before"))
    wrong.send_bytes(data)
    assert wrong.closed
    answers = wrong.take()
    assert [answer.reason_code for answer in answers] == ([code] if version == MQTT_5 else [])
    right.send(Publish("a", b"after"))
    assert right.take_payloads() == [b"before", b"after"]


def test_publications_before_malformed_bytes_are_delivered() -> None:
    publisher, subscriber = subscribed_to_all()
    publisher.send_bytes("30 05 0001 61 00 78  36 00")
    assert subscriber.take_payloads() == [b"x"]
    assert publisher.closed


# --- QoS 1: section 4.3.2 -------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_mqtt_4_3_2_4_every_publish_is_acknowledged(version: int) -> None:
    """[MQTT-4.3.2-5]: after the PUBACK, the same identifier is a new publication."""
    broker_api = BrokerApi()
    publisher, subscriber = broker_api.connect("p", version), broker_api.connect("s")
    subscriber.subscribe("a", qos=1)
    for payload in (b"1", b"2"):
        publisher.send(Publish("a", payload, 1, packet_id=9))
    assert publisher.take() == [Puback(9), Puback(9)]
    assert subscriber.take_payloads() == [b"1", b"2"]


def test_3_4_2_1_no_matching_subscribers_at_qos_1_only() -> None:
    """At QoS 2 a publication counts from its release, so PUBREC has no such code."""
    publisher = BrokerApi().connect("p")
    assert publisher.publish("a", qos=1)[0].reason_code is CODES.NO_MATCHING_SUBSCRIBERS
    assert publisher.publish("a", qos=2)[0].reason_code is CODES.SUCCESS


def test_mqtt_2_2_1_4_identifiers_in_use_are_not_used_again() -> None:
    """[MQTT-2.2.1-3 and 4]: also where the counter wraps."""
    publisher, subscriber = subscribed_to_all()
    publisher.publish("a", b"kept", qos=1)
    [kept] = subscriber.take()
    subscriber.connection.session._last_id = 65_534
    for payload in (b"1", b"2"):
        publisher.publish("a", payload, qos=1)
    assert [each.packet_id for each in subscriber.take()] == [65_535, 2]
    assert kept.packet_id == 1


def test_mqtt_3_4_a_puback_for_nothing_is_ignored() -> None:
    _, subscriber = subscribed_to_all()
    subscriber.send(Puback(5), Pubcomp(5), Pubrec(5, CODES.UNSPECIFIED_ERROR))
    assert subscriber.take() == []
    assert not subscriber.closed


# --- QoS 2: section 4.3.3 -------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_mqtt_4_3_3_8_to_12_a_publication_counts_once_until_it_is_released(version: int) -> None:
    broker_api = BrokerApi()
    publisher, subscriber = broker_api.connect("p", version), broker_api.connect("s")
    subscriber.subscribe("a", qos=2)
    publisher.send(Publish("a", b"1", 2, packet_id=9))
    publisher.send(Publish("a", b"1", 2, duplicate=True, packet_id=9))
    assert publisher.take() == [Pubrec(9), Pubrec(9)]
    publisher.send(Pubrel(9), Publish("a", b"2", 2, packet_id=9))
    assert publisher.take() == [Pubcomp(9), Pubrec(9)]
    assert subscriber.take_payloads() == [b"1", b"2"]


def test_mqtt_4_3_3_the_receiver_remembers_over_connections() -> None:
    broker_api = BrokerApi()
    kept = Properties(session_expiry_interval_s=100)
    publisher, subscriber = broker_api.connect("p", properties=kept), broker_api.connect("s")
    subscriber.subscribe("a", qos=2)
    publisher.send(Publish("a", b"1", 2, packet_id=9))
    publisher.lose()
    again = broker_api.connect("p", clean_start=False, properties=kept)
    again.send(Publish("a", b"1", 2, duplicate=True, packet_id=9), Pubrel(9), Pubrel(9))
    assert again.take() == [
        Pubrec(9), Pubcomp(9), Pubcomp(9, CODES.PACKET_IDENTIFIER_NOT_FOUND)
    ]  # fmt: skip
    assert subscriber.take_payloads() == [b"1"]


@pytest.mark.parametrize("version", VERSIONS)
def test_mqtt_4_3_3_1_to_6_the_sender_step_by_step(version: int) -> None:
    publisher, subscriber = subscribed_to_all(version)
    publisher.publish("a", b"1", qos=2)
    [packet] = subscriber.take()
    subscriber.send(Pubrec(packet.packet_id))
    assert subscriber.take() == [Pubrel(packet.packet_id)]
    subscriber.send(Pubrec(packet.packet_id))
    assert subscriber.take() == [Pubrel(packet.packet_id)]
    subscriber.send(Pubcomp(packet.packet_id))
    assert subscriber.take() == []
    assert subscriber.connection.session.inflight == 0


def test_mqtt_4_3_3_4_a_pubrec_with_an_error_is_the_end() -> None:
    publisher, subscriber = subscribed_to_all()
    publisher.publish("a", b"1", qos=2)
    subscriber.take()
    subscriber.send(Pubrec(1, CODES.QUOTA_EXCEEDED))
    assert subscriber.take() == []
    assert subscriber.connection.session.inflight == 0


def test_mqtt_4_3_3_a_pubrec_for_nothing() -> None:
    """Table 3.6.2.1: the identifier is not known."""
    _, subscriber = subscribed_to_all()
    subscriber.send(Pubrec(5))
    assert subscriber.take() == [Pubrel(5, CODES.PACKET_IDENTIFIER_NOT_FOUND)]


@pytest.mark.parametrize(
    ("qos", "packet"),
    [(1, Pubrec(1)), (1, Pubcomp(1)), (2, Puback(1)), (2, Pubcomp(1))],
    ids=["pubrec-at-1", "pubcomp-at-1", "puback-at-2", "pubcomp-before-pubrec"],
)
def test_acknowledgements_of_the_wrong_kind_are_errors_or_ignored(qos: int, packet: object) -> None:
    publisher, subscriber = subscribed_to_all()
    publisher.publish("a", b"1", qos=qos)
    subscriber.take()
    subscriber.send(packet)  # type: ignore[arg-type]
    assert subscriber.take()[0].reason_code is CODES.PROTOCOL_ERROR
    assert subscriber.closed


# --- retransmission and order: sections 4.4 and 4.6 -----------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_mqtt_4_4_0_1_and_4_6_0_1_in_flight_messages_are_retransmitted_in_order(
    version: int,
) -> None:
    """[MQTT-3.3.1-1]: with DUP; released ones are released again, new ones follow."""
    fields = (
        {} if version == MQTT_3_1_1 else {"properties": Properties(session_expiry_interval_s=9)}
    )
    publisher, subscriber = subscribed_to_all(version, clean_start=False, **fields)
    for qos, payload in ((1, b"1"), (2, b"2"), (2, b"3"), (1, b"4")):
        publisher.publish("a", payload, qos=qos)
    first = {packet.payload: packet.packet_id for packet in subscriber.take()}
    subscriber.send(Pubrec(first[b"2"]))
    assert subscriber.take() == [Pubrel(first[b"2"])]
    subscriber.lose()
    publisher.publish("a", b"5", qos=1)
    again = publisher.broker_api.connect("subscriber", version, clean_start=False, **fields)
    assert again.connack.session_present
    found = again.take()
    assert found == [
        Publish("a", b"1", 1, duplicate=True, packet_id=first[b"1"]),
        Pubrel(first[b"2"]),
        Publish("a", b"3", 2, duplicate=True, packet_id=first[b"3"]),
        Publish("a", b"4", 1, duplicate=True, packet_id=first[b"4"]),
        Publish("a", b"5", 1, packet_id=found[-1].packet_id),
    ]


def test_mqtt_4_4_0_1_nothing_is_sent_again_on_the_same_connection() -> None:
    publisher, subscriber = subscribed_to_all()
    publisher.publish("a", b"1", qos=1)
    subscriber.take()
    publisher.broker_api.after(3_600)
    assert subscriber.take() == []


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_4_6_0_5_and_6_order_is_kept_for_each_topic(qos: int) -> None:
    publisher, subscriber = subscribed_to_all(properties=Properties(receive_maximum=2))
    for number in range(20):
        publisher.publish("a", b"%d" % number, qos=qos)
    assert subscriber.take_payloads() == [b"%d" % number for number in range(20)]
