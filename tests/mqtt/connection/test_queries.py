"""Subscriptions with content filters, as MQTT clients see them."""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.properties import Properties
from tests.mqtt.broker_api import BrokerApi
from tests.mqtt.connection.standard import CODES, pair


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
def test_content_filters_select_messages(topic_filter: str, properties: Properties) -> None:
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


def test_content_filters_select_retained_messages() -> None:
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
def test_a_filter_that_does_not_parse_names_the_place(
    topic_filter: str, properties: Properties, message: str
) -> None:
    _, client = pair()
    suback = client.subscribe(topic_filter, properties=properties)
    assert suback.reason_codes == (CODES.TOPIC_FILTER_INVALID,)
    assert suback.properties.reason_string.startswith(message)
    assert suback.properties.reason_string.isprintable()
    assert client.connection.session.subscriptions == {}


def test_a_filter_with_too_large_a_normal_form_is_refused() -> None:
    _, client = pair()
    either = " AND ".join(f"(a{number} = 1 OR b{number} = 1)" for number in range(4))
    other = either.replace("a", "c").replace("b", "d").replace("cND", "AND")
    suback = client.subscribe("x", properties=where(either, other))
    assert suback.reason_codes == (CODES.TOPIC_FILTER_INVALID,)
    assert "more than 64 conjunctions" in suback.properties.reason_string


def test_a_query_is_part_of_its_subscriptions_name() -> None:
    publisher, client = pair()
    client.subscribe("a?x=1")
    client.subscribe("a?x=2")
    assert client.unsubscribe("a").reason_codes == (CODES.NO_SUBSCRIPTION_EXISTED,)
    assert client.unsubscribe("a?x=1").reason_codes == (CODES.SUCCESS,)
    for x in ("1", "2"):
        publisher.publish("a", x.encode(), properties=flight(x=x))
    assert client.take_payloads() == [b"2"]


def test_queries_can_be_switched_off() -> None:
    broker_api = BrokerApi(queries_in_topic_filters=False)
    client = broker_api.connect("c")
    client.subscribe("a?x=1")
    client.publish("a?x=1", b"as written")
    client.publish("a", b"x", properties=flight(x="1"))
    assert client.take_payloads() == [b"as written"]
