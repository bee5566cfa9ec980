"""The definition of matching: predicates, missing values, and the normal form."""

from __future__ import annotations

import pytest
from hypothesis import given

from shoal.language import parse
from shoal.matching import evaluate, matches
from shoal.matching.predicates import compile_predicate
from shoal.matching.semantics import evaluate_predicate
from shoal.model import Filter, FilterError, Predicate, Value
from tests.strategies import attributes, filters, predicates

NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("text", "value", "result"),
    [
        ("a = 9007199254740993", 2**53 + 1, True),
        ("a = 9007199254740993", float(2**53), False),
        ("a > 9007199254740992.0", 2**53 + 1, True),
        ("a = 1", 1.0, True),
        ("a = 1", True, None),
        ("a = TRUE", 1, None),
        ("a = 1", "1", None),
        ("a <> 1", "1", None),
        ("a < 'b'", "a", True),
        ("a < 'b'", "B", True),
        ("a > '\ue000'", "\U0001f600", True),
        ("a > 1e300", NAN, True),
        ("a < 1e300", NAN, False),
        ("a <> 1", NAN, True),
        ("a NOT IN (1, 2)", NAN, True),
        ("a > -1e300", -INFINITY, False),
        ("a IS NULL", 0, False),
        ("a IS NOT NULL", "", True),
        ("a > FALSE", True, True),
        ("a IN ('x')", 1, None),
        ("a LIKE '%\n%'", "x\ny", True),
        ("a LIKE '_'", "𝄞", True),
        ("a LIKE 'A%'", "ab", False),
        ("a LIKE 'a'", 1, None),
    ],
)
def test_a_predicate_decides_a_value(text: str, value: Value, result: bool | None) -> None:
    assert evaluate(parse(text), {"a": value}) is result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("a = 1", None),
        ("NOT a = 1", None),
        ("a IS NULL", True),
        ("a = 1 OR TRUE", True),
        ("a = 1 AND FALSE", False),
        ("a = 1 OR FALSE", None),
        ("a = 1 AND TRUE", None),
        ("NOT (a = 1 AND FALSE)", True),
        ("a = 1 OR a <> 1", None),
    ],
)
def test_a_missing_value_is_unknown(text: str, result: bool | None) -> None:
    assert evaluate(parse(text), {}) is result
    assert matches(parse(text), {}) is (result is True)


@given(filters(), attributes())
def test_the_normal_form_is_true_exactly_when_the_filter_is(
    filter: Filter, publication: dict[str, Value]
) -> None:
    try:
        normal_form = filter.normal_form
    except FilterError:
        return
    met = any(
        all(evaluate_predicate(tested, publication.get(tested.attribute)) for tested in conjunction)
        for conjunction in normal_form
    )
    assert met is matches(filter, publication)


@given(predicates(), attributes())
def test_compiled_predicates_agree(tested: Predicate, publication: dict[str, Value]) -> None:
    expected = evaluate_predicate(tested, publication.get(tested.attribute)) is True
    assert compile_predicate(tested)(publication) is expected
