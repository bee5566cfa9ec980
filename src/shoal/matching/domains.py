"""Neighbours in the two big value domains: numbers (64-bit integers and doubles) and strings.

Both domains are ordered and every value but the last has a next one, so that any comparison
becomes one of two: `a > 5` is `a >= successor(5)` and `a <= 5` is `a < successor(5)`.  Bounds are
values, or one of two markers: NAN stands for NaN, which Python would not order, and END lies
beyond everything.

>>> number_successor(2**53), number_successor(1.0) == 1.0 + 2**-52, number_successor(float("inf"))
(9007199254740993, True, NAN)
>>> number_predecessor(NAN), string_successor("a") == "a" + chr(0)
(inf, True)
"""

from __future__ import annotations

import math

from shoal.model import INTEGER_MAX, INTEGER_MIN


class Beyond:
    """A bound above every number and string; the one of higher rank is above the other."""

    __slots__ = ("_name", "_rank")

    def __init__(self, name: str, rank: int) -> None:
        self._name = name
        self._rank = rank

    def __gt__(self, other: object) -> bool:
        if isinstance(other, Beyond):
            return self._rank > other._rank
        # NaN itself is not below NAN, but it is below END.
        return other == other or self is END

    def __lt__(self, other: object) -> bool:
        return isinstance(other, Beyond) and self._rank < other._rank

    def __ge__(self, other: object) -> bool:
        return self is other or self > other

    def __le__(self, other: object) -> bool:
        return self is other or self < other

    def __repr__(self) -> str:
        return self._name


NAN = Beyond("NAN", 0)
END = Beyond("END", 1)

NumberBound = int | float | Beyond
StringBound = str | Beyond

_INFINITY = float("inf")
LOWEST_NUMBER = -_INFINITY


def number_successor(value: NumberBound) -> NumberBound:
    """The next number above: an integer, a double, NAN after infinity, END after NAN."""
    if isinstance(value, Beyond):
        return END
    if value == _INFINITY:
        return NAN
    double = float(value)
    if not double > value:
        double = math.nextafter(double, _INFINITY)
    if value < INTEGER_MIN:
        return double if double < INTEGER_MIN else INTEGER_MIN
    if value >= INTEGER_MAX:
        return double
    integer = math.floor(value) + 1
    return integer if integer <= double else double


def number_predecessor(value: NumberBound) -> NumberBound | None:
    """The next number below; None below the lowest, minus infinity."""
    if isinstance(value, Beyond):
        return NAN if value is END else _INFINITY
    if value == LOWEST_NUMBER:
        return None
    double = float(value)
    if not double < value:
        double = math.nextafter(double, LOWEST_NUMBER)
    if value > INTEGER_MAX:
        return double if double > INTEGER_MAX else INTEGER_MAX
    if value <= INTEGER_MIN:
        return double
    integer = math.ceil(value) - 1
    return integer if integer >= double else double


def integer_at_least(bound: NumberBound) -> int:
    """The integer that divides 64-bit integers as the bound does; 2**63 if all are below."""
    if isinstance(bound, Beyond) or bound > INTEGER_MAX:
        return INTEGER_MAX + 1
    return INTEGER_MIN if bound < INTEGER_MIN else math.ceil(bound)


def double_at_least(bound: NumberBound) -> float | Beyond:
    """The double that divides doubles as the bound does; NAN if only NaN is not below."""
    if isinstance(bound, Beyond):
        return bound
    double = float(bound)
    return double if double >= bound else math.nextafter(double, _INFINITY)


def string_successor(value: str) -> str:
    """The next string above."""
    return value + "\0"


def string_predecessor(value: StringBound) -> str | None:
    """The next string below, if there is one: most strings have no nearest below."""
    if isinstance(value, str) and value.endswith("\0"):
        return value[:-1]
    return None


def next_character(character: str) -> str | None:
    """The next code point that a string can hold (surrogates cannot be); None after the last."""
    if character == "\U0010ffff":
        return None
    return "\ue000" if character == "\ud7ff" else chr(ord(character) + 1)


def after_prefix(prefix: str) -> StringBound:
    """The least string above everything that begins with `prefix`."""
    while prefix:
        following = next_character(prefix[-1])
        if following is not None:
            return prefix[:-1] + following
        prefix = prefix[:-1]
    return END
