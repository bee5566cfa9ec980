"""The fields of a JSON object as attributes; those of objects within it have names with dots.

A list is the attribute `$list.NAME`, a text (`shoal.model.expressions.lists`).

>>> flat_attributes({"state": "ON", "color": {"x": 0.4}, "a.b": 7, "a": {"b": 8}, "temps": [41]})
{'state': 'ON', 'a.b': 7, '$list.temps': '[41]', 'color.x': 0.4}
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from shoal.model import INTEGER_MAX, INTEGER_MIN, Value
from shoal.model.entities import MAX_ATTRIBUTES
from shoal.model.expressions.lists import MAX_ITEMS, list_attribute, write_list

# Characters of a text that filters see: each LIKE goes through it, and there may be thousands.
MAX_TEXT = 16_384
# Fields that are looked at; a broker that looks at 100,000 does nothing else.
MAX_FIELDS = 10_000
# Depth of nested objects whose fields are attributes; the outermost is the first.
MAX_DEPTH = 8
# Characters of the name of an object whose fields are attributes: each of them repeats it.
MAX_PREFIX = 256
# Names that begin so are not the client's to give.
RESERVED = "$"

_SURROGATE = re.compile("[\ud800-\udfff]")

_Objects = list[tuple[str, dict[str, Any]]]


def add_fields(fields: dict[str, Any], attributes: dict[str, Value]) -> None:
    """Add the fields of a decoded JSON object to the attributes of a message.

    Numbers and texts must be such as a strict decoder gives: finite, and without surrogates.
    """
    objects: _Objects | None = None
    for name, value in islice(fields.items(), MAX_FIELDS):
        kind = type(value)
        if not name or name[0] == RESERVED:
            continue
        if kind is float or kind is bool:
            attributes[name] = value
        elif kind is str:
            if len(value) <= MAX_TEXT:
                attributes[name] = value
        elif kind is int:
            if INTEGER_MIN <= value <= INTEGER_MAX:
                attributes[name] = value
            elif (double := _double(value)) is not None:
                attributes[name] = double
        elif kind is dict:
            if objects is None:
                objects = []
            objects.append((name, value))
        elif kind is list:
            _add_list(name, value, attributes)
    if objects is not None:
        _add_objects(objects, attributes, MAX_FIELDS - len(fields))


def _add_objects(objects: _Objects, attributes: dict[str, Value], left: int) -> None:
    """Level by level, so that of too many fields the outermost are attributes."""
    for _ in range(MAX_DEPTH - 1):
        inner: _Objects = []
        for prefix, fields in objects:
            if len(prefix) > MAX_PREFIX:
                continue
            for name, value in islice(fields.items(), max(left, 0)):
                full = f"{prefix}.{name}"
                if type(value) is dict:
                    inner.append((full, value))
                elif type(value) is list:
                    _add_list(full, value, attributes)
                elif full not in attributes and (found := as_value(value)) is not None:
                    attributes[full] = found
                    if len(attributes) >= MAX_ATTRIBUTES:
                        return
            left -= len(fields)
        objects = inner


def _add_list(name: str, items: list[Any], attributes: dict[str, Value]) -> None:
    """Add a list that is not too long; an item that is no value is null."""
    if len(items) <= MAX_ITEMS and (text := write_list(map(as_value, items))) is not None:
        attributes.setdefault(list_attribute(name), text)


def flat_attributes(fields: Mapping[str, Any], *, reserved: bool = False) -> dict[str, Value]:
    """The attributes of an object that any JSON decoder read, NaN and surrogates included.

    `reserved`: names that begin with RESERVED are taken, too.
    """
    found: dict[str, Value] = {}
    if reserved:
        found = {name: value for name, value in fields.items() if name[:1] == RESERVED}
    add_fields(dict(fields), found)
    return {
        name: valid
        for name, value in islice(found.items(), MAX_ATTRIBUTES)
        if is_text(name) and (valid := as_value(value)) is not None
    }


def as_value(value: object) -> Value | None:
    """The attribute value that a decoded JSON value is, or None.

    >>> [as_value(each) for each in (True, 2**63, float("nan"), chr(0xD83D), None, [1])]
    [True, 9.223372036854776e+18, None, None, None, None]
    """
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT and is_text(value) else None
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if INTEGER_MIN <= value <= INTEGER_MAX else _double(value)
    return value if isinstance(value, float) and math.isfinite(value) else None


def is_text(text: str) -> bool:
    """Return whether a text has whole characters only."""
    return text.isascii() or _SURROGATE.search(text) is None


def _double(value: int) -> float | None:
    """The double next to an integer beyond 64 bits; None beyond all doubles."""
    try:
        return float(value)
    except OverflowError:
        return None
