"""Naive matching, the index, and Spark SQL give the same pairs for the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from shoal.cli.main import main
from shoal.language import format_filter, parse
from shoal.matching import MatchIndex, matches
from shoal.model import Filter, FilterError, Value
from shoal.pipeline.matching.matching_job import (
    FILTERS_PER_PROJECTION,
    matching_pairs,
    publications_frame,
)
from shoal.pipeline.matching.spark_filters import spark_condition
from tests.cli import test_match
from tests.strategies import NUMBERS, STRINGS, attributes, conjunctions, filters

Publication = dict[str, Value]

NAMES = ["a", "b", "c", "openClose%Diff", "a.b", "A", "with `quote`", "CURRENT_PATH", "${a}"]
UNKNOWN_NAME = "nobody publishes this"

# One type per attribute, as tables have it: here Spark reads the filters' own texts.
ONE_TYPE_EACH: dict[str, st.SearchStrategy[Any]] = {
    "a": st.sampled_from([n for n in NUMBERS if isinstance(n, int)]),
    "b": st.one_of(
        st.sampled_from([float(n) for n in NUMBERS]),
        st.sampled_from([float("nan"), float("inf"), float("-inf")]),
    ),
    "c": st.sampled_from(STRINGS),
    "A": st.booleans(),
}


def test_the_publications_are_read_once_whatever_the_number_of_filters(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "events")
    rows = [(number, (number % 7,)) for number in range(20)]
    spark.createDataFrame(rows, "id bigint, attributes struct<a: bigint>").write.parquet(folder)
    texts = [(number, f"a = {number}") for number in range(4 * FILTERS_PER_PROJECTION)]
    pairs = matching_pairs(spark.read.parquet(folder), texts, key_columns=["id"])
    pairs.explain()
    plan = capsys.readouterr().out
    assert (plan.count("FileScan parquet"), plan.count("Union")) == (1, 0)
    assert sorted(map(tuple, pairs.collect())) == [(number, number % 7) for number in range(20)]


TEXTS = [
    "a BETWEEN 0 AND 9007199254740992",
    "a NOT BETWEEN -1 AND 1",
    "1 < a AND 1.5 >= b",
    "b != 1e0 or b in (0, 1.5, -1e300)",
    "b > 0.1234567890123456789012345678901234567",
    "a = - 9223372036854775808",
    "A",
    "NOT A AND (TRUE OR c = 'x')",
    "TRUE = A",
    "FALSE",
    r"c = 'a\'b' OR c = '\\' OR c = 'a\0' OR c = '\u00e4' OR c = '\U0001D11E'",
    r"c = '\n' OR c = '\141' OR c = 'a''b' OR c = '\%' OR c = '\x61'",
    "c = '\n' OR c = '${a}' OR c = '`' OR c = '\"'",
    r"c LIKE 'a\%b' OR c LIKE '\\%'",
    r"c LIKE 'a!%b' ESCAPE '!' OR c LIKE '\\%' ESCAPE '!'",
    r"c NOT LIKE '%_%' AND c IS NOT NULL",
    "c LIKE 'a%' AND c > 'a' AND c NOT IN ('ab', 'aa')",
    "c < '\ue000' AND c > '\ud7ff' OR c >= '\U0010ffff'",
    "NOT NOT NOT a = 1",
    "a IS NULL AND b IS NULL",
    f"`{UNKNOWN_NAME}` IS NULL AND a = 1",
    f"NOT `{UNKNOWN_NAME}` > 1",
    "(" * 100 + "a = 1" + ")" * 100,
]


def gather(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """That many examples, the same on each run."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found


def random_texts(count: int) -> list[str]:
    texts = dict.fromkeys(TEXTS)
    for made in gather(st.one_of(filters([*NAMES, UNKNOWN_NAME]), conjunctions(NAMES[:3])), count):
        try:
            made.normal_form  # noqa: B018
        except FilterError:
            continue
        texts[format_filter(made)] = None
    return list(texts)


