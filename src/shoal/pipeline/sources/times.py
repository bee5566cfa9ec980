"""Columns of a file's values as columns of times, in µs since 1970 UTC.

>>> forms = time_forms(["epoch_s", "iso8601"], ".")
>>> texts = pa.array(["-0.0000015", "2026-01-31T01:00+01:00", "soon"])
>>> found, which = times_of(texts, forms, "UTC")
>>> found.to_pylist(), which.to_pylist()
([-2, 1769817600000000, None], [0, 1, None])
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above

from shoal.pipeline.sources.declaration import EPOCH_UNITS_PER_SECOND, ISO_8601
from shoal.pipeline.sources.values import as_texts, converted
from shoal.pipeline.sources.words import (
    AROUND_EPOCH,
    EPOCH_PLACES,
    ISO_TIME,
    NUMBER,
    NUMBER_WITH_COMMA,
)

NO_FORM = -1

_Numbers = npt.NDArray[np.int64]

_NUMBERS = {".": re.compile(NUMBER, re.ASCII), ",": re.compile(NUMBER_WITH_COMMA, re.ASCII)}
# As exact as Spark's decimals, which round half away from zero.
_DECIMALS = Context(prec=100, rounding=ROUND_HALF_UP)
_SMALLEST = Decimal(1).scaleb(-EPOCH_PLACES)
_LETTERS = {"yyyy": "y", "MM": "mo", "dd": "d", "HH": "h", "mm": "mi", "ss": "s"}
_PARTS = {letters: f"(?P<{name}>[0-9]{{{len(letters)}}})" for letters, name in _LETTERS.items()}
_PATTERN = re.compile(
    r"'(?P<quoted>[^']+)'|(?P<fraction>S+)|(?P<part>([A-Za-z])\4*)|(?P<sign>[ :/.,_-])"
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<h>[0-9]{1,2})(?::?(?P<mi>[0-9]{2}))?")
_MINUTE_US, _DAY_US = 60_000_000, 86_400_000_000


class TimeForm(Protocol):
    """A form of texts that say a time."""

    def times(self, texts: pa.Array, zone: tzinfo | None) -> pa.Array:
        """Return the µs since 1970, null for a text of another form; `zone` is of those without."""


def time_forms(formats: Sequence[str], decimal: str) -> list[TimeForm | None]:
    """The forms of a declaration's formats; None for a pattern that only Spark knows.

    `decimal` stands before the decimals of a number.
    """
    return [_time_form(format, decimal) for format in formats]


def times_of(
    column: pa.Array, forms: Sequence[TimeForm | None], zone: str
) -> tuple[pa.Array, pa.Array]:
    """The times of a column that `present` gave, and the place of the form that each text has.

    A column of dates or times needs no form, and has NO_FORM; `zone` is of times that do not tell
    theirs.
    """
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        found = column.cast(pa.timestamp("us", getattr(kind, "tz", None))).cast(pa.int64())
        if getattr(kind, "tz", None) is None:
            found = _in_zone(found, np.full(len(found), True), time_zone(zone))
        return found, pa.repeat(pa.scalar(NO_FORM, pa.int32()), len(column))
    if pa.types.is_float32(kind):
        # A double has the text of its shortest decimal, which a float does not have.
        column = column.cast(pa.float64())
    texts = column if pa.types.is_string(kind) else as_texts(column)
    found, which = pa.nulls(len(texts), pa.int64()), pa.nulls(len(texts), pa.int32())
    for place, form in enumerate(forms):
        if form is not None:
            more = form.times(pc.if_else(found.is_null(), texts, None), time_zone(zone))
            which = pc.coalesce(
                which, pc.if_else(more.is_valid(), pa.scalar(place, pa.int32()), None)
            )
            found = pc.coalesce(found, more)
    return found, which


def time_zone(name: str) -> tzinfo | None:
    """A time zone by its name or its offset, None for UTC; ValueError if there is none.

    >>> time_zone("UTC"), time_zone("GMT+2")
    (None, datetime.timezone(datetime.timedelta(seconds=7200)))
    """
    if name in ("UTC", "Z"):
        return None
    if offset := _OFFSET.fullmatch(name):
        return timezone(_offset(offset["sign"], offset["h"], offset["mi"] or "0"))
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError(f"{name!r}: there is no such time zone") from None


def _time_form(format: str, decimal: str) -> TimeForm | None:
    units = EPOCH_UNITS_PER_SECOND.get(format)
    if units is not None:
        return _Epoch(len(str(1_000_000 // units)) - 1, decimal)
    pattern = ISO_TIME if format == ISO_8601 else _regular_expression(format)
    return None if pattern is None else _Written(pattern)


class _Epoch(NamedTuple):
    """Numbers since 1970, with the point `places` before their microseconds."""

    places: int
    decimal: str

    def times(self, texts: pa.Array, zone: tzinfo | None) -> pa.Array:
        """Return the µs, rounded down."""
        most = 18 - self.places
        point = re.escape(self.decimal)
        form = rf"^(?P<whole>[0-9]{{1,{most}}})(?:{point}(?P<part>[0-9]{{0,{EPOCH_PLACES}}}))?$"

        def fast(short: pa.Array) -> pa.Array:
            groups = pc.extract_regex(short, form)
            whole, part = (pc.struct_field(groups, [name]) for name in ("whole", "part"))
            found = pc.multiply(whole.cast(pa.int64()), 10**self.places)
            if not self.places:
                return found
            digits = pc.utf8_slice_codeunits(pc.utf8_rpad(part, self.places, "0"), 0, self.places)
            return pc.add(found, digits.cast(pa.int64()))

        return converted(pc.ascii_trim(texts, AROUND_EPOCH), form, fast, self._exact)

    def _exact(self, said: str) -> int | None:
        """
        >>> _Epoch(6, ".")._exact("1.7E9"), _Epoch(6, ".")._exact("-0.0000015")
        (1700000000000000, -2)
        """
        if not _NUMBERS[self.decimal].fullmatch(said):
            return None
        try:
            number = _DECIMALS.create_decimal(said.replace(",", "."))
            scaled = number.scaleb(self.places, _DECIMALS)
            rounded = scaled.quantize(_SMALLEST, context=_DECIMALS)
        except ArithmeticError:  # it is beyond all times
            return None
        value = int(rounded.to_integral_value(ROUND_FLOOR))
        return value if -(2**63) <= value < 2**63 else None


class _Written(NamedTuple):
    """Dates and times of day, by a regular expression with a group for each part."""

    pattern: str

    def times(self, texts: pa.Array, zone: tzinfo | None) -> pa.Array:
        """Return the µs since 1970."""
        groups = pc.extract_regex(texts, self.pattern)
        names = [groups.type.field(place).name for place in range(groups.type.num_fields)]
        said = {name: pc.struct_field(groups, [name]) for name in names}
        year, month, day, hour, minute, second = (
            _number(said.get(name), len(texts)) for name in ("y", "mo", "d", "h", "mi", "s")
        )
        fraction = np.zeros(len(texts), np.int64)
        if "f" in said:
            fraction = _number(
                pc.utf8_slice_codeunits(pc.utf8_rpad(said["f"], 6, "0"), 0, 6), len(texts)
            )
        days, is_day = _days(year, month, day)
        ok = np.asarray(groups.is_valid()) & is_day & (hour < 24) & (minute < 60) & (second < 60)
        minutes = (days * 24 + hour) * 60 + minute
        found = pa.array((minutes * 60 + second) * 1_000_000 + fraction, mask=~ok)
        zones = said.get("zone")
        if zones is None:
            return _in_zone(found, ok, zone)
        coded = zones.fill_null("").dictionary_encode()
        offsets = np.array([_ahead_us(each) for each in coded.dictionary.to_pylist()], np.int64)
        codes = np.asarray(coded.indices)
        found = pc.subtract(found, pa.array(offsets[codes] if len(offsets) else codes, pa.int64()))
        return _in_zone(found, ok & np.asarray(pc.equal(zones.fill_null(""), "")), zone)


def _number(texts: pa.Array | None, count: int) -> _Numbers:
    """The numbers of digits; 0 where there are none."""
    if texts is None:
        return np.zeros(count, np.int64)
    return np.asarray(pc.if_else(pc.equal(texts, ""), "0", texts).fill_null("0").cast(pa.int64()))


def _days(year: _Numbers, month: _Numbers, day: _Numbers) -> tuple[_Numbers, npt.NDArray[np.bool_]]:
    """The days since 1970 of dates, and which of them are dates."""
    ok = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    months = np.where(ok, (year - 1970) * 12 + month - 1, 0)
    first, after = (
        (months + more).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        for more in (0, 1)
    )
    return first + day - 1, ok & (day <= after - first)


def _in_zone(found: pa.Array, local: npt.NDArray[np.bool_], zone: tzinfo | None) -> pa.Array:
    """Times, of which the `local` were read as UTC, and are of this zone.

    A time that a clock skips, or shows twice, has the offset from before the clock was changed.
    """
    if zone is None or not local.any():
        return found
    values = np.asarray(found.fill_null(0))
    minutes, places = np.unique(np.where(local, values // _MINUTE_US, 0), return_inverse=True)
    ahead = np.array([_offset_us(int(minute), zone) for minute in minutes], np.int64)
    moved = np.where(local, values - ahead[places], values)
    return pa.array(moved, mask=np.asarray(found.is_null()))


def _offset_us(minute: int, zone: tzinfo) -> int:
    try:
        moment = (datetime(1970, 1, 1) + timedelta(minutes=minute)).replace(tzinfo=zone)
    except OverflowError:
        return 0
    offset = moment.utcoffset()
    return 0 if offset is None else offset // timedelta(microseconds=1)


def _ahead_us(zone: str) -> int:
    """
    >>> _ahead_us("-0130"), _ahead_us("Z")
    (-5400000000, 0)
    """
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return 0
    return _offset(found["sign"], found["h"], found["mi"] or "0") // timedelta(microseconds=1)


def _offset(sign: str, hours: str, minutes: str) -> timedelta:
    ahead = timedelta(hours=int(hours), minutes=int(minutes))
    return -ahead if sign == "-" else ahead


def _regular_expression(format: str) -> str | None:
    """None for a pattern with anything but years down to fractions of seconds."""
    found: list[str] = []
    place = 0
    while place < len(format):
        token = _PATTERN.match(format, place)
        if token is None:
            return None
        place = token.end()
        if token["fraction"]:
            if len(token["fraction"]) > 6 or any("<f>" in each for each in found):
                return None
            found.append(rf"(?P<f>[0-9]{{1,{len(token['fraction'])}}})")
        elif token["part"]:
            if token["part"] not in _PARTS or _PARTS[token["part"]] in found:
                return None
            found.append(_PARTS[token["part"]])
        else:
            found.append(re.escape(token["quoted"] or token["sign"]))
    if not {_PARTS[name] for name in ("yyyy", "MM", "dd")} <= set(found):
        return None
    return f"^{''.join(found)}$"
