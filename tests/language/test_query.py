"""Queries of topic filters: the filter behind a question mark."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.language import (
    FilterSyntaxError,
    format_filter,
    parse,
    parse_topic_query,
    read_plain_value,
)
from shoal.model import EVERYTHING, Value


@pytest.mark.parametrize(
    ("text", "topic_filter", "sql"),
    [
        ("a/b?x=1", "a/b", "x = 1"),
        ("a?x!=1", "a", "x <> 1"),
        ("a?x<>1", "a", "x <> 1"),
        ("a?x<1&x>=-2.5", "a", "x < 1 AND x >= -2.5"),
        ("a?x<=1e3&y>0", "a", "x <= 1000.0 AND y > 0"),
        ("a?name=UA,DL", "a", "name IN ('UA', 'DL')"),
        ("a?name!=1,2", "a", "name NOT IN (1, 2)"),
        ("a?ok=true&bad=false", "a", "ok = TRUE AND bad = FALSE"),
        ("a?zip='01234'", "a", "zip = '01234'"),
        ("a?zip=01234", "a", "zip = '01234'"),
        ("a?n='5'", "a", "n = '5'"),
        ("a?n='a,b',c", "a", "n IN ('a,b', 'c')"),
        ("a?n='it''s'", "a", "n = 'it''s'"),
        ("a?n=''", "a", "n = ''"),
        ("a?n=a%26b%2Cc", "a", "n = 'a&b,c'"),
        ("a?n=%C3%A9", "a", "n = 'é'"),
        ("a?n=a b", "a", "n = 'a b'"),
        ("a?dep delay=1", "a", "`dep delay` = 1"),
        ("a?x%3Dy=1", "a", "`x=y` = 1"),
        ("a?n=x=y", "a", "n = 'x=y'"),
        ("$share/g/a/#?x=1", "$share/g/a/#", "x = 1"),
        ("a?dep_delay > 30", "a", "dep_delay > 30"),
        ("a? x = 1 , 2 & y <= 'b' ", "a", "x IN (1, 2) AND y <= 'b'"),
        ("a?x=%20b", "a", "x = ' b'"),
        ("a?x\u00a0>\u00a030\u00a0", "a", "x > 30"),
        ("a?x\u2003=\u2003'b'\u2003", "a", "x = 'b'"),
        ("a?x=%C2%A0b", "a", "x = '\u00a0b'"),
        ("a?x='\"b\"'", "a", "x = '\"b\"'"),
        ("a?x=%22b", "a", "x = '\"b'"),
        ("a?x='1e999'", "a", "x = '1e999'"),
        ("a?x=b||c", "a", "x = 'b||c'"),
        ("$where/x > 3/a ", "a ", "x > 3"),
        ("a b?x=3", "a b", "x = 3"),
        ("a?n='a&b','%26'", "a", "n IN ('a&b', '&')"),
        ("$where/x>3/a/+", "a/+", "x > 3"),
        ("$where/ x > 3 /#", "#", "x > 3"),
        ("$where/n=a%2Fb&m=%2B%23/a", "a", "n = 'a/b' AND m = '+#'"),
        ("$share/g/$where/x>3&y=1/a/+", "$share/g/a/+", "x > 3 AND y = 1"),
        ("$share/g?x>3&y=a%2Fb/a/+", "$share/g/a/+", "x > 3 AND y = 'a/b'"),
        ("$share/g?x>3/$where/y>1/a?z>2", "$share/g/a", "x > 3 AND y > 1 AND z > 2"),
        ("$where/x>3/a?y=1", "a", "x > 3 AND y = 1"),
        ("a?x=Rock AND Roll&y=1", "a", "x = 'Rock AND Roll' AND y = 1"),
        ("a?x='UA AND t > 3'", "a", "x = 'UA AND t > 3'"),
    ],
)
def test_queries_are_parsed(text: str, topic_filter: str, sql: str) -> None:
    found, filter = parse_topic_query(text)
    assert (found, format_filter(filter)) == (topic_filter, sql)


@pytest.mark.parametrize("text", ["a", "a/+/#", "what?", "what?/b", "?", "a=b", "a<b/c"])
def test_a_question_mark_may_be_part_of_the_topic(text: str) -> None:
    """MQTT allows a question mark in a topic filter."""
    assert parse_topic_query(text) == (text, EVERYTHING)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("a?=1", 3, "no attribute before ="),
        ("a?x=", 5, "no value after x ="),
        ("a?x=1&", 7, "no test here"),
        ("a?x=1&&y=2", 7, "no test here"),
        ("a?x=1&y", 8, "no comparison after y"),
        ("a?x=1,", 7, "no value after x ="),
        ("a?x<1,2", 6, "takes one value"),
        ("a?x=1,a", 5, "of one kind"),
        ("a?x=%4", 5, "two hexadecimal digits"),
        ("a?x=%FF", 5, "not UTF-8"),
        ("a?x='a'b", 8, "after a quoted string"),
        ("a?x=>3", 5, "cannot begin with >"),
        ("a?x>>3", 5, "cannot begin with >"),
        ("a?x=='UA'", 5, "cannot begin with ="),
        ("a?x= =1", 6, "cannot begin with ="),
        ("a?x=!3", 5, "cannot begin with !"),
        ("a?x=UA AND t > 3", 8, "& joins tests"),
        ("a?t>3 and x=UA", 7, "& joins tests"),
        ("a?x=UA OR x=AA", 8, "commas join values"),
        ("a?x=DL,UA OR x=AA", 11, "commas join values"),
        ("a? =1", 3, "no attribute before ="),
        # Such a query would be granted and match nothing.
        ("a ?x>3", 2, "white space before \\? is the topic's"),
        ("$share/g/a\u00a0 ?x>3", 11, "white space before \\? is the topic's"),
        ('a?x="UA"', 5, "go in 'single quotes'"),
        ("a?x=DL,\u2018UA\u2019", 8, "go in 'single quotes'"),
        ("a?x<1e999", 5, "too large for a double"),
        ("a?x!=1,-1e999", 8, "too large for a double"),
        ("a?x=1||y=2", 6, "commas join values"),
        ("a?x=1 || y=2", 7, "commas join values"),
        ("a?x= ", 5, "no value after x ="),
        ("a?x='" + "%41" * 40, 5, "no closing quote"),
        ("$where/x>3", 11, "no topic filter after"),
        ("$where//a", 8, "no test here"),
        ("$where/x>1/$share/g/a", 12, "a group stands before"),
        ("$share/g/$where/x>1/$where/x>1/a", 21, "there is one of each"),
        ("$where/x/a", 9, "no comparison after x"),
        ("$share/g/$where/x>/a", 19, "no value after x >"),
        ("$share/g?x>/a", 12, "no value after x >"),
        ("$share/?x>1/a", 8, "there is no name of a group"),
        ("a?" + "&".join(["x=1"] * 1_001), 3, "at most 1000 tests"),
        ("a?x=" + "1" * 65_600, 65_537, "at most 65536 characters"),
    ],
)
def test_errors_name_the_column(text: str, column: int, message: str) -> None:
    with pytest.raises(FilterSyntaxError, match=message) as caught:
        parse_topic_query(text)
    assert (caught.value.line, caught.value.column) == (1, column)
    assert "^" in str(caught.value)


@given(st.text("a?x=<>!&,'%1é/#", max_size=20))
def test_any_text_parses_or_fails_with_its_place(text: str) -> None:
    column = 1
    try:
        topic_filter, _ = parse_topic_query(text)
    except FilterSyntaxError as error:
        column, topic_filter = error.column, ""
    assert 1 <= column <= len(text) + 1
    assert text.startswith(topic_filter)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-0", 0),
        ("1.0", 1.0),
        ("1.", "1."),
        (".5", ".5"),
        ("+1", "+1"),
        ("1e400", "1e400"),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", float(2**63)),
        ("True", "True"),
        ("nan", "nan"),
        ("'", "'"),
        ("''", ""),
        ("", ""),
        ("٣", "٣"),
        ("1 ", "1 "),
    ],
)
def test_plain_values_are_typed(text: str, value: Value) -> None:
    found = read_plain_value(text)
    assert (type(found), found) == (type(value), value)


def test_a_long_number_takes_no_quadratic_time() -> None:
    assert read_plain_value("9" * 60_000) == "9" * 60_000


@pytest.mark.parametrize(
    ("text", "topic_filter", "condition"),
    [
        ("s/+?$where=a%2Bb>3", "s/+", "a + b > 3"),
        ("s?carrier=UA&$where=a < b OR c&x>5", "s", "carrier = 'UA' AND (a < b OR c) AND x > 5"),
        ("$where/$where=a%2Fb>3/s/#", "s/#", "a / b > 3"),
        ("$share/g/$where/$where=a < b/s/#", "$share/g/s/#", "a < b"),
        ("s?$where=a = 'x%26y'", "s", "a = 'x&y'"),
    ],
)
def test_a_query_may_have_a_condition_in_sql(text: str, topic_filter: str, condition: str) -> None:
    assert parse_topic_query(text) == (topic_filter, parse(condition))


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("s?$where=a >", 13, "ends too early"),
        ("s?$where=a > > b", 14, "unexpected >"),
        ("s?$where=a>1&$where=b>1", 14, "$where stands once"),
        ("s?$where=", 10, "the filter is empty"),
        ("s?$where=sqrt(a)>1", 10, "there is no function sqrt"),
    ],
)
def test_a_wrong_condition_in_a_query_is_refused_at_its_place(
    text: str, column: int, message: str
) -> None:
    with pytest.raises(FilterSyntaxError, match=re.escape(message)) as caught:
        parse_topic_query(text)
    assert caught.value.column == column
