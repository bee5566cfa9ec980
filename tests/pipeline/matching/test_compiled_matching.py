"""The compiled engine on Spark, Spark SQL and naive matching give the same pairs."""

from __future__ import annotations

import datetime
import decimal
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from shoal.frames import matching
from shoal.frames.errors import TableError, TableWarning
from shoal.language import parse
from shoal.matching import matches
from shoal.model import Filter
from shoal.pipeline.matching.compiled_matching import match_tables
from shoal.pipeline.matching.matching_job import judged_pairs, publications_frame
from shoal.pipeline.matching.partitioned_matching import match_partitioned
from shoal.pipeline.matching.subscription_tables import read_subscriptions
from tests.examples import at_length
from tests.pipeline.matching.test_matching_job import (
    NAMES,
    ONE_TYPE_EACH,
    Publication,
    gather,
    random_texts,
)
from tests.strategies import NUMBERS, STRINGS, attributes

Pairs = set[tuple[Any, Any]]

BOUNDS = st.one_of(st.none(), st.sampled_from([n for n in NUMBERS if isinstance(n, int)]))
# A table's row: each column may be null; only some demand what a publication could have.
CONJUNCTIONS = st.fixed_dictionaries(
    {
        "a": st.one_of(st.none(), st.none(), BOUNDS),
        "a.low": BOUNDS,
        "a.high": BOUNDS,
        "b.low": st.one_of(st.none(), st.sampled_from([float("-inf"), -1.5, 0.0, 2.0**53])),
        "b.high": st.one_of(st.none(), st.sampled_from([float("inf"), 1e300, 0.5])),
        "c": st.one_of(st.none(), st.none(), st.none(), st.sampled_from(STRINGS[:6])),
        "A": st.one_of(st.none(), st.none(), st.booleans()),
        "missing": st.one_of(st.none(), st.none(), st.none(), st.just("x")),
    }
)
CONJUNCTION_TYPES = {
    "a": pa.int64(),
    "a.low": pa.int64(),
    "a.high": pa.int64(),
    "b.low": pa.float64(),
    "b.high": pa.float64(),
    "c": pa.string(),
    "A": pa.bool_(),
    "missing": pa.string(),
}


def pairs_of(table: DataFrame, key: str = "number") -> Pairs:
    rows = [(row[key], row["subscription"]) for row in table.collect()]
    assert len(rows) == len(set(rows)), "a pair is there twice"
    return set(rows)


def naive_pairs(publications: Sequence[Publication], filters: Sequence[Filter]) -> Pairs:
    return {
        (number, id)
        for number, publication in enumerate(publications)
        for id, filter in enumerate(filters)
        if matches(filter, publication)
    }


def texts_frame(spark: SparkSession, texts: Sequence[str]) -> DataFrame:
    return spark.createDataFrame(list(enumerate(texts)), "id bigint, filter string")


def check(
    publications: DataFrame,
    subscriptions: DataFrame,
    truth: Pairs,
    key: Sequence[str] = ("number",),
) -> None:
    assert pairs_of(match_tables(publications, subscriptions, key=key, warn=False)) == truth
    assert pairs_of(judged_pairs(publications, subscriptions, key=key, warn=False)) == truth


@pytest.mark.parametrize(
    "row", [st.fixed_dictionaries({}, optional=ONE_TYPE_EACH), *at_length([attributes(NAMES)])]
)
def test_three_engines_agree_on_filters(spark: SparkSession, row: Any) -> None:
    publications, texts = gather(row, 80), random_texts(60)
    truth = naive_pairs(publications, [parse(text) for text in texts])
    assert len(truth) > 300
    check(publications_frame(spark, publications), texts_frame(spark, texts), truth)


@pytest.mark.soak
def test_three_engines_agree_on_conjunctions_in_columns(spark: SparkSession) -> None:
    publications = gather(st.fixed_dictionaries({}, optional=ONE_TYPE_EACH), 100)
    rows = gather(CONJUNCTIONS, 200)
    columns: dict[str, Any] = {
        name: pa.array([row[name] for row in rows], kind)
        for name, kind in CONJUNCTION_TYPES.items()
    }
    table = spark.createDataFrame(pa.table(columns | {"id": range(len(rows))}))
    filters = [filter for _, filter in read_subscriptions(table).filters()]
    truth = naive_pairs(publications, filters)
    assert len(truth) > 1_000
    check(publications_frame(spark, publications), table, truth)


