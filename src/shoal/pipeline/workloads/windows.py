"""Selects the replayed part of the publications, and the speed of the replay.

A window of event time, from inclusive to exclusive, is mapped linearly onto virtual time from 0:
a month of flights in ten minutes, say.  Without a duration the replay is as slow as the events.

>>> january = month("2013-01")
>>> january.from_us, (january.to_us - january.from_us) // 86_400_000_000
(1356998400000000, 31)
>>> instant("2013-02-01") == january.to_us
True
"""

from __future__ import annotations

import re

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from shoal.frames.times import instant


class WindowError(ValueError):
    """A time or a window that cannot be."""


class TimeWindow(msgspec.Struct, frozen=True):
    """Event time from `from_us` to just before `to_us`; None leaves that end open."""

    from_us: int | None = None
    to_us: int | None = None

    def __post_init__(self) -> None:
        if self.from_us is not None and self.to_us is not None and self.from_us >= self.to_us:
            raise WindowError("the window ends before it begins: --to must be after --from")


def month(text: str) -> TimeWindow:
    """The month `YYYY-MM`, in UTC."""
    found = re.fullmatch(r"(\d{4})-(\d{2})", text)
    if found is None or not 1 <= int(found[2]) <= 12 or int(found[1]) < 1:
        raise WindowError(f"{text!r} is not a month; write it as 2013-01")
    year, number = int(found[1]), int(found[2])
    following = f"{year + number // 12:04}-{number % 12 + 1:02}-01"
    return TimeWindow(instant(f"{text}-01"), instant(following))


def events_within(publications: DataFrame, window: TimeWindow) -> DataFrame:
    """The publications in the window."""
    if window.from_us is not None:
        publications = publications.where(F.col("time_us") >= window.from_us)
    if window.to_us is not None:
        publications = publications.where(F.col("time_us") < window.to_us)
    return publications


def bounds(events: DataFrame, window: TimeWindow) -> tuple[int, int]:
    """Return begin and end of the replay of the events, in event time."""
    found = events.agg(F.min("time_us"), F.max("time_us") + 1).first()
    assert found is not None
    low = window.from_us if window.from_us is not None else found[0]
    high = window.to_us if window.to_us is not None else found[1]
    return low, high


def replay_time(time_us: int, ends: tuple[int, int], duration_us: int | None) -> int:
    """A time's place in a replay; before it or after it, too.

    >>> replay_time(150, (100, 200), 10), replay_time(150, (100, 200), None)
    (5, 50)
    """
    low, high = ends
    return time_us - low if duration_us is None else (time_us - low) * duration_us // (high - low)


def with_replay_time(events: DataFrame, window: TimeWindow, duration_us: int | None) -> DataFrame:
    """The events with `replay_us`, which is 0 where the window begins.

    An open end of the window lies at the first, or just after the last, of the events.
    """
    ends = events.agg(F.min("time_us").alias("low"), (F.max("time_us") + 1).alias("high"))
    if window.from_us is not None:
        ends = ends.withColumn("low", F.lit(window.from_us))
    if window.to_us is not None:
        ends = ends.withColumn("high", F.lit(window.to_us))
    replay = F.expr("time_us - low")
    if duration_us is not None:
        # A month of microseconds times minutes of them is beyond 64 bits.
        replay = F.expr(
            f"(CAST(time_us - low AS DECIMAL(19, 0)) * CAST({duration_us} AS DECIMAL(19, 0)))"
            " div (high - low)"
        )
    return events.crossJoin(F.broadcast(ends)).select(
        "publisher", "sequence", "time_us", "attributes", replay.alias("replay_us")
    )
