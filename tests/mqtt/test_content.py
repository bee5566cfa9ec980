from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model import EVERYTHING, Attributes, check_attributes
from shoal.mqtt.content import (
    ContentFilterError,
    attributes_of,
    read_advertisements,
    read_subscription_filter,
)
from shoal.mqtt.messages import Message
from shoal.mqtt.properties import Properties


def attributes(payload: bytes = b"", content_type: str | None = None, **user: str) -> dict:
    properties = Properties(content_type=content_type, user_properties=tuple(user.items()))
    found = attributes_of(Message("t", payload, "p", 0, properties=properties))
    return own_attributes(found)


def own_attributes(found: Attributes) -> dict:
    """Without those of the topic `t`."""
    of_topic = {"$topic": "t", "$topic.0": "t", "$levels": 1}
    assert of_topic.items() <= found.items()
    return {name: value for name, value in found.items() if name not in of_topic}


def test_attributes_of_the_topic() -> None:
    found = attributes_of(Message("a//b", b"", "p", 0, retain=True))
    assert found == {
        "$topic": "a//b", "$topic.0": "a", "$topic.1": "", "$topic.2": "b", "$levels": 3,
        "$retain": True,
    }  # fmt: skip
    deep = attributes_of(Message("/".join("abcdefghij"), b"", "p", 0))
    assert deep["$levels"] == 10
    assert "$topic.7" in deep
    assert "$topic.8" not in deep


def test_user_properties_are_typed_by_how_they_look() -> None:
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
    assert attributes(payload, content_type) == {"a": 1, "b": 2.5, "c": "x", "d": True}


@pytest.mark.parametrize(
    ("payload", "content_type"),
    [(b'{"a": 1}', None), (b'{"a": 1}', "text/plain"), (b"[1]", "application/json"),
     (b"1", "application/json"), (b"{", "application/json"), (b"", "application/json"),
     (b'{"a": 1} x', "application/json"), (b'{"a": "\xff"}', "application/json"),
     (b'{"a": %s}' % (b"9" * 400), "application/json"),
     (b'{"a": %s}' % (b"9" * 50_000), "application/json"),
     (b'{"a": 1e999}', "application/json"), (b'{"a": NaN}', "application/json"),
     (b"[" * 100_000, "application/json"), (b'{"$topic": "x"}', "application/json")],
)  # fmt: skip
def test_what_has_no_fields(payload: bytes, content_type: str | None) -> None:
    assert attributes(payload, content_type) == {}


def test_integers_beyond_64_bits_are_doubles() -> None:
    payload = b'{"a": 9223372036854775807, "b": 9223372036854775808, "c": -9223372036854775809}'
    found = attributes(payload, "application/json")
    assert found == {"a": 2**63 - 1, "b": float(2**63), "c": -float(2**63)}
    assert [type(value) for value in found.values()] == [int, float, float]


def test_a_user_property_takes_the_place_of_a_field_and_the_last_of_each_counts() -> None:
    properties = Properties(
        content_type="application/json", user_properties=(("a", "2"), ("a", "3"), ("$topic", "x"))
    )
    message = Message("t", b'{"a": 1, "b": 1, "b": 2}', "p", 0, properties=properties)
    assert own_attributes(attributes_of(message)) == {"a": 3, "b": 2}


@given(st.binary(max_size=40), st.lists(st.tuples(st.text(max_size=3), st.text(max_size=5))))
def test_whatever_is_published_has_attributes(payload: bytes, user: list[tuple[str, str]]) -> None:
    properties = Properties(content_type="application/json", user_properties=tuple(user))
    check_attributes(attributes_of(Message("t", payload, "p", 0, properties=properties)))


def test_no_more_attributes_than_there_may_be() -> None:
    many = {f"a{number}": "1" for number in range(1_000)}
    check_attributes(attributes(**many))


def test_subscription_filters() -> None:
    assert read_subscription_filter("a/+") == ("a/+", EVERYTHING)
    assert read_subscription_filter("a?x=1", with_query=False) == ("a?x=1", EVERYTHING)
    assert read_subscription_filter("a", (("other", "x ="),)) == ("a", EVERYTHING)
    with pytest.raises(ContentFilterError, match="topic filter: line 1, column 5"):
        read_subscription_filter("a?x=")
    assert read_advertisements((("$advertise", "x > 1"), ("a", "b")))[0].attributes == ("x",)
    with pytest.raises(ContentFilterError, match=r"\$advertise: line 1, column 4"):
        read_advertisements((("$advertise", "x >"),))
