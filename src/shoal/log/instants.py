"""Times as people write them for a log.

>>> instant_us("1970-01-01T00:01"), instant_us("1970-01-01T01:00+01:00")
(60000000, 0)
"""

from __future__ import annotations

import datetime
import re

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_LAST_US = 253_402_300_799 * 1_000_000
_AGO = re.compile(r"-([0-9]+(?:\.[0-9]+)?)([smhd])", re.ASCII)
_UNIT_US = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
EARLIEST = "earliest"


def instant_us(text: str) -> int:
    """The µs since 1970 of an ISO time, in UTC if it has no zone; ValueError for another text."""
    at = datetime.datetime.fromisoformat(text)
    at = at.replace(tzinfo=datetime.UTC) if at.tzinfo is None else at
    return max(0, (at - _EPOCH) // _MICROSECOND)


def begin_us(text: str, now_us: int) -> int:
    """A begin of reading in µs: a time, how long ago, or `earliest`; ValueError for another text.

    >>> begin_us("-90s", 100_000_000), begin_us("1970-01-01T00:01", 0), begin_us("earliest", 7)
    (10000000, 60000000, 0)
    """
    if text == EARLIEST:
        return 0
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return max(0, now_us - round(float(ago[1]) * _UNIT_US[ago[2]]))
    try:
        return instant_us(text)
    except ValueError:
        raise ValueError(
            f"{text[:80]!r}: write earliest, 2026-11-30T08:00, or -1h (s, m, h, d)"
        ) from None


def instant_text(time_us: int) -> str:
    """The ISO time, in UTC, of µs since 1970, at most the last one of year 9999.

    >>> instant_text(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    time_us = min(max(time_us, 0), _LAST_US)
    at = datetime.datetime.fromtimestamp(time_us // 1_000_000, datetime.UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{time_us % 1_000_000:06}Z"
