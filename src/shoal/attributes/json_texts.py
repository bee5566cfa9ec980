"""JSON as devices write it: an invalid value within an object or a list counts as null.

| in the payload | result |
| --- | --- |
| a byte order mark in front, zero bytes and white space behind | nothing: they do not count |
| `NaN`, `Infinity`, `1e400`, half a surrogate pair | that value is missing, or its name |
| control characters in a string, bytes that are not UTF-8 | the first stay, the second: as above |
| `nan`, `+1`, `.5`, `01`, `None`, `21.5C`, nothing behind a colon | that value is missing |
| a quote, a bracket or a comma too many or too few; nesting beyond 900 | `UnreadableError` |

The strict decoder comes first, as nearly all payloads are JSON; Python's knows the rest at a tenth
of the speed; payloads that it refuses go through a regular expression, if they are short.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

# Bytes of a payload whose tokens are checked one by one, which takes some 10 ms.
MAX_MENDED_BYTES = 131_072
# Objects and lists of a payload that is decoded a second time: 260,000 take 50 ms.
MAX_CONTAINERS = 65_536

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BRACKETS = ("{", "[")
_PADDING = b" \t\r\n\0"
# A string, which ends with the text at the latest (searching its end again from each character
# would take for ever); a token in place of a value; a colon without value.
TOKENS = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[^\s,:"\[\]{}]++|:\s*+(?=[,}])', re.DOTALL
)
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]{0,400})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")

decode_strictly = msgspec.json.Decoder().decode


class UnreadableError(ValueError):
    """A payload that is no JSON, although it looks so or is declared so."""


def decode_leniently(payload: bytes) -> Any:
    """The value of a JSON text that `decode_strictly` refuses.

    Numbers may be infinite and texts have surrogates: `flat_attributes` leaves them out.
    """
    stripped = payload.removeprefix(_BYTE_ORDER_MARK).strip(_PADDING)
    if stripped.count(b"{") + stripped.count(b"[") > MAX_CONTAINERS:
        raise UnreadableError("it is no JSON, and has very many objects and lists")
    try:
        if len(stripped) != len(payload):
            try:
                return decode_strictly(stripped)
            except (msgspec.DecodeError, ValueError):
                pass
        return _decode(stripped.decode("utf-8", "surrogateescape"))
    except RecursionError:
        raise UnreadableError("it is nested too deeply") from None


def _decode(text: str) -> Any:
    try:
        return _loads(text)
    except ValueError as error:
        if len(text) > MAX_MENDED_BYTES or text[:1] not in _BRACKETS:
            raise _unreadable(error) from None
    try:
        return _loads(TOKENS.sub(_mended, text))
    except ValueError as error:
        raise _unreadable(error) from None


def is_scalar(text: str) -> bool:
    """Return whether a text is a JSON number, true, false or null."""
    return _SCALAR.fullmatch(text) is not None


def _loads(text: str) -> Any:
    return json.loads(text, strict=False, parse_constant=_missing)


def _missing(_word: str) -> None:
    """NaN, Infinity and -Infinity."""


def _mended(found: re.Match[str]) -> str:
    token = found[0]
    if token[0] == '"' or is_scalar(token):
        return token
    return ":null" if token[0] == ":" else "null"


def _unreadable(error: ValueError) -> UnreadableError:
    return UnreadableError(f"it is no JSON: {getattr(error, 'msg', error)}")
