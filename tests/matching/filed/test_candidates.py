"""Bounds on the size of an outcome: for any publication, and for one, before it is matched."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.language import parse
from shoal.matching.filed import bitmaps, buckets, search_costs
from shoal.matching.filed import filters as filed_filters
from shoal.matching.filed.bitmaps import TESTS_PER_LOOK, TESTS_PER_RANGE
from shoal.matching.filed.filters import FiledFilters
from shoal.matching.filed.largest import Largest
from shoal.matching.filed.places import Signature, Values, places_of
from shoal.model import Filter, FilterError, Value
from tests.examples import examples
from tests.strategies import attributes, conjunctions, filters


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=60))
@settings(max_examples=examples(200))
def test_the_largest_size_is_tracked_through_changes(changes: list[tuple[int, int]]) -> None:
    largest, truth = Largest(), dict[int, int]()
    for member, size in changes:
        before = max(truth.values(), default=0)
        by = largest.changed(truth.get(member, 0), size)
        truth[member] = size
        assert largest.value == max(truth.values(), default=0) == before + by


def naive_most(filters: dict[int, Filter]) -> int:
    """Of each set of attributes that must have values, those that demand the most common values."""
    sizes: dict[Signature, dict[tuple[type, Values], int]] = {}
    for filter in filters.values():
        for _, place in places_of(filter):
            # A dictionary finds TRUE under 1, which is a place of its own kind.
            of = sizes.setdefault(place.signature, {})
            of[type(place.values), place.values] = of.get((type(place.values), place.values), 0) + 1
    return sum(max(of.values()) for of in sizes.values())


def has_normal_form(filter: Filter) -> bool:
    try:
        return len(filter.normal_form) >= 0
    except FilterError:
        return False


CHANGES = st.tuples(
    st.integers(0, 12),
    st.one_of(st.none(), st.one_of(filters(), conjunctions()).filter(has_normal_form)),
)


@given(
    st.lists(CHANGES, max_size=40),
    st.lists(attributes(), min_size=1, max_size=5),
    st.sampled_from([0, buckets.FEW]),
    st.sampled_from([0, TESTS_PER_RANGE]),
)
@settings(max_examples=examples(150))
def test_no_outcome_exceeds_its_bound(
    changes: list[tuple[int, Filter | None]],
    publications: list[dict[str, Value]],
    few: int,
    per_range: int,
) -> None:
    index, truth = FiledFilters(), dict[int, Filter]()
    for id, filter in changes:
        if filter is not None:
            index.add(id, filter)
            truth[id] = filter
        elif truth.pop(id, None) is not None:
            index.remove(id)
        assert index.most_candidates == naive_most(truth)
    with (
        mock.patch.object(buckets, "FEW", few),
        mock.patch.object(filed_filters, "FEW", few),
        mock.patch.object(bitmaps, "TESTS_PER_RANGE", per_range),
    ):
        for publication in publications:
            tests, found = index.weigh(publication)
            matching = len(index.match(publication))
            assert matching <= index.most_candidates
            assert matching <= tests + found == index.work_of(publication)
            assert found <= index.most_candidates


@pytest.mark.parametrize(
    ("text", "price", "tests", "found"),
    [
        ("symbol = 'S{n}' AND price > {n}", 50, 0, 1),
        ("price > {n}", 50, 0, 50),
        ("price < {n}", 50, 0, 49),
        ("price != {n}", 50, 100, 0),
        ("price > {n} AND name != '{n}'", 50, 50, 0),
    ],
)
def test_a_publications_bound_follows_from_its_attributes(
    text: str, price: int, tests: int, found: int
) -> None:
    index = FiledFilters()
    for n in range(100):
        index.add(n, parse(text.format(n=n)))
    assert index.weigh({"symbol": "S7", "price": price, "name": "x"}) == (tests, found)
    long = {"symbol": "S7", "price": price, "name": "x" * search_costs.SHORT}
    assert index.weigh(long) == (2 * tests, found)


def test_young_ranges_count_as_tests_and_compiling_counts() -> None:
    index = FiledFilters()
    for n in range(100):
        index.add(n, parse(f"price > {n} AND price < {n + 10} AND volume > 0"))
    publication: dict[str, Value] = {"price": 50, "volume": 1}
    compiling = TESTS_PER_RANGE * 2 * 100
    for _ in range(compiling // 100 - 1):
        assert index.weigh(publication) == (100, 100)
        assert len(index.match(publication)) == 9
    assert index.weigh(publication) == (100 + compiling, 100)
    assert len(index.match(publication)) == 9
    tests, found = index.weigh(publication)
    assert tests == TESTS_PER_LOOK
    assert 9 <= found <= 20
    assert index.weigh({"price": 500, "volume": 1}) == (TESTS_PER_LOOK, 0)
    assert index.weigh({"price": "x", "volume": 1}) == (TESTS_PER_LOOK, 0)
