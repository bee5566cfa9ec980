"""Values of other types: read as their exact meaning, or refused, in every matcher."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from shoal.frames import match_frame
from shoal.language import parse
from shoal.matching import MatchIndex, TopicIndex, explain, matches
from shoal.matching.index import BATCH_MINIMUM, TESTS_MAXIMUM

Ask = Callable[[MatchIndex, Any], bool]


class Level(enum.IntEnum):
    HIGH = 3


class Carrier(enum.StrEnum):
    UNITED = "UA"


ENTRIES: dict[str, Ask] = {
    "match": lambda index, value: bool(index.match({"a": value})),
    "matches_any": lambda index, value: index.matches_any({"a": value}),
    "match_destinations": lambda index, value: bool(index.match_destinations({"a": value})),
    "match_each": lambda index, value: bool(index.match_each([{"a": value}])[0]),
    "match_each of many": lambda index, value: bool(
        index.match_each([{"a": value}] * (TESTS_MAXIMUM + 1))[-1]
    ),
    "match_batch of publications": lambda index, value: bool(
        len(index.match_batch([{"a": value}] * BATCH_MINIMUM)[1])
    ),
    "match_batch of few": lambda index, value: bool(len(index.match_batch([{"a": value}])[1])),
    "match_batch of a list": lambda index, value: bool(len(index.match_batch({"a": [value]})[1])),
    "match_batch of objects": lambda index, value: bool(
        len(index.match_batch({"a": np.fromiter([value], object, 1)})[1])
    ),
    "match_destinations_batch": lambda index, value: bool(
        len(index.match_destinations_batch({"a": [value]})[1])
    ),
}

# Filters that index, compile, test and count a value in every way.
FILTERS = {
    "a = 3": 3,
    "a > 2": 3,
    "a >= 3 AND a <> 4": 3,
    "a IN (3, 4) AND a NOT IN (5)": 3,
    "a = 'UA'": "UA",
    "a >= 'UA' AND a LIKE '%A'": "UA",
    "a = TRUE": True,
    "a > FALSE": True,
    "a IS NULL": None,
}

EXACT: list[tuple[Any, Any]] = [
    (np.int64(3), 3),
    (np.uint8(3), 3),
    (np.float64(3.0), 3),
    (np.float32(3.0), 3),
    (np.bool_(True), True),
    (np.str_("UA"), "UA"),
    (Level.HIGH, 3),
    (Carrier.UNITED, "UA"),
    (None, None),
    (pd.NA, None),
]


def index_of(text: str) -> MatchIndex:
    index = MatchIndex()
    index.add("s", parse(text))
    return index


@pytest.mark.parametrize("text", FILTERS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_value_with_an_exact_meaning_is_accepted(entry: str, text: str) -> None:
    index = index_of(text)
    for given, meant in EXACT:
        expected = type(meant) is type(FILTERS[text])
        assert ENTRIES[entry](index, given) is expected, given
        assert matches(parse(text), {"a": given}) is expected


@pytest.mark.parametrize(
    "value",
    [
        decimal.Decimal(3),
        datetime.date(2013, 1, 1),
        datetime.datetime(2013, 1, 1),
        np.datetime64("2013-01-01"),
        b"UA",
        [3],
        3j,
        np.longdouble(1) / 3,
        pd.Timestamp("2013-01-01"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("text", ["a = 3", "a > 3", "a = 'UA'", "a <> 3", "a IS NULL", "a = TRUE"])
def test_a_value_without_an_exact_meaning_is_refused(text: str, value: object) -> None:
    index = index_of(text)
    for ask in ENTRIES.values():
        with pytest.raises(TypeError, match=rf"'a'.*{type(value).__name__}"):
            ask(index, value)
    with pytest.raises(TypeError, match="'a'"):
        matches(parse(text), {"a": value})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="'a'"):
        explain(parse(text), {"a": value})  # type: ignore[dict-item]


def test_topic_subscriptions_treat_values_alike() -> None:
    index = TopicIndex()
    index.add("all", "t")
    index.add("three", "t", parse("a = 3"))
    index.add("member", "$share/group/t", parse("a = 3"))
    assert set(index.match("t", {"a": np.int64(3)})) == {"all", "three", "member"}
    some = [{"a": np.float32(3.0)}, {"a": 4}]
    assert [set(found) for found in index.match_each("t", some)] == [
        {"all", "three", "member"},
        {"all"},
    ]
    for ask in (index.match, lambda topic, each: index.match_each(topic, [each])):
        with pytest.raises(TypeError, match="bytes is not a value"):
            ask("t", {"a": b"3"})


def test_rows_loaded_from_arrays_check_types() -> None:
    index = MatchIndex()
    index.add_ranges([1], ("a",), [[2.0]], [[4.0]])
    assert index.match({"a": np.int64(3)}) == [1]
    assert index.matches_any({"a": np.float32(3)})
    with pytest.raises(TypeError, match="attribute 'a': date"):
        index.match({"a": datetime.date(2013, 1, 1)})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (pd.Series([3, None, 1], dtype="Int64"), [["number"], [], []]),
        (pd.Series([3.0, None, 1.0], dtype="Float64"), [["number"], [], []]),
        # Missing values of pandas are missing, as in a table (`match_frame`).
        (pd.Series([3.0, math.nan, 1.0]), [["number"], [], []]),
        (pd.Series(["UA", math.nan, 3], dtype=object), [["text"], [], ["number"]]),
        (np.array([3.0, math.nan, 1.0]), [["number"], ["number"], []]),
        (pd.Series([3, 0, 1]), [["number"], [], []]),
        (pd.Series(["UA", None, "x"], dtype="string"), [["text"], [], []]),
        (pd.Series(["UA", None, "x"], dtype="category"), [["text"], [], []]),
        (pd.Series([True, None, False], dtype="boolean"), [["flag"], [], []]),
        (pd.Series(["UA", None, 3], dtype=object), [["text"], [], ["number"]]),
        (pa.array(["UA", None, "x"]).dictionary_encode(), [["text"], [], []]),
        (pa.array(["UA", "y", "x"]).dictionary_encode(), [["text"], [], []]),
        (pa.chunked_array([[3, None], [1]]), [["number"], [], []]),
        (pa.chunked_array([[3, 0], [1]]), [["number"], [], []]),
        (np.array([3, 0, 1], np.uint64), [["number"], [], []]),
        (np.array([3, 0, 1], np.float16), [["number"], [], []]),
    ],
    ids=lambda given: str(getattr(given, "dtype", getattr(given, "type", ""))),
)
def test_columns_of_pandas_and_arrow_are_accepted(column: Any, found: list[list[str]]) -> None:
    index = MatchIndex()
    for id, text in (("number", "a > 2"), ("text", "a = 'UA'"), ("flag", "a = TRUE")):
        index.add(id, parse(text))
    offsets, ids = index.match_batch({"a": column})
    assert [ids[offsets[at] : offsets[at + 1]].tolist() for at in range(3)] == found


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": [3, None, 1], "b": ["x", None, "y"]}),
        pd.DataFrame({"a": pd.array([3, None, 1], dtype="Int64"), "b": ["x", None, "y"]}),
        pa.table({"a": [3, None, 1], "b": ["x", None, "y"]}),
        pa.RecordBatch.from_pydict({"a": [3, None, 1], "b": ["x", None, "y"]}),
    ],
    ids=lambda table: f"{type(table).__module__}.{type(table).__name__}",
)
def test_tables_are_columns(table: Any) -> None:
    index = MatchIndex()
    for id, text in ((1, "a > 2"), (2, "b = 'y'"), (3, "b IS NULL")):
        index.add(id, parse(text))
    offsets, ids = index.match_batch(table)
    assert [ids[offsets[at] : offsets[at + 1]].tolist() for at in range(3)] == [[1], [3], [2]]
    assert len(index.match_destinations_batch(table)[0]) == 4


def test_a_table_means_the_same_to_the_index_and_to_match_frame() -> None:
    table = pd.DataFrame({"id": [0, 1, 2], "a": [3.0, math.nan, 1.0]})
    pairs = match_frame(table, pd.DataFrame({"id": ["s"], "filter": ["a > 2"]}))
    assert pairs.num_rows == len(index_of("a > 2").match_batch(table)[1]) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("late", "publications are a sequence of attributes, columns by attribute, or a table"),
        (({"a": 3} for _ in range(2)), "not generator"),
        (3, "not int"),
        ([3], "attributes are a mapping from names to values, not int"),
        ([3] * BATCH_MINIMUM, "attributes are a mapping from names to values, not int"),
        (np.array([(3,)], dtype=[("a", "i8")]), "attributes are a mapping"),
        ({"a": 3}, "column 'a': int is no column"),
        ({"a": "UA"}, "column 'a': str is no column"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "columns of the same name"),
    ],
)
def test_an_invalid_batch_is_refused_with_the_reason(given: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        index_of("a > 2").match_batch(given)


@pytest.mark.parametrize("given", [pd.DataFrame({"a": [3]}), pd.Series({"a": 3}), [3], None, "a"])
def test_an_invalid_publication_is_refused_with_the_reason(given: Any) -> None:
    index = index_of("a > 2")
    asks = (index.match, index.matches_any, index.match_destinations)
    for ask in (*asks, lambda each: matches(parse("a > 2"), each)):
        with pytest.raises(TypeError, match="attributes are a mapping from names to values"):
            ask(given)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["2013-01-01"], dtype="datetime64[ns]"),
        pa.array([datetime.date(2013, 1, 1), None]),
        pa.array([decimal.Decimal("1.5")]),
        np.array([1], np.longdouble),
        np.array([b"UA"]),
    ],
    ids=str,
)
def test_columns_without_exact_meaning_are_refused(column: Any) -> None:
    with pytest.raises(TypeError, match="'a'"):
        index_of("a > 2").match_batch({"a": column})


@pytest.mark.parametrize("value", [2**63, np.uint64(2**63), 10**400, -(2**63) - 1, -(10**400)])
@pytest.mark.parametrize("text", ["a > 2", "a <= 2", "a > 2 AND a <> 5"])
def test_integers_beyond_64_bits_are_refused(text: str, value: Any) -> None:
    for ask in ENTRIES.values():
        with pytest.raises(ValueError, match=r"attribute 'a': integer -?\d+ does not fit"):
            ask(index_of(text), value)
    with pytest.raises(ValueError, match="does not fit"):
        matches(parse(text), {"a": value})
