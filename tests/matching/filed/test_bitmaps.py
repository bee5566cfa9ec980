"""Conjunctions of ranges among bitmaps: naive matching's answers, in the order of insertion."""

from __future__ import annotations

from random import Random
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.language import parse
from shoal.matching import MatchIndex, Outcomes, matches
from shoal.matching.filed import bitmaps as bitmaps_module
from shoal.matching.filed.bitmaps import BLOCK, STEPS, Bitmaps
from shoal.matching.filed.filters import FiledFilters
from shoal.matching.filed.places import PlaceInterval
from shoal.matching.predicates import NUMBERS
from shoal.model import And, Filter, Operator, Value, predicate
from tests.examples import at_length, examples

RANGES = (Operator.GE, Operator.GT, Operator.LT, Operator.LE)
SPECIAL = [
    -(2**63), -1.5, -0.0, 0, 1, 1.5, 2, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, 1e300,
    float("inf"), float("-inf"),
]  # fmt: skip
STRINGS = ["", "a", "a\0", "b", "\U0010ffff"]
VALUES = [*SPECIAL, *STRINGS, float("nan"), True, False]

comparisons = st.builds(
    predicate,
    st.sampled_from("abc"),
    st.sampled_from(RANGES),
    st.one_of(st.sampled_from(SPECIAL), st.integers(-3, 9), st.sampled_from(STRINGS)),
)
range_filters = st.lists(comparisons, min_size=2, max_size=5).map(
    lambda all: Filter(And(tuple(all)))
)
publications = st.dictionaries(
    st.sampled_from("abc"), st.one_of(st.sampled_from(VALUES), st.integers(-3, 9))
)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.one_of(st.none(), range_filters)), max_size=60),
    st.lists(publications, min_size=1, max_size=5),
    st.sampled_from([1, 3, 8, BLOCK]),
    st.sampled_from([1, 2, 5, STEPS]),
    st.sampled_from([0, 2, bitmaps_module.TESTS_PER_RANGE]),
)
@settings(max_examples=examples(150))
def test_bitmaps_equal_naive_matching_in_the_order_of_insertion(
    changes: list[tuple[int, Filter | None]],
    asked: list[dict[str, Value]],
    block: int,
    steps: int,
    per_range: int,
) -> None:
    index, truth = FiledFilters(), dict[int, Filter]()
    made: Outcomes[tuple[object, ...]] = Outcomes(tuple)
    with mock.patch.multiple(bitmaps_module, BLOCK=block, STEPS=steps, TESTS_PER_RANGE=per_range):
        for number, (id, filter) in enumerate(changes):
            known = truth.pop(id, None)
            if known is not None:
                index.remove(id)
                made.remove(id)
            if filter is not None:
                truth[id] = filter
                index.add(id, filter)
                made.add(id, filter)
            publication = asked[number % len(asked)]
            expected = [id for id, each in truth.items() if matches(each, publication)]
            assert sorted(index.match(publication)) == sorted(expected)
            assert sorted(made.of(publication)) == sorted(expected)  # type: ignore[type-var]
            assert index.matches_any(publication) == bool(expected)
            if all(len(each._members.blocks) for each in _bitmaps(index)):
                assert list(made.of(publication)) == index.match(publication)
        for id in truth:
            index.remove(id)
    assert not index._tables
    assert not index._ranged


def _bitmaps(index: FiledFilters) -> list[Bitmaps]:
    buckets = [each for table in index._tables.values() for each in table.buckets.values()]
    return [each for bucket in buckets for each in bucket.bitmaps.values()]


def test_ids_are_in_the_order_of_insertion_after_any_search() -> None:
    random = Random(7)
    for block in (4, BLOCK):
        searched, quiet, order = FiledFilters(), FiledFilters(), dict[int, None]()
        with mock.patch.multiple(bitmaps_module, BLOCK=block, TESTS_PER_RANGE=1):
            for number in range(400):
                low = random.randrange(50)
                if order and random.random() < 0.4:
                    gone = random.choice(list(order))
                    del order[gone]
                    searched.remove(gone)
                    quiet.remove(gone)
                else:
                    order[number] = None
                    for index in (searched, quiet):
                        index.add(number, parse(f"a BETWEEN {low} AND 90 AND b < 5"))
                searched.match({"a": random.randrange(60), "b": 1})
            assert (
                searched.match({"a": 60, "b": 1}) == list(order) == quiet.match({"a": 60, "b": 1})
            )


