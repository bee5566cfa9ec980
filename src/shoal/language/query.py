"""Filters as the query of a topic filter: `flights/+/delays?carrier=UA,DL&dep_delay>25`.

Each part between `&` is one test of one attribute, and all must hold: `=`, `!=` (or `<>`), `<`,
`<=`, `>`, `>=`; several values after `=` or `!=` stand between commas.  A value that is written
as a JSON number is a number, `true` and `false` are booleans, all else is a string, which may
stand in single quotes (`zip='01234'`, where a doubled quote is one); without quotes it cannot
begin with `=`, `<`, `>`, `!` or another quotation mark, be a number beyond all doubles, nor have
`AND`, `OR` or `||` before a comparison.  White space around names, values and comparisons does not
count; before the question mark it is refused, as it would be part of the topic.  `%XX` is any
character that has a meaning here.

Clients that check topic filters themselves want `+` and `#` alone in their levels, and `#` last.
They put the query in front, after `$where`, with `/`, `+` and `#` as `%2F`, `%2B` and `%23`:
`$where/dep_delay>25/flights/#`, shared `$share/group/$where/dep_delay>25/flights/#`.

`$where=a%2Bb > 3 OR c` among the tests is a condition in SQL, in which `&`, `%`, `+` and `#` are
written `%26`, `%25`, `%2B` and `%23`, and in front of the topic `/` is `%2F`.

`$from=-10m` among the tests is none of an attribute: the subscriber gets the past since then. Nor
are `$every=10s BY sensor` and `$changed=temp BY 0.5` (see `conflation_rules`), whose texts are
written like that of `$where`.

The name of a group may have the query, too, written alike: `$share/group?dep_delay>25/flights/#`.
Libraries that know groups take what follows it for the topic filter, and hand messages on by it.

>>> from shoal.language import format_filter
>>> topic_filter, late = parse_topic_query("flights/+/delays?carrier=UA,DL&dep_delay>25")
>>> topic_filter, format_filter(late)
('flights/+/delays', "carrier IN ('UA', 'DL') AND dep_delay > 25")
>>> parse_topic_query("$where/dep_delay > 25/flights/#") == parse_topic_query(
...     "flights/#?dep_delay>25")
True
>>> parse_topic_query("what?/is/this")[0]
'what?/is/this'
>>> parse_topic_query("flights?dep_delay>")  # doctest: +IGNORE_EXCEPTION_DETAIL
Traceback (most recent call last):
FilterSyntaxError: line 1, column 19: there is no value after dep_delay > ...
"""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from shoal.language.errors import FilterSyntaxError, check_encodable, shorten
from shoal.language.sql import MAX_PREDICATES, MAX_TEXT_LENGTH, parse
from shoal.model import (
    EVERYTHING,
    INTEGER_MAX,
    INTEGER_MIN,
    And,
    Expression,
    Filter,
    FilterError,
    Operator,
    Predicate,
    Value,
    predicate,
)

# What a topic filter begins with, behind its group, when its query is its second level.
LEADING = "$where/"
# The key of a condition in SQL.
WHERE = "$where"
# The test that names the beginning of the past (see `TopicQuery`).
FROM = "$from"
# The keys of conflation, each with its text (see `conflation_rules`).
EVERY = "$every"
CHANGED = "$changed"

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
_SPACE = re.compile(r"\s*")
_QUOTED = re.compile(r"'[^']*(?:''[^']*)*'")
_PLAIN = re.compile(r"[^,&]*")
# What joins tests elsewhere: in a value it would be text, which nobody means.
_JOINING = re.compile(r"(?<=\s)(?:AND|OR)(?=\s)|\|\|", re.IGNORECASE)
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_NUMBER_STARTS = frozenset("-0123456789")
_KEY = re.compile(r"\s*(\$every|\$changed)\s*=")
_WORDS: dict[str, Value] = {"true": True, "false": False}
# What an unquoted value cannot begin with: there would be one comparison behind another.
_SIGN_CHARACTERS = "=<>!"
# Nor with what quotes elsewhere.
_OTHER_QUOTES = '"\u201c\u201d\u2018\u2019'
_SHARED = "$share/"


class TopicQuery(NamedTuple):
    """A topic filter without its queries, the content filter in them, and the value of `$from`.

    `since` is empty without `$from`; `every` and `changed` are the texts of these keys.

    >>> read_topic_query("$where/$from=-10m/flights/#")[::2]
    ('flights/#', '-10m', '')
    >>> read_topic_query("flights/#?$every=10s BY carrier&dep_delay>25").every
    '10s BY carrier'
    """

    topic_filter: str
    content: Filter
    since: str = ""
    every: str = ""
    changed: str = ""


