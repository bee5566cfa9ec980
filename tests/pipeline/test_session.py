"""The settings of a session, and the sharing of an active one."""

from __future__ import annotations

import datetime
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from shoal.cli.support.spark import spark_command
from shoal.pipeline.session import LOCAL_PART_BYTES, spark_session


def test_times_are_utc_names_keep_their_case_and_errors_are_errors(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    table = spark.createDataFrame([(1, 2)], "open bigint, Open bigint")
    assert table.where("Open = 2 AND open = 1").count() == 1


def test_an_active_session_is_shared_and_left_running(spark: SparkSession) -> None:
    home = os.environ.get("JAVA_HOME")
    with spark_session("inner", shuffle_partitions=3) as inner:
        assert inner.sparkContext is spark.sparkContext
        assert inner.conf.get("spark.sql.shuffle.partitions") == "3"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert os.environ.get("JAVA_HOME") == home
    row = spark.sql("SELECT timestamp_micros(0) AS start").first()
    assert row is not None
    assert isinstance(row["start"], datetime.datetime)


def test_a_large_file_is_read_in_many_parts(spark: SparkSession, tmp_path: Path) -> None:
    """For minutes nobody saw how far it was: the parts were as many as cores."""
    large = tmp_path / "large.csv"
    with large.open("wb") as file:
        file.truncate(4 * LOCAL_PART_BYTES)
    assert spark.read.text(str(large)).rdd.getNumPartitions() >= 4


def test_a_command_says_how_many_parts_spark_has_done(spark: SparkSession, tmp_path: Path) -> None:
    gate = tmp_path / "open"

    def held(rows: Iterator[int]) -> Iterator[int]:
        while not gate.exists():
            time.sleep(0.01)
        return rows

    with spark_command("test", master="local[2]", memory="1g") as (_, line):
        parts = spark.sparkContext.parallelize(range(3), 3)
        counting = threading.Thread(target=lambda: parts.mapPartitions(held).count())
        counting.start()
        until = time.monotonic() + 60
        # A job of an earlier test may come to its end first.
        while "0 of 3 parts" not in (said := line.text()) and time.monotonic() < until:
            time.sleep(0.1)
        gate.touch()
        counting.join()
    assert re.search(r", step \d+: 0 of 3 parts, ", said)
    assert "parts" not in line.text()
