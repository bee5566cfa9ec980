"""A field's value as an attribute of the type that is asked for, as Spark would cast it.

A field is a text of a text file, or Arrow's value of a Parquet column. Casts that only Spark knows
(a time as text, a number as Java writes it) raise `NeedsSparkError`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from shoal.pipeline.small.tables import NeedsSparkError
from shoal.pipeline.sources.declaration import AttributeType
from shoal.pipeline.sources.small.times import integer, time_parser
from shoal.pipeline.sources.words import NUMBER, NUMBER_WITH_COMMA

_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
_DOUBLE = re.compile(NUMBER, re.ASCII)
_DOUBLE_WITH_COMMA = re.compile(NUMBER_WITH_COMMA, re.ASCII)

Reader = Callable[[Any], Any]
_OF_WHOLE: dict[AttributeType, Reader] = {"integer": int, "double": float, "boolean": bool}


def as_text(value: Any) -> str:
    """A value in words, as Java says it.

    >>> as_text(True), as_text(-1.5), as_text(2.0**63), as_text(1e-4)
    ('true', '-1.5', '9.223372036854776E18', '1.0E-4')
    """
    if isinstance(value, float) and value and not 1e-3 <= abs(value) < 1e7:
        if not math.isfinite(value):
            return str(value).replace("inf", "Infinity")
        sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
        first, *others = map(str, digits)
        after = int(exponent) + len(others)
        return f"{'-' * sign}{first}.{''.join(others) or '0'}E{after}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def value_reader(kind: pa.DataType, wanted: AttributeType, decimal: str) -> Reader:
    """Return a converter from values of the type `kind` to the type `wanted`; it returns None for a
    value that cannot be converted.

    `decimal` stands before the decimals of a number in text.
    """
    if is_text(kind):
        return _of_text(wanted, decimal)
    if wanted == "string":
        if pa.types.is_boolean(kind) or _is_integer(kind):
            return as_text
    elif pa.types.is_boolean(kind) or _is_integer(kind):
        return _OF_WHOLE[wanted]
    elif pa.types.is_float32(kind) or pa.types.is_float64(kind) or pa.types.is_decimal128(kind):
        return _whole if wanted == "integer" else _OF_WHOLE[wanted]
    raise NeedsSparkError


def time_reader(kind: pa.DataType, formats: Sequence[str], decimal: str) -> Reader:
    """Return a converter from values of the type `kind` to µs since 1970 UTC; it returns None for a
    value that is no time.
    """
    if is_text(kind):
        return time_parser(formats, decimal)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return int
    if _is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal128(kind):
        parse = time_parser(formats)
        return lambda value: parse(str(value))
    raise NeedsSparkError


def is_text(kind: pa.DataType) -> bool:
    """Return whether the values are text, however Arrow keeps it."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_integer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind)) and not pa.types.is_uint64(kind)


def _whole(value: float | Decimal) -> int | None:
    """The whole number of 64 bits that a number is, or None; NaN is no field's value."""
    if not -(2**63) <= value < 2**63:
        return None
    whole = int(value)
    return whole if whole == value else None


def _of_text(wanted: AttributeType, decimal: str) -> Reader:
    if wanted == "string":
        return str
    if wanted == "integer":
        return lambda said: integer(said.strip(" "))
    if wanted == "boolean":
        return _truth
    if decimal == ",":
        return lambda said: _double(said.strip(" "), _DOUBLE_WITH_COMMA)
    return lambda said: _double(said.strip(" "), _DOUBLE)


def _double(said: str, form: re.Pattern[str]) -> float | None:
    if not form.fullmatch(said):
        return None
    value = float(said.replace(",", "."))
    return value if math.isfinite(value) else None  # it is too large


def _truth(said: str) -> bool | None:
    word = said.strip(" ").lower()
    return True if word in _TRUE else False if word in _FALSE else None