@pytest.mark.parametrize("engine", [match_tables, *at_length([judged_pairs, match_partitioned])])
def test_a_test_that_no_publication_can_pass_is_warned_of(
    spark: SparkSession, engine: Callable[..., DataFrame]
) -> None:
    """As the command does; in columns and in texts."""
    publications = spark.createDataFrame([(1, 5)], "id bigint, size bigint")
    texts = texts_frame(spark, ["siz > 4", "size > 4"])
    with pytest.warns(TableWarning, match=r"^no publication has siz, .*did you mean size\?$"):
        assert pairs_of(engine(publications, texts), "id") == {(1, 1)}
    columns = spark.createDataFrame([(1, 4.0, None)], "id bigint, `a.low` double, `b.low` double")
    with pytest.warns(TableWarning) as told:
        assert pairs_of(engine(publications, columns), "id") == set()
    assert [str(each.message)[:21] for each in told] == ["no publication has a,"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", TableWarning)
        assert pairs_of(engine(publications, texts, warn=False), "id") == {(1, 1)}


def test_flat_tables_with_columns_of_every_type(spark: SparkSession) -> None:
    publications = spark.createDataFrame(
        [
            ("p1", 1, 1.5, True, "x", datetime.date(2026, 1, 1)),
            ("p2", 300, float("nan"), False, "y", None),
            (None, None, None, None, None, None),
        ],
        "id string, `small one` smallint, f float, yes boolean, `a.b` string, day date",
    )
    subscriptions = spark.createDataFrame(
        [
            ("small", "`small one` < 300"),
            ("nan", "f > 1e308"),
            ("half", "f = 1.5 AND yes"),
            ("dotted", "`a.b` >= 'y'"),
            ("none", "nobody IS NULL AND yes IS NULL"),
        ],
        "id string, filter string",
    )
    found = {("p1", "small"), ("p2", "nan"), ("p1", "half"), ("p2", "dotted"), (None, "none")}
    assert pairs_of(match_tables(publications, subscriptions), "id") == found
    assert pairs_of(judged_pairs(publications, subscriptions), "id") == found


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (datetime.date(2026, 1, 1), "date"),
        *at_length([((1,), "struct<x:bigint>")]),
        *at_length([(decimal.Decimal("1.50"), "decimal(10,2)")]),
    ],
)
def test_a_type_that_no_value_has_is_an_error_only_if_it_is_asked_for(
    spark: SparkSession, value: object, kind: str
) -> None:
    publications = spark.createDataFrame([(7, value, 1)], f"id int, odd {kind}, a bigint")
    assert pairs_of(match_tables(publications, texts_frame(spark, ["a = 1"])), "id") == {(7, 0)}
    for engine in (match_tables, judged_pairs):
        with pytest.raises(TableError, match=r"attribute 'odd' is .*cast the column"):
            engine(publications, texts_frame(spark, ["a = 1 OR odd IS NULL"]))


def test_keys_of_any_number_and_type_are_carried(spark: SparkSession) -> None:
    publications = spark.createDataFrame(
        [("UA", 1, (5,)), ("UA", 2, None)],
        "publisher string, sequence bigint, attributes struct<delay: bigint>",
    ).withColumn("at", F.lit(datetime.datetime(2026, 1, 2)))
    subscriptions = spark.createDataFrame(
        [("s", "delay > 4")], "subscription string, filter string"
    )
    pairs = match_tables(publications, subscriptions)
    assert [tuple(row) for row in pairs.collect()] == [("UA", 1, "s")]
    assert pairs.columns == ["publisher", "sequence", "subscription"]
    timed = match_tables(publications, subscriptions, key=["at", "sequence"])
    assert [tuple(row) for row in timed.collect()] == [(datetime.datetime(2026, 1, 2), 1, "s")]