def parse_topic_query(text: str) -> tuple[str, Filter]:
    """The topic filter without its queries, and what these ask of attributes."""
    return read_topic_query(text)[:2]


def read_topic_query(text: str) -> TopicQuery:
    """Split a topic filter; FilterSyntaxError if a query in it cannot be read.

    A question mark begins a query when a comparison follows it; otherwise it is a character like
    any other, as MQTT has it.
    """
    group, topic_filter = _split_group(text)
    is_leading = topic_filter.startswith(LEADING)
    name, mark, said = group.partition("?")
    is_grouped = bool(mark) and _HAS_TEST.search(said) is not None
    if not (is_leading or is_grouped) and (
        "?" not in topic_filter or not _HAS_TEST.search(topic_filter)
    ):
        return TopicQuery(text, EVERYTHING)
    check_encodable(text)
    if len(text) > MAX_TEXT_LENGTH:
        _fail(text, MAX_TEXT_LENGTH, f"a topic filter has at most {MAX_TEXT_LENGTH} characters")
    tests, keys = list[Expression](), dict[str, str]()
    if text.count(f"{WHERE}=") > 1:
        _fail(text, text.rfind(f"{WHERE}="), f"{WHERE} stands once; AND joins conditions")
    if is_grouped:
        if name == _SHARED:
            _fail(text, len(name), "there is no name of a group before ?")
        _read_tests(text, len(name) + 1, len(group) - 1, tests, keys)
    if is_leading:
        start = len(group) + len(LEADING)
        end = text.find("/", start)
        if end < 0:
            _fail(text, len(text), f"there is no topic filter after {LEADING} and a query", ("/",))
        _read_tests(text, start, end, tests, keys)
        topic_filter = text[end + 1 :]
        if topic_filter.startswith((_SHARED, LEADING)):
            _fail(text, end + 1, f"a group stands before {LEADING}, and there is one of each")
    before, mark, query = topic_filter.partition("?")
    if mark and _HAS_TEST.search(query):
        if before != before.rstrip():
            position = len(text) - len(query) - 1 - (len(before) - len(before.rstrip()))
            _fail(text, position, f"white space before ? is the topic's; after {LEADING} it may be")
        _read_tests(text, len(text) - len(query), len(text), tests, keys)
        topic_filter = before
    if not (tests or keys):
        return TopicQuery(text, EVERYTHING)
    if is_grouped:
        group = f"{name}/"
    since, tests = _take_since(text, tests)
    content = Filter(tests[0] if len(tests) == 1 else And(tuple(tests))) if tests else EVERYTHING
    every, changed = keys.get(EVERY, ""), keys.get(CHANGED, "")
    return TopicQuery(group + topic_filter, content, since, every, changed)


def _take_since(text: str, tests: list[Expression]) -> tuple[str, list[Expression]]:
    """The value of `$from`, if it is among the tests, and the other tests."""
    since, others = "", list[Expression]()
    for test in tests:
        if not isinstance(test, Predicate) or test.attribute != FROM:
            others.append(test)
        elif test.operator is not Operator.EQ or since:
            _fail(text, text.find(FROM), f"{FROM} stands once, with = and one time behind it")
        else:
            since = str(test.operand)
    return since, others


def may_have_query(text: str) -> bool:
    """Whether a topic filter could have one; cheap, and right where it says no."""
    return "?" in text or LEADING in text


def _split_group(text: str) -> tuple[str, str]:
    """`$share/group/`, if the topic filter begins so, and what follows."""
    end = text.find("/", len(_SHARED)) + 1 if text.startswith(_SHARED) else 0
    return text[:end], text[end:]


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


def _read_tests(
    text: str, start: int, end: int, tests: list[Expression], keys: dict[str, str]
) -> None:
    """Add the tests and the keys of a query, which stands between these places."""
    position = start - 1
    while position < end:
        key = _KEY.match(text, position + 1, end)
        if key is not None:
            position = _read_key(text, key, end, keys)
            continue
        if len(tests) >= MAX_PREDICATES:
            _fail(text, start, f"a query has at most {MAX_PREDICATES} tests")
        test, position = _read_test(text, position + 1, end)
        tests.append(test)


def _read_key(text: str, key: re.Match[str], end: int, keys: dict[str, str]) -> int:
    """Read the text of a key; returns where it ends: at `end` or an ampersand."""
    name, stop = key.group(1), text.find("&", key.end(), end)
    stop = end if stop < 0 else stop
    if name in keys:
        _fail(text, key.start(1), f"{name} stands once")
    keys[name] = _decode(text, key.end(), stop)
    if not keys[name]:
        _fail(text, key.end(), f"there is no text after {name}=")
    return stop


