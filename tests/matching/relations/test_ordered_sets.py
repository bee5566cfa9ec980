"""Ordered sets of values: membership, emptiness and intervals."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shoal.matching.domains import END, NAN
from shoal.matching.relations.ordered_sets import (
    NUMBERS,
    STRINGS,
    OrderedSet,
    intersection,
    is_empty,
    is_subset,
    ordered_set,
)

# Neighbours in their domain, so that few values lie between them.
NEIGHBOURS = [float("-inf"), 2**53, 2**53 + 1, 2**53 + 2, 2.0**1023 * 1.9999999999999998]
NUMBER_BOUNDS = st.sampled_from([*NEIGHBOURS, float("inf"), NAN, END])
NUMBER_VALUES = st.sampled_from([*NEIGHBOURS, float("inf"), 0, 5.5, 2**53 - 1, 1e300])
TEXTS = st.sampled_from(["", "\0", "\0\0", "a", "a\0", "a\0\0", "b"])


def sets(domain: Any, values: st.SearchStrategy[Any], bounds: Any) -> st.SearchStrategy[OrderedSet]:
    return st.builds(
        ordered_set,
        st.just(domain),
        values,
        bounds,
        st.one_of(st.none(), st.lists(values, max_size=3)),
        st.lists(values, max_size=3),
    )


NUMBER_SETS = sets(NUMBERS, NUMBER_VALUES, NUMBER_BOUNDS)
STRING_SETS = sets(STRINGS, TEXTS, st.one_of(TEXTS, st.just(END)))
PAIRS = st.one_of(st.tuples(NUMBER_SETS, NUMBER_SETS), st.tuples(STRING_SETS, STRING_SETS))


@given(PAIRS)
def test_members_agree_with_the_relations(pair: tuple[OrderedSet, OrderedSet]) -> None:
    left, right = pair
    both = intersection(left, right)
    tried: list[Any] = ["", "\0", "a", "a\0"]
    if left.domain is NUMBERS:
        tried = [*NEIGHBOURS, 0, 5.5]
    for value in tried:
        assert (value in both) is (value in left and value in right)
        if is_subset(left, right):
            assert value not in left or value in right
    assert is_subset(both, left)
    assert is_subset(both, right)
    assert is_subset(left, right) is (both == left or is_subset(left, both))


@given(st.one_of(NUMBER_SETS, STRING_SETS))
def test_a_set_that_is_not_empty_has_its_low_end(values: OrderedSet) -> None:
    if values.points is None:
        assert not is_empty(values)
        assert values.low in values
    assert is_subset(values, values)


def test_an_interval_within_points() -> None:
    three = ordered_set(NUMBERS, 2**53, 2**53 + 3)
    assert is_subset(three, ordered_set(NUMBERS, points=[2**53, 2**53 + 1, 2**53 + 2]))
    assert not is_subset(three, ordered_set(NUMBERS, points=[2**53, 2**53 + 2]))
    assert is_subset(ordered_set(NUMBERS, NAN), ordered_set(NUMBERS, float("inf")))
    two = ordered_set(STRINGS, "a", "a\0\0")
    assert is_subset(two, ordered_set(STRINGS, points=["a", "a\0"]))
    assert not is_subset(ordered_set(STRINGS, "a", "b"), ordered_set(STRINGS, points=["a"]))
