"""The truth without Spark equals Spark's on the same workload."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from shoal.frames.errors import TableError
from shoal.pipeline.checks.provenance import DEFINITIONS, SPARK, judge_of
from shoal.pipeline.schemas import COMING_AND_GOING, arrow_schema
from shoal.pipeline.small import judge
from shoal.pipeline.small import truth as small_truth
from shoal.pipeline.small.tables import NeedsSparkError, write_part
from shoal.pipeline.small.truth import write_small_truth
from shoal.pipeline.truth import write_truth
from tests.pipeline.matching.test_matching_job import ONE_TYPE_EACH, gather, random_texts

PART = "events/part-00000.parquet"
TYPES = {"a": pa.int64(), "b": pa.float64(), "c": pa.string(), "A": pa.bool_()}


def write_workload(folder: Path, texts: list[str], publications: int) -> Path:
    """Every attribute missing now and then; every third subscription comes and goes."""
    rows = gather(st.fixed_dictionaries({}, optional=ONE_TYPE_EACH), publications)
    kind = pa.struct(list(TYPES.items()))
    events = pa.table(
        {
            "publisher": [f"p{number % 3}" for number in range(len(rows))],
            "sequence": list(range(len(rows))),
            "replay_us": [number * 10 for number in range(len(rows))],
            "attributes": pa.array([{**dict.fromkeys(TYPES), **row} for row in rows], kind),
        }
    )
    wanted = [
        {
            "subscription": f"s{number:04}",
            "client": f"c{number}",
            "broker": "B1",
            "filter": text,
            "from_us": 100 if number % 3 == 0 else None,
            "to_us": 300 if number % 6 == 0 else None,
        }
        for number, text in enumerate(texts)
    ]
    folder.mkdir()
    write_part(events, folder / "events")
    subscriptions = pa.Table.from_pylist(wanted, arrow_schema(COMING_AND_GOING))
    pq.write_table(subscriptions, folder / "subscriptions.parquet")
    return folder


def test_both_expect_the_same_deliveries(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_truth, "PART", 50)
    workload = write_workload(tmp_path / "workload", random_texts(150), 120)
    small = write_small_truth(workload, tmp_path / "small")
    by_spark = write_truth(spark, workload, tmp_path / "spark")
    tables = [pq.read_table(tmp_path / each) for each in ("small", "spark")]
    assert (tables[0].column_names, tables[0].schema.types) == (
        tables[1].column_names,
        tables[1].schema.types,
    )
    rows = [sorted(tuple(row.values()) for row in table.to_pylist()) for table in tables]
    assert rows[0] == rows[1]
    assert small == by_spark
    assert len(rows[0]) > 1000
    assert judge_of(tmp_path / "small") == DEFINITIONS
    assert judge_of(tmp_path / "spark") == SPARK


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    workload = write_workload(tmp_path / "workload", ["a > 1", "a >"], 1)
    with pytest.raises(TableError, match="subscription 's0001': "):
        write_small_truth(workload, tmp_path / "truth")
    assert not (tmp_path / "truth").exists()
    pq.write_table(pa.table({"publisher": ["p"]}), workload / PART)
    with pytest.raises(TableError, match="lacks the column 'sequence'"):
        write_small_truth(workload, tmp_path / "truth")
    with pytest.raises(TableError, match="make one with `shoal workload`"):
        write_small_truth(tmp_path / "nowhere", tmp_path / "truth")


def test_what_is_large_or_mixed_is_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = write_workload(tmp_path / "workload", ["a > 1"], 2)
    events = pq.read_table(workload / PART).drop_columns("attributes")
    mixed = pa.array([{"a": {"bigint": 1, "string": None}}] * events.num_rows)
    pq.write_table(events.append_column("attributes", mixed), workload / PART)
    with pytest.raises(NeedsSparkError):
        write_small_truth(workload, tmp_path / "truth")
    large = write_workload(tmp_path / "large", ["c LIKE 'a%'"], 30)
    write_small_truth(large, tmp_path / "not so large")
    for module, most in (
        (small_truth, "MOST_BYTES"),
        (small_truth, "MOST_PAIRS"),
        (judge, "MOST_LOOKS"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, most, 3)
            with pytest.raises(NeedsSparkError):
                write_small_truth(large, tmp_path / "truth")
