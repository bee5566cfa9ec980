"""Places and ranges: a matching publication lies in a segment of the filter."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.language import parse
from shoal.matching.segments import (
    HIGHEST,
    LOWEST,
    Dimension,
    Range,
    place_of,
    quantile_cuts,
    segment_at,
    segments_met,
    uniform_cuts,
)
from shoal.matching.semantics import matches
from shoal.model import Filter
from tests.strategies import NUMBERS, STRINGS, VALUES, attributes, expressions, predicates

NUMBER = Dimension(attribute="a", low=0, high=10)
TEXT = Dimension(attribute="a", low="a", high="z")
CUTS = st.lists(
    st.one_of(st.sampled_from(NUMBERS), st.sampled_from(STRINGS)).map(place_of), unique=True
).map(lambda places: tuple(sorted(places)))


@given(
    filter=expressions(predicates()).map(Filter),
    values=attributes(),
    cuts=CUTS,
    dimension=st.sampled_from([NUMBER, TEXT]),
)
def test_a_matching_publication_lies_in_a_segment_of_the_filter(
    filter: Filter, values: dict[str, object], cuts: tuple[float, ...], dimension: Dimension
) -> None:
    met = segments_met(cuts, dimension.ranges(filter))
    assert list(met) == sorted(set(met))
    if matches(filter, values):  # type: ignore[arg-type]
        assert segment_at(cuts, dimension.place(values)) in met  # type: ignore[arg-type]


@given(value=VALUES, cuts=CUTS)
def test_a_place_lies_in_one_segment(value: object, cuts: tuple[float, ...]) -> None:
    place = NUMBER.place({"a": value})  # type: ignore[dict-item]
    bounds = (LOWEST, *cuts, math.inf)
    inside = [low <= place < high for low, high in pairwise(bounds)]
    assert inside.count(True) == 1
    assert inside[segment_at(cuts, place)]


@given(st.lists(st.one_of(st.sampled_from(NUMBERS), st.floats(allow_nan=False)), min_size=2))
def test_numbers_lie_in_their_order(values: list[float]) -> None:
    places = [place_of(value) for value in sorted(values)]
    assert places == sorted(places)


@given(st.lists(st.one_of(st.sampled_from(STRINGS), st.text()), min_size=2))
def test_strings_lie_in_their_order(values: list[str]) -> None:
    places = [place_of(value) for value in sorted(values)]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("a >= 2 AND a < 5", [(2, math.nextafter(5, 0))]),
        ("a BETWEEN 2 AND 5", [(2, 5)]),
        ("a > 2", [(math.nextafter(2, 3), HIGHEST)]),
        ("a <= 2", [(LOWEST, 2)]),
        ("a = 2 OR a = 2.0 OR a BETWEEN 7 AND 8 OR a = 7.5", [(2, 2), (7, 8)]),
        ("a IN (4, 2)", [(2, 2), (4, 4)]),
        ("a < 1 AND a > 2", []),
        ("b > 2", [(LOWEST, HIGHEST)]),
        ("a = 2 OR b = 3", [(LOWEST, HIGHEST)]),
        ("a IS NULL", [(LOWEST, LOWEST)]),
        ("a IS NOT NULL", [(LOWEST, HIGHEST)]),
        ("a = TRUE", [(LOWEST, LOWEST)]),
        ("a = 'x'", [(LOWEST, LOWEST)]),
        ("a IS NULL OR a = 3", [(LOWEST, LOWEST), (3, 3)]),
        ("a <> 3", [(LOWEST, HIGHEST)]),
        ("a = 9007199254740993", [(2.0**53, 2.0**53)]),
    ],
)
def test_ranges_of_filters_equal_calculated_ones(
    text: str, ranges: list[tuple[float, float]]
) -> None:
    assert list(NUMBER.ranges(parse(text))) == ranges


def test_ranges_of_strings_equal_calculated_ones() -> None:
    place = place_of
    assert TEXT.ranges(parse("a = 'UA'")) == (Range(place("UA"), place("UA")),)
    assert TEXT.ranges(parse("a >= 'b' AND a < 'd'")) == (Range(place("b"), place("d")),)
    assert TEXT.ranges(parse("a LIKE 'Y%'")) == (Range(place("Y"), place("Z")),)
    assert TEXT.ranges(parse("a LIKE '%Y'")) == (Range(place(""), HIGHEST),)
    assert TEXT.ranges(parse("a = 3")) == (Range(LOWEST, LOWEST),)


def test_a_half_open_range_does_not_touch_the_next_segment() -> None:
    cuts = NUMBER.cuts(10)
    assert segments_met(cuts, NUMBER.ranges(parse("a >= 2 AND a < 4"))) == (2, 3)
    assert segments_met(cuts, NUMBER.ranges(parse("a >= 2 AND a <= 4"))) == (2, 3, 4)
    assert segments_met(cuts, NUMBER.ranges(parse("a = 2 OR a = 2.5 OR a > 8.5"))) == (2, 8, 9)


def test_publications_without_a_suitable_value_lie_lowest() -> None:
    for value in (None, True, "text"):
        attributes = {} if value is None else {"a": value}
        assert NUMBER.place(attributes) == LOWEST
    assert TEXT.place({"a": 5}) == LOWEST
    assert NUMBER.place({"a": float("nan")}) == NUMBER.place({"a": float("inf")}) == HIGHEST


def test_quantiles_divide_skewed_data_evenly() -> None:
    random = Random(5)
    places = [random.gauss(500, 100) for _ in range(10_000)]
    cuts = quantile_cuts(places, 8)
    counts = np.bincount(np.searchsorted(cuts, places, side="right"), minlength=8)
    assert counts.min() == counts.max() == 1_250


@given(st.lists(st.sampled_from([1.0, 2.0, 3.0, 4.0]), min_size=1), st.integers(1, 9))
def test_quantiles_of_few_values_leave_no_segment_empty(places: list[float], count: int) -> None:
    cuts = quantile_cuts(places, count)
    assert len(cuts) <= count - 1
    assert {segment_at(cuts, place) for place in places} == set(range(len(cuts) + 1))


def test_wrong_dimensions_are_errors() -> None:
    for key, options in {
        "without an attribute": {"attribute": ""},
        "not below": {"attribute": "a", "low": 5, "high": 5},
        "is not a number": {"attribute": "a", "low": 0, "high": "z"},
        "is not a string": {"attribute": "a", "low": "a", "high": "z", "boundaries": (3,)},
        "do not ascend": {"attribute": "a", "boundaries": (5, 3)},
        "no boundary": {"attribute": "a", "boundaries": (float("nan"),)},
    }.items():
        with pytest.raises(ValueError, match=key):
            Dimension(**options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="2 boundaries make 3 segments, not 5"):
        Dimension(attribute="a", boundaries=(3, 5)).cuts(5)
    for wrong in (lambda: uniform_cuts(0, 1, 0), lambda: quantile_cuts([1], 0)):
        with pytest.raises(ValueError, match="0 segments"):
            wrong()
    with pytest.raises(ValueError, match="no places"):
        quantile_cuts([], 3)


def test_given_boundaries_are_the_cuts() -> None:
    assert Dimension(attribute="a", boundaries=(3, 5)).cuts(3) == (3.0, 5.0)
    assert TEXT.cuts(1) == ()
    assert uniform_cuts(0, 10, 2) == (5.0,)
