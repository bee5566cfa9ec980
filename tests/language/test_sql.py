"""The SQL language of filters: meaning, limits, errors, and printing."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shoal.language import FilterSyntaxError, format_filter, parse
from shoal.language.building import MAX_DEPTH
from shoal.language.sql import MAX_PREDICATES, MAX_TEXT_LENGTH
from shoal.model import (
    And,
    Constant,
    Filter,
    FilterError,
    Kind,
    Not,
    Operator,
    Or,
    filters,
    predicate,
)
from tests.examples import examples
from tests.strategies import ODD_NAMES, PLAIN_NAMES, expressions, predicates

A1 = predicate("a", Operator.EQ, 1)
B2 = predicate("b", Operator.EQ, 2)
C3 = predicate("c", Operator.EQ, 3)


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("a = 1", A1),
        ("a=1", A1),
        ("a = 1 AND b = 2 OR c = 3", Or((And((A1, B2)), C3))),
        ("a = 1 and (b = 2 Or c = 3)", And((A1, Or((B2, C3))))),
        ("NOT a = 1 AND b = 2", And((Not(A1), B2))),
        ("(a = 1 AND b = 2) AND c = 3", And((A1, B2, C3))),
        ("a = 1 AND (b = 2 AND c = 3)", And((A1, B2, C3))),
        ("((a = 1))", A1),
        ("TRUE", Constant(True)),
        ("NOT false", Not(Constant(False))),
        ("cancelled", predicate("cancelled", Operator.EQ, True)),
        ("NOT cancelled", Not(predicate("cancelled", Operator.EQ, True))),
        ("TRUE = cancelled", predicate("cancelled", Operator.EQ, True)),
        ("30 < a", predicate("a", Operator.GT, 30)),
        ("30 >= a", predicate("a", Operator.LE, 30)),
        ("'x' <> a", predicate("a", Operator.NE, "x")),
        ("a != 1", predicate("a", Operator.NE, 1)),
        (
            "a BETWEEN 1 AND 2 AND b = 2",
            And((predicate("a", Operator.GE, 1), predicate("a", Operator.LE, 2), B2)),
        ),
        (
            "a NOT BETWEEN 1 AND 2",
            Or((predicate("a", Operator.LT, 1), predicate("a", Operator.GT, 2))),
        ),
        ("a IN (1, 2.5)", predicate("a", Operator.IN, (1, 2.5))),
        ("a NOT IN ('x')", predicate("a", Operator.NOT_IN, ("x",))),
        ("a LIKE 'x%'", predicate("a", Operator.LIKE, "x%")),
        (r"a LIKE 'x\%'", predicate("a", Operator.LIKE, r"x\%")),
        ("a LIKE 'x!%!!%' ESCAPE '!'", predicate("a", Operator.LIKE, r"x\%!%")),
        (r"a NOT LIKE '\\%' ESCAPE '!'", predicate("a", Operator.NOT_LIKE, r"\\%")),
        ("a IS NULL", predicate("a", Operator.IS_NULL)),
        ("a is not null", predicate("a", Operator.IS_NOT_NULL)),
        ("`openClose%Diff` > -0.5", predicate("openClose%Diff", Operator.GT, -0.5)),
        ("`a``b` = 1", predicate("a`b", Operator.EQ, 1)),
        ("ANDROID = 1", predicate("ANDROID", Operator.EQ, 1)),
        ("a > - 5", predicate("a", Operator.GT, -5)),
        ("a > -9223372036854775808", predicate("a", Operator.GT, -(2**63))),
        ("a = 'it''s'", predicate("a", Operator.EQ, "it's")),
    ],
)
def test_a_text_has_its_filter(text: str, expression: object) -> None:
    assert parse(text).expression == expression


def test_integers_stay_exact_and_decimals_are_doubles() -> None:
    assert type(parse("a = 9007199254740993").expression.operand) is int  # type: ignore[union-attr]
    assert parse("a = 9007199254740993").expression.operand == 2**53 + 1  # type: ignore[union-attr]
    for text in ("1.", "1.0", "1e0", "10E-1", "0.1e1"):
        assert type(parse(f"a = {text}").expression.operand) is float  # type: ignore[union-attr]
        assert parse(f"a = {text}").expression.operand == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "expected"),
    [
        ("", 1, 1, "the filter is empty", "an attribute"),
        ("dep_delay 30", 1, 11, "unexpected 30", "a comparison (=, <>, <, <=, >, >=)"),
        ("a = 1 AND\n\tOR b = 2", 2, 2, "unexpected OR", "an attribute"),
        ("a =", 1, 4, "the filter ends too early", "a number"),
        ("(a = 1", 1, 7, "the filter ends too early", ")"),
        ("a = 1)", 1, 6, "unexpected )", "the end of the filter"),
        ("a = NULL", 1, 5, "ask IS NULL", "a number"),
        ("a == 1", 1, 4, "equality is one =", "a number"),
        ("a .b = 1", 1, 3, "a name with a dot is `a.b`, without spaces", "LIKE"),
        ('a = "x"', 1, 5, "'single quotes'", "a 'string'"),
        ("a = 'x", 1, 5, "no closing quote", "a 'string'"),
        ("`` = 1", 1, 1, "empty or not closed", "an attribute"),
        ("a > 30L", 1, 5, "30L is not a number", ""),
        ("a > 1.2.3", 1, 5, "1.2.3 is not a number", ""),
        ("a > 9223372036854775808", 1, 5, "does not fit in 64 bits", ""),
        ("a > 1e999", 1, 5, "too large for a double", ""),
        (f"a > 0.{'1' * 60}", 1, 5, "at most 38 digits", ""),
        ("a IN (1, 'x')", 1, 10, "different kinds", ""),
        ("a BETWEEN 1 AND 'x'", 1, 17, "different kinds", ""),
        ("a IN ()", 1, 7, "unexpected )", "a number"),
        ("a IS 5", 1, 6, "unexpected 5", "NULL"),
        ("1 = 'x'", 1, 5, "different kinds", ""),
        (r"a LIKE 'x\\y'", 1, 8, "must stand before %, _", ""),
        (r"a LIKE 'x\\'", 1, 8, "not at the end", ""),
        ("a LIKE 'x' ESCAPE '!!'", 1, 19, "ESCAPE takes one character", ""),
        (r"a = '\ud800'", 1, 5, "half a surrogate pair", ""),
        (r"a = '\U00110000'", 1, 5, "beyond the last character", ""),
        ("a = '\ud800'", 1, 6, "half a surrogate pair", ""),
        ("a = 1 -- b", 1, 7, "-- begins a comment", ""),
        ("a = TRUE = b", 1, 10, "unexpected =", "AND"),
    ],
)
def test_a_wrong_filter_names_the_place_and_the_expected_tokens(
    text: str, line: int, column: int, message: str, expected: str
) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text)
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert message in error.message
    assert not expected or expected in error.expected
    picture = str(error).splitlines()
    assert picture[2] == " " * (column + 1) + "^"
    assert "_" not in " ".join(error.expected)


def test_the_caret_stays_below_its_place_in_a_long_line() -> None:
    text = " AND ".join(f"attribute_{number} = 1" for number in range(50)) + " AND ?"
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text)
    _, line, caret, _ = str(caught.value).splitlines()
    assert line[caret.index("^")] == "?"
    assert len(line) < 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(" * (MAX_DEPTH + 1) + "a" + ")" * (MAX_DEPTH + 1), "nest deeper"),
        ("NOT " * (MAX_DEPTH + 1) + "a", "nest deeper"),
        ("a" * (MAX_TEXT_LENGTH + 1), "at most 65536 characters"),
        (" AND ".join(["a = 1"] * (MAX_PREDICATES + 1)), "at most 1000 predicates"),
        (" OR ".join(f"a = {n}" for n in range(65)), "more than 64 conjunctions"),
        (" AND ".join(f"(a{n} OR b{n})" for n in range(30)), "more than 64 conjunctions"),
    ],
)
def test_limits_of_filters_are_errors(text: str, message: str) -> None:
    with pytest.raises(FilterSyntaxError, match=message):
        parse(text)


def test_alternatives_beside_many_tests_take_bounded_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of all tests, of which few distinguish the alternatives, would take seconds."""
    monkeypatch.setattr(filters, "MAX_WORK", 20_000)
    either = " AND ".join(f"(a{number} OR b{number})" for number in range(6))
    many = "".join(f" AND c{number}" for number in range(900))
    assert len(parse(either + many).normal_form) == 64


