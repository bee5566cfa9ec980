"""A claim's value as text, in its unit: `%` of a share, or a word behind the number, or nothing.

>>> amount(0.4612, "%"), amount(4.1504, "times"), amount(-0.9449)
('46 %', '4.15 times', '\N{MINUS SIGN}0.945')
>>> amount(0.4612, "%", 0.0396), amount(4.1504, "times", 0.1234), amount(30.4576, half=0.2187)
('46.1 % ± 4.0 %', '4.15 ± 0.12 times', '30.46 ± 0.22')
"""

from __future__ import annotations

import math

PERCENT = "%"
# Decimal places of an interval that is very narrow.
MOST_PLACES = 4


def percent(share: float) -> str:
    """A share as percent: to a whole number, or to a tenth below 10.

    >>> percent(0.684), percent(0.052), percent(-0.1), percent(-0.0001)
    ('68 %', '5.2 %', '\N{MINUS SIGN}10 %', '0.0 %')
    """
    value = 100 * share
    text = f"{value:.1f}" if abs(value) < 9.95 else f"{value:.0f}"
    return f"{_signed('0.0' if text == '-0.0' else text)} %"


def amount(value: float, unit: str = "", half: float | None = None) -> str:
    """A value to three digits, or more if it is large; a share as `percent`.

    A mean has `half` of its interval, if that is known and not 0, with two digits.
    """
    if half:
        return _interval(value, half, unit)
    return percent(value) if unit == PERCENT else _number(value, 3, unit)


def bound(value: float, unit: str = "") -> str:
    """A bound of a band, to four digits or more.

    >>> bound(0.495, "%"), bound(1.005, "times"), bound(114_000.0, "messages/s")
    ('49.5 %', '1.005 times', '114,000 messages/s')
    """
    return _number(_factor(unit) * value, 4, unit)


def _interval(mean: float, half: float, unit: str) -> str:
    half *= _factor(unit)
    places = min(MOST_PLACES, max(0, 1 - math.floor(math.log10(half))))
    shown = _signed(f"{_factor(unit) * mean:,.{places}f}")
    sign = f" {unit}" if unit == PERCENT else ""
    return f"{shown}{sign} \N{PLUS-MINUS SIGN} {half:,.{places}f} {unit}".rstrip()


def _number(value: float, digits: int, unit: str) -> str:
    text = f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.{digits}g}"
    return f"{_signed(text)} {unit}".rstrip()


def _factor(unit: str) -> int:
    return 100 if unit == PERCENT else 1


def _signed(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")
