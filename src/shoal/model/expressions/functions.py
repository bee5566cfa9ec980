"""The functions of value expressions on values: exact, total, the same on every machine.

Each takes values or None (missing) and gives one or None; nothing here raises.

>>> add(2**63 - 1, 1), add(0.1, 0.2), divide(1, 0), remainder(-7, 2)
(None, 0.30000000000000004, None, -1)
>>> round_half_up(2.675, 2), floor(-0.5), substring("hello", -10, 7), as_double("5d")
(2.68, -1, 'he', None)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from shoal.model.expressions import letter_cases
from shoal.model.values import INTEGER_MAX, INTEGER_MIN, Value, compare

# Characters of a text that an expression makes; a longer one is missing, as an attribute is.
MAX_MADE_TEXT = 16_384
# Radius of the earth in metres, the mean of WGS 84's.
EARTH_RADIUS_M = 6_371_008.8

Number = int | float
Missing = Value | None

# From here on all doubles are integers.
_ALL_INTEGERS = 2.0**52
_BEYOND_INTEGERS = 2.0**63
# 16 digits before the point and 15 behind it.
_ROUNDING = Context(prec=64, rounding=ROUND_HALF_UP)
_STEPS = tuple(Decimal(1).scaleb(-digits) for digits in range(16))
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
HALF_DEGREE = math.pi / 360
# The Taylor series of sin(x) / x over x squared: only + and *, which all machines round alike.
SINE_SERIES: tuple[float, ...] = tuple(
    (-1) ** power / math.factorial(2 * power + 1) for power in range(11)
)


def is_number(value: object) -> bool:
    """Return whether a value is an integer or a double."""
    kind = type(value)
    return kind is int or kind is float


def _whole(result: int) -> int | None:
    return result if INTEGER_MIN <= result <= INTEGER_MAX else None


def add(a: Any, b: Any) -> Missing:
    """The sum: exact of integers, missing beyond 64 bits; else a double."""
    if type(a) is float and type(b) is float:
        return a + b
    if not (is_number(a) and is_number(b)):
        return None
    return _whole(a + b) if type(a) is type(b) else float(a) + float(b)


def subtract(a: Any, b: Any) -> Missing:
    """The difference, as `add`."""
    if type(a) is float and type(b) is float:
        return a - b
    if not (is_number(a) and is_number(b)):
        return None
    return _whole(a - b) if type(a) is type(b) else float(a) - float(b)


def multiply(a: Any, b: Any) -> Missing:
    """The product, as `add`."""
    if type(a) is float and type(b) is float:
        return a * b
    if not (is_number(a) and is_number(b)):
        return None
    return _whole(a * b) if type(a) is type(b) else float(a) * float(b)


def divide(a: Any, b: Any) -> Missing:
    """The quotient, always a double; missing by zero."""
    if not (is_number(a) and is_number(b)) or b == 0:
        return None
    return float(a) / float(b)


def remainder(a: Any, b: Any) -> Missing:
    """The remainder with the dividend's sign; missing by zero, NaN of an infinite dividend."""
    if not (is_number(a) and is_number(b)) or b == 0:
        return None
    if type(a) is type(b) is int:
        return int(math.copysign(1, a)) * (abs(a) % abs(b)) if a else 0
    a, b = float(a), float(b)
    if math.isinf(a) or a != a or b != b:
        return math.nan
    return math.fmod(a, b)


def negate(a: Any) -> Missing:
    """The number with the other sign; missing of the lowest integer."""
    if type(a) is float:
        return -a
    return _whole(-a) if type(a) is int else None


def absolute(a: Any) -> Missing:
    """The number without its sign; missing of the lowest integer."""
    if type(a) is float:
        return abs(a)
    return _whole(abs(a)) if type(a) is int else None


def floor(a: Any) -> Missing:
    """The greatest integer not above; missing of NaN and beyond 64 bits."""
    if type(a) is int:
        return a
    is_within = type(a) is float and -_BEYOND_INTEGERS <= a < _BEYOND_INTEGERS
    return math.floor(a) if is_within else None


def ceil(a: Any) -> Missing:
    """The least integer not below; missing of NaN and beyond 64 bits."""
    if type(a) is int:
        return a
    is_within = type(a) is float and -_BEYOND_INTEGERS <= a < _BEYOND_INTEGERS
    return math.ceil(a) if is_within else None


