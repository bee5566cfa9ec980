"""Filters with expressions: Spark SQL against the evaluator, on columns of one type and mixed."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from shoal.frames.matching import match_frame
from shoal.language import FilterSyntaxError, format_filter, parse
from shoal.matching import matches
from shoal.model import Filter
from shoal.pipeline.matching.compiled_matching import match_tables
from shoal.pipeline.matching.matching_job import (
    judged_pairs,
    matching_pairs,
    publications_frame,
)
from shoal.pipeline.matching.spark_expressions import ConditionSizeError
from shoal.pipeline.matching.spark_filters import spark_condition
from tests.matching.test_derived import some_filter
from tests.model.expression_strategies import some_attributes, with_list_texts

# Spark makes upper(x) of upper(lower(x)), which differs for some letters.
_EXCLUDED = "org.apache.spark.sql.catalyst.optimizer.SimplifyCaseConversionExpressions"


@pytest.fixture
def judging(spark: SparkSession) -> Any:
    """Long conditions take Spark minutes to compile; interpreted they mean the same."""
    settings = {
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.optimizer.excludedRules": _EXCLUDED,
    }
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def _of_one_type(publications: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kinds: dict[str, type] = {}
    return [
        {n: v for n, v in each.items() if kinds.setdefault(n, type(v)) is type(v)}
        for each in publications
    ]


def _judge(spark: SparkSession, seed: int, filters: int, messages: int, *, mixed: bool) -> None:
    chance = random.Random(seed)
    publications = [with_list_texts(some_attributes(chance)) for _ in range(messages)]
    if not mixed:
        publications = _of_one_type(publications)
    frame = publications_frame(spark, publications)
    columns = frame.schema["attributes"].dataType
    texts: list[str] = []
    while len(texts) < filters:
        text = format_filter(Filter(some_filter(chance)))
        try:
            parse(text)
            spark_condition(text, columns)
        except (FilterSyntaxError, ConditionSizeError):
            continue  # constants of a wrong kind; SQL beyond the limit
        texts.append(text)
    pairs = matching_pairs(frame, list(enumerate(texts)), key_columns=["number"])
    found = {tuple(row) for row in pairs.collect()}
    parsed = [parse(text) for text in texts]
    for number, attributes in enumerate(publications):
        for at, filter in enumerate(parsed):
            wanted = matches(filter, attributes)
            assert ((number, at) in found) is wanted, (texts[at], attributes)


@pytest.mark.parametrize("mixed", [False, True])
def test_spark_matches_random_expressions_alike(judging: SparkSession, mixed: bool) -> None:
    _judge(judging, 5, 8, 25, mixed=mixed)


@pytest.mark.soak
@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("seed", range(20))
def test_spark_matches_many_random_expressions_alike(
    judging: SparkSession, seed: int, ansi: str
) -> None:
    before = judging.conf.get("spark.sql.ansi.enabled")
    judging.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        _judge(judging, 100 + seed, 40, 100, mixed=seed % 2 == 0)
    finally:
        judging.conf.set("spark.sql.ansi.enabled", str(before))


def test_the_size_of_a_missing_list_is_missing_without_ansi(judging: SparkSession) -> None:
    """Spark's own `size` of null is -1 then."""
    before = judging.conf.get("spark.sql.ansi.enabled")
    judging.conf.set("spark.sql.ansi.enabled", "false")
    try:
        frame = publications_frame(judging, [{"$list.l": "[]"}, {"a": 1}])
        pairs = matching_pairs(frame, [(0, "size(l) < 1")], key_columns=["number"])
        assert [tuple(row) for row in pairs.collect()] == [(0, 0)]
    finally:
        judging.conf.set("spark.sql.ansi.enabled", str(before))


def test_both_engines_match_nested_fields_and_lists(judging: SparkSession) -> None:
    publications = judging.sql(
        "SELECT 1L AS id, named_struct('lat', 52.51D, 'lon', 13.41D) AS position, "
        "array('a', 'b') AS tags, array(41.5D, 5D) AS temps, 3 AS a, 2.5D AS b "
        "UNION ALL SELECT 2L, named_struct('lat', 0D, 'lon', 0D), array(), null, 4, null"
    )
    texts = [
        "distance(position.lat, position.lon, 52.5, 13.4) <= 5000",
        "array_contains(tags, 'b') AND a > b",
        "forall(temps, t -> t > 4.5 AND t < a * 20)",
        "size(tags) = 0 AND coalesce(b, a) = 4",
        "round(a / 3, 2) = 1.33 OR a || 'x' = '3x'",
    ]
    subscriptions = judging.createDataFrame(list(enumerate(texts)), "id bigint, filter string")
    wanted = {(1, 0), (1, 1), (1, 2), (2, 3), (2, 4)}
    for match in (match_tables, judged_pairs):
        pairs = match(publications, subscriptions)
        assert {(row[0], row[1]) for row in pairs.collect()} == wanted, match
    # And in memory, without Spark.
    in_memory = match_frame(publications.toArrow(), subscriptions.toArrow())
    assert {tuple(row.values()) for row in in_memory.to_pylist()} == wanted