def check(spark: SparkSession, publications: Sequence[Publication], texts: Sequence[str]) -> None:
    parsed: list[Filter] = [parse(text) for text in texts]
    index = MatchIndex()
    for number, filter in enumerate(parsed):
        index.add(number, filter)
    naive = {
        (row, number)
        for row, publication in enumerate(publications)
        for number, filter in enumerate(parsed)
        if matches(filter, publication)
    }
    indexed = {
        (row, number)
        for row, publication in enumerate(publications)
        for number in index.match(publication)
    }
    assert len(naive) > len(publications) * len(texts) // 10, "too few matches to prove anything"
    assert explain(naive ^ indexed, publications, texts) == []
    assert explain(naive ^ judged(spark, publications, texts), publications, texts) == []


def judged(
    spark: SparkSession, publications: Sequence[Publication], texts: Sequence[str]
) -> set[tuple[int, int]]:
    pairs = matching_pairs(
        publications_frame(spark, publications),
        [(str(number), text) for number, text in enumerate(texts)],
        key_columns=["number"],
    )
    return {(row["number"], int(row["subscription"])) for row in pairs.collect()}


def explain(
    pairs: set[tuple[int, int]], publications: Sequence[Publication], texts: Sequence[str]
) -> list[tuple[str, Publication]]:
    return [(texts[number], publications[row]) for row, number in sorted(pairs)]


def test_three_judges_agree_on_tables(spark: SparkSession) -> None:
    rows = st.fixed_dictionaries({}, optional=ONE_TYPE_EACH)
    publications, texts = gather(rows, 80), random_texts(120)
    columns = publications_frame(spark, publications).schema["attributes"].dataType
    own_words = [text for text in texts if spark_condition(text, columns) == text]
    assert len(texts) // 4 < len(own_words) < len(texts)
    check(spark, publications, texts)


def test_three_judges_agree_where_types_mix(spark: SparkSession) -> None:
    check(spark, gather(attributes(NAMES), 80), random_texts(120))


def test_the_command_prints_the_same_by_spark(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"--subscriptions": test_match.SUBSCRIPTIONS, "--publications": test_match.PUBLICATIONS}
    arguments = ["match", "--engine", "spark-sql"]
    for option, content in files.items():
        (tmp_path / option).write_text(content, encoding="utf-8")
        arguments += [option, str(tmp_path / option)]
    with pytest.raises(SystemExit):
        main(arguments)
    assert capsys.readouterr().out == test_match.ANSWERS


def test_no_publications_and_no_subscriptions(spark: SparkSession) -> None:
    assert judged(spark, [], ["a = 1", "TRUE"]) == set()
    assert judged(spark, [{"a": 1}], []) == set()
    assert judged(spark, [{}], ["a = 1", "TRUE", "a IS NULL"]) == {(0, 1), (0, 2)}


def test_a_wrong_filter_and_a_repeated_id_are_named(spark: SparkSession) -> None:
    publications = publications_frame(spark, [{"a": 1}])
    with pytest.raises(ValueError, match=r"subscription 's7': line 1, column 3"):
        matching_pairs(publications, [("s7", "a ?")], key_columns=["number"])
    with pytest.raises(ValueError, match="twice"):
        matching_pairs(publications, [("s", "a"), ("s", "b")], key_columns=["number"])


def test_key_columns_and_attributes_may_share_names(spark: SparkSession) -> None:
    publications = spark.createDataFrame(
        [("UA", 0, ("x", 1)), ("AA", 1, ("y", 2))],
        "publisher string, sequence bigint, attributes struct<publisher: string, key: bigint>",
    )
    pairs = matching_pairs(
        publications, [("s", "publisher = 'y' AND key = 2")], key_columns=["publisher", "sequence"]
    )
    assert [tuple(row) for row in pairs.collect()] == [("AA", 1, "s")]
    assert pairs.columns == ["publisher", "sequence", "subscription"]
