"""Numbers as people read them: thousands separators, three significant digits, a unit.

>>> count(336776), quantity(0.04567), quantity(1234.5), milliseconds(41_530.0), percent(0.0412)
('336,776', '0.0457', '1,234', '41.5', '4.12 %')
>>> change(120.0, 100.0), change(100.0, 100.0), change(1.0, 0.0)
('+20.0 %', '0.0 %', '')
"""

from __future__ import annotations

import math

MISSING = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


def count(value: float | None) -> str:
    """A whole number with thousands separators."""
    return MISSING if value is None else f"{value:,.0f}"


def quantity(value: float | None) -> str:
    """Three significant digits, never an exponent."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{min(decimals, 6)}f}"
    return text.replace("-", MINUS)


def milliseconds(value_us: float | None) -> str:
    """Microseconds shown as milliseconds."""
    return MISSING if value_us is None else quantity(value_us / 1000)


def seconds(value_us: float | None) -> str:
    """Microseconds shown as seconds."""
    return MISSING if value_us is None else quantity(value_us / 1e6)


def percent(share: float | None) -> str:
    """A share of one as percent."""
    return MISSING if share is None else f"{quantity(share * 100)} %"


def relative_change(value: float | None, reference: float | None) -> float | None:
    """(value - reference) / reference; None when that says nothing."""
    if value is None or not reference:
        return None
    return (value - reference) / reference


def change(value: float | None, reference: float | None) -> str:
    """The relative change in percent with its sign; empty when that says nothing."""
    relative = relative_change(value, reference)
    if relative is None:
        return ""
    rounded = round(relative * 100, 1)
    sign = "+" if rounded > 0 else MINUS if rounded < 0 else ""
    return f"{sign}{abs(rounded):,.1f} %"
