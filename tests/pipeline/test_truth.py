"""The truth by Spark: the events are read once, also where subscriptions come and go."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from shoal.pipeline.matching.matching_job import FILTERS_PER_PROJECTION
from shoal.pipeline.truth import expected_deliveries

EVENTS = "publisher string, sequence bigint, replay_us bigint, attributes struct<a: bigint>"
SUBSCRIPTIONS = "subscription string, filter string, from_us bigint, to_us bigint"


def test_the_events_are_read_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("P", number, 10 * number, (number % 3,)) for number in range(9)]
    spark.createDataFrame(rows, EVENTS).write.parquet(str(tmp_path / "events"))
    others = [(f"n{number}", "a < 0", None, None) for number in range(2 * FILTERS_PER_PROJECTION)]
    wanted = [("always", "a = 1", None, None), ("late", "a = 1", 40, 70), *others]
    events = spark.read.parquet(str(tmp_path / "events"))
    found = expected_deliveries(events, spark.createDataFrame(wanted, SUBSCRIPTIONS))
    found.explain()
    assert capsys.readouterr().out.count("FileScan parquet") == 1
    assert sorted(map(tuple, found.collect())) == [
        ("P", 1, "always"),
        ("P", 4, "always"),
        ("P", 4, "late"),
        ("P", 7, "always"),
    ]
