"""The PADRES language: subscriptions and publications, written and read."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.language import FilterSyntaxError, format_filter, parse
from shoal.language.padres import (
    format_publication,
    format_subscription,
    parse_publication,
    parse_subscription,
)
from shoal.model import And, Filter, FilterError, Operator, predicate
from shoal.model.like import escape_literal
from tests.examples import examples

# The publication that the relocation paper prints (section 5.1), as PADRES writes it.
YAHOO = (
    "[class,'STOCK'],[symbol,'YHOO'],[open,18.37],[high,18.5],[low,18.25],[close,18.37],"
    "[volume,151200],[date,'5-Sep-96'],[openClose%Diff,0.0],[highLow%Diff,0.014]"
)


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("[class,eq,'STOCK'],[volume,>,1000]", "class = 'STOCK' AND volume > 1000"),
        ("[ symbol , = , 'YHOO' ] , [low,<>,-1.5]", "symbol = 'YHOO' AND low <> -1.5"),
        ("[a,neq,'x'],[a,str-lt,'b']", "a <> 'x' AND a < 'b'"),
        ("[a,str-le,'x'],[a,str-gt,'b']", "a <= 'x' AND a > 'b'"),
        ("[a,str-ge,'x']", "a >= 'x'"),
        ("[a,str-prefix,'10%']", r"a LIKE '10\\%%'"),
        ("[a,str-postfix,'x'],[a,str-contains,'y']", "a LIKE '%x' AND a LIKE '%y%'"),
        ("[price,isPresent,1.0]", "price IS NOT NULL"),
        ("[openClose%Diff,>=,0.025]", "`openClose%Diff` >= 0.025"),
        ("[a,eq,'it''s'],[b,eq,'true'],[c,<=,+3]", "a = 'it''s' AND b = 'true' AND c <= 3"),
    ],
)
def test_a_subscription_has_its_filter(text: str, sql: str) -> None:
    assert format_filter(parse_subscription(text)) == sql


def test_the_papers_publication_is_read() -> None:
    attributes = parse_publication(YAHOO)
    assert attributes["date"] == "5-Sep-96"
    assert attributes["volume"] == 151200
    assert format_publication(attributes) == YAHOO


@pytest.mark.parametrize(
    ("text", "column", "message", "expected"),
    [
        ("", 1, "ends too early", "["),
        ("[a,>,'x']", 6, "> is for numbers", "a number"),
        ("[a,eq,5]", 7, "eq is for strings", "a 'string'"),
        ("[a,like,'x']", 4, "like is not an operator", "str-contains"),
        ("[a,eq,'x", 7, "no closing quote", ""),
        ("[a,eq,'x']x", 11, "unexpected x", ","),
        ("[a,eq,'x'],", 12, "ends too early", "["),
        ("[,eq,'x']", 2, "unexpected ,", "an attribute name"),
        ("[a,=,YHOO]", 6, "unexpected YHOO", "a 'string'"),
        ("[a,=,1e999]", 6, "too large", ""),
        ("[a,=,99999999999999999999]", 6, "64 bits", ""),
        ("[a,<,1", 7, "ends too early", "]"),
    ],
)
def test_a_wrong_subscription_names_the_place(
    text: str, column: int, message: str, expected: str
) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse_subscription(text)
    assert caught.value.column == column
    assert message in caught.value.message
    assert not expected or expected in caught.value.expected


def test_a_repeated_attribute_is_an_error() -> None:
    with pytest.raises(FilterSyntaxError, match="attribute a stands here twice") as caught:
        parse_publication("[a,1],[a,2]")
    assert caught.value.column == 8


@pytest.mark.parametrize(
    "sql",
    ["a = 1 OR b = 2", "NOT a = 1", "a IN (1, 2)", "a LIKE 'x_'", "a LIKE '%x%y%'", "a LIKE 'x'",
     "a NOT LIKE 'x%'", "a IS NULL", "TRUE", "a = TRUE", "`a,b` = 1", "a = 1 AND (b = 1 OR c = 1)"],
)  # fmt: skip
def test_filters_without_a_padres_form_are_errors(sql: str) -> None:
    with pytest.raises(FilterError, match="PADRES cannot say"):
        format_subscription(parse(sql))


NAMES = st.sampled_from(["class", "openClose%Diff", "a b", "é", "x-y"])
STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)
)
ORDERS = st.sampled_from(
    [Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE]
)
SHAPES = st.sampled_from([("", "%"), ("%", ""), ("%", "%")])
TESTS = st.one_of(
    st.builds(predicate, NAMES, ORDERS, st.one_of(STRINGS, NUMBERS)),
    st.builds(predicate, NAMES, st.just(Operator.IS_NOT_NULL)),
    st.builds(
        lambda name, text, shape: predicate(
            name, Operator.LIKE, shape[0] + escape_literal(text) + shape[1]
        ),
        NAMES,
        STRINGS,
        SHAPES,
    ),
)


@given(st.lists(TESTS, min_size=2, max_size=5))
@settings(deadline=None)
def test_subscriptions_read_back_equal(tests: list[object]) -> None:
    made = Filter(And(tuple(tests)))  # type: ignore[arg-type]
    assert parse_subscription(format_subscription(made)) == made


@given(st.dictionaries(NAMES, st.one_of(STRINGS, NUMBERS), min_size=1))
def test_publications_read_back_equal(attributes: dict[str, str | int | float]) -> None:
    again = parse_publication(format_publication(attributes))
    assert again == attributes
    assert list(map(type, again.values())) == list(map(type, attributes.values()))


FRAGMENTS = st.sampled_from(["[", "]", ",", "a", "eq", ">", "'", "'x'", "1", "isPresent", "\ud800"])


@given(st.one_of(st.text(), st.lists(FRAGMENTS).map("".join)))
@settings(max_examples=examples(100))
def test_any_text_is_read_or_a_syntax_error(text: str) -> None:
    for read in (parse_subscription, parse_publication):
        with contextlib.suppress(FilterSyntaxError):
            read(text)


@pytest.mark.parametrize(
    ("text", "padres"),
    [
        ("startswith(s, 'YH') AND a > 5", "[s,str-prefix,'YH'],[a,>,5]"),
        ("contains(s, 'a')", "[s,str-contains,'a']"),
        ("a * 0.5 >= 2", "[a,>=,4]"),
    ],
)
def test_expressions_for_which_padres_has_words_are_written(text: str, padres: str) -> None:
    assert format_subscription(parse(text)) == padres


@pytest.mark.parametrize("text", ["a - b > 5", "a < b", "NOT startswith(s, 'YH')", "a * 2 > 5"])
def test_an_expression_for_which_padres_has_no_word_is_named_in_the_error(text: str) -> None:
    with pytest.raises(FilterError, match="PADRES cannot say: "):
        format_subscription(parse(text))
