"""Filters as large as a text may be: their normal form, and the time to find it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.language import parse
from shoal.model import And, Constant, Expression, Filter, FilterError, Not, Operator, Or, predicate
from tests.calls import Calls
from tests.strategies import filters

Names = list[str]


def is_one(name: str) -> Expression:
    return predicate(name, Operator.EQ, 1)


def both(names: Names) -> Expression:
    return And(tuple(map(is_one, names)))


def either(names: Names) -> Expression:
    return Or(tuple(map(is_one, names)))


SIX = [[f"a{at}", f"b{at}"] for at in range(6)]
LARGE: dict[str, tuple[Expression, int | None]] = {
    "one of each of six, then tests": (
        And((*map(either, SIX), *(is_one(f"c{at}") for at in range(980)))), 64),
    "one of each of six, again and again": (And(tuple(map(either, SIX * 80))), 64),
    "wide in two ways, six times": (
        And(tuple(Or((both([f"a{at}.{n}" for n in range(80)]),
                      both([f"b{at}.{n}" for n in range(80)]))) for at in range(6))), 64),
    "wide, and narrow again": (
        And(tuple(part for at in range(55) for part in
                  (*(either([f"a{at}.{n}", f"b{at}.{n}"]) for n in range(6)),
                   *(is_one(f"b{at}.{n}") for n in range(6))))), 1),
    "many tests": (both([f"a{at}" for at in range(1_000)]), 1),
    "too many ways": (either([f"a{at}" for at in range(1_000)]), None),
    "ways that nearly absorb each other": (
        And(tuple(either([f"a{n}" for n in range(60)] + [f"b{at}"]) for at in range(16))), 61),
    "none of many": (Not(either([f"a{at}" for at in range(1_000)])), 1),
}  # fmt: skip


@pytest.mark.parametrize(("expression", "size"), LARGE.values(), ids=LARGE)
def test_every_filter_is_normalised_in_bounded_time(
    expression: Expression, size: int | None
) -> None:
    filter = Filter(expression)
    with Calls() as calls:
        if size is None:
            with pytest.raises(FilterError, match="more than 64 conjunctions"):
                filter.normal_form  # noqa: B018  # to be computed
        else:
            assert len(filter.normal_form) == size
            assert len(filter.equalities) <= 1_000
    assert calls.count < 500_000


def test_predicates_keep_the_order_of_the_expression() -> None:
    [one, other] = parse("(a = 1 OR b = 2) AND c = 3 AND d = 4").normal_form
    assert [each.attribute for each in one] == ["a", "c", "d"]
    assert [each.attribute for each in other] == ["b", "c", "d"]


def test_a_false_conjunction_is_false_at_any_size() -> None:
    assert Filter(And((*map(either, SIX), Constant(False)))).normal_form == ()


def test_common_equalities_are_those_of_every_conjunction() -> None:
    filter = parse("a = 1 AND (b = 2 OR c = 3) AND a > 0 AND d = 'x'")
    assert [each.attribute for each in filter.equalities] == ["a", "d"]


@given(st.sets(st.sampled_from(["a", "b", "d"])), filters(["a", "c"]))
def test_a_joined_filter_is_in_normal_form(names: set[str], content: Filter) -> None:
    found = Filter.joined([predicate(name, Operator.EQ, 1) for name in sorted(names)], content)
    assert found.normal_form == Filter(found.expression).normal_form
