"""What a session promises, and that an active one is shared."""

from __future__ import annotations

import datetime
import os

from pyspark.sql import SparkSession

from shoal.pipeline.session import spark_session


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
