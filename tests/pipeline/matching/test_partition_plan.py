"""Partitions: every matching pair meets in one, few are opened, and they fit in memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.matching.segments import HIGHEST, LOWEST, place_of
from shoal.pipeline.matching.partition_plan import (
    PartitionPlan,
    Sampled,
    cheapest_cover,
    make_plan,
    places_of_numbers,
    places_of_strings,
)

PLACES = st.one_of(
    st.sampled_from([LOWEST, HIGHEST, 0.0, 1.0, 2.0]), st.floats(-10, 10, allow_nan=False)
)
RANGES = st.lists(st.tuples(PLACES, PLACES), min_size=0, max_size=3)


def sampled(name: str, ranges: list[list[tuple[float, float]]], places: list[float]) -> Sampled:
    rows = [(row, *each) for row, found in enumerate(ranges) for each in found]
    table = np.array(rows, np.float64).reshape(len(rows), 3)
    return Sampled(
        name, False, table[:, 0].astype(np.int64), table[:, 1], table[:, 2], np.array(places)
    )


def boxes(random: np.random.Generator, size: int, centre: float, deviation: float) -> Any:
    low = random.normal(centre, deviation, size)
    return np.arange(size), low, low + 10.0


@given(
    st.lists(st.tuples(RANGES, RANGES), min_size=1, max_size=20),
    st.lists(st.tuples(PLACES, PLACES), min_size=1, max_size=20),
    st.integers(1, 8),
)
def test_whatever_can_match_meets_where_the_publication_goes(
    ranges: Any, places: Any, aim: int
) -> None:
    table = [
        sampled(name, [each[at] for each in ranges], [each[at] for each in places])
        for at, name in enumerate("ab")
    ]
    plan = make_plan(table, sample=len(ranges), subscriptions=len(ranges), aim=aim, opening=0)
    by_name = {each.attribute: each for each in table}
    stored: dict[tuple[int, int], int] = {}
    for dimension in plan.dimensions:
        own = by_name[dimension.attribute]
        for row, partition in zip(
            *dimension.partitions_met(own.rows, own.low, own.high), strict=True
        ):
            stored[row, partition] = stored.get((row, partition), 0) + 1
    assert set(stored.values()) <= {1}
    chosen = plan.cheapest([by_name[each.attribute].places for each in plan.dimensions])
    for place, partition in zip(places, chosen.tolist(), strict=True):
        for row, found in enumerate(ranges):
            both = all(any(low <= place[at] <= high for low, high in found[at]) for at in range(2))
            assert not both or (row, partition) in stored


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(5, 9)), min_size=1, max_size=30),
    st.lists(st.integers(0, 100), min_size=10, max_size=10),
)
def test_a_cover_has_a_candidate_of_each_and_is_no_dearer_than_one_dimension(
    candidates: list[tuple[int, int]], costs: list[int]
) -> None:
    table, prices = np.array(candidates).T, np.array(costs)
    cover = cheapest_cover(table, prices)
    assert cover[table].any(axis=0).all()
    for row in table:
        assert prices[cover].sum() <= prices[np.unique(row)].sum()


def open_share(plan: PartitionPlan, table: list[Sampled], size: int) -> float:
    """Copies of subscriptions in partitions that publications go to, per subscription."""
    by_name = {each.attribute: each for each in table}
    chosen = plan.cheapest([by_name[each.attribute].places for each in plan.dimensions])
    return float(plan.stored[np.unique(chosen)].sum()) / size


def test_publications_where_one_dimension_is_crowded_go_by_the_other() -> None:
    random = np.random.default_rng(5)
    size = 4_000
    # Half of the publications lie where a is crowded and b is not, half the other way round.
    crowded, empty = random.normal(200, 5, 500), random.normal(800, 5, 500)
    tables = [
        Sampled("a", False, *boxes(random, size, 200, 50), np.r_[crowded, empty]),
        Sampled("b", False, *boxes(random, size, 200, 50), np.r_[empty, crowded]),
    ]
    both = make_plan(tables, sample=size, subscriptions=size, aim=size // 4, opening=0)
    alone = [
        make_plan([each], sample=size, subscriptions=size, aim=size // 4, opening=0)
        for each in tables
    ]
    share = open_share(both, tables, size)
    assert share < 0.02
    for plan, table in zip(alone, tables, strict=True):
        assert open_share(plan, [table], size) > 10 * share + 0.1


def test_segments_double_until_a_partition_fits() -> None:
    random = np.random.default_rng(6)
    size = 10_000
    table = [Sampled("a", False, *boxes(random, size, 0, 1_000), random.normal(0, 1_000, 1_000))]
    for aim in (100, 1_000, 20_000):
        plan = make_plan(table, sample=size, subscriptions=size, aim=aim, opening=0)
        assert plan.stored.max() <= aim
    wide = [Sampled("a", False, np.arange(9), np.zeros(9), np.full(9, 99.0), np.array([5.0, 7.0]))]
    plan = make_plan(wide, sample=9, subscriptions=9_000, aim=100, opening=0)
    assert plan.stored.max() == 9_000, "what cannot be divided stays whole"


def test_nothing_is_a_sample_too() -> None:
    nothing = sampled("a", [], [])
    plan = make_plan([nothing], sample=0, subscriptions=0, aim=10, opening=1)
    assert plan.cheapest([np.array([1.0, LOWEST])]).tolist() == [0, 0]


@pytest.mark.parametrize("value", [0, -1.5, 2**53 + 1, 2.0**60, math.inf, -math.inf, math.nan])
def test_places_of_columns_are_those_of_values(value: float) -> None:
    numbers, missing = np.array([value, value]), np.array([False, True])
    assert places_of_numbers(numbers, missing).tolist() == [place_of(value), LOWEST]


def test_places_of_strings() -> None:
    found = places_of_strings(["b", None, "a", "b", "äöüßé"])
    assert found.tolist() == [place_of("b"), LOWEST, place_of("a"), place_of("b"), place_of("äöü")]
    assert (np.diff(places_of_strings(sorted(["", "S1", "S10", "S2", "~", "é", "𝄞"]))) > 0).all()


def test_an_aim_that_cannot_be_met_does_not_multiply_copies() -> None:
    random = np.random.default_rng(7)
    size = 10_000
    low = random.normal(500, 10, size)
    ranges = np.arange(size), low, low + 30.0
    table = [Sampled("a", False, *ranges, random.normal(500, 10, 1_000))]
    plan = make_plan(table, sample=size, subscriptions=size, aim=100, opening=0)
    assert open_share(plan, table, size) < 4
