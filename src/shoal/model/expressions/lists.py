"""Lists in attributes: a text of JSON under a name of its own, which only list functions read.

A list `tags` is the attribute `$list.tags`; `tags` itself has no value. So a list travels, is
recorded and is read back as any text, and by brokers that know no lists.

>>> attributes = {list_attribute("tags"): write_list(["a", 5, None])}
>>> attributes, items_of(attributes, "tags"), items_of(attributes, "temps")
({'$list.tags': '["a",5,null]'}, ('a', 5, None), None)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from shoal.ledger import remembered
from shoal.model.values import INTEGER_MAX, INTEGER_MIN, Value

# Beginning of the names of lists.
LIST_PREFIX = "$list."
# Items of a list, and characters of its text; a longer list is no attribute.
MAX_ITEMS = 256
MAX_LIST_TEXT = 16_384

_REMEMBERED = 256
_REMEMBERED_CHARACTERS = 1_000

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[bool | int | float | str | None]).decode

Items = tuple[Value | None, ...]


def list_attribute(name: str) -> str:
    """The name of the attribute that holds a list."""
    return LIST_PREFIX + name


def write_list(items: Iterable[Value | None]) -> str | None:
    """The text of a list; None if it is too long. Infinities and NaN are null."""
    text = _encode(list(items)).decode()
    return text if len(text) <= MAX_LIST_TEXT else None


def items_of(attributes: Mapping[str, Any], name: str) -> Items | None:
    """The items of a list; None if it is missing. An item that is no value is None."""
    text = attributes.get(LIST_PREFIX + name)
    if type(text) is not str:
        return None
    return _remembered(text) if len(text) <= _REMEMBERED_CHARACTERS else _items(text)


def _items(text: str) -> Items | None:
    if len(text) > MAX_LIST_TEXT:
        return None
    try:
        found = _decode(text)
    except (msgspec.DecodeError, ValueError):
        return None
    if len(found) > MAX_ITEMS:
        return None
    return tuple(
        None if type(each) is int and not INTEGER_MIN <= each <= INTEGER_MAX else each
        for each in found
    )


_remembered = remembered("lists of messages", most=_REMEMBERED, bytes_each=4_000)(_items)
