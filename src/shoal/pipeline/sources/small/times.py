"""Texts as times, in the formats that need no Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from functools import partial

from shoal.pipeline.small.tables import NeedsSparkError
from shoal.pipeline.sources.declaration import EPOCH_UNITS_PER_SECOND, ISO_8601
from shoal.pipeline.sources.words import (
    AROUND_EPOCH,
    EPOCH_PLACES,
    ISO_TIME,
    NUMBER,
    NUMBER_WITH_COMMA,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLACES = {1: 6, 1_000: 3, 1_000_000: 0}
_NUMBERS = {".": re.compile(NUMBER, re.ASCII), ",": re.compile(NUMBER_WITH_COMMA, re.ASCII)}
# As exact as Spark's decimals, which round half away from zero.
_DECIMALS = Context(prec=100, rounding=ROUND_HALF_UP)
_SMALLEST = Decimal(1).scaleb(-EPOCH_PLACES)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_PARTS = {"yyyy": r"(?P<y>\d{4})", "MM": r"(?P<mo>\d\d)", "dd": r"(?P<d>\d\d)",
          "HH": r"(?P<h>\d\d)", "mm": r"(?P<mi>\d\d)", "ss": r"(?P<s>\d\d)"}  # fmt: skip
_PATTERN = re.compile(
    r"'(?P<quoted>[^']+)'|(?P<fraction>S+)|(?P<part>([A-Za-z])\4*)|(?P<sign>[ :/.,_-])"
)


def time_parser(formats: Sequence[str], decimal: str = ".") -> Callable[[str], int | None]:
    """Return a parser of texts as µs since 1970 UTC, in the first of the formats that a text has.

    `decimal` stands before the decimals of a number.  None for a text of another form;
    NeedsSparkError for a format that only Spark knows.
    """
    parsers = [_time_parser(format, decimal) for format in formats]
    if not parsers:
        raise NeedsSparkError
    if len(parsers) == 1:
        return parsers[0]
    return lambda said: next(
        (found for parse in parsers if (found := parse(said)) is not None), None
    )


def integer(said: str) -> int | None:
    """The whole number of 64 bits that a text is, or None."""
    value = int(said) if _INTEGER.fullmatch(said) else None
    return value if value is not None and -(2**63) <= value < 2**63 else None


def _time_parser(format: str, decimal: str) -> Callable[[str], int | None]:
    """Return a parser of texts of a format as µs since 1970 UTC; it returns None for a text of
    another form.
    """
    units = EPOCH_UNITS_PER_SECOND.get(format)
    if units is not None:
        return partial(_since_1970, places=_PLACES[units], form=_NUMBERS[decimal])
    pattern = re.compile(ISO_TIME, re.ASCII) if format == ISO_8601 else _regular_expression(format)
    return lambda said: _moment(pattern.fullmatch(said))


def _since_1970(said: str, places: int, form: re.Pattern[str]) -> int | None:
    """Return the whole microseconds of a number with its point so many places too far left.

    >>> _since_1970("1.7E9", 6, _NUMBERS["."]), _since_1970("-0.0000015", 6, _NUMBERS["."])
    (1700000000000000, -2)
    """
    text = said.strip(AROUND_EPOCH)
    if not form.fullmatch(text):
        return None
    try:
        number = _DECIMALS.create_decimal(text.replace(",", ".")).scaleb(places, _DECIMALS)
        rounded = number.quantize(_SMALLEST, context=_DECIMALS)
    except ArithmeticError:  # it is beyond all times
        return None
    value = int(rounded.to_integral_value(ROUND_FLOOR))
    return value if -(2**63) <= value < 2**63 else None


def _regular_expression(format: str) -> re.Pattern[str]:
    """NeedsSparkError for a pattern with anything but years down to fractions of seconds."""
    found, place = [], 0
    while place < len(format):
        token = _PATTERN.match(format, place)
        if token is None:
            raise NeedsSparkError
        place = token.end()
        if token["fraction"]:
            if len(token["fraction"]) > 6:
                raise NeedsSparkError
            found.append(rf"(?P<f>\d{{1,{len(token['fraction'])}}})")
        elif token["part"]:
            if token["part"] not in _PARTS or _PARTS[token["part"]] in found:
                raise NeedsSparkError
            found.append(_PARTS[token["part"]])
        else:
            found.append(re.escape(token["quoted"] or token["sign"]))
    if not {_PARTS[name] for name in ("yyyy", "MM", "dd")} <= set(found):
        raise NeedsSparkError
    return re.compile("".join(found), re.ASCII)


def _moment(found: re.Match[str] | None) -> int | None:
    if found is None:
        return None
    said = found.groupdict()
    try:
        moment = datetime(
            int(said["y"]),
            int(said["mo"]),
            int(said["d"]),
            int(said.get("h") or 0),
            int(said.get("mi") or 0),
            int(said.get("s") or 0),
            int((said.get("f") or "0").ljust(6, "0")[:6]),
            tzinfo=UTC,
        )
    except ValueError:
        return None
    ahead = _ahead_of_utc(said.get("zone") or "Z")
    return (moment - ahead - _EPOCH) // timedelta(microseconds=1)


def _ahead_of_utc(zone: str) -> timedelta:
    """
    >>> _ahead_of_utc("-0130") == -timedelta(hours=1, minutes=30)
    True
    """
    digits = zone[1:].replace(":", "").ljust(4, "0")
    ahead = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -ahead if zone.startswith("-") else ahead
