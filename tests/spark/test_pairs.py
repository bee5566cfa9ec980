"""Pairs by the front door: all ways agree, streams and logs are read, misses are explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import shoal.spark
from shoal.frames.errors import TableError, TableWarning
from shoal.spark.pairs import EXPLAINED
from tests.spark.conftest import Start

FILTERS = [("late", "delay > 30"), ("united", "carrier = 'UA'"), ("never", "delay > 900")]
FLIGHTS = [("p1", "UA", 45), ("p2", "DL", 31), ("p3", None, None)]
PAIRS = [("p1", "late"), ("p1", "united"), ("p2", "late")]


def flights(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(FLIGHTS, "id string, carrier string, delay bigint")


def filters(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(FILTERS, "id string, filter string")


def rows(table: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in table.collect())


def test_all_ways_give_the_same_pairs(spark: SparkSession, tmp_path: Path) -> None:
    given, wanted = flights(spark), filters(spark)
    for options in ({}, {"how": "partitioned"}, {"how": "partitioned", "by": "delay"}):
        assert rows(shoal.spark.match(given, wanted, **options)) == PAIRS, options
    assert rows(shoal.spark.match(given, wanted, how="sql")) == PAIRS
    shoal.spark.write(given, tmp_path / "flights")
    shoal.spark.write(wanted, tmp_path / "filters")
    uri = (tmp_path / "filters").as_uri()
    assert rows(shoal.spark.match(tmp_path / "flights", uri)) == PAIRS
    keyed = shoal.spark.match(given.withColumn("day", given.delay + 1), wanted, key=["id", "day"])
    assert keyed.columns == ["id", "day", "subscription"]


def test_what_cannot_be_matched_is_named(spark: SparkSession, tmp_path: Path) -> None:
    given, wanted = flights(spark), filters(spark)
    shoal.spark.write(given, tmp_path / "flights")
    stream = spark.readStream.schema(given.schema).parquet(str(tmp_path / "flights"))
    for call, error, text in (
        (lambda: shoal.spark.match(given, wanted, how="cleverly"), ValueError, "use broadcast"),
        (lambda: shoal.spark.match(given, wanted, by="delay"), ValueError, "how='partitioned'"),
        (
            lambda: shoal.spark.match(stream, wanted, how="partitioned"),
            TableError,
            "cannot be partitioned",
        ),
        (lambda: shoal.spark.match(given, stream), TableError, "subscriptions: a stream"),
        (lambda: shoal.spark.profile(stream, wanted), TableError, "profile its batches"),
        (
            lambda: shoal.spark.match(given, wanted.replace("delay > 30", "delay >")),
            TableError,
            "late",
        ),
    ):
        with pytest.raises(error, match=text):
            call()  # type: ignore[no-untyped-call]
    with pytest.warns(TableWarning, match="no publication has dealy") as warned:
        shoal.spark.match(given, wanted.replace("delay > 30", "dealy > 30"))
    assert warned[0].filename == __file__


def test_settings_that_would_change_a_result_are_named(spark: SparkSession) -> None:
    users = spark.newSession()
    users.conf.set("spark.sql.caseSensitive", "false")
    given, wanted = flights(users), filters(users)
    assert rows(shoal.spark.match(given, wanted)) == PAIRS
    with pytest.raises(shoal.spark.SettingError, match=r"caseSensitive is false.*prepare"):
        shoal.spark.match(given, wanted, how="sql")
    assert shoal.spark.prepare(users) is users
    assert rows(shoal.spark.match(given, wanted, how="sql")) == PAIRS


def test_late_pairs_are_left_out_by_a_watermark_of_the_pairs(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Rates by hour; a file at a time, as Spark's option says."""
    # Spark takes a row for late by the watermark of the batch before the last.
    batches = (["08:10", "08:20"], ["11:00"], ["11:10"], ["08:30", "11:30"], ["15:00"])
    for name, times in enumerate(batches):
        rows = [(f"{name}-{at}", f"2026-01-01 {at}:00", 40) for at in times]
        table = spark.createDataFrame(rows, "id string, at string, delay int").coalesce(1)
        table.withColumn("at", F.col("at").cast("timestamp")).write.mode("append").parquet(
            str(tmp_path / "flights")
        )
    stream = (
        spark.readStream.schema("id string, at timestamp, delay int")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "flights"))
    )
    wanted = spark.createDataFrame([("late", "delay > 30")], "id string, filter string")
    pairs = shoal.spark.match(stream, wanted, key=["id", "at"]).withWatermark("at", "1 hour")
    counts = pairs.groupBy("subscription", F.window("at", "1 hour")).count()
    query = (
        counts.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .format("parquet")
        .start(str(tmp_path / "counts"))
    )
    query.awaitTermination()
    found = spark.read.parquet(str(tmp_path / "counts")).select("window.start", "count").collect()
    assert sorted((row[0].hour, row[1]) for row in found) == [(8, 2), (11, 3)]