def round_half_up(a: Any, digits: int) -> Missing:
    """A double rounded to so many decimals (0 to 15): its shortest decimal, half away from zero.

    Integers stay.
    """
    if type(a) is not float:
        return a if type(a) is int else None
    if not abs(a) < _ALL_INTEGERS:
        return a
    return float(_ROUNDING.quantize(Decimal(repr(a)), _STEPS[digits]))


def order(a: Any, b: Any) -> Missing:
    """-1, 0 or 1 as `a` is below, equal to or above `b`; missing across kinds."""
    return None if a is None or b is None else compare(a, b)


def least(values: Iterable[Any]) -> Missing:
    """The least of the numbers among the values; the first of equal ones."""
    return _extreme(values, -1)


def greatest(values: Iterable[Any]) -> Missing:
    """The greatest of the numbers among the values; the first of equal ones."""
    return _extreme(values, 1)


def _extreme(values: Iterable[Any], wanted: int) -> Missing:
    best: Missing = None
    for value in values:
        if is_number(value) and (best is None or compare(value, best) == wanted):
            best = value
    return best


def _made(text: str) -> str | None:
    return text if len(text) <= MAX_MADE_TEXT else None


def lower(text: Any) -> Missing:
    """The text in small letters."""
    return _made(letter_cases.lower(text)) if type(text) is str else None


def upper(text: Any) -> Missing:
    """The text in capital letters."""
    return _made(letter_cases.upper(text)) if type(text) is str else None


def trim(text: Any) -> Missing:
    """The text without spaces (U+0020) at its ends."""
    return text.strip(" ") if type(text) is str else None


def length(text: Any) -> Missing:
    """The number of code points."""
    return len(text) if type(text) is str else None


def substring(text: Any, start: int, count: int) -> Missing:
    """So many characters from the place `start`: 1 is the first, so is 0, and -1 the last.

    A negative start may lie before the text; what would stand there counts.
    """
    if type(text) is not str:
        return None
    first = start - 1 if start > 0 else len(text) * (start < 0) + start
    return text[max(first, 0) : max(first + count, 0)] if count > 0 else ""


def concat(parts: Iterable[Any]) -> Missing:
    """The texts joined; missing if one is, or if the whole is longer than `MAX_MADE_TEXT`."""
    texts = []
    left = MAX_MADE_TEXT
    for part in parts:
        if type(part) is not str:
            return None
        left -= len(part)
        if left < 0:
            return None
        texts.append(part)
    return "".join(texts)


def as_double(value: Any) -> Missing:
    """A number as a double, a text if it is a JSON number."""
    if type(value) is str:
        is_short = len(value) <= MAX_MADE_TEXT
        return float(value) if is_short and _JSON_NUMBER.fullmatch(value) else None
    return float(value) if is_number(value) else None


def _sine(angle: float) -> float:
    """The sine of an angle in radians, at most a quarter turn."""
    square, total = angle * angle, SINE_SERIES[-1]
    for factor in reversed(SINE_SERIES[:-1]):
        total = factor + square * total
    return angle * total


def _cosine_of_degrees(angle: float) -> float:
    return _sine((90.0 - abs(angle)) * (2 * HALF_DEGREE))


def chord(latitude: Any, longitude: Any, latitude0: Any, longitude0: Any) -> float | None:
    """The haversine of the angle between two places in degrees; missing off the map.

    Half the chord, squared. Compared with a constant (`chord_within`) it needs no inverse sine.
    """
    places = (latitude, longitude, latitude0, longitude0)
    if not all(map(is_number, places)):
        return None
    lat, lon, lat0, lon0 = map(float, places)
    if not (abs(lat) <= 90 and abs(lat0) <= 90 and abs(lon) <= 180 and abs(lon0) <= 180):
        return None
    north = _sine((lat - lat0) * HALF_DEGREE)
    turn = abs(lon - lon0)
    east = _sine(min(turn, 360.0 - turn) * HALF_DEGREE)
    return north * north + (_cosine_of_degrees(lat) * _cosine_of_degrees(lat0)) * (east * east)


def chord_within(metres: float) -> float:
    """The greatest chord of two places that are at most so many metres apart."""
    sine = math.sin(min(metres / (2 * EARTH_RADIUS_M), math.pi / 2))
    return sine * sine
