"""Attributes of a payload: the same names and types for every reader, and bounded."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.attributes import MAX_DEPTH, MAX_FIELDS, MAX_PLAIN_BYTES, MAX_TEXT, add_payload
from shoal.attributes.json_texts import MAX_CONTAINERS, MAX_MENDED_BYTES
from shoal.attributes.objects import MAX_PREFIX, flat_attributes
from shoal.model import check_attributes
from shoal.model.entities import MAX_ATTRIBUTES


def read(payload: bytes, content_type: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    assert add_payload(payload, content_type, True, found) == ""
    return found


def why_unread(payload: bytes, content_type: str | None = None) -> str:
    found: dict[str, Any] = {}
    why = add_payload(payload, content_type, True, found)
    assert not (why and found)
    return why


@pytest.mark.parametrize(
    ("payload", "wanted"),
    [
        (
            b'{"Time": "2026", "AM2301": {"Temperature": 21.5, "Humidity": 60}}',
            {"Time": "2026", "AM2301.Temperature": 21.5, "AM2301.Humidity": 60},
        ),
        (
            b'{"switch:0": {"output": true, "apower": 12.5}, "temps": [41, {"a": 2}]}',
            {"$list.temps": "[41,null]", "switch:0.output": True, "switch:0.apower": 12.5},
        ),
        (b'{"a": {"b": {"c": 1}, "d": null, "e": {}}}', {"a.b.c": 1}),
        (b'{"a": {"": 1, "$x": 2}, "": {"b": 3}, "$a": {"b": 4}}', {"a.": 1, "a.$x": 2}),
        # A name has one value: the outermost field's, then the first one's.
        (b'{"a": {"b": 8}, "a.b": 7}', {"a.b": 7}),
        (b'{"a": {"b": {"c": 1}}, "a.b": {"c": 2}}', {"a.b.c": 2}),
        (b'{"a": {"b": 8}, "a.b": null}', {"a.b": 8}),
        (b'{"a": {"b": 1}, "a": {"c": 2}}', {"a.c": 2}),
        (b'{"a": {"b": 9223372036854775808}}', {"a.b": float(2**63)}),
        # Lists have names of their own; one that is too long is none.
        (b'{"a": {"b": ["x", null, {}]}}', {"$list.a.b": '["x",null,null]'}),
        (b'{"a": ["\\ud83d", 1e400, NaN, [5]]}', {"$list.a": "[null,null,null,null]"}),
        (b'{"a": [%s]}' % b",".join([b"5"] * 257), {}),
        (b'{"a": ["%s"]}' % (b"x" * 16_381), {}),
        (b'{"a": []}', {"$list.a": "[]"}),
    ],
)
def test_fields_of_inner_objects_have_names_with_dots(payload: bytes, wanted: dict) -> None:
    assert read(payload) == wanted


def test_nested_objects_are_read_to_a_bounded_depth() -> None:
    fields: dict[str, Any] = {"x": 1, "o": {"x": 0}}
    for _ in range(MAX_DEPTH - 1):
        fields = {"x": 1, "o": fields}
    found = read(msgspec.json.encode(fields))
    assert list(found) == ["o." * depth + "x" for depth in range(MAX_DEPTH)]


def test_of_too_many_fields_only_the_outermost_are_attributes() -> None:
    inner = {f"i{number}": number for number in range(300)}
    found = read(msgspec.json.encode({"o": inner, "last": 1}))
    assert len(found) == MAX_ATTRIBUTES
    assert list(found)[:2] == ["last", "o.i0"]


def test_of_very_many_inner_fields_only_the_first_are_read() -> None:
    fields: dict[str, Any] = {f"n{number}": None for number in range(MAX_FIELDS - 3)}
    found = read(msgspec.json.encode({"o": {**fields, "x": 1, "y": 2, "z": 3}, "p": {"q": 4}}))
    assert found == {"o.x": 1}


def test_a_long_name_is_not_repeated_in_many_attributes() -> None:
    """900,000 characters in front of each of 250 fields would take 225 MB."""
    long = "n" * MAX_PREFIX
    assert read(msgspec.json.encode({long: {"x": 1}, long + "n": {"x": 1}})) == {f"{long}.x": 1}


@pytest.mark.parametrize(
    "bad",
    [b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400", b'"\\ud83d"', b'"\\ude00x"',
     b'"caf\xe9"', b"nan", b"-nan", b"inf", b"None", b"+1", b".5", b"1.", b"01", b"0x1F", b"21.5C",
     b"", b"undefined", b"null", b'{"v": NaN}',
     b'"' + b"x" * (MAX_TEXT + 1) + b'"', b"9" * 400, b"9" * 5_000],
)  # fmt: skip
def test_a_bad_value_drops_only_its_own_field(bad: bytes) -> None:
    assert read(b'{"t": %s, "u": 1, "s": "a, NaN"}' % bad) == {"u": 1, "s": "a, NaN"}
    assert read(b'{"u": 1, "o": {"u": 2, "t": %s}}' % bad) == {"u": 1, "o.u": 2}


@pytest.mark.parametrize(
    ("payload", "wanted"),
    [
        (b'{"a": 9223372036854775808, "t": NaN}', {"a": float(2**63)}),
        (b'{"a": 9007199254740993, "b": 1e300, "t": NaN}', {"a": 2**53 + 1, "b": 1e300}),
        (b'{"\\ud83d": 1, "u": 1}', {"u": 1}),
        (b'{"a\xe9": 1, "u": 1}', {"u": 1}),
        (b'{"u": "a\nb\tc"}', {"u": "a\nb\tc"}),
        (b'{"u": "\\ud83d\\ude00 \xf0\x9f\x98\x80", "t": NaN}', {"u": "\U0001f600 \U0001f600"}),
        (b'{"$a": NaN, "$b": 1, "u": "nan \\" NaN", "t": nan}', {"u": 'nan " NaN'}),
        (b'{"t": NaN, "u": 1, "u": 2}', {"u": 2}),
    ],
)
def test_the_careful_readers_attributes(payload: bytes, wanted: dict) -> None:
    assert read(payload) == wanted


@pytest.mark.parametrize(
    "payload",
    [b'\xef\xbb\xbf{"u": 1}', b'{"u": 1}\0', b'{"u": 1}\0\0', b'{"u": 1} \r\n\t\n',
     b' \n{"u": 1}\n\0',
     b'\xef\xbb\xbf \n{"u": 1, "t": NaN}\0'],
)  # fmt: skip
@pytest.mark.parametrize(
    "content_type",
    [None, "application/json; charset=utf-8", "application/senml+json", "Application/VND.x+JSON"],
)
def test_text_around_an_object_is_ignored(payload: bytes, content_type: str | None) -> None:
    assert read(payload, content_type) == {"u": 1}


@pytest.mark.parametrize(
    ("payload", "wanted"),
    [
        (b"21.5", {"payload": 21.5}),
        (b" 21\r\n", {"payload": 21}),
        (b"-3e2\0", {"payload": -300.0}),
        (b"9223372036854775808", {"payload": float(2**63)}),
        (b"ON", {"payload_text": "ON"}),
        (b"\xef\xbb\xbfopen\n", {"payload_text": "open"}),
        (b"on the way", {"payload_text": "on the way"}),
        ("21 °C".encode(), {"payload_text": "21 °C"}),
        (b"007", {"payload_text": "007"}),
        (b"True", {"payload_text": "True"}),
        (b"'42'", {"payload_text": "42"}),
        (b'"text"', {"payload_text": "text"}),
        (b'"42"', {"payload_text": "42"}),
        (b'"\\u00e9"', {"payload_text": "é"}),
        (b'"quoted" and on', {"payload_text": '"quoted" and on'}),
        (b"true", {"payload_boolean": True}),
        (b"false\n", {"payload_boolean": False}),
        *((no, {}) for no in (
            b"", b" ", b"\0", b"null", b"NaN", b"-Infinity", b"1e400", b"9" * 250 + b"e99", b"a\nb",
            b"a\tb", b"\x01", b"\xff\xfe", b"[1, 2]", b"[INFO] x", b"x" * (MAX_PLAIN_BYTES + 1),
        )),
        (b"x" * MAX_PLAIN_BYTES, {"payload_text": "x" * MAX_PLAIN_BYTES}),
    ],
)  # fmt: skip
def test_a_payload_of_one_value_is_an_attribute(payload: bytes, wanted: dict) -> None:
    for content_type in (None, "text/plain", "text/plain; charset=utf-8"):
        found = read(payload, content_type)
        assert found == wanted
        assert [type(each) for each in found.values()] == [type(v) for v in wanted.values()]


def test_a_declared_json_value_is_an_attribute() -> None:
    wanted = {b"21.5": {"payload": 21.5}, b'"ON"': {"payload_text": "ON"}, b" true\n": {
        "payload_boolean": True}, b"[1]": {}, b"null": {}, b"NaN": {}}  # fmt: skip
    assert {each: read(each, "application/json") for each in wanted} == wanted


@pytest.mark.parametrize(
    ("payload", "content_type", "why"),
    [
        (b'{"u": 1', None, "it is no JSON: Expecting ',' delimiter"),
        (b'{"u": 1} x', None, "it is no JSON: Extra data"),
        (b"{u: 1}", None, "it is no JSON: Expecting property name"),
        (b'{"u": 1,}', None, "it is no JSON"),
        (b"ON", "application/json", "it is no JSON: Extra data|it is no JSON: Expecting value"),
        (b"", "application/json", "it is no JSON: Expecting value"),
        (b'{"a":' * 10_000, None, "it is nested too deeply"),
        (b'{"u": 1, "t": ' + b"[" * 10_000, None, "it is nested too deeply"),
    ],
)
def test_unread_payloads_have_a_reason(payload: bytes, content_type: str | None, why: str) -> None:
    assert why_unread(payload, content_type).startswith(tuple(why.split("|")))


@pytest.mark.parametrize(
    ("payload", "content_type"),
    [(b"{}", "text/plain"), (b"ON", None), (b"[1", None), (b"\xff\xfe", None), (b"{", "image/png")],
)
def test_payloads_unlike_json_have_no_reason(payload: bytes, content_type: str | None) -> None:
    assert why_unread(payload, content_type) == ""


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b'{"t": nan,"' + b'\\"' * 65_000, id="a string without end"),
        pytest.param(b'{"t": nan,' + b'\\"' * 65_000, id="quotes"),
        pytest.param(b'{"t": nan, "a": [1' + b",n" * 65_000 + b"]}", id="tokens"),
        pytest.param(b'{"t": nan' + b":  " * 40_000, id="colons"),
        pytest.param(b'{"t": nan, "a": "' + b"\\" * 130_000, id="backslashes"),
    ],
)
def test_the_careful_reader_reads_a_payload_once(payload: bytes) -> None:
    """A search for the end of a string from each quote in it would take minutes."""
    found: dict[str, Any] = {}
    assert bool(add_payload(payload, None, True, found)) == (not payload.endswith(b"}"))


def test_no_object_is_decoded_twice() -> None:
    payload = b'{"u": 1, "a": [%s NaN]}' % (b"{}," * MAX_CONTAINERS)
    assert why_unread(payload) == "it is no JSON, and has very many objects and lists"
    assert read(payload.replace(b"NaN", b"0")) == {"u": 1}
    assert read(payload.replace(b"{},", b"1,")) == {"u": 1}


def test_tokens_of_a_long_payload_are_not_read_one_by_one() -> None:
    filling = b"x" * MAX_MENDED_BYTES
    assert read(b'{"a": NaN, "u": 1, "b": "%s"}' % filling) == {"u": 1}
    assert why_unread(b'{"a": nan, "u": 1, "b": "%s"}' % filling).startswith("it is no JSON")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(st.characters(codec=None), max_size=5), values, max_size=6))
def test_json_written_by_python_has_the_values_attributes(fields: dict[str, Any]) -> None:
    import json

    found = read(json.dumps(fields).encode())
    assert found == flat_attributes(fields)
    check_attributes(found)
    assert not any(isinstance(each, float) and not math.isfinite(each) for each in found.values())


@given(
    st.binary(max_size=200), st.sampled_from([None, "application/json", "text/plain", "x/y+json"])
)
def test_any_bytes_have_valid_attributes(data: bytes, content_type: str | None) -> None:
    for payload in (data, b'{"a": ' + data + b', "u": 1}'):
        found: dict[str, Any] = {}
        add_payload(payload, content_type, True, found)
        check_attributes(found)
