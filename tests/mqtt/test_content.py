"""Attributes of messages, from topics, user properties and payloads; filters that see them."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.attributes import MAX_FIELDS, MAX_TEXT
from shoal.language import parse
from shoal.matching.limited_search import search_within
from shoal.model import EVERYTHING, Attributes, check_attributes
from shoal.model.entities import MAX_ATTRIBUTES
from shoal.mqtt import content
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.content import (
    ContentFilterError,
    FilterQuotaError,
    FilterReader,
    SubscriptionFilter,
    attributes_of,
    read_advertisements,
)
from shoal.mqtt.limits import DEFAULT_LIMITS, MqttLimits
from shoal.mqtt.messages import PublishedMessage
from tests.calls import Calls
from tests.mqtt.broker_api import BrokerApi
from tests.mqtt.network_broker_api import Network


def read_filter(text: str, user_properties: Any = (), **limits: Any) -> SubscriptionFilter:
    return FilterReader(user_properties, MqttLimits(**limits)).read(text)


def attributes(payload: bytes = b"", content_type: str | None = None, **user: str) -> dict:
    properties = Properties(content_type=content_type, user_properties=tuple(user.items()))
    found = attributes_of(PublishedMessage("t", payload, "p", 0, properties=properties))
    return own_attributes(found)


def own_attributes(found: Attributes) -> dict:
    """Without those of the topic `t`."""
    of_topic = {"$topic": "t", "$topic.0": "t", "$levels": 1}
    assert of_topic.items() <= found.items()
    return {name: value for name, value in found.items() if name not in of_topic}


def test_attributes_of_the_topic() -> None:
    found = attributes_of(PublishedMessage("a//b", b"", "p", 0, retain=True))
    assert found == {
        "$topic": "a//b", "$topic.0": "a", "$topic.1": "", "$topic.2": "b", "$levels": 3,
        "$retain": True,
    }  # fmt: skip
    deep = attributes_of(PublishedMessage("/".join("abcdefghij"), b"", "p", 0))
    assert deep["$levels"] == 10
    assert "$topic.7" in deep
    assert "$topic.8" not in deep


def test_user_properties_are_typed_by_their_text() -> None:
    assert attributes(a="1", b="-2.5", c="true", d="True", e="'1'", f="", g="1 ", h="007") == {
        "a": 1, "b": -2.5, "c": True, "d": "True", "e": "1", "f": "", "g": "1 ", "h": "007",
    }  # fmt: skip


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        "application/json ",
    ],
)
def test_fields_of_json(content_type: str) -> None:
    payload = b'{"a": 1, "b": 2.5, "c": "x", "d": true, "e": null, "f": [1], "g": {"h": 1}, "": 2}'
    wanted = {"a": 1, "b": 2.5, "c": "x", "d": True, "$list.f": "[1]", "g.h": 1}
    assert attributes(payload, content_type) == wanted


@pytest.mark.parametrize(
    ("payload", "content_type"),
    [(b'{"a": 1}', "text/plain"), (b"[1]", "application/json"),
     (b"{", "application/json"), (b"", "application/json"),
     (b'{"a": 1} x', "application/json"), (b'{"a": "\xff"}', "application/json"),
     (b'{"a": %s}' % (b"9" * 400), "application/json"),
     (b'{"a": %s}' % (b"9" * 50_000), "application/json"),
     (b'{"a": 1e999}', "application/json"), (b'{"a": NaN}', "application/json"),
     (b"[" * 100_000, "application/json"), (b'{"$topic": "x"}', "application/json")],
)  # fmt: skip
def test_payloads_without_fields_have_no_attributes(
    payload: bytes, content_type: str | None
) -> None:
    assert attributes(payload, content_type) == {}


def test_integers_beyond_64_bits_are_doubles() -> None:
    payload = b'{"a": 9223372036854775807, "b": 9223372036854775808, "c": -9223372036854775809}'
    found = attributes(payload, "application/json")
    assert found == {"a": 2**63 - 1, "b": float(2**63), "c": -float(2**63)}
    assert [type(value) for value in found.values()] == [int, float, float]


def test_a_user_property_replaces_a_field_and_the_last_counts() -> None:
    properties = Properties(
        content_type="application/json", user_properties=(("a", "2"), ("a", "3"), ("$topic", "x"))
    )
    message = PublishedMessage("t", b'{"a": 1, "b": 1, "b": 2}', "p", 0, properties=properties)
    assert own_attributes(attributes_of(message)) == {"a": 3, "b": 2}


def test_a_too_long_text_is_no_attribute() -> None:
    """300 patterns on 1 MB of text would take 0.8 s."""
    longest = "é" * MAX_TEXT
    payload = msgspec.json.encode({"a": longest, "b": longest + "x", "c": longest, "d": 1})
    found = attributes(payload, "application/json", c=longest + "x", e=longest)
    assert found == {"a": longest, "d": 1, "e": longest}


def test_the_quotes_of_a_text_do_not_make_it_longer() -> None:
    longest = "é" * MAX_TEXT
    found = attributes(b"", "text/plain", a=f"'{longest}'", b=f"'{longest}x'")
    assert found == {"a": longest}


def test_only_the_first_of_many_fields_are_attributes() -> None:
    """95,000 in a message of 880 KB take 30 ms beside the time to read them."""
    fields: dict[str, object] = {f"f{number}": None for number in range(MAX_FIELDS - 1)}
    payload = msgspec.json.encode({**fields, "a": 1, "b": 2})
    assert attributes(payload, "application/json", c="x") == {"a": 1, "c": "x"}


def test_other_filters_match_a_message_with_a_too_long_text() -> None:
    broker_api = BrokerApi()
    got = []
    wheres = ("d = 1", "a LIKE '%x%'", "a IS NULL", "d = 1 OR a LIKE '%x%'", "a NOT LIKE '%y%'")
    for number, where in enumerate(wheres):
        client = broker_api.connect(f"c{number}")
        client.subscribe("t", properties=Properties(user_properties=(("$where", where),)))
        got.append(client)
    payload = b'{"a": "%s", "d": 1}' % (b"x" * (MAX_TEXT + 1))
    broker_api.connect("p").publish("t", payload)
    assert [each.take_payloads() == [payload] for each in got] == [True, False, True, True, False]


def test_many_patterns_on_one_message_take_bounded_time() -> None:
    """300 on 1 MB of the same character would take 0.8 s."""
    broker_api = BrokerApi()
    for number in range(300):
        where = Properties(user_properties=(("$where", f"a LIKE '%a{number}b%'"),))
        broker_api.connect(f"c{number}").subscribe("t", properties=where)
    publisher = broker_api.connect("p")
    for count in (MAX_TEXT, 1_000_000):
        payload = b'{"a": "%s"}' % (b"a" * count)
        with Calls() as calls:
            assert search_within(50_000, partial(publisher.publish, "t", payload))
        assert calls.count < 50_000


@given(st.binary(max_size=40), st.lists(st.tuples(st.text(max_size=3), st.text(max_size=5))))
def test_every_publication_has_attributes(payload: bytes, user: list[tuple[str, str]]) -> None:
    properties = Properties(content_type="application/json", user_properties=tuple(user))
    check_attributes(attributes_of(PublishedMessage("t", payload, "p", 0, properties=properties)))


def test_the_number_of_attributes_is_bounded() -> None:
    many = {f"a{number}": "1" for number in range(1_000)}
    check_attributes(attributes(**many))


def test_subscription_filters() -> None:
    assert read_filter("a/+") == ("a/+", EVERYTHING, "", None)
    assert read_filter("a?x=1", queries_in_topic_filters=False) == ("a?x=1", EVERYTHING, "", None)
    assert read_filter("a", (("other", "x ="),)) == ("a", EVERYTHING, "", None)
    with pytest.raises(ContentFilterError, match="topic filter: line 1, column 5"):
        read_filter("a?x=")
    assert read_advertisements((("$advertise", "x > 1"), ("a", "b")), DEFAULT_LIMITS)[
        0
    ].attributes == ("x",)
    with pytest.raises(ContentFilterError, match=r"\$advertise: line 1, column 4"):
        read_advertisements((("$advertise", "x >"),), DEFAULT_LIMITS)


def test_where_is_parsed_once_for_all_topic_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    monkeypatch.setattr(content, "parse", lambda text: parsed.append(text) or parse(text))
    reader = FilterReader((("$where", "x > 1"),), DEFAULT_LIMITS)
    assert [reader.read(text).content for text in ("a", "b", "c")] == [parse("x > 1")] * 3
    assert parsed == ["x > 1"]


def test_where_and_a_query_must_both_hold() -> None:
    where = (("$where", "x > 1 OR y > 1"), ("$where", "z > 1"))
    found = read_filter("a?n=1", where).content
    wanted = parse("n = 1 AND (x > 1 OR y > 1) AND z > 1").normal_form
    assert set(map(frozenset, found.normal_form)) == set(map(frozenset, wanted))


@pytest.mark.parametrize(
    ("limits", "texts", "where", "granted"),
    [
        ({"maximum_filter_bytes": 8}, ("a",), ("x > 1234",), [True]),
        ({"maximum_filter_bytes": 8}, ("a", "b"), ("x > 12345",), [False, False]),
        ({"maximum_filter_bytes": 8}, ("a", "b"), ("x > 1", "y > 1"), [False, False]),
        ({"maximum_filter_bytes": 8}, ("a?x=1", "b", "b?x=1"), (), [True, True, False]),
        ({"maximum_filter_tests": 3}, ("a", "b", "c", "d"), ("x > 1",), [True] * 3 + [False]),
        ({"maximum_filter_tests": 3}, ("a?x=1&y=2", "b?x=1&y=2", "c"), (), [True, False, True]),
        ({"maximum_filter_tests": 3}, ("a",), (f"x IN ({', '.join(['1'] * 47)})",), [True]),
        ({"maximum_filter_tests": 3}, ("a",), (f"x IN ({', '.join(['1'] * 48)})",), [False]),
        # Two alternatives of two tests.
        ({"maximum_filter_tests": 4}, ("a?n=1",), ("x OR y",), [True]),
        ({"maximum_filter_tests": 3}, ("a?n=1",), ("x OR y",), [False]),
    ],
)
def test_the_filters_of_one_packet_are_bounded(
    limits: dict[str, int], texts: tuple[str, ...], where: tuple[str, ...], granted: list[bool]
) -> None:
    reader = FilterReader(tuple(("$where", text) for text in where), MqttLimits(**limits))
    found = []
    for text in texts:
        try:
            found.append(bool(reader.read(text)))
        except FilterQuotaError:
            found.append(False)
    assert found == granted


@pytest.mark.parametrize(
    ("limits", "granted"),
    [
        ({"maximum_filter_bytes": 10, "maximum_filter_tests": 2}, True),
        ({"maximum_filter_bytes": 9}, False),
        ({"maximum_filter_tests": 1}, False),
    ],
)
def test_a_clients_advertisements_are_bounded(limits: dict[str, int], granted: bool) -> None:
    advertised = (("$advertise", "x > 1"), ("$advertise", "y > 1"))
    if granted:
        assert len(read_advertisements(advertised, MqttLimits(**limits))) == 2
    else:
        with pytest.raises(FilterQuotaError):
            read_advertisements(advertised, MqttLimits(**limits))


@pytest.mark.parametrize(
    ("payload", "content_type", "found"),
    [
        (b'{"t": 41}', None, ("auto",)),
        (b' \r\n{"t": 41}', None, ("auto",)),
        (b'{"t": 41}', "application/json", ("auto", "declared")),
        (b'{"t": 41}', "text/plain", ()),
        (b'[{"t": 41}]', None, ()),
        (b'{"t": 41', None, ()),
        (b'{"t": NaN, "t": 41}\n', "application/x+json", ("auto", "declared")),
    ],
)
def test_json_payloads_are_recognised(
    payload: bytes, content_type: str | None, found: tuple[str, ...]
) -> None:
    for json in ("auto", "declared", "never"):
        properties = Properties(content_type=content_type)
        message = PublishedMessage("t", payload, "p", 0, properties=properties)
        wanted = {"t": 41} if json in found else {}
        assert own_attributes(attributes_of(message, json)) == wanted


@pytest.mark.parametrize(("json", "count"), [("auto", 2), ("declared", 0), ("never", 0)])
def test_a_client_of_3_1_1_publishes_attributes_as_json(json: Any, count: int) -> None:
    broker_api = BrokerApi()
    broker_api.clients = BrokerClients(
        "B1", broker_api.now_us, limits=broker_api.clients.limits, json=json
    )
    publisher, client = broker_api.connect("p", version=4), broker_api.connect("c", version=4)
    publisher.publish("a", b'{"t": 42}', retain=True)
    client.subscribe("$where/t>30/#")
    publisher.publish("b", b'{"t": 41}')
    publisher.publish("b", b'{"t": 7}')
    assert len(client.take_payloads()) == count


def test_a_plain_value_is_an_attribute_unless_declared_otherwise() -> None:
    read = {
        json: [
            own_attributes(
                attributes_of(PublishedMessage("t", payload, "p", 0, properties=sent), json)
            )
            for payload in (b"21.5", b"ON", b"true")
            for sent in (Properties(), Properties(content_type="text/plain"))
        ]
        for json in ("auto", "declared", "never")
    }
    values: list[dict] = [{"payload": 21.5}, {"payload_text": "ON"}, {"payload_boolean": True}]
    assert read["auto"] == [each for each in values for _ in (1, 2)]
    assert read["declared"] == [found for each in values for found in ({}, each)]
    assert read["never"] == [{}] * 6


def test_fields_of_a_payload_make_room_for_user_properties() -> None:
    inner = {f"i{number}": number for number in range(300)}
    payload = msgspec.json.encode({f"f{number}": number for number in range(250)} | {"o": inner})
    found = attributes(payload, None, carrier="UA", f1="one", **{"o.i3": "x"})
    assert len(found) + len(("$topic", "$topic.0", "$levels")) == MAX_ATTRIBUTES
    assert found.items() >= {"carrier": "UA", "f1": "one", "o.i3": "x", "f249": 249}.items()


@pytest.mark.parametrize("networked", [False, True])
def test_unread_payloads_are_counted_and_reported(networked: bool) -> None:
    network = Network("B1")
    broker_api = network["B1"] if networked else BrokerApi()
    client = broker_api.connect("c")
    client.subscribe("t/#", properties=Properties(user_properties=(("$where", "u = 1"),)))
    publisher = broker_api.connect("p")
    for payload in (b'{"u": 1', b'{"u": 1, "t": NaN}', b"ON", b"\xff"):
        publisher.publish("t/1", payload)
    publisher.publish("t/2", b"ON", properties=Properties(content_type="application/json"))
    assert client.take_payloads() == [b'{"u": 1, "t": NaN}']
    statistics = broker_api.clients.statistics
    assert statistics.unread_payloads == 2
    assert statistics.texts(0)["$SYS/broker/publish/payloads/unread"] == "2"
    told = [(each.what, each.who.client, each.where) for each in statistics.notices.take()]
    assert told == [("payload not read", "p", "t/1"), ("payload not read", "p", "t/2")]


@pytest.mark.parametrize(
    ("where", "is_wanted"),
    [
        ("inside - outside > 15", True),
        ("inside * 1.8 + 32 > 75", False),
        ("position.lat > 52 AND array_contains(tags, 'b')", True),
        ("exists(tags, tag -> startswith(tag, 'c'))", False),
        ("TRY_CAST(`$topic.1` AS DOUBLE) = 7", True),
        ("distance(position.lat, position.lon, 52.5, 13.4) <= 5000", True),
        ("size(tags) = 2 AND length(`$topic`) < inside", True),
    ],
)
def test_a_subscriber_gets_messages_for_which_a_condition_with_expressions_is_true(
    where: str, is_wanted: bool
) -> None:
    broker_api = BrokerApi()
    client = broker_api.connect("c")
    client.subscribe("rooms/#", properties=Properties(user_properties=(("$where", where),)))
    payload = (
        b'{"inside": 21.5, "outside": 4, "tags": ["a", "b"],'
        b' "position": {"lat": 52.51, "lon": 13.41}}'
    )
    broker_api.connect("p").publish("rooms/7", payload)
    assert client.take_payloads() == ([payload] if is_wanted else [])


@pytest.mark.parametrize(
    "where",
    [
        "exists(tags, tag -> contains(text, tag))",
        " AND ".join(f"exists(tags, tag -> length(tag) + {n} > a)" for n in range(60)),
        "coalesce(" + ", ".join(["lower(a)"] * 300) + ") = 'x'",
    ],
)
def test_a_costly_condition_is_refused_as_beyond_the_quota(where: str) -> None:
    properties = (("$where", where),)
    with pytest.raises(FilterQuotaError, match="at most 50000"):
        FilterReader(properties, MqttLimits()).read("a/b")
