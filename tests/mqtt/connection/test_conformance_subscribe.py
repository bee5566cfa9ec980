"""The standard's statements about subscriptions, retained messages and topics.

Numbers are those of MQTT Version 5.0, sections 3.3.1.3, 3.8 to 3.11, 4.7 and 4.8.
"""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import (
    Publish,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.sessions.retained import LEVEL_BYTES
from tests.mqtt.broker_api import BrokerApi
from tests.mqtt.connection.standard import CODES, VERSIONS, identified, kept, pair

# --- SUBSCRIBE and SUBACK -------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_mqtt_3_8_4_1_2_6_and_3_9_3_1_one_code_for_each_topic_filter_in_order(version: int) -> None:
    _, client = pair(version)
    requests = tuple(
        SubscriptionRequest(topic_filter, qos)
        for topic_filter, qos in (("a", 2), ("b?x>", 1), ("+", 0), ("?x>1", 0), ("c", 1))
    )
    client.send(Subscribe(77, requests))
    [suback] = client.take()
    assert suback.packet_id == 77
    wrong = CODES.TOPIC_FILTER_INVALID if version == MQTT_5 else CODES.UNSPECIFIED_ERROR
    assert suback.reason_codes == (
        CODES.GRANTED_QOS_2, wrong, CODES.SUCCESS, wrong, CODES.GRANTED_QOS_1
    )  # fmt: skip
    if version == MQTT_5:
        assert "topic filter: line 1, column" in suback.properties.reason_string
        assert "it is empty" in suback.properties.reason_string


def test_mqtt_3_8_4_3_and_4_a_subscription_is_replaced() -> None:
    """Nothing is lost or doubled, and the retained messages are sent again."""
    publisher, client = pair()
    publisher.publish("a", b"kept", retain=True)
    client.subscribe("a", qos=0, properties=identified(1))
    client.subscribe("a", qos=1, properties=identified(2))
    assert [packet.properties for packet in client.take()] == [identified(1), identified(2)]
    publisher.publish("a", b"x", qos=1)
    [packet] = client.take()
    assert (packet.qos, packet.properties) == (1, identified(2))


@pytest.mark.parametrize("version", VERSIONS)
def test_mqtt_3_10_4_1_to_6_unsubscribing(version: int) -> None:
    publisher, client = pair(version)
    client.subscribe("a/+")
    client.subscribe("b")
    publisher.publish("b", b"1")
    unsuback = client.unsubscribe("a/+", "a/b", "c")
    if version == MQTT_5:
        none = CODES.NO_SUBSCRIPTION_EXISTED
        assert unsuback.reason_codes == (CODES.SUCCESS, none, none)
    assert isinstance(unsuback, Unsuback)
    publisher.publish("a/b", b"2")
    publisher.publish("b", b"3")
    assert client.take_payloads() == [b"1", b"3"]


def test_mqtt_3_10_4_3_what_is_in_flight_is_finished() -> None:
    publisher, client = pair()
    client.subscribe("a", qos=1)
    publisher.publish("a", b"x", qos=1)
    client.unsubscribe("a")
    assert client.connection.session.inflight == 1
    assert client.take_payloads() == [b"x"]
    assert client.connection.session.inflight == 0


def test_subscriptions_beyond_the_limit_are_refused() -> None:
    broker_api = BrokerApi(maximum_subscriptions=1)
    client = broker_api.connect("c")
    assert client.subscribe("a").reason_codes == (CODES.SUCCESS,)
    assert client.subscribe("b").reason_codes == (CODES.QUOTA_EXCEEDED,)
    assert client.subscribe("a", qos=1).reason_codes == (CODES.GRANTED_QOS_1,)


# --- overlapping subscriptions, identifiers: [MQTT-3.3.4-2 to 5] ----------------------------------


def test_mqtt_3_3_4_2_to_4_one_copy_at_the_highest_qos_with_all_identifiers() -> None:
    publisher, client = pair()
    client.subscribe("a/#", qos=0, properties=identified(5))
    client.subscribe("a/+", qos=2, properties=identified(268_435_455))
    client.subscribe("a/b", qos=1)
    publisher.publish("a/b", b"x", qos=2)
    [packet] = client.take_publications()
    assert packet.qos == 2
    assert sorted(packet.properties.subscription_identifiers) == [5, 268_435_455]


def test_mqtt_3_3_4_5_each_subscriber_has_its_own_identifiers() -> None:
    broker_api = BrokerApi()
    clients = [broker_api.connect(f"c{number}") for number in (1, 2, 3)]
    for number, client in enumerate(clients[:2], start=1):
        client.subscribe("a", properties=identified(number))
    clients[2].subscribe("a")
    clients[0].publish("a")
    found = [client.take()[0].properties.subscription_identifiers for client in clients]
    assert found == [(1,), (2,), ()]


# --- options: section 3.8.3.1 ---------------------------------------------------------------------


def test_mqtt_3_8_3_3_no_local() -> None:
    broker_api = BrokerApi()
    client, other = broker_api.connect("c"), broker_api.connect("o")
    client.subscribe("a", qos=1, no_local=True)
    client.publish("a", b"mine", qos=1, retain=True)
    other.publish("a", b"theirs", qos=1)
    assert client.take_payloads() == [b"theirs"]
    client.subscribe("a", qos=1, no_local=True)
    assert client.take() == []
    client.subscribe("#", qos=1)
    client.publish("a", b"mine too", qos=1)
    assert client.take_payloads() == [b"mine", b"mine too"]


@pytest.mark.parametrize("as_published", [False, True])
def test_mqtt_3_3_1_12_and_13_retain_as_published(as_published: bool) -> None:
    publisher, client = pair()
    client.subscribe("a", retain_as_published=as_published)
    publisher.publish("a", b"1", retain=True)
    publisher.publish("a", b"2", retain=False)
    assert [packet.retain for packet in client.take()] == [as_published, False]


def test_mqtt_3_3_1_9_of_3_1_1_live_messages_come_without_retain() -> None:
    publisher, client = pair(MQTT_3_1_1)
    client.subscribe("a")
    publisher.publish("a", b"1", retain=True)
    assert [packet.retain for packet in client.take()] == [False]


# --- retained messages: section 3.3.1.3 -----------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_mqtt_3_3_1_5_to_8_the_last_message_of_a_topic_is_kept(version: int) -> None:
    publisher, client = pair(version)
    publisher.publish("a/1", b"old", qos=2, retain=True)
    publisher.publish("a/1", b"new", qos=1, retain=True)
    publisher.publish("a/1", b"passing", retain=False)
    publisher.publish("a/2", b"gone", retain=True)
    publisher.publish("a/2", b"", retain=True)
    publisher.publish("a/3", b"three", retain=True)
    client.subscribe("a/+", qos=2)
    found = [(each.payload, each.qos, each.retain) for each in client.take_publications()]
    assert found == [(b"new", 1, True), (b"three", 0, True)]


def test_mqtt_3_3_1_7_an_empty_message_reaches_subscribers() -> None:
    publisher, client = pair()
    client.subscribe("a")
    publisher.publish("a", b"", retain=True)
    assert client.take() == [Publish("a")]


@pytest.mark.parametrize(
    ("handling", "first", "again"), [(0, True, True), (1, True, False), (2, False, False)]
)
def test_mqtt_3_3_1_9_to_11_retain_handling(handling: int, first: bool, again: bool) -> None:
    publisher, client = pair()
    publisher.publish("a", b"x", retain=True)
    for expected in (first, again):
        client.subscribe("a", retain_handling=handling)
        assert client.take_payloads() == [b"x"] * expected
    client.unsubscribe("a")
    client.subscribe("a", retain_handling=handling)
    assert client.take_payloads() == [b"x"] * first


def test_retained_messages_come_with_the_identifier_of_their_subscription() -> None:
    publisher, client = pair()
    publisher.publish("a", b"x", retain=True)
    client.subscribe("#", properties=identified(1))
    client.subscribe("a", properties=identified(2))
    assert [each.properties for each in client.take()] == [identified(1), identified(2)]


def test_retained_messages_expire() -> None:
    publisher, client = pair()
    broker_api = publisher.broker_api
    for topic, expiry_s in (("short", 5), ("long", 50)):
        properties = Properties(message_expiry_interval_s=expiry_s)
        publisher.publish(topic, b"x", retain=True, properties=properties)
    broker_api.after(20)
    client.subscribe("#")
    [packet] = client.take()
    assert (packet.topic, packet.properties.message_expiry_interval_s) == ("long", 30)
    assert len(broker_api.clients.retained) == 1


def test_a_store_that_is_full_still_delivers() -> None:
    broker_api = BrokerApi(maximum_retained_messages=1)
    publisher, client = broker_api.connect("p"), broker_api.connect("c")
    client.subscribe("#")
    publisher.publish("a", b"1", retain=True)
    publisher.publish("b", b"2", retain=True)
    publisher.publish("a", b"3", retain=True)
    assert client.take_payloads() == [b"1", b"2", b"3"]
    late = broker_api.connect("late")
    late.subscribe("#")
    assert late.take_payloads() == [b"3"]


def test_retained_messages_are_bounded_in_bytes() -> None:
    broker_api = BrokerApi(maximum_retained_bytes=20 + 2 * LEVEL_BYTES)
    publisher, client = broker_api.connect("p"), broker_api.connect("c")
    client.subscribe("#")
    sent = [b"%d" % number * 8 for number in range(4)]
    for number, payload in enumerate(sent):
        publisher.publish(f"{number}", payload, retain=True)
    assert client.take_payloads() == sent
    late = broker_api.connect("late")
    late.subscribe("#")
    assert late.take_payloads() == sent[:2]
    publisher.publish("0", b"", retain=True)
    publisher.publish("3", sent[3], retain=True)
    later = broker_api.connect("later")
    later.subscribe("#")
    assert sorted(later.take_payloads()) == [sent[1], sent[3]]


def test_a_session_that_returns_gets_no_retained_messages_by_itself() -> None:
    broker_api = BrokerApi()
    client = broker_api.connect("c", properties=kept())
    client.subscribe("a")
    client.lose()
    broker_api.connect("p").publish("a", b"x", retain=True)
    assert broker_api.connect("c", clean_start=False).take() == []


# --- topics: section 4.7 --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic_filter", "topic", "matches"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("#", "a/b/c", True),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("ACCOUNTS", "Accounts", False),
        ("#", "$internal/x", False),
        ("+/x", "$internal/x", False),
        ("$internal/#", "$internal/x", True),
        ("a b/é", "a b/é", True),
    ],
)
def test_4_7_the_standards_examples_of_filters_match(
    topic_filter: str, topic: str, matches: bool
) -> None:
    """[MQTT-4.7.1-1 to 3, 4.7.2-1, 4.7.3-4]"""
    publisher, client = pair()
    assert client.subscribe(topic_filter).reason_codes == (CODES.SUCCESS,)
    publisher.publish(topic, b"x", qos=1, retain=True)
    assert client.take_payloads() == [b"x"] * matches
    late = publisher.broker_api.connect("late")
    late.subscribe(topic_filter)
    assert late.take_payloads() == [b"x"] * matches


