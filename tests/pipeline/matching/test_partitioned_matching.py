"""Partitioned matching gives the pairs of matching with broadcast subscriptions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from shoal.frames.errors import TableError
from shoal.language import parse
from shoal.pipeline.matching import partitioned_matching
from shoal.pipeline.matching.compiled_matching import match_tables
from shoal.pipeline.matching.matching_job import publications_frame
from shoal.pipeline.matching.partitioned_matching import (
    PartitionSpread,
    match_partitioned,
    shipments,
)
from tests.examples import at_length
from tests.pipeline.matching.test_compiled_matching import (
    CONJUNCTION_TYPES,
    CONJUNCTIONS,
    naive_pairs,
    pairs_of,
    texts_frame,
)
from tests.pipeline.matching.test_matching_job import NAMES, ONE_TYPE_EACH, gather, random_texts
from tests.strategies import attributes


@pytest.fixture
def small_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned_matching, "SUBSCRIPTIONS_AIM", 120)
    monkeypatch.setattr(partitioned_matching, "OPENING", 0)


def boxes_frame(spark: SparkSession, size: int) -> DataFrame:
    random = np.random.default_rng(7)
    columns: dict[str, Any] = {"id": np.arange(size) + 100}
    for name, centre in (("a", 300), ("b", 700)):
        low = random.normal(centre, 150, size)
        columns[f"{name}.low"] = pa.array(low, mask=random.random(size) < 0.02)
        columns[f"{name}.high"] = low + random.choice([5.0, 50.0], size)
    columns["kind"] = pa.array(random.choice(["x", "y", "zebra"], size), mask=low < 600)
    return spark.createDataFrame(pa.table(columns)).repartition(3)


def points_frame(spark: SparkSession, size: int) -> DataFrame:
    random = np.random.default_rng(8)
    columns = {
        "id": np.arange(size),
        "a": pa.array(random.uniform(0, 1000, size), mask=random.random(size) < 0.02),
        "b": np.where(random.random(size) < 0.02, np.nan, random.normal(700, 200, size)),
        "kind": random.choice(["x", "y", "zebra", "none"], size),
    }
    return spark.createDataFrame(pa.table(columns)).repartition(3)


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("dimension", ["kind", *at_length([None])])
def test_the_same_pairs_as_where_every_worker_has_all(
    spark: SparkSession, dimension: str | None
) -> None:
    publications, subscriptions = points_frame(spark, 800), boxes_frame(spark, 600)
    expected = pairs_of(match_tables(publications, subscriptions), "id")
    assert len(expected) > 200
    found = match_partitioned(publications, subscriptions, dimension=dimension)
    assert pairs_of(found, "id") == expected
    assert found.columns == ["id", "subscription"]


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize(
    "row", [*at_length([st.fixed_dictionaries({}, optional=ONE_TYPE_EACH)]), attributes(NAMES)]
)
def test_filters_of_every_kind(spark: SparkSession, row: Any) -> None:
    publications, texts = gather(row, 80), random_texts(60)
    frame = publications_frame(spark, publications)
    found = match_partitioned(frame, texts_frame(spark, texts), key=["number"])
    assert pairs_of(found) == naive_pairs(publications, [parse(text) for text in texts])


@pytest.mark.soak
@pytest.mark.usefixtures("small_partitions")
def test_conjunctions_of_every_kind(spark: SparkSession) -> None:
    publications = gather(st.fixed_dictionaries({}, optional=ONE_TYPE_EACH), 80)
    rows = gather(CONJUNCTIONS, 150)
    columns: dict[str, Any] = {
        name: pa.array([row[name] for row in rows], kind)
        for name, kind in CONJUNCTION_TYPES.items()
    }
    table = spark.createDataFrame(pa.table(columns | {"id": range(len(rows))}))
    frame = publications_frame(spark, publications)
    found = match_partitioned(frame, table, key=["number"])
    assert pairs_of(found) == pairs_of(match_tables(frame, table, key=["number"]))


def test_empty_tables_and_nothing_to_spread_by(spark: SparkSession) -> None:
    points, boxes = points_frame(spark, 20), boxes_frame(spark, 20)
    assert pairs_of(match_partitioned(points.where("FALSE"), boxes), "id") == set()
    assert pairs_of(match_partitioned(points, boxes.where("FALSE")), "id") == set()
    everything = texts_frame(spark, ["TRUE", "nobody = 1"])
    assert pairs_of(match_partitioned(points, everything), "id") == {(n, 0) for n in range(20)}


def test_a_crowd_of_publications_is_matched_by_several_tasks(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioned_matching, "PUBLICATIONS_AIM", 100)
    spreads = []
    of = PartitionSpread.of
    monkeypatch.setattr(
        PartitionSpread, "of", lambda *given: spreads.append(of(*given)) or spreads[-1]
    )
    publications, subscriptions = points_frame(spark, 800), boxes_frame(spark, 50)
    found = pairs_of(match_partitioned(publications, subscriptions), "id")
    assert found == pairs_of(match_tables(publications, subscriptions), "id")
    assert spreads[0].tasks.max() > 1


def test_publications_that_change_between_readings_are_noticed(spark: SparkSession) -> None:
    plan = partitioned_matching.make_plan(
        [
            partitioned_matching.Sampled(
                "a", False, np.arange(4), np.arange(4.0), np.arange(4.0), np.arange(4.0)
            )
        ],
        sample=4,
        subscriptions=4,
        aim=1,
        opening=0,
    )
    spread = PartitionSpread.of(plan, {0: 5})
    batch = pa.record_batch({"attribute0": [0.0, 3.0]})
    with pytest.raises(ValueError, match="changed between two readings"):
        spread.of_publications(batch, {"a": "attribute0"})


def test_shipments_gather_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned_matching, "SHIPMENT_ROWS", 5)
    batches = [pa.record_batch({"a": [at, at + 1, at + 2]}) for at in (0, 10, 20)]
    shipped = list(
        shipments(
            batches,
            lambda batch: (np.array([0, 1, 2, 2]), np.array([7, 3, 7, 3])),
            are_publications=True,
        )
    )
    assert [batch.column("slot").to_pylist() for batch in shipped] == [[3, 7], [3, 7]]
    rows = [rows.to_pydict()["a"] for _, rows in partitioned_matching.arrivals(shipped)]
    assert rows == [[1, 2], [0, 2], [21, 22], [20, 22]]


@pytest.mark.parametrize(
    ("subscriptions", "complaint"),
    [
        ([(1, 2.0), (None, 3.0)], "an id is null"),
        ([(1, 2.0), (7, float("nan"))], "id 7: column 'a.low': NaN demands what no filter can"),
        ([(1, float("-inf")), (7, float("inf"))], "id 7: column 'a.low': Infinity demands"),
        ([(1, "a ?")], "id 1: filter, line 1, column 3"),
        ([(1, "a ?"), (2, "a ="), (3, "")], r"column 3(.|\n)*and 2 more rows are wrong"),
    ],
)
def test_wrong_subscriptions_are_named(
    spark: SparkSession, subscriptions: list[Any], complaint: str
) -> None:
    kind = "filter string" if isinstance(subscriptions[0][1], str) else "`a.low` double"
    table = spark.createDataFrame(subscriptions, f"id bigint, {kind}")
    with pytest.raises(TableError, match=complaint):
        match_partitioned(points_frame(spark, 5), table)


def test_an_id_that_is_there_twice(spark: SparkSession) -> None:
    table = spark.createDataFrame([(1, 2.0), (1, 3.0)], "id bigint, `a.low` double")
    with pytest.raises(PythonException, match="id 1 stands in row 1 too"):
        match_partitioned(points_frame(spark, 5), table).collect()


def test_a_dimension_that_there_is_not(spark: SparkSession) -> None:
    with pytest.raises(TableError, match=r"cannot spread by 'c'.*'a', 'b', 'kind'"):
        match_partitioned(points_frame(spark, 5), boxes_frame(spark, 5), dimension="c")
