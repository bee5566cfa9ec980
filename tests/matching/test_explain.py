"""Explanations of a match, and of a mismatch."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given

from shoal.language import parse
from shoal.matching import Explanation, FilterVerdict, evaluate, explain
from shoal.model import COMPLEMENT, Filter, Operator, Value, predicate
from tests.strategies import attributes, filters

NAN = math.nan
VERDICTS = {True: FilterVerdict.TRUE, False: FilterVerdict.FALSE, None: FilterVerdict.UNKNOWN}


@pytest.mark.parametrize(
    ("text", "found", "verdict", "reason"),
    [
        ("a = 'UA'", "AA", "FALSE", "a is 'AA', not 'UA'"),
        ("a = 'UA'", "ua", "FALSE", "a is 'ua', not 'UA' (only the case of letters differs)"),
        ("a IN ('x', 'y')", "y ", "FALSE",
         "a is 'y ', which is none of ('x', 'y') (only spaces around it differ)"),
        ("a = 'UA'", "UA", "TRUE", "a is 'UA'"),
        ("a > 30", 12, "FALSE", "a is 12, which is not > 30"),
        ("a >= 30", 29.5, "FALSE", "a is 29.5, which is not >= 30"),
        ("a < 30", NAN, "FALSE",
         "a is NaN, which is not < 30 (NaN is above every number, and equal to itself)"),
        ("a > 30", NAN, "TRUE", "a is NaN (NaN is above every number, and equal to itself)"),
        ("a = 9007199254740993", 2.0**53, "FALSE",
         "a is 9007199254740992.0, not 9007199254740993 "
         "(compared exactly, beyond what a double can tell apart)"),
        ("a > 30", "late", "UNKNOWN", "a is the string 'late', compared with a number"),
        ("a > 30", True, "UNKNOWN", "a is the boolean TRUE, compared with a number"),
        ("a", 1, "UNKNOWN", "a is the number 1, compared with a boolean"),
        ("a LIKE 'x%'", 5, "UNKNOWN", "a is the number 5, compared with a string"),
        ("a <> 5", 5.0, "FALSE", "a is 5.0, which equals 5"),
        ("a IN (1, 2)", 3, "FALSE", "a is 3, which is none of (1, 2)"),
        ("a NOT IN (1, 2)", 2, "FALSE", "a is 2, which is one of (1, 2)"),
        ("a LIKE 'N5%'", "N4", "FALSE", "a is 'N4', which does not have the form 'N5%'"),
        ("a NOT LIKE 'N5%'", "N51", "FALSE", "a is 'N51', which has the form 'N5%'"),
        ("a = ''", "x", "FALSE", "a is 'x', not ''"),
        ("a IS NULL", 0, "FALSE", "a is there: 0"),
        ("a IS NOT NULL", None, "FALSE", "a is missing"),
        ("a > 30", None, "UNKNOWN", "a is missing"),
        ("a < 0", math.inf, "FALSE", "a is inf, which is not < 0"),
    ],
)  # fmt: skip
def test_a_predicate_is_explained(
    text: str, found: Value | None, verdict: str, reason: str
) -> None:
    why = explain(parse(text), {} if found is None else {"a": found})
    assert (why.verdict.value, why.reason) == (verdict, reason)
    assert why.attribute == "a"
    assert why.found is found
    assert why.text().startswith(verdict)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("Dep_Delay", "; there is Dep_Delay, and names are case-sensitive"),
        ("dep_dely", "; there is dep_dely"),
        ("dep delay", "; there is `dep delay`"),
        ("carrier", ""),
    ],
)
def test_a_missing_attribute_names_similar_spellings(given: str, hint: str) -> None:
    assert explain(parse("dep_delay > 30"), {given: 45}).reason == f"dep_delay is missing{hint}"


def test_only_failing_tests_are_shown() -> None:
    filter = parse("a = 1 AND (b = 1 OR c = 1) AND NOT (d = 1 AND e = 1) AND NOT (f = 1 OR g = 1)")
    why = explain(filter, {"a": 1, "b": 2, "d": 1, "e": 1, "f": 2, "g": 1})
    assert why.text() == (
        "FALSE    a = 1 AND (b = 1 OR c = 1) AND NOT (d = 1 AND e = 1) AND NOT (f = 1 OR g = 1): "
        "3 of 4 parts are not TRUE\n"
        "  UNKNOWN  b = 1 OR c = 1: no part is TRUE, 1 of 2 is UNKNOWN\n"
        "    FALSE    b = 1: b is 2, not 1\n"
        "    UNKNOWN  c = 1: c is missing\n"
        "  FALSE    NOT (d = 1 AND e = 1): the operand of NOT is TRUE\n"
        "    TRUE     d = 1 AND e = 1: every part is TRUE\n"
        "      TRUE     d = 1: d is 1\n"
        "      TRUE     e = 1: e is 1\n"
        "  FALSE    NOT (f = 1 OR g = 1): the operand of NOT is TRUE\n"
        "    TRUE     f = 1 OR g = 1: 1 of 2 parts is TRUE\n"
        "      TRUE     g = 1: g is 1"
    )
    assert "a is 1" in why.text(everything=True)


def test_a_match_shows_every_part() -> None:
    assert explain(parse("a = 1 OR b = 1"), {"a": 1}).text() == (
        "TRUE     a = 1 OR b = 1: 1 of 2 parts is TRUE\n"
        "  TRUE     a = 1: a is 1\n"
        "  UNKNOWN  b = 1: b is missing"
    )
    assert explain(parse("FALSE"), {}).text() == "FALSE    FALSE: a constant"


def test_the_tree_is_written_as_json() -> None:
    tree = explain(parse("NOT a > 1"), {"a": 5}).to_dict()
    assert json.loads(json.dumps(tree)) == tree
    assert tree == {
        "part": "NOT a > 1", "verdict": "FALSE", "operator": "NOT",
        "reason": "the operand of NOT is TRUE",
        "parts": [{"part": "a > 1", "verdict": "TRUE", "operator": ">", "attribute": "a",
                   "found": 5, "reason": "a is 5"}],
    }  # fmt: skip


def test_long_values_are_cut_and_odd_filters_have_some_text() -> None:
    why = explain(parse(f"a = '{'x' * 5_000}'"), {"a": "y" * 5_000})
    assert len(why.text()) < 300
    endless = Filter(predicate("a", Operator.LT, math.inf))
    assert "inf" in explain(endless, {"a": math.inf}).text()


@pytest.mark.parametrize("value", [[1], 2**63, b"x"])
def test_invalid_publications_are_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError), match=r"attribute .a."):
        explain(parse("a = 1"), {"a": value})  # type: ignore[dict-item]


def leaves(why: Explanation) -> list[Explanation]:
    return [leaf for part in why.parts for leaf in leaves(part)] if why.parts else [why]


@given(filters(), attributes())
def test_the_verdicts_equal_the_definition(filter: Filter, publication: dict[str, Value]) -> None:
    why = explain(filter, publication)
    assert why.verdict is VERDICTS[evaluate(filter, publication)]
    for leaf in leaves(why):
        if leaf.attribute is not None:
            assert leaf.found is publication.get(leaf.attribute)
            assert Operator(leaf.operator) in COMPLEMENT
            assert leaf.reason
    # A mismatch has at least one failing test, or a constant.
    assert why.verdict is FilterVerdict.TRUE or len(why.text().split("\n")) >= 1 + bool(why.parts)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a - b > 50", "a - b is 5.5, which is not > 50 (a = 10, b = 4.5)"),
        ("a > b", "the condition is TRUE (a = 10, b = 4.5)"),
        ("a < c", "the two do not compare; c is missing (a = 10)"),
        ("a + A > 1", "A + a has no value; A is missing; there is a, and names are case-sensitive"),
        ("length(a) > 3", "length(a) has no value (a = 10)"),
        ("lower(s) = 'x'", "lower(s) is 'abc', not 'x' (s = 'Abc')"),
        ("abs(c - 1) > 2", "abs(c - 1) has no value; c is missing"),
        ("round(TRY_CAST(s AS DOUBLE), 1) > 2", "TRY_CAST(s AS DOUBLE) is missing (s = 'Abc')"),
        ("exists(tags, t -> t > 5)", "exists(tags, item -> item > 5) has no value (`$list.tags`"),
        ("array_contains(tag, 'x')", "array_contains(tag, 'x') has no value; tag is missing"),
    ],
)
def test_a_reason_names_the_part_of_an_expression_that_is_missing(text: str, reason: str) -> None:
    attributes = {"a": 10, "b": 4.5, "s": "Abc", "$list.tags": '["a"]'}
    assert reason in explain(parse(text), attributes).reason
