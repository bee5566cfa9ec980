"""Filters of one index with different tests on the same attribute, at sizes that compile."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from shoal.frames.matching import FrameMatcher
from shoal.frames.subscriptions import SubscriptionFrame
from shoal.language import parse
from shoal.matching import MatchIndex, matches
from shoal.matching.compiled.parts import SPATIAL_MINIMUM
from shoal.matching.index import BATCH_MINIMUM, TESTS_MAXIMUM
from shoal.model import Value
from tests.examples import at_length, one_in

Publications = list[dict[str, Value]]


def runs(answer: tuple[Any, Any]) -> list[list[Any]]:
    offsets, ids = answer
    return [sorted(ids[begin:end].tolist(), key=str) for begin, end in itertools.pairwise(offsets)]


def columns_of(publications: Publications) -> dict[str, list[Value | None]]:
    names = {name: None for publication in publications for name in publication}
    return {name: [each.get(name) for each in publications] for name in names}


# Every function of an index that matches some publications.
ENTRIES: dict[str, Callable[[MatchIndex, Publications], list[list[Any]]]] = {
    "match": lambda index, each: [sorted(index.match(one), key=str) for one in each],
    "match_each": lambda index, each: [
        sorted(found, key=str) for found in index.match_each(each * TESTS_MAXIMUM)[: len(each)]
    ],
    "match_batch of publications": lambda index, each: runs(
        index.match_batch(each * BATCH_MINIMUM)
    )[: len(each)],
    "match_batch of columns": lambda index, each: runs(index.match_batch(columns_of(each))),
    "match_destinations": lambda index, each: [
        sorted(index.match_destinations(one), key=str) for one in each
    ],
    "match_destinations_batch": lambda index, each: runs(
        index.match_destinations_batch(columns_of(each))
    ),
}

CROWDS = {
    "ranges beside a text": ["price BETWEEN {i} AND {i} + 5", "price = 'n/a'"],
    "two ranges beside a text": ["b > {i} AND a > 0", "a = 'x'"],
    "ranges beside TRUE": ["a >= {i}", "a = TRUE"],
    "ranges beside a list": ["a < {i} AND b = 'y'", "a IN ('x', 'y') AND b > 3"],
    "texts beside ranges": ["a = 'x' AND b > {i}", "b = 'y' AND a > {i}"],
    "ranges beside a pattern": ["a > {i} AND b LIKE 'x%'", "a LIKE 'x%' AND b = 'x'"],
    "ranges beside a missing one": ["a > {i} AND b IS NULL", "b = 'x'", "a IS NULL AND b > {i}"],
}


@pytest.mark.parametrize("name", one_in(3, CROWDS))
@pytest.mark.parametrize("size", [TESTS_MAXIMUM + 1, *at_length([SPATIAL_MINIMUM])])
def test_a_range_and_a_value_of_one_attribute_are_found(name: str, size: int) -> None:
    texts = CROWDS[name]
    filters = {
        (number, i): parse(text.replace("{i} + 5", str(i + 5)).format(i=i))
        for number, text in enumerate(texts)
        for i in range(size if "{i}" in text else 1)
    }
    index = MatchIndex()
    for id, filter in filters.items():
        index.add(id, filter)
    values: list[Value | None] = [None, 0, 3.5, 63, 500, "x", "xy", "y", "n/a", True, False]
    names = ["price"] if "price" in texts[0] else ["a", "b"]
    publications: Publications = [
        {name: value for name, value in zip(names, drawn, strict=True) if value is not None}
        for drawn in itertools.product(values, repeat=len(names))
    ]
    publications = random.Random(size).sample(publications, min(len(publications), 40))
    expected = [
        sorted((id for id, filter in filters.items() if matches(filter, each)), key=str)
        for each in publications
    ]
    assert any(expected)
    for entry, ask in ENTRIES.items():
        assert ask(index, publications) == expected, entry
    assert [index.matches_any(each) for each in publications] == [bool(ids) for ids in expected]


def test_a_publication_in_no_range_matches_nothing() -> None:
    index = MatchIndex()
    for number in range(SPATIAL_MINIMUM):
        index.add(number, parse(f"price BETWEEN {number} AND {number + 5}"))
    index.add("text", parse("price = 'n/a'"))
    assert index.match_each([{"price": 500 + number} for number in range(20)]) == [[]] * 20


def mixed_table() -> pa.Table:
    """Ranges of `a` for most, texts for some; both at once for the last, which nothing matches."""
    size = 2 * SPATIAL_MINIMUM
    last = size - 1
    return pa.table(
        {
            "id": range(size),
            "a": pa.array([None if at % 3 else "x" for at in range(last)] + ["x"]),
            "a.low": pa.array([float(at) if at % 3 else None for at in range(last)] + [0.0]),
            "b.high": pa.array([float(at) for at in range(size)]),
        }
    )


def test_a_table_with_values_and_ranges_of_one_attribute_is_matched() -> None:
    index, filters = MatchIndex(), dict(SubscriptionFrame.of_columns(mixed_table()).filters())
    index.add_table(mixed_table())
    publications: Publications = [
        {"a": a, "b": b} for a in (5.5, 90, "x", "y", True) for b in (3, 100.0, "x")
    ]
    expected = [
        sorted((id for id, filter in filters.items() if matches(filter, each)), key=str)
        for each in publications
    ]
    assert any(expected)
    for entry, ask in ENTRIES.items():
        assert ask(index, publications) == expected, entry


def test_spark_workers_give_the_same_answers() -> None:
    subscriptions = SubscriptionFrame.of_columns(mixed_table())
    filters = dict(subscriptions.filters())
    for a in ([5.5, 90.0, None], ["x", "y", None]):
        batch = pa.RecordBatch.from_pydict({"key": [0, 1, 2], "a": a, "b": [3.0, 100.0, 100.0]})
        [answer] = FrameMatcher(subscriptions, 1, ["a", "b"]).answers(batch)
        publications = [
            {name: row[name] for name in ("a", "b") if row[name] is not None}
            for row in batch.to_pylist()
        ]
        expected = [
            sorted(id for id, filter in filters.items() if matches(filter, each))
            for each in publications
        ]
        assert any(expected)
        assert [sorted(ids) for ids in answer.column("answers").to_pylist()] == expected