def test_a_stream_of_publications_gives_a_stream_of_pairs(
    spark: SparkSession, tmp_path: Path
) -> None:
    shoal.spark.write(flights(spark), tmp_path / "flights")
    stream = spark.readStream.schema(flights(spark).schema).parquet(str(tmp_path / "flights"))
    pairs = shoal.spark.match(stream, filters(spark), how="sql")
    assert pairs.isStreaming
    query = (
        pairs.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .format("parquet")
        .start(str(tmp_path / "pairs"))
    )
    query.awaitTermination()
    assert rows(spark.read.parquet(str(tmp_path / "pairs"))) == PAIRS


def test_each_miss_is_explained_and_each_match(spark: SparkSession) -> None:
    why = shoal.spark.explain(flights(spark), filters(spark))
    assert why.columns == ["id", "subscription", "matches", "verdict", "why"]
    found = {(row.id, row.subscription): row for row in why.collect()}
    assert len(found) == 9
    assert sorted(pair for pair, row in found.items() if row.matches) == PAIRS
    assert {pair for pair, row in found.items() if row.verdict == "TRUE"} == set(PAIRS)
    assert found["p2", "united"].verdict == "FALSE"
    assert "carrier is 'DL', not 'UA'" in found["p2", "united"].why
    assert found["p3", "late"].verdict == "UNKNOWN"
    assert "delay is missing" in found["p3", "late"].why
    # An attribute that no filter names, and that one of them means.
    misspelt = shoal.spark.explain(
        flights(spark).where("id = 'p1'"),
        spark.createDataFrame([(7, "dellay > 30")], "id int, filter string"),
    ).collect()
    assert [row.subscription for row in misspelt] == [7]
    assert "delay" in misspelt[0].why.partition("missing")[2]


def test_many_pairs_are_explained_in_pieces(spark: SparkSession) -> None:
    size = EXPLAINED // 100 + 1
    wanted = spark.createDataFrame(
        [(f"s{n}", f"x = {n}") for n in range(size)], "id string, filter string"
    )
    given = spark.range(101).selectExpr("id", f"id % {size} AS x").coalesce(1)
    why = shoal.spark.explain(given, wanted)
    assert why.count() == 101 * size > EXPLAINED
    assert why.where("matches").count() == 101
    assert why.select("id", "subscription").distinct().count() == 101 * size


def test_filters_are_profiled(spark: SparkSession) -> None:
    wanted = filters(spark).union(
        spark.createDataFrame([("odd", "gate = 3 OR delay > 40")], "id string, filter string")
    )
    found = shoal.spark.profile(flights(spark), wanted)
    assert rows(found.filters) == [
        ("late", 2, 2 / 3),
        ("never", 0, 0.0),
        ("odd", 1, 1 / 3),
        ("united", 1, 1 / 3),
    ]
    assert rows(found.publications) == [("p1", 3), ("p2", 1), ("p3", 0)]
    assert sorted(found.attributes.collect(), key=lambda row: str(row.attribute)) == [
        Row(attribute="carrier", type="string", present=2, publications=3, filters=1),
        Row(attribute="delay", type="bigint", present=2, publications=3, filters=3),
        Row(attribute="gate", type=None, present=0, publications=3, filters=1),
    ]
    nothing = shoal.spark.profile(flights(spark).where("false"), filters(spark).limit(1))
    assert rows(nothing.filters) == [("late", 0, None)]
    assert nothing.publications.collect() == []


def test_a_log_is_publications_with_the_attributes_that_brokers_see(
    spark: SparkSession, start: Start, tmp_path: Path
) -> None:
    brokers = start(2)
    brokers.publish("B1", "flights/UA", *(json.dumps({"delay": n}).encode() for n in (5, 45)))
    brokers.publish("B2", "flights/DL/x", b'{"delay": 50, "topic": "mine"}')
    shoal.spark.prepare(spark)
    reader = spark.read.format("shoal").option("network", str(brokers.file))
    log = reader.option("attributes", "delay BIGINT").load()
    wanted = spark.createDataFrame(
        [
            ("late", "delay > 30"),
            ("united", "`$topic` = 'flights/UA'"),
            ("deep", "`$levels` = 3 AND `$topic.1` = 'DL'"),
        ],
        "id string, filter string",
    )
    pairs = shoal.spark.match(log, wanted)
    assert pairs.columns == ["broker", "offset", "subscription"]
    assert rows(pairs) == [
        ("B1", 0, "united"),
        ("B1", 1, "late"),
        ("B1", 1, "united"),
        ("B2", 0, "deep"),
        ("B2", 0, "late"),
    ]
    timed = shoal.spark.match(log, wanted, key=["broker", "offset", "time"])
    assert timed.select("time").distinct().count() == 3
    # The column of the log is no attribute, as the broker has none of that name.
    with pytest.warns(TableWarning, match="no publication has topic"):
        none = shoal.spark.match(log, wanted.limit(1).replace("delay > 30", "topic = 'mine'"))
    assert none.collect() == []
    assert rows(shoal.spark.profile(log, wanted).filters)[0] == ("deep", 1, 1 / 3)