@pytest.mark.parametrize("left", [1.0, 0.6, 0.2, 0.02])
def test_full_blocks_equal_arrays(left: float) -> None:
    """At the sizes of full blocks, and after most members are gone."""
    random, size = np.random.default_rng(3), 5 * BLOCK // 2
    low = random.integers(0, 900, (size, 3)).astype(float)
    high = low + random.integers(1, 400, (size, 3))
    bitmaps = Bitmaps()
    for number in range(size):
        bounds = zip("abc", low[number].tolist(), high[number].tolist(), strict=True)
        bitmaps.add(
            (number, 0), tuple(PlaceInterval(name, NUMBERS, *each) for name, *each in bounds)
        )
    while bitmaps._members.young:
        bitmaps.search({})
    assert len(bitmaps._members.blocks) == 3
    is_left = random.random(size) < left
    for number in np.flatnonzero(~is_left).tolist():
        bitmaps.remove((number, 0))
    assert len(bitmaps) == is_left.sum()
    found = 0
    for point in random.integers(0, 1_200, (50, 3)).tolist():
        holds = ((low <= point) & (point < high)).all(axis=1) & is_left
        expected = np.flatnonzero(holds).tolist()
        assert bitmaps.search(dict(zip("abc", point, strict=True))) == expected
        assert bitmaps.search(dict(zip("abc", map(float, point), strict=True))) == expected
        found += len(expected)
    assert found > 400 * left


def test_blocks_end_with_their_members() -> None:
    with mock.patch.multiple(bitmaps_module, BLOCK=16, TESTS_PER_RANGE=1):
        bitmaps = Bitmaps()
        for number in range(320):
            bitmaps.add((number, 0), (PlaceInterval("a", NUMBERS, number, None),))
            bitmaps.search({"a": 0})
        assert len(bitmaps._members.blocks) == 20
        for number in range(320):
            if number % 10:
                bitmaps.remove((number, 0))
        assert len(bitmaps._members.blocks) <= 6
        assert bitmaps.search({"a": 400}) == list(range(0, 320, 10))
        for number in range(0, 320, 10):
            bitmaps.remove((number, 0))
    assert (len(bitmaps), bitmaps._members.blocks) == (0, ())


def test_ranges_enter_a_block_after_enough_tests() -> None:
    bitmaps = Bitmaps()
    for number in range(100):
        bitmaps.add((number, 0), (PlaceInterval("a", NUMBERS, number, number + 2),))
    for _ in range(bitmaps_module.TESTS_PER_RANGE - 1):
        assert bitmaps.search({"a": 50}) == [49, 50]
    assert not bitmaps._members.blocks
    assert bitmaps.steps({"a": 50}.get) is None
    assert bitmaps.search({"a": 50}) == [49, 50]
    assert not bitmaps._members.young
    assert bitmaps.steps({"a": 50}.get) == [0b11 << 49]
    assert bitmaps.steps({"a": "50"}.get) == [0]


def test_members_of_many_ranges_are_in_smaller_blocks() -> None:
    names = [f"a{number}" for number in range(64)]
    bitmaps = Bitmaps()
    for number in range(300):
        bitmaps.add(
            (number, 0), tuple(PlaceInterval(name, NUMBERS, number, None) for name in names)
        )
    while bitmaps._members.young:
        bitmaps.search({})
    assert [len(block) for block in bitmaps._members.blocks] == [256, 44]
    assert bitmaps.search(dict.fromkeys(names, 150)) == list(range(151))


def test_a_shared_bound_is_a_step_boundary() -> None:
    bitmaps = Bitmaps()
    with mock.patch.object(bitmaps_module, "STEPS", 8):
        for number in range(100):
            low = 50.5 if number % 2 else float(number)
            bitmaps.add((number, 0), (PlaceInterval("a", NUMBERS, low, None),))
        while bitmaps._members.young:
            bitmaps.search({})
        [column] = bitmaps._members.blocks[0].columns
        assert 50.5 in column.bounds[float]
        assert len(column.bounds[float]) <= 9
        for value in (50.4, 50.5, 50, 51):
            expected = [n for n in range(100) if value >= (50.5 if n % 2 else n)]
            assert bitmaps.search({"a": value}) == expected


def test_empty_ranges_and_mixed_kinds_are_searched() -> None:
    index = MatchIndex()
    texts = ["a > 5 AND a < 3", "a > 1 AND a < 'x'", "a > 1 AND a < 9", "a > 'm' AND a < 'x'"]
    with mock.patch.multiple(bitmaps_module, TESTS_PER_RANGE=0):
        for text in texts:
            index.add(text, parse(text))
        for value, expected in [(4, texts[2:3]), ("n", texts[3:]), (True, []), (None, []), (9, [])]:
            for _ in range(3):
                assert index.match({} if value is None else {"a": value}) == expected


@pytest.mark.parametrize("many", [100, BLOCK + 100, *at_length([3 * BLOCK])])
def test_many_ranges_match_alike_singly_and_in_batches(many: int) -> None:
    random, index = Random(1), MatchIndex()
    for number in range(many):
        low, high = sorted(random.sample(range(1_000), 2))
        index.add(f"s{number}", parse(f"a BETWEEN {low} AND {high} AND b < {random.random()}"))
    asked = [{"a": random.randrange(1_000), "b": random.random()} for _ in range(200)]
    singles = [index.match(each) for each in asked]
    assert [sorted(found) for found in index.match_each(asked)] == list(map(sorted, singles))
    offsets, ids = index.match_batch(asked)
    pieces = [ids[offsets[at] : offsets[at + 1]].tolist() for at in range(len(asked))]
    assert list(map(sorted, pieces)) == list(map(sorted, singles))
    assert sum(map(len, singles)) > 10 * many