def _read_test(text: str, start: int, end: int) -> tuple[Expression, int]:
    """The test that begins there, and where it ends: at `end` or an ampersand."""
    stop = text.find("&", start, end)
    part = text[start : end if stop < 0 else stop]
    sign = _SIGN.search(text, start, start + len(part))
    if sign is None:
        if not part.strip():
            _fail(text, start, "there is no test here", ("attribute=value",))
        message = f"there is no comparison after {shorten(part)}"
        _fail(text, start + len(part), message, tuple(_OPERATORS))
    name = _decode(text, start, sign.start())
    if name == WHERE and sign.group() == "=":
        stop = start + len(part)
        return _read_condition(text, sign.end(), stop), stop
    if not name:
        _fail(text, start, f"there is no attribute before {sign.group()}", ("an attribute",))
    operator = _OPERATORS[sign.group()]
    values: list[Value] = []
    position = sign.end()
    while True:
        value, position = _read_value(text, position, end, f"{shorten(name)} {sign.group()}")
        values.append(value)
        if position == end or text[position] == "&":
            break
        if operator not in _LISTS:
            _fail(text, position, f"{sign.group()} takes one value; a comma is %2C")
        position += 1
    try:
        if len(values) == 1:
            return predicate(name, operator, values[0]), position
        return predicate(name, _LISTS[operator], tuple(values)), position
    except FilterError as error:
        _fail(text, sign.end(), str(error))


def _read_condition(text: str, start: int, end: int) -> Expression:
    """The condition in SQL that stands between these places."""
    condition = _decode(text, start, end)
    try:
        return parse(condition).expression
    except FilterSyntaxError as error:
        # The place is right where no character before it is percent-encoded.
        begun = start + len(text[start:end]) - len(text[start:end].lstrip())
        place = begun + error.column - 1 if "%" not in text[start:end] else start
        raise type(error)(text, place, error.message, error.expected) from None


def _read_value(text: str, position: int, end: int, before: str) -> tuple[Value, int]:
    """The value that stands next, and where the comma, the ampersand or the end behind it is."""
    start = _skip_space(text, position, end)
    if text[start : min(start + 1, end)] == "'":
        quoted = _QUOTED.match(text, start, end)
        if quoted is None:
            _fail(text, start, "the string that begins here has no closing quote")
        value = _decode(text, start + 1, quoted.end() - 1, is_quoted=True)
        position = _skip_space(text, quoted.end(), end)
        if position < end and text[position] not in ",&":
            _fail(text, position, "unexpected character after a quoted string", ("a comma", "&"))
        return value, position
    plain = _PLAIN.match(text, start, end)
    assert plain is not None
    if not plain.group():
        _fail(text, position, f"there is no value after {before}", _VALUE_WORDS)
    _check_plain(text, start, plain.end())
    found = read_plain_value(_decode(text, start, plain.end()))
    if isinstance(found, str) and _NUMBER.fullmatch(found) and "%" not in plain.group():
        _fail(text, start, "the number is too large for a double; in quotes it is a string")
    return found, plain.end()


def _check_plain(text: str, start: int, end: int) -> None:
    """Refuse a value without quotes that would be a string, though something else is meant."""
    first = text[start]
    if first in _SIGN_CHARACTERS:
        _fail(text, start, f"a value cannot begin with {first}; in quotes it can", _VALUE_WORDS)
    if first in _OTHER_QUOTES:
        _fail(text, start, f"unexpected {first}; strings go in 'single quotes'", _VALUE_WORDS)
    word = _JOINING.search(text, start, end)
    if word is not None and _SIGN.search(text, word.end(), end):
        hint = "& joins tests" if word.group().upper() == "AND" else "commas join values"
        message = f"{word.group()} and a comparison in a value: {hint}; or quote it"
        _fail(text, word.start(), message)


def _skip_space(text: str, position: int, end: int) -> int:
    space = _SPACE.match(text, position, end)
    assert space is not None
    return space.end()


def _decode(text: str, start: int, end: int, *, is_quoted: bool = False) -> str:
    """The characters that stand there, percent-encoding undone, and doubled quotes in quotes.

    Without quotes, white space around them does not count.
    """
    piece = text[start:end]
    piece = piece.replace("''", "'") if is_quoted else piece.strip()
    if "%" not in piece:
        return piece
    for escape in _ESCAPE.finditer(text, start, end):
        if escape.group(1) is None:
            _fail(text, escape.start(), "% is followed by two hexadecimal digits", ("%25",))
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
