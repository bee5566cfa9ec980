"""Domains of values: neighbours, bounds by type, and ends."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.matching.domains import (
    END,
    NAN,
    Beyond,
    after_prefix,
    double_at_least,
    integer_at_least,
    number_predecessor,
    number_successor,
    string_successor,
)
from shoal.model import INTEGER_MAX, INTEGER_MIN
from tests.strategies import NUMBERS, STRINGS

ANY_NUMBER = st.one_of(
    st.sampled_from(NUMBERS),
    st.integers(INTEGER_MIN, INTEGER_MAX),
    st.floats(allow_nan=False),
)


@given(ANY_NUMBER)
def test_nothing_lies_between_neighbours(value: int | float) -> None:
    above = number_successor(value)
    assert above > value
    assert number_predecessor(above) == value
    if not isinstance(above, Beyond):
        candidates: list[int | float] = [math.nextafter(value, math.inf)]
        if not math.isinf(value):
            nearby = range(math.floor(value), math.floor(value) + 3)
            candidates += [number for number in nearby if INTEGER_MIN <= number <= INTEGER_MAX]
        assert not any(value < candidate < above for candidate in candidates)


@given(ANY_NUMBER, ANY_NUMBER)
def test_bounds_by_type_divide_like_the_bound(bound: int | float, value: int | float) -> None:
    exact = integer_at_least(bound) if isinstance(value, int) else double_at_least(bound)
    assert (value < exact) is (value < bound)


def test_nan_is_above_all_other_numbers() -> None:
    assert number_successor(math.inf) is NAN
    assert number_successor(NAN) is END
    assert number_predecessor(END) is NAN
    assert number_predecessor(NAN) == math.inf
    assert number_predecessor(-math.inf) is None
    assert NAN < END
    assert math.inf < NAN
    assert not math.nan < NAN
    assert math.nan < END
    assert END > "x"


@pytest.mark.parametrize(
    ("prefix", "after"),
    [("a", "b"), ("a\U0010ffff", "b"), ("\ud7ff", "\ue000"), ("\U0010ffff", END), ("", END)],
)
def test_the_first_string_after_a_prefix(prefix: str, after: str | Beyond) -> None:
    assert after_prefix(prefix) == after


@given(st.sampled_from(STRINGS), st.sampled_from(STRINGS))
def test_the_successor_of_a_string(text: str, other: str) -> None:
    assert (other > text) is (other >= string_successor(text))