def test_a_normal_form_that_takes_too_long_is_refused() -> None:
    text = " AND ".join(f"(a{number % 6} OR b{number})" for number in range(480))
    with pytest.raises(FilterSyntaxError, match="takes too long to find"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("(a OR b) AND a", "a"),
        ("(a OR b) AND (a OR c) AND d", "d AND a OR d AND b AND c"),
        ("(a AND b OR c) AND a AND b", "a AND b"),
        ("(a OR b) AND FALSE", "FALSE"),
        ("(a OR b) AND TRUE", "a OR b"),
        ("NOT (a OR b AND c) AND NOT (a AND d)", "NOT a AND (NOT b OR NOT c)"),
    ],
)
def test_normal_forms_are_as_short_as_absorption_makes_them(text: str, same: str) -> None:
    found, wanted = parse(text).normal_form, parse(same).normal_form
    assert {frozenset(each) for each in found} == {frozenset(each) for each in wanted}


def test_the_deepest_filter_can_be_used() -> None:
    parts = "NOT (a = 1 AND " * (MAX_DEPTH // 2) + "b = 2" + ")" * (MAX_DEPTH // 2)
    deep = parse(parts)
    assert parse(format_filter(deep)) == deep
    assert hash(deep) == hash(parse(parts))
    assert deep.attributes == ("a", "b")


@given(
    expressions(
        predicates(
            PLAIN_NAMES + ODD_NAMES,
            strings=st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        ),
        max_leaves=12,
    )
)
@settings(max_examples=examples(100))
def test_printing_and_parsing_again_gives_the_same_filter(expression: object) -> None:
    made = Filter(expression)  # type: ignore[arg-type]
    try:
        made.normal_form  # noqa: B018
    except FilterError:
        return  # the parser would refuse it
    text = format_filter(made)
    again = parse(text)
    assert again == made
    assert format_filter(again) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(-0.0)
def test_doubles_survive_to_the_last_bit(value: float) -> None:
    text = format_filter(Filter(predicate("a", Operator.EQ, value)))
    operand = parse(text).expression.operand  # type: ignore[union-attr]
    assert repr(operand) == repr(value)


def test_parentheses_are_minimal() -> None:
    text = "(a = 1 OR b = 2) AND NOT (c = 3 AND NOT NOT a = 1) OR b = 2 AND c = 3"
    assert format_filter(parse(f"({text})")) == text


def test_unwritable_filters_are_errors() -> None:
    for unwritable in (
        predicate("a", Operator.LT, float("inf")),
        predicate("", Operator.EQ, 1),
    ):
        with pytest.raises(FilterError):
            format_filter(Filter(unwritable))


def test_a_connective_without_operands_is_its_constant() -> None:
    assert format_filter(Filter(Or((And(()), A1)))) == "TRUE OR a = 1"


FRAGMENTS = st.sampled_from(
    [
        *("a", "b_1", "`x y`", "=", "<>", "<=", "(", ")", ",", "AND", "or", "NOT", "IN", "LIKE"),
        *("ESCAPE", "IS", "NULL", "BETWEEN", "TRUE", "1", "-2.5e3", "'x'", "'", "`", "\\", "\n"),
        *("9" * 5000, "1e99999", ".", "--", "é", "\ud800", "\0"),
    ]
)


@given(st.one_of(st.text(), st.lists(FRAGMENTS).map(" ".join), st.lists(FRAGMENTS).map("".join)))
@settings(max_examples=examples(150))
def test_any_text_is_a_filter_or_a_syntax_error(text: str) -> None:
    result = outcome(text)
    if isinstance(result, FilterSyntaxError):
        assert str(result).startswith(f"line {result.line}, column {result.column}: ")
    else:
        assert parse(format_filter(result)) == result


def outcome(text: str) -> Filter | FilterSyntaxError:
    try:
        return parse(text)
    except FilterSyntaxError as error:
        return error


def test_one_and_true_are_different() -> None:
    assert parse("a = 1") != parse("a = TRUE")
    assert parse("a").expression.kind is Kind.BOOLEAN  # type: ignore[union-attr]


def test_errors_have_no_control_characters() -> None:
    for text in ("a = \x1b[2J", "a = 1 \x1b\x07\x9b", "a \u2028 = 1"):
        with pytest.raises(FilterSyntaxError) as caught:
            parse(text)
        assert str(caught.value).replace("\n", "").isprintable()
        assert caught.value.one_line.isprintable()