@pytest.mark.parametrize(
    "topic_filter",
    ["", "sport/tennis#", "sport/#/ranking", "sport+", "a\x1fb", "a/#/b?x>1"],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_mqtt_4_7_1_and_4_7_3_invalid_filters_end_the_connection(
    version: int, topic_filter: str
) -> None:
    """They make the packet malformed, which ends the connection (4.13.1)."""
    for packet in (
        Subscribe(1, (SubscriptionRequest("fine"), SubscriptionRequest(topic_filter))),
        Unsubscribe(1, ("fine", topic_filter)),
    ):
        _, client = pair(version)
        client.send(packet)
        assert client.closed
        codes = [answer.reason_code for answer in client.take()]
        assert codes == ([CODES.MALFORMED_PACKET] if version == MQTT_5 else [])
        assert not client.broker_api.clients.subscriptions.count


# --- $SYS -----------------------------------------------------------------------------------------


def test_the_broker_publishes_statistics() -> None:
    broker_api = BrokerApi(statistics_interval_s=10)
    client = broker_api.connect("c")
    client.subscribe("$SYS/broker/clients/connected")
    client.subscribe("#")
    assert client.take() == []
    broker_api.after(25)
    assert [packet.topic for packet in client.take()] == ["$SYS/broker/clients/connected"] * 3
    late = broker_api.connect("late")
    late.subscribe("$SYS/#")
    told = {packet.topic.removeprefix("$SYS/broker/"): packet.payload for packet in late.take()}
    assert told["clients/connected"] == b"1"
    assert told["subscriptions/count"] == b"2"
    assert told["uptime"] == b"20 seconds"
    assert int(told["bytes/received"]) > 0


@pytest.mark.parametrize("version", VERSIONS)
def test_clients_cannot_publish_system_topics(version: int) -> None:
    broker_api = BrokerApi()
    client = broker_api.connect("c", version)
    client.subscribe("$SYS/#")
    [ack] = client.publish("$SYS/broker/uptime", b"x", qos=1, retain=True)
    assert ack.reason_code is (CODES.NOT_AUTHORIZED if version == MQTT_5 else CODES.SUCCESS)
    client.publish("$SYS/broker/uptime", b"x")
    assert client.take() == []
    assert not client.closed


def test_subacks_name_nothing_but_what_they_answer() -> None:
    _, client = pair()
    assert client.subscribe("a") == Suback(1, (CODES.SUCCESS,))
