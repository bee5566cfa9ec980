"""Filters as the query of a topic filter: `flights/+/delays?carrier=UA,DL&dep_delay>25`.

Each part between `&` is one test of one attribute, and all must hold: `=`, `!=` (or `<>`), `<`,
`<=`, `>`, `>=`; several values after `=` or `!=` stand between commas.  A value that is written
as a JSON number is a number, `true` and `false` are booleans, all else is a string, which may
stand in single quotes (`zip='01234'`); `%XX` is any character that has a meaning here.

>>> from shoal.language import format_filter
>>> topic_filter, late = parse_topic_query("flights/+/delays?carrier=UA,DL&dep_delay>25")
>>> topic_filter, format_filter(late)
('flights/+/delays', "carrier IN ('UA', 'DL') AND dep_delay > 25")
>>> parse_topic_query("what?/is/this")[0]
'what?/is/this'
>>> parse_topic_query("flights?dep_delay>")  # doctest: +IGNORE_EXCEPTION_DETAIL
Traceback (most recent call last):
FilterSyntaxError: line 1, column 19: there is no value after dep_delay > ...
"""

from __future__ import annotations

import re
from typing import NoReturn

from shoal.language.errors import FilterSyntaxError, check_encodable, shorten
from shoal.language.sql import MAX_PREDICATES, MAX_TEXT_LENGTH
from shoal.model import (
    EVERYTHING,
    INTEGER_MAX,
    INTEGER_MIN,
    And,
    Expression,
    Filter,
    FilterError,
    Operator,
    Value,
    predicate,
)

_OPERATORS = {
    "=": Operator.EQ,
    "!=": Operator.NE,
    "<>": Operator.NE,
    "<": Operator.LT,
    "<=": Operator.LE,
    ">": Operator.GT,
    ">=": Operator.GE,
}
_LISTS = {Operator.EQ: Operator.IN, Operator.NE: Operator.NOT_IN}
_VALUE_WORDS = ("a number", "true", "false", "a string; the empty string is ''")

_HAS_TEST = re.compile(r"[=<>]")
_SIGN = re.compile(r"!=|<>|<=|>=|[=<>]")
_PIECE = re.compile(r"'(?:[^'%&]|''|%[^&]?)*'|[^,&]*")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_NUMBER_STARTS = frozenset("-0123456789")
_WORDS: dict[str, Value] = {"true": True, "false": False}


def parse_topic_query(text: str) -> tuple[str, Filter]:
    """The topic filter before the query, and what the query asks; else FilterSyntaxError.

    A question mark begins a query when a comparison follows it; otherwise it is a character like
    any other, as MQTT has it.
    """
    topic_filter, mark, query = text.partition("?")
    if not mark or _HAS_TEST.search(query) is None:
        return text, EVERYTHING
    check_encodable(text)
    if len(text) > MAX_TEXT_LENGTH:
        _fail(text, MAX_TEXT_LENGTH, f"a topic filter has at most {MAX_TEXT_LENGTH} characters")
    tests: list[Expression] = []
    start = len(topic_filter) + 1
    for part in query.split("&"):
        tests.append(_read_test(text, start, start + len(part)))
        start += len(part) + 1
    if len(tests) > MAX_PREDICATES:
        _fail(text, len(topic_filter) + 1, f"a query has at most {MAX_PREDICATES} tests")
    return topic_filter, Filter(tests[0] if len(tests) == 1 else And(tuple(tests)))


def read_plain_value(text: str) -> Value:
    """The value that a text without type stands for, in a query or a user property.

    >>> [read_plain_value(text) for text in ("41", "4e1", "01", "'41'", "true")]
    [41, 40.0, '01', '41', True]
    """
    if text[:1] in _NUMBER_STARTS:
        # Most are short integers, which need no pattern to be known.
        if len(text) < 19 and text.isdecimal() and text.isascii() and text.lstrip("0") == text:
            return int(text)
        form = _NUMBER.fullmatch(text)
        if form is not None:
            return _number(text, form.lastindex is None)
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > 1 and text[0] == "'" == text[-1]:
        return text[1:-1].replace("''", "'")
    return text


def _number(text: str, is_integer: bool) -> Value:
    # Python reads integers of any length in quadratic time; past 64 bits they are doubles anyway.
    if is_integer and len(text) <= 20 and INTEGER_MIN <= int(text) <= INTEGER_MAX:
        return int(text)
    double = float(text)
    return text if double in (float("inf"), float("-inf")) else double


def _read_test(text: str, start: int, end: int) -> Expression:
    """The test between these places."""
    sign = _SIGN.search(text, start, end)
    if sign is None:
        if start == end:
            _fail(text, start, "there is no test here", ("attribute=value",))
        _fail(
            text, end, f"there is no comparison after {shorten(text[start:end])}", tuple(_OPERATORS)
        )
    name = _decode(text, start, sign.start())
    if not name:
        _fail(text, start, f"there is no attribute before {sign.group()}", ("an attribute",))
    operator = _OPERATORS[sign.group()]
    position = sign.end()
    values: list[Value] = []
    while True:
        piece = _PIECE.match(text, position, end)
        assert piece is not None
        if not piece.group():
            what = f"there is no value after {shorten(name)} {sign.group()}"
            _fail(text, position, what, _VALUE_WORDS)
        values.append(read_plain_value(_decode(text, piece.start(), piece.end())))
        position = piece.end()
        if position == end:
            break
        if text[position] != ",":
            _fail(text, position, "unexpected character after a quoted string", ("a comma", "&"))
        if operator not in _LISTS:
            _fail(text, position, f"{sign.group()} takes one value; a comma is %2C")
        position += 1
    try:
        if len(values) == 1:
            return predicate(name, operator, values[0])
        return predicate(name, _LISTS[operator], tuple(values))
    except FilterError as error:
        _fail(text, sign.end(), str(error))


def _decode(text: str, start: int, end: int) -> str:
    """The characters that stand there, percent-encoding undone."""
    piece = text[start:end]
    if "%" not in piece:
        return piece
    for escape in _ESCAPE.finditer(piece):
        if escape.group(1) is None:
            _fail(text, start + escape.start(), "% is followed by two hexadecimal digits", ("%25",))
    data = b"".join(
        part.encode("utf-8") if number % 2 == 0 else bytes.fromhex(part)
        for number, part in enumerate(re.split(r"%([0-9A-Fa-f]{2})", piece))
    )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        _fail(text, start, "the percent-encoded bytes are not UTF-8")


def _fail(text: str, position: int, message: str, expected: tuple[str, ...] = ()) -> NoReturn:
    raise FilterSyntaxError(text, position, message, expected)
