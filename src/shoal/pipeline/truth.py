"""The expected deliveries: the matches of publications and subscriptions, according to Spark SQL.

The filters of a workload are judged as the texts they are, by Spark, over the workload's events;
none of our matching takes part.  A run is correct when its deliveries are these, each once.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession

from shoal.frames.errors import TableError
from shoal.frames.folders import EVENTS, new_folder
from shoal.pipeline.checks.provenance import write_note
from shoal.pipeline.matching.matching_job import matching_pairs
from shoal.pipeline.schemas import (
    ATTRIBUTES,
    COMING_AND_GOING,
    PUBLICATION_KEY,
    SUBSCRIPTIONS,
    TRUTH,
)
from shoal.pipeline.tables import read_table, spark_path, write_table

# Each filter becomes a condition in Spark's plan, so their texts are needed where it is made.
MAX_SUBSCRIPTIONS = 100_000


class TruthCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of the compared tables, and the number of expected deliveries."""

    publications: int
    subscriptions: int
    expected: int


def write_truth(
    spark: SparkSession, workload: Path, out: Path, *, overwrite: bool = False
) -> TruthCounts:
    """Write the truth table of a workload folder to `out`."""
    events, subscriptions = _read(spark, workload)
    with new_folder(out, overwrite=overwrite) as folder:
        write_table(expected_deliveries(events, subscriptions), folder)
        write_note(workload, folder, out)
    return TruthCounts(
        publications=events.count(),
        subscriptions=subscriptions.count(),
        expected=spark.read.parquet(spark_path(out)).count(),
    )


def expected_deliveries(events: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """One row (publisher, sequence, subscription) per delivery that must happen.

    `subscriptions` has the columns subscription and filter; ValueError names a wrong filter.
    """
    texts = [
        (row["subscription"], row["filter"])
        for row in subscriptions.select("subscription", "filter")
        .orderBy("subscription")
        .limit(MAX_SUBSCRIPTIONS + 1)
        .collect()
    ]
    if len(texts) > MAX_SUBSCRIPTIONS:
        raise TableError(
            f"more than {MAX_SUBSCRIPTIONS} subscriptions; judge them in several parts"
        )
    come_and_go = "from_us" in subscriptions.columns
    key = (*PUBLICATION_KEY, "replay_us") if come_and_go else PUBLICATION_KEY
    pairs = matching_pairs(events, texts, key_columns=key, attributes=ATTRIBUTES)
    if come_and_go:
        pairs = _in_time(pairs, subscriptions)
    return pairs.select(*TRUTH.names)


def _in_time(pairs: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Of the pairs those that were published while the subscription was there."""
    stays = subscriptions.select("subscription", "from_us", "to_us")
    return pairs.join(stays, "subscription").where(
        "(from_us IS NULL OR from_us <= replay_us) AND (to_us IS NULL OR replay_us < to_us)"
    )


def _read(spark: SparkSession, workload: Path) -> tuple[DataFrame, DataFrame]:
    if not workload.is_dir():
        raise TableError(f"{workload} is not a folder; make one with `shoal workload`")
    file = workload / "subscriptions.parquet"
    subscriptions = read_table(spark, file, SUBSCRIPTIONS)
    if "from_us" in spark.read.parquet(spark_path(file)).columns:
        subscriptions = read_table(spark, file, COMING_AND_GOING)
    path = workload / EVENTS
    if not path.exists():
        raise TableError(f"{path} does not exist")
    events = spark.read.parquet(spark_path(path))
    for name in (*PUBLICATION_KEY, ATTRIBUTES):
        if name not in events.columns:
            raise TableError(f"{path} lacks the column {name!r}")
    return events, subscriptions
