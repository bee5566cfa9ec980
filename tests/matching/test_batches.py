"""Batches and bulk loads against naive matching and against single publications."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.language import parse
from shoal.matching import MatchIndex, matches
from shoal.matching.index import BATCH_MINIMUM
from shoal.model import EVERYTHING, Filter, Value
from tests.examples import examples
from tests.matching.test_index import CHANGES, is_small
from tests.strategies import attributes

Publication = dict[str, Value]


def columns_of(publications: list[Publication]) -> dict[str, list[Value | None]]:
    names = sorted({name for publication in publications for name in publication})
    return {name: [each.get(name) for each in publications] for name in names or ["a"]}


def answers(index: MatchIndex, publications: object) -> list[list[object]]:
    offsets, ids = index.match_batch(publications)  # type: ignore[arg-type]
    assert offsets.dtype == np.int64
    return [sorted(ids[begin:end].tolist(), key=str) for begin, end in itertools.pairwise(offsets)]


def truth(filters: dict[object, Filter], publication: Publication) -> list[object]:
    found = [id for id, filter in filters.items() if matches(filter, publication)]
    return sorted(found, key=str)


@given(
    st.lists(CHANGES.filter(lambda change: is_small(change[1])), max_size=30),
    st.lists(attributes(), min_size=1, max_size=8),
    st.integers(1, 10),
)
@settings(max_examples=examples(80))
def test_columns_equal_naive_matching_through_churn(
    changes: list[tuple[int, Filter | None]], publications: list[Publication], often: int
) -> None:
    index, filters = MatchIndex(), {}
    columns = columns_of(publications)
    for number, (id, filter) in enumerate(changes):
        if filter is not None:
            index.add(id, filter)
            filters[id] = filter
        elif filters.pop(id, None) is not None:
            index.remove(id)
        if number % often == 0:
            expected = [truth(filters, each) for each in publications]
            assert answers(index, columns) == expected
    expected = [truth(filters, each) for each in publications]
    assert answers(index, columns) == expected
    assert answers(index, publications * BATCH_MINIMUM) == expected * BATCH_MINIMUM


def random_range(source: random.Random) -> tuple[float, float]:
    low = source.choice([-np.inf, *range(8)])
    return low, source.choice([np.inf, *(max(low, 0) + width for width in (0, 1, 3))])


def range_filter(bounds: dict[str, tuple[float, float]]) -> Filter:
    parts = [f"{name} >= {low}" for name, (low, _) in bounds.items() if low > -np.inf]
    parts += [f"{name} <= {high}" for name, (_, high) in bounds.items() if high < np.inf]
    return parse(" AND ".join(parts)) if parts else EVERYTHING


@pytest.mark.parametrize("seed", range(examples(6)))
def test_loaded_ranges_and_filters_match_together(seed: int) -> None:
    source = random.Random(seed)
    index, filters = MatchIndex(), dict[object, Filter]()
    names = ("a", "b", "c")
    for _ in range(12):
        size = source.choice([0, 3, 300])
        ids = [source.randrange(500) for _ in range(size)]
        bounds = [{name: random_range(source) for name in names} for _ in range(size)]
        low, high = (
            np.array([[each[name][side] for name in names] for each in bounds]).reshape(size, 3)
            for side in (0, 1)
        )
        index.add_ranges(ids, names, low, high)
        filters.update({id: range_filter(each) for id, each in zip(ids, bounds, strict=True)})
        for id in source.sample(sorted(filters, key=str), len(filters) // source.choice([2, 5])):
            index.remove(id)
            del filters[id]
            assert id not in index
        for _ in range(20):
            id = source.choice(["one", "two", source.randrange(500)])
            filter = parse(f"a >= {source.randrange(8)} AND b <> 3 OR c IN (1, 2)")
            index.add(id, filter)
            filters[id] = filter
            assert id in index
        assert len(index) == len(filters)
        publications: list[Publication] = [
            {name: source.choice([1, 2.5, 3, 7, "x"]) for name in names if source.random() < 0.9}
            for _ in range(10)
        ]
        expected = [truth(filters, each) for each in publications]
        assert answers(index, columns_of(publications)) == expected
        assert [sorted(index.match(each), key=str) for each in publications] == expected
        assert answers(index, publications) == expected
    for id in filters:
        index.remove(id)
    assert len(index) == 0
    assert answers(index, columns_of(publications)) == [[]] * 10
    with pytest.raises(KeyError):
        index.remove(3)


def test_values_without_filters_are_dropped() -> None:
    index = MatchIndex()
    index.add_table(pa.table({"id": [-1], "symbol": ["stays"]}))
    for number in range(50):
        index.add(number, parse(f"symbol = 'S{number}' AND price > {number}"))
        index.match_batch({"symbol": ["S1"]})
        if number >= 3:
            index.remove(number - 3)
    compiled = index._compiled
    assert compiled is not None
    assert len(compiled.vocabularies["symbol"]) < 20
    columns = {"symbol": ["stays", "S48", "S20"], "price": np.array([1.0, 50.0, 50.0])}
    assert answers(index, columns) == [[-1], [48], []]


def test_ids_are_integers_if_all_are() -> None:
    index = MatchIndex()
    index.add_ranges([5], ("a",), [[1.0]], [[2.0]])
    assert index.match_batch({"a": np.array([1.0])})[1].dtype == np.int64
    index.add("x", EVERYTHING)
    assert index.match_batch({"a": np.array([1.0])})[1].tolist() == [5, "x"]
    assert index.match_batch([{"a": 1}])[1].tolist() == ["x", 5]
    index.remove("x")
    assert index.match_batch({"a": np.array([1.0])})[1].dtype == np.int64


def test_ids_may_be_tuples() -> None:
    index = MatchIndex()
    index.add(("broker", 1), EVERYTHING)
    index.add(7, EVERYTHING)
    assert index.match_batch({"a": [1, 2]})[1].tolist() == [("broker", 1), 7] * 2
    assert index.match_batch([{}])[1].tolist() == [("broker", 1), 7]


def test_an_integer_between_doubles_is_compared_exactly() -> None:
    index = MatchIndex()
    index.add_ranges([1, 2], ("a",), [[2.0**53], [2.0**53 + 2]], [[2.0**53], [np.inf]])
    index.add(3, parse(f"a = {2**53 + 1}"))
    given = np.array([2**53, 2**53 + 1, 2**53 + 2])
    assert answers(index, {"a": given}) == [[1], [3], [2]]


def test_a_table_of_conjunctions_is_matched() -> None:
    index = MatchIndex()
    table = pa.table(
        {
            "id": [1, 2, 3, 4, 5],
            "symbol": ["A", "B", None, "A", None],
            "price.low": pa.array([10, None, 5, None, None], pa.int32()),
            "price.high": [20.0, None, None, None, None],
            "volume": [None, None, None, 7, None],
            "open": [None, True, None, None, None],
        }
    )
    index.add_table(table)
    publications: list[Publication] = [
        {"symbol": "A", "price": 15, "volume": 7},
        {"symbol": "B", "price": 4, "open": True},
        {"symbol": "C", "price": 5.0},
        {},
    ]
    expected = [[1, 3, 4, 5], [2, 5], [3, 5], [5]]
    assert answers(index, columns_of(publications)) == expected
    assert [sorted(index.match(each)) for each in publications] == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], ("a",), [[1.0, 2.0]], [[1.0, 2.0]]), r"over 1 attributes need .* \(n, 1\)"),
        (([1], ("a", "a"), [[1.0, 2.0]], [[1.0, 2.0]]), "an attribute twice: a, a"),
        (([1], ("a",), [[float("nan")]], [[1.0]]), "NaN cannot bound"),
        (([1, 2], ("a",), [[1.0]], [[1.0]]), "1 rows need as many ids"),
    ],
)
def test_arrays_of_wrong_shapes_are_refused(arguments: tuple[object, ...], message: str) -> None:
    index = MatchIndex()
    with pytest.raises(ValueError, match=message):
        index.add_ranges(*arguments)  # type: ignore[arg-type]
    assert len(index) == 0


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1]}, "no column 'id'"),
        ({"id": [1], "a": [2**53 + 1]}, "not exact as doubles"),
        ({"id": [1], "a.low": [float("nan")]}, "'a.low': NaN cannot bound"),
    ],
)
def test_tables_that_cannot_be_loaded_are_refused(
    columns: dict[str, list[object]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        MatchIndex().add_table(pa.table(columns))
