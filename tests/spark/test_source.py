"""The data source `shoal`: a network's logs as tables and streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

import shoal.spark
from shoal.log.remote import LogAnswerError, RemoteLog
from shoal.spark.options import OptionError, read_options
from shoal.spark.ranges import FIXED
from shoal.spark.stream import LogStreamReader
from tests.runtime.live import until
from tests.spark.conftest import LoggingBrokers, Start


def table(spark: SparkSession, brokers: LoggingBrokers, **options: Any) -> DataFrame:
    spark.dataSource.register(shoal.spark.Source)
    reader = spark.read.format("shoal").option("network", str(brokers.file))
    return reader.options(**options).load()


def flights(number: int) -> list[bytes]:
    return [
        json.dumps({"delay": each, "carrier": f"C{each % 3}"}).encode() for each in range(number)
    ]


def test_a_network_is_a_table(spark: SparkSession, start: Start) -> None:
    brokers = start(2)
    brokers.publish("B1", "flights/UA", *flights(30))
    brokers.publish("B2", "flights/AA", *flights(10))
    brokers.publish("B2", "other", b"x")
    found = table(spark, brokers)
    assert found.columns[:4] == ["broker", "offset", "time", "publisher"]
    rows = found.collect()
    assert sorted((row.broker, row.offset) for row in rows) == [
        *(("B1", each) for each in range(30)),
        *(("B2", each) for each in range(11)),
    ]
    first = next(row for row in rows if (row.broker, row.offset) == ("B2", 3))
    assert (first.topic, bytes(first.payload)) == ("flights/AA", flights(4)[3])
    assert json.loads(first.attributes) == {"delay": 3, "carrier": "C0"}
    assert (first.publisher, first.qos, first.retain) == ("client of B2", 1, False)
    chosen = table(
        spark,
        brokers,
        topics="flights/UA, other",
        where="delay >= 20 OR `$topic` = 'other'",
        attributes="delay BIGINT, carrier STRING",
        partitionBytes="400",
    )
    assert chosen.rdd.getNumPartitions() > 4
    assert sorted((row.delay, row.carrier) for row in chosen.collect() if row.topic != "other") == [
        (each, f"C{each % 3}") for each in range(20, 30)
    ]
    assert [row.delay for row in chosen.where("topic = 'other'").collect()] == [None]


def test_a_schema_of_ones_own_names_all_columns(spark: SparkSession, start: Start) -> None:
    brokers = start()
    brokers.publish("B1", "t", b'{"x": 1}', b'{"x": 2.5}', b'{"x": "three"}')
    spark.dataSource.register(shoal.spark.Source)

    def read(schema: str, **options: str) -> list[Any]:
        reader = spark.read.format("shoal").schema(schema).option("network", str(brokers.file))
        return [tuple(row) for row in reader.options(**options).load().orderBy("offset").collect()]

    assert read("offset BIGINT, x DOUBLE") == [(0, 1.0), (1, 2.5), (2, None)]
    assert read("x STRING, offset BIGINT") == [(None, 0), (None, 1), ("three", 2)]
    with pytest.raises(PythonException, match=r"attribute x: 'three' is no double"):
        read("offset BIGINT, x DOUBLE", wrongTypes="fail")
    with pytest.raises(Exception, match="column time: its type is timestamp"):
        read("time STRING, offset BIGINT")
    with pytest.raises(Exception, match="topic is a column of every log"):
        table(spark, brokers, attributes="topic STRING").collect()
    with pytest.raises(Exception, match="an attribute is a STRING, BOOLEAN, BIGINT or DOUBLE"):
        read("x DATE, offset BIGINT")


def test_a_table_begins_and_ends_where_one_says(spark: SparkSession, start: Start) -> None:
    brokers = start(2)
    brokers.publish("B1", "t", b"0", b"1", b"2")
    brokers.publish("B2", "t", b"3")
    times = {bytes(row.payload): row.time for row in table(spark, brokers).collect()}

    def payloads(**options: str) -> list[bytes]:
        return sorted(bytes(row.payload) for row in table(spark, brokers, **options).collect())

    assert payloads(startingOffsets='{"B1": 1, "B2": 1}') == [b"1", b"2"]
    assert payloads(endingOffsets='{"B1": 1}') == [b"0"]
    assert payloads(startingOffsets="latest") == []
    at = times[b"3"].isoformat()
    assert payloads(startingOffsets=f"{at}+00:00") == [b"3"]
    with pytest.raises(Exception, match="there is no log of 'B9'"):
        payloads(startingOffsets='{"B9": 1}')
    with pytest.raises(Exception, match="the log of B1 ends at 1, before offset 2"):
        payloads(startingOffsets='{"B1": 2}', endingOffsets='{"B1": 1}')


def test_options_that_cannot_be_used_are_named() -> None:
    for given, text in (
        ({}, "option network: name the network file"),
        ({"topic": "a"}, "option topic: unknown; there are attributes, authority"),
        ({"topics": "a/#/b"}, "option topics:"),
        ({"where": "x >"}, "option where:"),
        ({"maxRowsPerTrigger": "many"}, "option maxRowsPerTrigger: 'many' is no whole number"),
        ({"startingOffsets": "soon"}, "option startingOffsets: 'soon': write earliest"),
        ({"wrongTypes": "guess"}, "option wrongTypes: 'guess': use null or fail"),
    ):
        options = {"network": "n.toml"} | given if given else {}
        with pytest.raises(OptionError) as refused:
            read_options(options)
        assert text in str(refused.value)


# --- streams --------------------------------------------------------------------------------------


class Stream:
    """A stream of a network's log into a folder of Parquet, run to its present end."""

    def __init__(
        self, spark: SparkSession, brokers: LoggingBrokers, folder: Path, **options: str
    ) -> None:
        spark.dataSource.register(shoal.spark.Source)
        self.spark = spark
        self.out, self._checkpoint = folder / "out", folder / "checkpoint"
        self._options = {"network": str(brokers.file)} | options

    def run(self) -> list[Any]:
        """Read all there is; the rows of all runs so far, by broker and offset."""
        stream = self.spark.readStream.format("shoal").options(**self._options).load()
        query = (
            stream.select("broker", "offset", "payload")
            .writeStream.format("parquet")
            .option("path", str(self.out))
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        self.batches = len([row for row in query.recentProgress if row["numInputRows"]])
        rows = self.spark.read.parquet(str(self.out)).orderBy("broker", "offset").collect()
        return [(row.broker, row.offset) for row in rows]


def test_a_stream_reads_each_record_once_and_goes_on_where_it_was(
    spark: SparkSession, start: Start, tmp_path: Path
) -> None:
    brokers = start(2)
    brokers.publish("B1", "t", *flights(7))
    stream = Stream(spark, brokers, tmp_path, maxRowsPerTrigger="3", reader="job")
    assert stream.run() == [("B1", each) for each in range(7)]
    assert stream.batches == 3
    brokers.publish("B1", "t", *flights(2))
    brokers.publish("B2", "t", *flights(3))
    everything = [("B1", each) for each in range(9)] + [("B2", each) for each in range(3)]
    assert stream.run() == everything
    assert stream.run() == everything
    (reader,) = brokers.log("B1")["readers"]
    assert (reader["name"], reader["offset"]) == ("job", 9)


def test_a_stream_from_the_end_needs_a_name_and_misses_nothing(
    spark: SparkSession, start: Start, tmp_path: Path
) -> None:
    brokers = start()
    brokers.publish("B1", "t", *flights(4))
    nameless = Stream(spark, brokers, tmp_path / "a", startingOffsets="latest")
    with pytest.raises(StreamingQueryException, match="needs a name"):
        nameless.run()
    # Spark asks for the first offset; then it is killed before its first batch is done.
    reader = shoal.spark.Source(
        {"network": str(brokers.file), "startingoffsets": "latest", "reader": "job"}
    )
    assert reader.streamReader(FIXED).initialOffset() == {"B1": 4}
    brokers.publish("B1", "t", *flights(3))
    stream = Stream(spark, brokers, tmp_path / "b", startingOffsets="latest", reader="job")
    assert stream.run() == [("B1", each) for each in range(4, 7)]


def test_records_that_are_gone_fail_a_stream_unless_it_is_to_go_on(
    spark: SparkSession, start: Start, tmp_path: Path
) -> None:
    brokers = start(keep_bytes=4_000, held_bytes=0)
    stream = Stream(spark, brokers, tmp_path)
    brokers.publish("B1", "t", b"x")
    assert stream.run() == [("B1", 0)]
    brokers.publish("B1", "t", *[b"x" * 400] * 40)

    async def deleted() -> None:
        await until(lambda: brokers.services["B1"].status()["log"]["first"] > 1)

    brokers.run(deleted())
    with pytest.raises(StreamingQueryException, match="to go on without them"):
        stream.run()
    first = brokers.log("B1")["first"]
    stream._options["failOnDataLoss"] = "false"
    assert stream.run() == [("B1", 0), *(("B1", each) for each in range(first, 41))]


def test_a_live_stream_gets_records_as_they_come(
    spark: SparkSession, start: Start, tmp_path: Path
) -> None:
    brokers = start()
    spark.dataSource.register(shoal.spark.Source)
    stream = (
        spark.readStream.format("shoal")
        .options(network=str(brokers.file), attributes="delay BIGINT", where="delay > 3")
        .load()
    )
    query = (
        stream.writeStream.format("memory")
        .queryName("late_flights")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        brokers.publish("B1", "t", *flights(6))
        query.processAllAvailable()
        assert [row.delay for row in spark.table("late_flights").collect()] == [4, 5]
        brokers.publish("B1", "t", *flights(5))
        query.processAllAvailable()
        assert [row.delay for row in spark.table("late_flights").collect()] == [4, 5, 4]
    finally:
        query.stop()


@pytest.mark.parametrize("question", ["bounds", "pin", "move"])
def test_a_broker_that_is_killed_between_two_questions_is_waited_for(
    question: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = start(2)
    brokers.publish("B2", "t", b"1", b"2")
    answer = getattr(RemoteLog, question)
    kills: Iterator[bool] = iter([True, False, True])

    def killed(log: RemoteLog, *given: Any) -> Any:
        if next(kills, False):
            raise LogAnswerError("does not answer: Connection refused")
        return answer(log, *given)

    def reader(missing: str) -> LogStreamReader:
        options = {"network": str(brokers.file), "reader": "r", "missingBrokers": missing}
        return LogStreamReader(read_options(options), FIXED)

    monkeypatch.setattr(RemoteLog, question, killed)
    stream = reader("wait")
    begin = stream.initialOffset()
    assert begin == {"B1": 0, "B2": 0}
    end = stream.latestOffset(begin, ReadAllAvailable())
    assert end == {"B1": 0, "B2": 2}
    assert [each.range.begin for each in stream.partitions(begin, end)] == [0]
    kills = repeat(True)
    with pytest.raises(LogAnswerError, match="Connection refused"):
        (hasty := reader("fail")).latestOffset(hasty.initialOffset(), ReadAllAvailable())
