"""Columns of a file's values as columns of attributes, whatever the file's format.

A column is of texts, numbers, truth values, dates or times in microseconds, as `raw_rows` reads
them.  A value that is not of the type asked for becomes null.  The common forms are converted by
Arrow, the others one by one.

>>> typed(pa.array(["7", " +08 ", "7.0", None]), "integer", ".").to_pylist()
[7, 8, None, None]
>>> typed(pa.array(["-,5e1", "1.5"]), "double", ",").to_pylist()
[-5.0, None]
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above

from shoal.pipeline.sources.declaration import AttributeType
from shoal.pipeline.sources.words import NUMBER, NUMBER_WITH_COMMA

ARROW_TYPES: dict[AttributeType, pa.DataType] = {
    "string": pa.string(),
    "integer": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}
_TRUE, _FALSE = pa.array(["t", "true", "y", "yes", "1"]), pa.array(["f", "false", "n", "no", "0"])
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DOUBLES = {".": re.compile(NUMBER, re.ASCII), ",": re.compile(NUMBER_WITH_COMMA, re.ASCII)}
# Forms that Arrow converts, and that are surely in range.
_SHORT_INTEGER = "^[+-]?[0-9]{1,18}$"
_SHORT_DOUBLES = {
    mark: rf"^[+-]?([0-9]{{1,40}}{point}?[0-9]{{0,40}}|{point}[0-9]{{1,40}})"
    r"([eE][+-]?[0-9]{1,2})?$"
    for mark, point in ((".", r"\."), (",", ","))
}
_LONGEST_INTEGER = 19


def present(column: pa.Array, null_values: Sequence[str]) -> pa.Array:
    """The column with null for a missing value: NaN, the empty text, each of `null_values`."""
    kind = column.type
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
    if pa.types.is_string(kind):
        is_missing = pc.is_in(column, pa.array(["", *null_values]))
        return pc.if_else(is_missing, pa.scalar(None, kind), column)
    return column


def typed(column: pa.Array, wanted: AttributeType, decimal: str) -> pa.Array:
    """A column that `present` gave as one of attributes; `decimal` stands before the decimals of a
    number in text.
    """
    kind, target = column.type, ARROW_TYPES[wanted]
    if pa.types.is_null(kind):
        return pa.nulls(len(column), target)
    if wanted == "string":
        return as_texts(column)
    if pa.types.is_string(kind):
        return _of_texts(column, wanted, decimal)
    if pa.types.is_date(kind):
        return pa.nulls(len(column), target)
    if pa.types.is_timestamp(kind):
        # In seconds since 1970.
        microseconds = column.cast(pa.int64()).cast(pa.float64(), safe=False)
        seconds = pc.divide(microseconds, 1e6)
        return (pc.floor(seconds) if wanted == "integer" else seconds).cast(target)
    if pa.types.is_decimal(kind):
        return _of_decimals(column, wanted)
    if wanted == "boolean" and pa.types.is_floating(kind):
        return pc.not_equal(column, 0.0)
    if wanted == "integer" and pa.types.is_floating(kind):
        column = column.cast(pa.float64())
        is_whole = pc.and_(pc.equal(pc.trunc(column), column), pc.less(column, 2.0**63))
        is_whole = pc.and_(is_whole, pc.greater_equal(column, -(2.0**63)))
        return pc.if_else(is_whole, column, pa.scalar(None, pa.float64())).cast(target)
    return column.cast(target, safe=False)


def as_texts(column: pa.Array) -> pa.Array:
    """The values in words, numbers as Java says them.

    >>> as_texts(pa.array([True])).to_pylist(), as_texts(pa.array([-1.5, 2.0**63])).to_pylist()
    (['true'], ['-1.5', '9.223372036854776E18'])
    """
    kind = column.type
    if pa.types.is_floating(kind):
        numbers = column.to_numpy(zero_copy_only=False)
        texts = [_as_java(str(each)) for each in numbers]
        return pa.array(texts, pa.string(), mask=np.asarray(column.is_null()))
    if pa.types.is_decimal(kind):
        found = [None if each is None else format(each, "f") for each in column.to_pylist()]
        return pa.array(found, pa.string())
    if pa.types.is_timestamp(kind):
        texts = column.cast(pa.timestamp("us")).cast(pa.string())
        return pc.replace_substring_regex(texts, r"\.?0*$", "")
    return column.cast(pa.string())


def _as_java(said: str) -> str:
    """
    >>> _as_java("1e-04"), _as_java("0.0"), _as_java("inf")
    ('1.0E-4', '0.0', 'Infinity')
    """
    value = float(said)
    if not math.isfinite(value):
        return said.replace("inf", "Infinity")
    if not value or 1e-3 <= abs(value) < 1e7:
        return said
    sign, digits, exponent = Decimal(said).normalize().as_tuple()
    first, *others = map(str, digits)
    after = int(exponent) + len(others)
    return f"{'-' * sign}{first}.{''.join(others) or '0'}E{after}"


def converted(
    texts: pa.Array,
    easy: str,
    fast: Callable[[pa.Array], pa.Array],
    slow: Callable[[str], Any],
) -> pa.Array:
    """Convert texts of the form `easy` by `fast`, all at once, and each of the others by `slow`."""
    is_easy = pc.match_substring_regex(texts, easy)
    found = fast(pc.if_else(is_easy, texts, pa.scalar(None, pa.string())))
    others = pc.fill_null(pc.invert(is_easy), False)
    if not pc.any(others).as_py():
        return found
    values = [slow(text) for text in texts.filter(others).to_pylist()]
    return pc.replace_with_mask(found, others, pa.array(values, found.type))


def _of_texts(column: pa.Array, wanted: AttributeType, decimal: str) -> pa.Array:
    texts = pc.ascii_trim(column, " ")
    if wanted == "boolean":
        words = pc.ascii_lower(texts)
        is_false = pc.if_else(pc.is_in(words, _FALSE), False, pa.scalar(None, pa.bool_()))
        return pc.if_else(pc.is_in(words, _TRUE), True, is_false)
    if wanted == "integer":
        return converted(
            texts,
            _SHORT_INTEGER,
            lambda short: pc.ascii_ltrim(short, "+").cast(pa.int64()),
            integer,
        )
    return converted(
        texts,
        _SHORT_DOUBLES[decimal],
        lambda short: pc.replace_substring(pc.ascii_ltrim(short, "+"), ",", ".").cast(pa.float64()),
        lambda said: _double(said, _DOUBLES[decimal]),
    )


def integer(said: str) -> int | None:
    """The whole number of 64 bits that a text is, or None."""
    if not _INTEGER.fullmatch(said) or len(said.lstrip("+-0")) > _LONGEST_INTEGER:
        return None
    value = int(said.lstrip("+-0") or "0") * (-1 if said.startswith("-") else 1)
    return value if -(2**63) <= value < 2**63 else None


def _double(said: str, form: re.Pattern[str]) -> float | None:
    if not form.fullmatch(said):
        return None
    value = float(said.replace(",", "."))
    return value if math.isfinite(value) else None  # it is too large


def _of_decimals(column: pa.Array, wanted: AttributeType) -> pa.Array:
    if wanted == "double":
        return column.cast(pa.string()).cast(pa.float64())
    numbers: list[Decimal | None] = column.to_pylist()
    if wanted == "boolean":
        found: list[Any] = [None if each is None else bool(each) for each in numbers]
    else:
        found = [None if each is None else _whole(each) for each in numbers]
    return pa.array(found, ARROW_TYPES[wanted])


def _whole(value: Decimal) -> int | None:
    return int(value) if value == int(value) and -(2**63) <= value < 2**63 else None
