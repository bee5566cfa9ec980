"""The standard's statements about subscriptions, retained messages and topics.

Numbers are those of MQTT Version 5.0, sections 3.3.1.3, 3.8 to 3.11, 4.7 and 4.8.
"""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import (
    Puback,
    Publish,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from tests.mqtt.house import Client, House

VERSIONS = (MQTT_3_1_1, MQTT_5)
CODES = ReasonCode


def identified(*identifiers: int) -> Properties:
    return Properties(subscription_identifiers=identifiers)


def kept(seconds: int = 60) -> Properties:
    return Properties(session_expiry_interval_s=seconds)


def pair(version: int = MQTT_5) -> tuple[Client, Client]:
    house = House()
    return house.connect("publisher"), house.connect("subscriber", version)


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


def test_more_subscriptions_than_one_client_may_have() -> None:
    house = House(maximum_subscriptions=1)
    client = house.connect("c")
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
    house = House()
    clients = [house.connect(f"c{number}") for number in (1, 2, 3)]
    for number, client in enumerate(clients[:2], start=1):
        client.subscribe("a", properties=identified(number))
    clients[2].subscribe("a")
    clients[0].publish("a")
    found = [client.take()[0].properties.subscription_identifiers for client in clients]
    assert found == [(1,), (2,), ()]


# --- options: section 3.8.3.1 ---------------------------------------------------------------------


def test_mqtt_3_8_3_3_no_local() -> None:
    house = House()
    client, other = house.connect("c"), house.connect("o")
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


def test_mqtt_3_3_1_7_an_empty_message_goes_to_those_who_listen() -> None:
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
    house = publisher.house
    for topic, expiry_s in (("short", 5), ("long", 50)):
        properties = Properties(message_expiry_interval_s=expiry_s)
        publisher.publish(topic, b"x", retain=True, properties=properties)
    house.after(20)
    client.subscribe("#")
    [packet] = client.take()
    assert (packet.topic, packet.properties.message_expiry_interval_s) == ("long", 30)
    assert len(house.clients.retained) == 1


def test_a_store_that_is_full_still_delivers() -> None:
    house = House(maximum_retained_messages=1)
    publisher, client = house.connect("p"), house.connect("c")
    client.subscribe("#")
    publisher.publish("a", b"1", retain=True)
    publisher.publish("b", b"2", retain=True)
    publisher.publish("a", b"3", retain=True)
    assert client.take_payloads() == [b"1", b"2", b"3"]
    late = house.connect("late")
    late.subscribe("#")
    assert late.take_payloads() == [b"3"]


def test_retained_messages_are_bounded_in_bytes() -> None:
    house = House(maximum_retained_bytes=20)
    publisher, client = house.connect("p"), house.connect("c")
    client.subscribe("#")
    sent = [b"%d" % number * 8 for number in range(4)]
    for number, payload in enumerate(sent):
        publisher.publish(f"{number}", payload, retain=True)
    assert client.take_payloads() == sent
    late = house.connect("late")
    late.subscribe("#")
    assert late.take_payloads() == sent[:2]
    publisher.publish("0", b"", retain=True)
    publisher.publish("3", sent[3], retain=True)
    later = house.connect("later")
    later.subscribe("#")
    assert sorted(later.take_payloads()) == [sent[1], sent[3]]


def test_a_session_that_returns_gets_no_retained_messages_by_itself() -> None:
    house = House()
    client = house.connect("c", properties=kept())
    client.subscribe("a")
    client.lose()
    house.connect("p").publish("a", b"x", retain=True)
    assert house.connect("c", clean_start=False).take() == []


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
def test_4_7_the_examples(topic_filter: str, topic: str, matches: bool) -> None:
    """[MQTT-4.7.1-1 to 3, 4.7.2-1, 4.7.3-4]"""
    publisher, client = pair()
    assert client.subscribe(topic_filter).reason_codes == (CODES.SUCCESS,)
    publisher.publish(topic, b"x", qos=1, retain=True)
    assert client.take_payloads() == [b"x"] * matches
    late = publisher.house.connect("late")
    late.subscribe(topic_filter)
    assert late.take_payloads() == [b"x"] * matches


@pytest.mark.parametrize(
    "topic_filter",
    ["", "sport/tennis#", "sport/#/ranking", "sport+", "a/" * 300, "a\x1fb", "a/#/b?x>1"],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_mqtt_4_7_1_and_4_7_3_filters_that_cannot_be(version: int, topic_filter: str) -> None:
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
        assert not client.house.clients.subscriptions.count


# --- shared subscriptions: section 4.8 ------------------------------------------------------------


@pytest.mark.parametrize(
    "topic_filter", ["$share/", "$share/g", "$share/g/", "$share//a", "$share/g+/a"]
)
def test_mqtt_4_8_2_1_and_2_groups_that_cannot_be(topic_filter: str) -> None:
    _, client = pair()
    client.send(Subscribe(1, (SubscriptionRequest(topic_filter),)))
    assert [answer.reason_code for answer in client.take()] == [CODES.PROTOCOL_ERROR]
    assert client.closed


def workers(house: House, count: int, **fields: object) -> list[Client]:
    clients = [house.connect(f"w{number}", **fields) for number in range(count)]
    for client in clients:
        client.subscribe("$share/g/jobs/#", qos=1)
    return clients


@pytest.mark.parametrize("version", VERSIONS)
def test_4_8_2_each_message_goes_to_one_of_a_group(version: int) -> None:
    house = House()
    group = workers(house, 3, version=version)
    other = house.connect("other")
    other.subscribe("$share/h/jobs/#", qos=1)
    publisher = house.connect("p")
    for number in range(6):
        publisher.publish("jobs/x", b"%d" % number, qos=1)
    assert [client.take_payloads() for client in group] == [
        [b"0", b"3"],
        [b"1", b"4"],
        [b"2", b"5"],
    ]
    assert len(other.take_payloads()) == 6


def test_mqtt_4_8_2_3_at_the_qos_of_the_member() -> None:
    publisher, client = pair()
    client.subscribe("$share/g/a", qos=0)
    publisher.publish("a", b"x", qos=2)
    assert [packet.qos for packet in client.take()] == [0]


def test_a_member_who_also_subscribed_for_itself_gets_a_copy_for_each() -> None:
    publisher, client = pair()
    client.subscribe("a", properties=identified(1))
    client.subscribe("$share/g/a", properties=identified(2))
    publisher.publish("a", b"x")
    found = sorted(packet.properties.subscription_identifiers for packet in client.take())
    assert found == [(1,), (2,)]


def test_retained_messages_are_not_for_groups() -> None:
    """Section 3.8.4: a shared subscription gets none when it is made."""
    publisher, client = pair()
    publisher.publish("a", b"x", retain=True)
    client.subscribe("$share/g/a")
    assert client.take() == []


def test_who_is_away_gets_nothing_while_another_member_is_there() -> None:
    house = House()
    first, second = workers(house, 2, properties=kept())
    publisher = house.connect("p")
    first.lose()
    for number in range(3):
        publisher.publish("jobs/x", b"%d" % number, qos=number % 2)
    assert second.take_payloads() == [b"0", b"1", b"2"]
    second.lose()
    for number in (3, 4):
        publisher.publish("jobs/x", b"%d" % number, qos=1)
    both = [house.connect(f"w{number}", clean_start=False, properties=kept()) for number in (0, 1)]
    assert sorted(each for client in both for each in client.take_payloads()) == [b"3", b"4"]
    publisher.publish("jobs/x", b"5", qos=1)
    publisher.publish("jobs/x", b"6", qos=1)
    assert sorted(len(client.take_payloads()) for client in both) == [1, 1]


def test_a_member_that_leaves_the_group_leaves_its_turns_to_the_others() -> None:
    house = House()
    group = workers(house, 2)
    publisher = house.connect("p")
    assert group[0].unsubscribe("$share/g/jobs/#").reason_codes == (CODES.SUCCESS,)
    for number in range(2):
        publisher.publish("jobs/x", b"%d" % number)
    assert group[1].take_payloads() == [b"0", b"1"]
    group[1].disconnect()
    publisher.publish("jobs/x", b"2")
    assert group[0].take() == []
    assert house.clients.subscriptions.count == 0


def test_mqtt_4_8_2_6_a_message_that_a_member_refuses_is_not_for_another() -> None:
    house = House()
    group = workers(house, 2)
    house.connect("p").publish("jobs/x", b"x", qos=1)
    [packet] = group[0].take()
    group[0].send(Puback(packet.packet_id, CODES.UNSPECIFIED_ERROR))
    assert group[1].take() == []


# --- content: our own -----------------------------------------------------------------------------


def flight(**attributes: str) -> Properties:
    return Properties(user_properties=tuple(attributes.items()))


def where(*filters: str) -> Properties:
    return Properties(user_properties=tuple(("$where", text) for text in filters))


@pytest.mark.parametrize(
    ("topic_filter", "properties"),
    [
        ("flights/+", where("carrier = 'UA' AND dep_delay > 30")),
        ("flights/+", where("carrier = 'UA'", "dep_delay > 30")),
        ("flights/+?carrier=UA&dep_delay>30", Properties()),
        ("flights/+?carrier=UA", where("dep_delay > 30")),
        ("$share/g/flights/+?carrier=UA&dep_delay>30", Properties()),
        ("#", where("`$topic` LIKE 'flights/%' AND carrier = 'UA' AND dep_delay > 30")),
    ],
)
def test_content_filters(topic_filter: str, properties: Properties) -> None:
    publisher, client = pair()
    assert client.subscribe(topic_filter, properties=properties).reason_codes == (CODES.SUCCESS,)
    for carrier, delay in (("UA", "45"), ("UA", "5"), ("DL", "45"), ("UA", "late")):
        publisher.publish(
            "flights/1", delay.encode(), properties=flight(carrier=carrier, dep_delay=delay)
        )
    json = Properties(content_type="application/json")
    publisher.publish("flights/2", b'{"carrier": "UA", "dep_delay": 31}', properties=json)
    publisher.publish("flights/2", b'{"carrier": "UA", "dep_delay": "31"}', properties=json)
    text = Properties(content_type="text/plain")
    publisher.publish("flights/2", b'{"carrier": "UA", "dep_delay": 31}', properties=text)
    assert client.take_payloads() == [b"45", b'{"carrier": "UA", "dep_delay": 31}']


def test_content_filters_choose_among_retained_messages() -> None:
    publisher, client = pair()
    publisher.publish("a/1", b"late", retain=True, properties=flight(dep_delay="45"))
    publisher.publish("a/2", b"early", retain=True, properties=flight(dep_delay="-5"))
    client.subscribe("a/+?dep_delay>30")
    assert client.take_payloads() == [b"late"]


@pytest.mark.parametrize(
    ("topic_filter", "properties", "message"),
    [
        ("a", where("dep_delay >"), "$where: line 1, column 12: the filter ends too early"),
        ("a?dep_delay>", Properties(), "topic filter: line 1, column 13: there is no value"),
        ("a", where("a = 1", "b ="), "$where: line 1, column 4: the filter ends too early"),
        ("a", where("a = 1\nAND\r\vb"), "$where: line 2, column 5: unexpected \\x0b; expected"),
    ],
)
def test_a_filter_that_does_not_parse_says_where(
    topic_filter: str, properties: Properties, message: str
) -> None:
    _, client = pair()
    suback = client.subscribe(topic_filter, properties=properties)
    assert suback.reason_codes == (CODES.TOPIC_FILTER_INVALID,)
    assert suback.properties.reason_string.startswith(message)
    assert suback.properties.reason_string.isprintable()
    assert client.connection.session.subscriptions == {}


def test_a_filter_with_too_large_a_normal_form() -> None:
    _, client = pair()
    either = " AND ".join(f"(a{number} = 1 OR b{number} = 1)" for number in range(4))
    other = either.replace("a", "c").replace("b", "d").replace("cND", "AND")
    suback = client.subscribe("x", properties=where(either, other))
    assert suback.reason_codes == (CODES.TOPIC_FILTER_INVALID,)
    assert "more than 64 conjunctions" in suback.properties.reason_string


def test_a_query_belongs_to_the_name_of_its_subscription() -> None:
    publisher, client = pair()
    client.subscribe("a?x=1")
    client.subscribe("a?x=2")
    assert client.unsubscribe("a").reason_codes == (CODES.NO_SUBSCRIPTION_EXISTED,)
    assert client.unsubscribe("a?x=1").reason_codes == (CODES.SUCCESS,)
    for x in ("1", "2"):
        publisher.publish("a", x.encode(), properties=flight(x=x))
    assert client.take_payloads() == [b"2"]


def test_queries_can_be_switched_off() -> None:
    house = House(queries_in_topic_filters=False)
    client = house.connect("c")
    client.subscribe("a?x=1")
    client.publish("a?x=1", b"as written")
    client.publish("a", b"x", properties=flight(x="1"))
    assert client.take_payloads() == [b"as written"]


# --- $SYS -----------------------------------------------------------------------------------------


def test_the_broker_tells_about_itself() -> None:
    house = House(statistics_interval_s=10)
    client = house.connect("c")
    client.subscribe("$SYS/broker/clients/connected")
    client.subscribe("#")
    assert client.take() == []
    house.after(25)
    assert [packet.topic for packet in client.take()] == ["$SYS/broker/clients/connected"] * 3
    late = house.connect("late")
    late.subscribe("$SYS/#")
    told = {packet.topic.removeprefix("$SYS/broker/"): packet.payload for packet in late.take()}
    assert told["clients/connected"] == b"1"
    assert told["subscriptions/count"] == b"2"
    assert told["uptime"] == b"20 seconds"
    assert int(told["bytes/received"]) > 0


@pytest.mark.parametrize("version", VERSIONS)
def test_nobody_else_does(version: int) -> None:
    house = House()
    client = house.connect("c", version)
    client.subscribe("$SYS/#")
    [ack] = client.publish("$SYS/broker/uptime", b"x", qos=1, retain=True)
    assert ack.reason_code is (CODES.NOT_AUTHORIZED if version == MQTT_5 else CODES.SUCCESS)
    client.publish("$SYS/broker/uptime", b"x")
    assert client.take() == []
    assert not client.closed


def test_subacks_name_nothing_but_what_they_answer() -> None:
    _, client = pair()
    assert client.subscribe("a") == Suback(1, (CODES.SUCCESS,))