@pytest.mark.parametrize("engine", [match_tables, *at_length([judged_pairs])])
def test_empty_tables(spark: SparkSession, engine: Callable[..., DataFrame]) -> None:
    nothing = spark.createDataFrame([], "id bigint, a bigint")
    one = spark.createDataFrame([(1, 5)], "id bigint, a bigint")
    ranges = spark.createDataFrame([(1, 4.0, None)], "id bigint, `a.low` double, `a.high` double")
    assert pairs_of(engine(nothing, texts_frame(spark, ["a = 5", "TRUE"])), "id") == set()
    assert pairs_of(engine(one, texts_frame(spark, ["TRUE", "b = 1"])), "id") == {(1, 0)}
    assert pairs_of(engine(one, ranges), "id") == {(1, 1)}
    assert pairs_of(engine(one, texts_frame(spark, [])), "id") == set()
    assert pairs_of(engine(one, ranges.select("id")), "id") == {(1, 1)}


def test_long_answers_come_in_pieces(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("x", "a >= 0"), ("y", "a >= 3"), ("z", "a >= 6")]
    table = spark.createDataFrame(rows, "id string, filter string")
    monkeypatch.setattr(matching, "FIRST_PUBLICATIONS", 2)
    monkeypatch.setattr(matching, "PAIRS_AIM", 6)
    answering = matching.FrameMatcher(read_subscriptions(table), 1, ["a"])
    batch = pa.record_batch({"key0": range(10), "attribute0": [*range(9), None]})
    pieces = [piece.to_pydict() for piece in answering.answers(batch)]
    assert [piece["key0"] for piece in pieces] == [[0, 1], [2, 3, 4, 5, 6, 7], [8, 9]]
    answers = [ids for piece in pieces for ids in piece["answers"]]
    assert answers == [["x"]] * 3 + [["x", "y"]] * 3 + [["x", "y", "z"]] * 3 + [[]]


@pytest.mark.parametrize(
    ("publications", "subscriptions", "complaint"),
    [
        ("a bigint", "id string, filter string", "publications: there is no column 'id'"),
        ("id bigint", "filter string", r"no column 'id' \(or 'subscription'\).* are filter"),
        ("id bigint", "id double, filter string", "column 'id' is double; an id is"),
        ("id bigint", "id string, filter bigint", "column 'filter' is bigint; a filter is a text"),
        ("id bigint", "id string, `a.low` string", "column 'a.low' is string; a bound is"),
        ("id bigint", "id string, day date", "column 'day' is date.*leave the column out"),
        ("id bigint, attributes bigint", "id string, a string", "it must be a struct"),
    ],
)
def test_tables_of_a_wrong_shape(
    spark: SparkSession, publications: str, subscriptions: str, complaint: str
) -> None:
    tables = [spark.createDataFrame([], schema) for schema in (publications, subscriptions)]
    for engine in (match_tables, judged_pairs):
        with pytest.raises(TableError, match=complaint.replace(" is string;", " is .*string;")):
            engine(*tables)


@pytest.mark.parametrize(
    ("rows", "schema", "complaint"),
    [
        ([("s", "a"), ("t", "a ?")], "filter string", "row 2 .id 't'.: filter, line 1, column 3"),
        ([("s", "a"), ("t", None)], "filter string", "row 2 .id 't'.: the filter is null"),
        ([("s", "a"), (None, "a")], "filter string", "row 2: the id is null"),
        ([("s", "a"), ("s", "b")], "filter string", "row 2: id 's' stands in row 1 too"),
        ([("s", 1.0), ("s", 2.0)], "`a.low` double", "row 2: id 's' stands in row 1 too"),
        ([("s", 1.0), ("t", math.nan)], "`a.low` double", "row 2, column 'a.low': nan"),
        ([("s", math.inf)], "`a.low` double", "row 1, column 'a.low': inf"),
        ([("s", -math.inf)], "a double", "row 1, column 'a': -inf"),
        ([(f"s{at}", "a =") for at in range(9)], "filter string", "and 6 more rows are wrong"),
    ],
)
def test_a_wrong_row_is_named(
    spark: SparkSession, rows: list[Any], schema: str, complaint: str
) -> None:
    subscriptions = spark.createDataFrame(rows, f"id string, {schema}").coalesce(1)
    with pytest.raises(TableError, match=complaint):
        read_subscriptions(subscriptions)


def test_more_subscriptions_than_a_worker_holds(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.pipeline.matching.subscription_tables.MAX_SUBSCRIPTIONS", 1)
    ranges = spark.createDataFrame([(1, 2.0), (2, None)], "id bigint, `a.low` double")
    for table in (texts_frame(spark, ["a", "b"]), ranges):
        with pytest.raises(TableError, match=r"^2 subscriptions .* --partition auto"):
            read_subscriptions(table)
