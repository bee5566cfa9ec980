"""The data source `shoal` as a sink: rows that are published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

import shoal.spark
from shoal.log.records import LogRecord
from shoal.log.remote import open_logs
from shoal.spark.options import OptionError
from shoal.spark.sink_rows import read_sink_options
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


def payloads(brokers: LoggingBrokers, beginning: str = "") -> list[str]:
    found = [each.payload.decode() for each in logged(brokers)]
    return sorted(each for each in found if each.startswith(beginning))


def test_a_write_under_a_name_is_published_once_however_often(
    spark: SparkSession, start: Start
) -> None:
    brokers = start(2)
    spark.dataSource.register(shoal.spark.Source)
    table = spark.range(0, 900, 1, 4).selectExpr("concat('row ', id) AS text")

    def write(rows: DataFrame, **options: str) -> None:
        writer = rows.write.format("shoal").option("network", str(brokers.file))
        writer = writer.options(topic="t", payloadColumn="text", **options)
        writer.mode("append").save()

    rows = sorted(f"row {number}" for number in range(900))
    for _ in range(2):
        write(table, writeId="mine")
    assert payloads(brokers) == rows
    # The next batch of the same writer, as of foreachBatch; then it is repeated with other rows.
    write(table.limit(3), writeId="mine", batch="1")
    write(table.limit(7), writeId="mine", batch="1")
    write(table.limit(7), writeId="mine", batch="0")
    assert len(payloads(brokers)) == 903
    # Without a name each write is one of its own, and leaves nothing behind.
    for _ in range(2):
        write(table.limit(2))
    assert len(payloads(brokers)) == 907
    staged = [row["query"] for each in brokers.services.values() for row in brokers.staged(each)]
    assert set(staged) == {"mine"}


def test_a_table_that_fails_publishes_nothing(spark: SparkSession, start: Start) -> None:
    brokers = start(2)
    spark.dataSource.register(shoal.spark.Source)
    table = spark.range(0, 400, 1, 2).selectExpr(
        "IF(id = 399, '', 'good') AS topic", "concat('row ', id) AS text"
    )
    writer = table.write.format("shoal").option("network", str(brokers.file)).mode("append")
    with pytest.raises(Exception, match=r"the row for topic ''"):
        writer.option("payloadColumn", "text").save()
    assert logged(brokers) == []


def test_a_stream_publishes_each_batch_once(
    spark: SparkSession, start: Start, tmp_path: Path
) -> None:
    """Also the batch whose end Spark has not noted: it is staged and committed again."""
    brokers = start(2)
    spark.dataSource.register(shoal.spark.Source)
    brokers.publish("B1", "flights", *[b"%d" % each for each in range(50)])

    def run() -> None:
        stream = spark.readStream.format("shoal").option("network", str(brokers.file))
        stream = stream.option("topics", "flights").option("maxRowsPerTrigger", "20").load()
        alerts = stream.selectExpr("concat('alert ', string(payload)) AS text").repartition(3)
        writer = alerts.writeStream.format("shoal").option("network", str(brokers.file))
        writer = writer.options(topic="alerts", payloadColumn="text")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    run()
    alerts = sorted(f"alert {each}" for each in range(50))
    assert payloads(brokers, "alert") == alerts
    commits = tmp_path / "checkpoint" / "commits"
    last = max((each for each in commits.glob("[0-9]*")), key=lambda each: int(each.name))
    for each in (last, commits / f".{last.name}.crc"):
        each.unlink()
    run()
    assert payloads(brokers, "alert") == alerts
    brokers.publish("B2", "flights", b"50")
    run()
    assert payloads(brokers, "alert") == sorted([*alerts, "alert 50"])


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
        (
            {"delivery": "exactly_once", **good},
            "option delivery: exactly_once needs the network file",
        ),
        (good | {"delivery": "twice"}, "option delivery: 'twice': use exactly_once or"),
        (good | {"writeId": "../x"}, "option writeId: '../x' is no name"),
        (good | {"batch": "-1"}, "option batch: '-1' is no whole number"),
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
