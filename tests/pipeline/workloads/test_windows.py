"""Windows of event time, and their replay."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from shoal.pipeline.workloads.windows import (
    TimeWindow,
    WindowError,
    events_within,
    instant,
    month,
    with_replay_time,
)

DAY_US = 86_400_000_000


@pytest.mark.parametrize("text", ["2013", "2013-13", "2013-00", "0000-01", "13-01", "January"])
def test_what_is_no_month_is_refused(text: str) -> None:
    with pytest.raises(WindowError, match=text):
        month(text)


def test_december_ends_with_the_year() -> None:
    assert month("2013-12").to_us == instant("2014-01-01T00:00:00Z")


def test_offsets_are_understood_and_nonsense_refused() -> None:
    assert instant("1970-01-01T01:00+01:00") == 0
    with pytest.raises(ValueError, match="yesterday"):
        instant("yesterday")
    with pytest.raises(WindowError, match="ends before it begins"):
        TimeWindow(5, 5)


def test_the_replay_is_linear_and_in_whole_microseconds(spark: SparkSession) -> None:
    times = [0, DAY_US, 30 * DAY_US, 31 * DAY_US - 1, 31 * DAY_US]
    rows = [("P", number, time_us, None) for number, time_us in enumerate(times)]
    events = spark.createDataFrame(
        rows, "publisher string, sequence bigint, time_us bigint, attributes struct<a: bigint>"
    )
    window = TimeWindow(0, 31 * DAY_US)
    replayed = with_replay_time(events_within(events, window), window, 31_000_000)
    assert [row["replay_us"] for row in replayed.orderBy("sequence").collect()] == [
        0,
        1_000_000,
        30_000_000,
        30_999_999,
    ]
    as_it_was = with_replay_time(events.where("sequence > 0"), TimeWindow(), None)
    first = as_it_was.orderBy("sequence").first()
    assert first is not None
    assert first["replay_us"] == 0
