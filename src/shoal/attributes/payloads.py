"""The attributes of a payload: the fields of a JSON object, or a plain value.

>>> found = {}
>>> add_payload(b'{"AM2301": {"Temperature": 21.5}}', None, True, found)
''
>>> for payload in (b"21.5", b"ON", b"true"):
...     _ = add_payload(payload, None, True, found)
>>> found
{'AM2301.Temperature': 21.5, 'payload': 21.5, 'payload_text': 'ON', 'payload_boolean': True}
>>> add_payload(b'{"u": 1', None, True, found)
"it is no JSON: Expecting ',' delimiter"
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

import msgspec

from shoal.attributes.json_texts import (
    UnreadableError,
    decode_leniently,
    decode_strictly,
    is_scalar,
)
from shoal.attributes.objects import add_fields, as_value, flat_attributes
from shoal.language import read_plain_value
from shoal.ledger import remembered
from shoal.model import Value

# Payloads that are read: those that look like an object or a plain value, unless they are declared
# to be something else (`auto`: 3.1.1 has no content types), those that are declared to be JSON or
# plain text (`declared`), or none.
Json = Literal["auto", "declared", "never"]

NUMBER_PAYLOAD = "payload"
TEXT_PAYLOAD = "payload_text"
BOOLEAN_PAYLOAD = "payload_boolean"
# A longer payload is no plain value: brokers would carry it twice.
MAX_PLAIN_BYTES = 256
_REMEMBERED_BYTES = 32

_JSON = "application/json"
_JSON_TYPES = frozenset((_JSON, "text/json"))
_PLAIN = "text/plain"
# Bytes that may precede an object: white space, and a byte order mark.
_MAY_BEGIN = frozenset((b" ", b"\t", b"\n", b"\r", b"\xef"))
# Bytes in front of an object that are looked through, and those that may stand there.
_WHITE_SPACE, _IN_FRONT = 64, b" \t\r\n\xef\xbb\xbf"
# White space, and the zero byte that ends a text in C.
_AROUND = " \t\r\n\0"
# Words that are no value, though JSON or Python write them.
_NO_VALUES = frozenset(("null", "NaN", "Infinity", "-Infinity"))


def add_payload(
    payload: bytes, content_type: str | None, is_auto: bool, attributes: dict[str, Value]
) -> str:
    """Add a payload's attributes; why it was not read if it looks like JSON or is declared so."""
    if content_type is None:
        if not is_auto:
            return ""
        first = payload[:1]
        if first == b"{" or (
            first in _MAY_BEGIN and payload[:_WHITE_SPACE].lstrip(_IN_FRONT)[:1] == b"{"
        ):
            return _add_json(payload, attributes)
        if len(payload) <= MAX_PLAIN_BYTES:
            _add_plain(payload, attributes)
        return ""
    if content_type == _JSON or _is_json(content_type):
        return _add_json(payload, attributes)
    if len(payload) <= MAX_PLAIN_BYTES and _essence(content_type) == _PLAIN:
        _add_plain(payload, attributes)
    return ""


def _is_json(content_type: str) -> bool:
    """Also with parameters (`application/json; charset=utf-8`), a suffix, and in capitals."""
    essence = _essence(content_type)
    return essence in _JSON_TYPES or essence.endswith("+json")


def _essence(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _add_json(payload: bytes, attributes: dict[str, Value]) -> str:
    try:
        value: Any = decode_strictly(payload)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _add_leniently(payload, attributes)
    if type(value) is dict:
        add_fields(value, attributes)
    elif len(payload) <= MAX_PLAIN_BYTES:
        _add_value(value, attributes)
    return ""


def _add_leniently(payload: bytes, attributes: dict[str, Value]) -> str:
    try:
        value = decode_leniently(payload)
    except UnreadableError as error:
        return str(error)
    if isinstance(value, dict):
        attributes.update(flat_attributes(value))
    elif len(payload) <= MAX_PLAIN_BYTES:
        _add_value(value, attributes)
    return ""


def _add_plain(payload: bytes, attributes: dict[str, Value]) -> None:
    read = _known_plain if len(payload) <= _REMEMBERED_BYTES else _read_plain
    found = read(payload)
    if found is not None:
        name, value = found
        attributes[name] = value


def _read_plain(payload: bytes) -> tuple[str, Value] | None:
    """The name and value of a text that is one value; None for other bytes, and several lines."""
    try:
        text = payload.decode("utf-8-sig").strip(_AROUND)
    except UnicodeDecodeError:
        return None
    if not text.isprintable() or text[:1] in ("", "{", "[") or text in _NO_VALUES:
        return None
    if text[0] == '"':
        with suppress(msgspec.DecodeError):
            text = msgspec.json.decode(text, type=str)
        return TEXT_PAYLOAD, text
    value = read_plain_value(text)
    if value is text and is_scalar(text):
        return None  # a number beyond all doubles
    return _name_of(value), value


# Most plain values are short, and come again.
_known_plain = remembered("plain payloads", most=1_024, bytes_each=600)(_read_plain)


def _add_value(value: object, attributes: dict[str, Value]) -> None:
    """A decoded JSON value by itself."""
    found = as_value(value)
    if found is not None:
        attributes[_name_of(found)] = found


def _name_of(value: Value) -> str:
    if isinstance(value, str):
        return TEXT_PAYLOAD
    return BOOLEAN_PAYLOAD if isinstance(value, bool) else NUMBER_PAYLOAD
