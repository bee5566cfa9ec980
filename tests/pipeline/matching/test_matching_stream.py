"""A stream writes each pair once, despite interruptions."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from shoal.frames.errors import TableError
from shoal.pipeline.matching import matching_stream
from shoal.pipeline.matching.compiled_matching import match_tables
from shoal.pipeline.matching.matching_stream import (
    LatestSubscriptions,
    files_version,
    match_stream,
    read_source,
    read_stream,
)
from shoal.pipeline.matching.partitioned_matching import match_partitioned
from tests.examples import at_length

SUBSCRIPTIONS = [(10, 0.0, 4.0), (11, 3.0, 9.0)]


def arrive(folder: Path, *values: int) -> None:
    table = pa.table({"id": list(values), "a": [value % 10 for value in values]})
    pq.write_table(table, folder / f"{values[0]}.parquet")


def pairs_in(out: Path) -> list[tuple[int, int | str]]:
    rows = pq.read_table(out, partitioning=None).to_pylist()
    return sorted((row["id"], row["subscription"]) for row in rows)


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    arrive(folder, 1, 5)
    return folder


def engine(publications: DataFrame) -> DataFrame:
    schema = "id bigint, `a.low` double, `a.high` double"
    wanted = publications.sparkSession.createDataFrame(SUBSCRIPTIONS, schema)
    return match_tables(publications, wanted)


def partitioned(publications: DataFrame) -> DataFrame:
    schema = "id bigint, `a.low` double, `a.high` double"
    wanted = publications.sparkSession.createDataFrame(SUBSCRIPTIONS, schema)
    return match_partitioned(publications, wanted)


def run(spark: SparkSession, incoming: Path, out: Path, work: matching_stream.Engine) -> None:
    drain(read_stream(spark, incoming), out, work)


def drain(stream: DataFrame, out: Path, work: matching_stream.Engine) -> None:
    match_stream(stream, work, out, only_what_is_there=True).awaitTermination()


@pytest.mark.parametrize("work", [partitioned, *at_length([engine])])
def test_each_file_is_matched_once(
    spark: SparkSession, incoming: Path, tmp_path: Path, work: matching_stream.Engine
) -> None:
    out = tmp_path / "out"
    run(spark, incoming, out, work)
    assert pairs_in(out) == [(1, 10), (5, 11)]
    arrive(incoming, 13)
    arrive(incoming, 18)
    drain(read_stream(spark, incoming, {"maxFilesPerTrigger": "1"}), out, work)
    assert len(list(out.glob("batch=*"))) == 3
    run(spark, incoming, out, work)
    assert pairs_in(out) == [(1, 10), (5, 11), (13, 10), (13, 11), (18, 11)]


def test_a_batch_that_was_interrupted_is_repeated_not_doubled(
    spark: SparkSession, incoming: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    whole = matching_stream.write_batch

    def torn(*given: object) -> None:
        whole(*given)  # type: ignore[arg-type]
        raise RuntimeError("the power went off before the batch was noted as done")

    monkeypatch.setattr(matching_stream, "write_batch", torn)
    with pytest.raises(StreamingQueryException, match="the power went off"):
        run(spark, incoming, out, engine)
    assert pairs_in(out) == [(1, 10), (5, 11)]
    monkeypatch.setattr(matching_stream, "write_batch", whole)
    arrive(incoming, 24)
    run(spark, incoming, out, engine)
    assert pairs_in(out) == [(1, 10), (5, 11), (24, 10), (24, 11)]


def test_subscriptions_that_change_count_from_the_next_batch(
    spark: SparkSession, incoming: Path, tmp_path: Path
) -> None:
    wanted, out, reads = tmp_path / "wanted", tmp_path / "out", list[int]()

    def want(**filters: str) -> None:
        wanted.mkdir(exist_ok=True)
        rows = {"id": list(filters), "filter": list(filters.values())}
        pq.write_table(pa.table(rows), wanted / "1.parquet")

    def read(session: SparkSession) -> DataFrame:
        reads.append(1)
        return session.read.parquet(str(wanted))

    want(low="a < 4", high="a > 4")
    latest = LatestSubscriptions(spark, read, lambda: files_version(wanted))
    run(spark, incoming, out, latest)
    arrive(incoming, 12)
    run(spark, incoming, out, latest)
    assert len(reads) == 1
    want(high="a > 4", two="a = 2")
    arrive(incoming, 22)
    run(spark, incoming, out, latest)
    assert len(reads) == 2
    assert pairs_in(out) == [(1, "low"), (5, "high"), (12, "low"), (22, "two")]
    want(bad="a >")
    arrive(incoming, 32)
    with pytest.raises(StreamingQueryException, match="bad"):
        run(spark, incoming, out, latest)
    want(two="a = 2")
    run(spark, incoming, out, latest)
    assert pairs_in(out)[-1] == (32, "two")


def test_a_batch_of_many_parts_is_a_file(spark: SparkSession, tmp_path: Path) -> None:
    """Without adaptive execution, too, which may be off."""
    many = spark.range(0, 40, 1, 8).selectExpr("id", "id % 10 AS a")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        matching_stream.write_batch(engine, tmp_path, many, 3)
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert len(list((tmp_path / "batch=3").glob("*.parquet"))) == 1
    assert len(pairs_in(tmp_path)) == 48
    assert spark.read.parquet(str(tmp_path / "batch=3")).count() == 48


def test_a_folder_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="none is not a folder"):
        read_stream(spark, tmp_path / "none")


SOURCE = "tests.pipeline.matching.counting_source:"


def expected(count: int) -> list[tuple[int, int]]:
    wanted = [(number, 10) for number in range(count) if number % 10 <= 4]
    return sorted(wanted + [(number, 11) for number in range(count) if number % 10 >= 3])


@pytest.mark.parametrize("source", ["Simple", "Bounded", *at_length(["Counting"])])
def test_a_python_data_source_is_read_once_and_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """Also where the run ends between a batch's pairs and the note that it is done."""
    file, out = tmp_path / "count", tmp_path / "out"

    def run(count: int) -> None:
        file.write_text(str(count))
        drain(read_source(spark, SOURCE + source, {"file": str(file)}), out, engine)

    whole = matching_stream.write_batch

    def torn(*given: object) -> None:
        whole(*given)  # type: ignore[arg-type]
        raise RuntimeError("the power went off")

    monkeypatch.setattr(matching_stream, "write_batch", torn)
    with pytest.raises(StreamingQueryException, match="the power went off"):
        run(15)
    monkeypatch.setattr(matching_stream, "write_batch", whole)
    run(23)
    assert pairs_in(out) == expected(23)


