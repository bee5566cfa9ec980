"""Attribute values and how they compare.

A value is a boolean, a 64-bit integer, a double or a string.  Values of one kind are totally
ordered: numbers as numbers (an integer and a double compare exactly, above 2**53 too), strings
by code point, FALSE before TRUE.  NaN equals NaN and is greater than every other number, as in
Spark SQL.  Values of two kinds do not compare: the comparison is unknown.

>>> kind_of(True), kind_of(1) is kind_of(1.5)
(<Kind.BOOLEAN: 'boolean'>, True)
>>> compare(2**53 + 1, float(2**53)), compare(1, "1"), compare(float("nan"), float("inf"))
(1, None, 1)
"""

from __future__ import annotations

import enum

Value = bool | int | float | str

INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**63 - 1


class Kind(enum.Enum):
    """The domain a value belongs to; only values of one kind compare."""

    BOOLEAN = "boolean"
    NUMBER = "number"
    STRING = "string"


_KINDS: dict[type, Kind] = {
    bool: Kind.BOOLEAN,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    str: Kind.STRING,
}


def kind_of(value: Value) -> Kind:
    """The kind of a value; KeyError for anything else (numpy scalars too: convert them first)."""
    return _KINDS[type(value)]


def check_value(value: object, where: str) -> None:
    """Raise ValueError, naming `where`, unless `value` is something an attribute can hold."""
    if type(value) not in _KINDS:
        raise ValueError(
            f"{where}: {type(value).__name__} is not a value; "
            "use a boolean, an integer, a double or a string"
        )
    if type(value) is int and not INTEGER_MIN <= value <= INTEGER_MAX:
        raise ValueError(f"{where}: integer {value} does not fit in 64 bits")


def compare(left: Value, right: Value) -> int | None:
    """-1, 0 or 1 as `left` is below, equal to or above `right`; None when the kinds differ."""
    if _KINDS[type(left)] is not _KINDS[type(right)]:
        return None
    if left == right:
        return 0
    left_is_nan, right_is_nan = left != left, right != right
    if left_is_nan or right_is_nan:
        return int(left_is_nan) - int(right_is_nan)
    return -1 if left < right else 1  # type: ignore[operator]  # one kind, see above
