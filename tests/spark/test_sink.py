"""The data source `shoal` as a sink: rows that are published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

import shoal.spark
from shoal.log.records import LogRecord
from shoal.log.remote import open_logs
from shoal.spark.options import OptionError
from shoal.spark.sink import read_sink_options
from tests.spark.conftest import LoggingBrokers, Start

SCHEMA = (
    StructType().add("topic", StringType()).add("delay", LongType()).add("payload", BinaryType())
)


def logged(brokers: LoggingBrokers) -> list[LogRecord]:
    """The publications that the brokers have logged."""
    found = []
    for log in open_logs(str(brokers.file)).values():
        found += [record for _, record in log.page(0).records]
    return found  # type: ignore[return-value]


def at(brokers: LoggingBrokers) -> str:
    return ",".join(str(each.listening["mqtt"]) for each in brokers.services.values())


def test_a_table_is_published_row_by_row_in_order(spark: SparkSession, start: Start) -> None:
    brokers = start(2)
    spark.dataSource.register(shoal.spark.Source)
    rows = [(f"t/{number % 2}", number, None if number % 3 else "x") for number in range(1_200)]
    table = spark.createDataFrame(rows, "topic string, delay bigint, note string")
    writer = table.coalesce(1).write.format("shoal").option("brokers", at(brokers))
    writer.mode("append").save()
    (table.limit(4).repartition(2).write.format("shoal").option("brokers", at(brokers))
        .option("topic", "all").option("keyColumn", "delay").mode("append").save())  # fmt: skip
    found = logged(brokers)
    ours = [each for each in found if each.topic.startswith("t/")]
    assert [(each.topic, json.loads(each.payload)) for each in ours] == [
        (topic, {"delay": delay} | ({} if note is None else {"note": note}))
        for topic, delay, note in rows
    ]
    assert {each.properties.content_type for each in ours if each.properties} == {
        "application/json"
    }
    keyed = [each for each in found if each.topic == "all"]
    keys = [each.properties.user_properties for each in keyed if each.properties]
    assert sorted(keys) == [(("key", str(number)),) for number in range(4)]
    assert {tuple(json.loads(each.payload)) for each in keyed} == {("topic", "note"), ("topic",)}


def test_a_stream_of_alerts_goes_back_into_the_network(
    spark: SparkSession, start: Start, tmp_path: Path
) -> None:
    brokers = start()
    brokers.publish("B1", "flights", *[b'{"delay": %d}' % each for each in range(0, 100, 10)])
    spark.dataSource.register(shoal.spark.Source)
    stream = (
        spark.readStream.format("shoal")
        .options(network=str(brokers.file), topics="flights", attributes="delay BIGINT")
        .load()
    )
    query = (
        stream.where("delay > 60")
        .selectExpr("concat('alerts/', delay) AS topic", "payload")
        .writeStream.format("shoal")
        .option("brokers", at(brokers))
        .option("payloadColumn", "payload")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    alerts = [(each.topic, each.payload) for each in logged(brokers) if "alerts" in each.topic]
    assert alerts == [(f"alerts/{each}", b'{"delay": %d}' % each) for each in (70, 80, 90)]


def test_a_row_that_is_refused_names_its_reason(spark: SparkSession, start: Start) -> None:
    brokers = start()
    spark.dataSource.register(shoal.spark.Source)
    table = spark.createDataFrame([("a/#", 1)], "topic string, delay bigint")
    writer = table.write.format("shoal").option("brokers", at(brokers)).mode("append")
    with pytest.raises(Exception, match=r"the row for topic 'a/#'"):
        writer.save()


def test_options_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    good: dict[str, Any] = {"brokers": "127.0.0.1:1883"}
    for given, text in (
        ({}, "option brokers: name their addresses"),
        ({"brokers": "http://x"}, "option brokers: 'http://x'"),
        (good | {"qos": "3"}, "option qos: '3' is not 0, 1 or 2"),
        (good | {"topicColumn": "x"}, "option topicColumn: there is no column 'x'"),
        (good | {"topicColumn": "delay"}, "option topicColumn: column delay is bigint, not text"),
        (good | {"payloadColumn": "delay"}, "option payloadColumn: column delay is bigint"),
        (good | {"topics": "a"}, "option topics: unknown"),
        ({"network": str(tmp_path / "x.toml")}, "option network:"),
    ):
        with pytest.raises(OptionError) as refused:
            read_sink_options(given, SCHEMA)
        assert text in str(refused.value)