@pytest.mark.soak
@pytest.mark.parametrize(("source", "batches"), [("Simple", 2), ("Bounded", 1)])
def test_a_killed_process_is_gone_on_with(
    spark: SparkSession, tmp_path: Path, source: str, batches: int
) -> None:
    file, out = tmp_path / "count", tmp_path / "out"
    file.write_text("20")
    module = "tests.pipeline.matching.killed_stream"
    words = [SOURCE + source, str(file), str(out), str(batches)]
    killed = subprocess.run([sys.executable, "-m", module, *words], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(out.glob("batch=*"))) == batches
    file.write_text("31")
    drain(read_source(spark, SOURCE + source, {"file": str(file)}), out, engine)
    assert pairs_in(out) == expected(31)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("no_such_module:Source", "cannot be imported"),
        ("tests.pipeline.matching.counting_source:Missing", "has no class Missing"),
        ("tests.pipeline.matching.counting_source:Span", "Span is no subclass of"),
        ("tests.pipeline.matching.counting_source:SOURCE", "has no class SOURCE"),
        ("pathlib:sys", "sys is no subclass of"),
    ],
)
def test_what_is_no_data_source(spark: SparkSession, name: str, complaint: str) -> None:
    with pytest.raises(TableError, match=complaint):
        read_source(spark, name, {})
