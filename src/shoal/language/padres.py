"""The PADRES language: `[class,eq,'STOCK'],[volume,>,1000]`, publications `[class,'STOCK'],...`.

Every bracket holds one test of one attribute and all must hold.  Values are numbers and quoted
strings; there are no booleans, `'true'` is a string, and a quote within a string is doubled.  The
third part of `isPresent` is an example of the attribute's type in PADRES; it is read and ignored.

>>> from shoal.language import format_filter
>>> quotes = parse_subscription("[class,eq,'STOCK'],[symbol,str-prefix,'YH'],[volume,>,1000]")
>>> format_filter(quotes)
"class = 'STOCK' AND symbol LIKE 'YH%' AND volume > 1000"
>>> format_subscription(quotes)
"[class,eq,'STOCK'],[symbol,str-prefix,'YH'],[volume,>,1000]"
>>> parse_publication("[class,'STOCK'], [openClose%Diff,0.0]")
{'class': 'STOCK', 'openClose%Diff': 0.0}
"""

from __future__ import annotations

import re
from typing import NoReturn

from shoal.language.errors import FilterSyntaxError, check_encodable, shorten
from shoal.language.literals import read_number, write_number
from shoal.language.sql import MAX_PREDICATES, MAX_TEXT_LENGTH
from shoal.language.writing import format_filter
from shoal.model import (
    And,
    Attributes,
    Constant,
    Expression,
    Filter,
    FilterError,
    Operator,
    Predicate,
    Value,
    check_attributes,
    predicate,
)
from shoal.model.expressions import is_derived
from shoal.model.like import Wildcard, elements, escape_literal

_BY_VALUE = {
    "=": Operator.EQ,
    "<>": Operator.NE,
}
_FOR_NUMBERS = {
    "<": Operator.LT,
    "<=": Operator.LE,
    ">": Operator.GT,
    ">=": Operator.GE,
}
_FOR_STRINGS = {
    "eq": Operator.EQ,
    "neq": Operator.NE,
    "str-lt": Operator.LT,
    "str-le": Operator.LE,
    "str-gt": Operator.GT,
    "str-ge": Operator.GE,
}
_FOR_PATTERNS = {
    "str-prefix": ("", "%"),
    "str-postfix": ("%", ""),
    "str-contains": ("%", "%"),
}
_PRESENT = "isPresent"
_ALL = (*_BY_VALUE, *_FOR_NUMBERS, *_FOR_STRINGS, *_FOR_PATTERNS, _PRESENT)
_NUMBER_SIGNS = {operator: sign for sign, operator in (_BY_VALUE | _FOR_NUMBERS).items()}
_STRING_SIGNS = {operator: sign for sign, operator in _FOR_STRINGS.items()}

_SPACE = re.compile(r"[ \t\r\n]*")
_NAME = re.compile(r"[^\[\],'\s](?:[^\[\],'\r\n]*[^\[\],'\s])?")
_STRING = re.compile(r"'(?:[^']|'')*'")
_NUMBER = re.compile(r"[-+.0-9][^\[\],'\s]*")


def parse_subscription(text: str) -> Filter:
    """The filter of a PADRES subscription or advertisement; else FilterSyntaxError."""
    reader = _Reader(text)
    tests: list[Expression] = []
    while True:
        reader.take("[")
        tests.append(_read_test(reader))
        reader.take("]")
        if len(tests) > MAX_PREDICATES:
            reader.fail(f"a filter has at most {MAX_PREDICATES} predicates")
        if reader.ended():
            return Filter(tests[0] if len(tests) == 1 else And(tuple(tests)))
        reader.take(",")


def parse_publication(text: str) -> dict[str, Value]:
    """The attributes of a PADRES publication; else FilterSyntaxError."""
    reader = _Reader(text)
    attributes: dict[str, Value] = {}
    while True:
        reader.take("[")
        start, name = reader.name()
        if name in attributes:
            reader.fail(f"attribute {name} stands here twice", start)
        reader.take(",")
        attributes[name] = reader.value()
        reader.take("]")
        if reader.ended():
            break
        reader.take(",")
    try:
        check_attributes(attributes)
    except ValueError as error:
        reader.fail(str(error), 0)
    return attributes


def _read_test(reader: _Reader) -> Predicate:
    _, attribute = reader.name()
    reader.take(",")
    start, sign = reader.word("an operator", _ALL)
    reader.take(",")
    if sign == _PRESENT:
        reader.value()
        return predicate(attribute, Operator.IS_NOT_NULL)
    if sign in _BY_VALUE:
        return predicate(attribute, _BY_VALUE[sign], reader.value())
    if sign in _FOR_NUMBERS:
        return predicate(attribute, _FOR_NUMBERS[sign], reader.number(f"{sign} is for numbers"))
    if sign not in _FOR_STRINGS and sign not in _FOR_PATTERNS:
        reader.fail(f"{shorten(sign)} is not an operator", start, _ALL)
    string = reader.string(f"{sign} is for strings")
    if sign in _FOR_STRINGS:
        return predicate(attribute, _FOR_STRINGS[sign], string)
    before, after = _FOR_PATTERNS[sign]
    return predicate(attribute, Operator.LIKE, before + escape_literal(string) + after)


class _Reader:
    """Reads a text piece by piece, skipping white space before each."""

    def __init__(self, text: str) -> None:
        check_encodable(text)
        self._text = text
        self._position = 0
        if len(text) > MAX_TEXT_LENGTH:
            self.fail(f"a text has at most {MAX_TEXT_LENGTH} characters", MAX_TEXT_LENGTH)

    def fail(
        self, message: str, position: int | None = None, expected: tuple[str, ...] = ()
    ) -> NoReturn:
        at = self._position if position is None else position
        raise FilterSyntaxError(self._text, at, message, expected)

    def ended(self) -> bool:
        self._skip_space()
        return self._position == len(self._text)

    def take(self, sign: str) -> None:
        if self._piece(re.compile(re.escape(sign))) is None:
            self._unexpected((sign,))

    def word(self, what: str, expected: tuple[str, ...] = ()) -> tuple[int, str]:
        """The next word up to a bracket, comma or quote, and where it begins."""
        word = self._piece(_NAME)
        if word is None:
            self._unexpected(expected or (what,))
        return self._position - len(word), word

    def name(self) -> tuple[int, str]:
        return self.word("an attribute name")

    def value(self) -> Value:
        string = self._piece(_STRING)
        if string is not None:
            return _unquote(string)
        return self.number("", ("a number", "a 'string'"))

    def string(self, hint: str) -> str:
        string = self._piece(_STRING)
        if string is None:
            self._unexpected(("a 'string'",), hint)
        return _unquote(string)

    def number(self, hint: str, expected: tuple[str, ...] = ("a number",)) -> int | float:
        number = self._piece(_NUMBER)
        if number is None:
            self._unexpected(expected, hint)
        try:
            return read_number(number.removeprefix("+"))
        except ValueError as error:
            self.fail(str(error), self._position - len(number))

    def _piece(self, form: re.Pattern[str]) -> str | None:
        self._skip_space()
        piece = form.match(self._text, self._position)
        if piece is None:
            return None
        self._position = piece.end()
        return piece.group()

    def _skip_space(self) -> None:
        space = _SPACE.match(self._text, self._position)
        self._position = space.end() if space else self._position

    def _unexpected(self, expected: tuple[str, ...], hint: str = "") -> NoReturn:
        rest = self._text[self._position :]
        if not rest:
            message = "the text ends too early"
            self.fail(message, len(self._text.rstrip()), expected)
        if rest[0] == "'" and _STRING.match(rest) is None:
            self.fail("the string that begins here has no closing quote")
        found = _STRING.match(rest) or _NAME.match(rest)
        message = f"unexpected {shorten(found.group() if found else rest[0])}"
        self.fail(f"{message}; {hint}" if hint else message, expected=expected)


def _unquote(literal: str) -> str:
    return literal[1:-1].replace("''", "'")


def format_subscription(filter: Filter) -> str:
    """The filter as a PADRES subscription; FilterError if PADRES cannot say it."""
    expression = filter.expression
    tests = expression.operands if isinstance(expression, And) else (expression,)
    if not tests:
        raise FilterError("PADRES cannot say: a filter without a test")
    return ",".join(_write_test(test) for test in tests)


def format_publication(attributes: Attributes) -> str:
    """The attributes as a PADRES publication; FilterError if PADRES cannot say it."""
    if not attributes:
        raise FilterError("PADRES cannot say: a publication without attributes")
    return ",".join(
        f"[{_write_name(name)},{_write_value(value)}]" for name, value in attributes.items()
    )


def _write_test(test: Expression) -> str:
    if not isinstance(test, Predicate):
        word = "a constant" if isinstance(test, Constant) else f"{type(test).__name__.upper()}"
        raise FilterError(f"PADRES cannot say: {word}; it knows only tests joined by AND")
    if is_derived(test.attribute):
        return ",".join(map(_write_test, _plain_tests(test)))
    name = _write_name(test.attribute)
    operand = test.operand
    if test.operator is Operator.IS_NOT_NULL:
        return f"[{name},{_PRESENT},'']"
    if test.operator is Operator.LIKE and isinstance(operand, str):
        sign, operand = _pattern_test(operand)
    elif isinstance(operand, str):
        sign = _STRING_SIGNS.get(test.operator, "")
    else:
        sign = _NUMBER_SIGNS.get(test.operator, "")
    if not sign or operand is None or isinstance(operand, tuple):
        raise FilterError(f"PADRES cannot say: {test.attribute} {test.operator.value}")
    return f"[{name},{sign},{_write_value(operand)}]"


def _plain_tests(test: Predicate) -> list[Predicate]:
    """The tests of attributes that a test of an expression is, as `startswith(s, 'a')`."""
    found = [*Filter(test).normal_form, ()]
    tests = found[0]
    if len(found) > 2 or any(is_derived(each.attribute) for each in tests) or not tests:
        raise FilterError(f"PADRES cannot say: {format_filter(Filter(test))}")
    return list(tests)


def _pattern_test(pattern: str) -> tuple[str, str]:
    """The operator and the string of a pattern that is a prefix, a suffix or a substring."""
    parts = elements(pattern)
    before = parts[:1] == (Wildcard.ANY_RUN,)
    after = parts[-1:] == (Wildcard.ANY_RUN,)
    literal = parts[before : len(parts) - after] if len(parts) > 1 else ()
    text = "".join(part for part in literal if isinstance(part, str))
    if len(parts) == 1 and before:
        # `%` is every prefix, `%%` every substring: both stand for the empty string.
        return ("str-contains" if pattern == "%%" else "str-prefix"), ""
    if len(literal) != 1 or text != literal[0] or not (before or after):
        raise FilterError(
            f"PADRES cannot say: LIKE '{pattern}'; it knows prefixes, suffixes and substrings"
        )
    signs = {
        (False, True): "str-prefix",
        (True, False): "str-postfix",
        (True, True): "str-contains",
    }
    return signs[before, after], text


def _write_name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise FilterError(
            f"PADRES cannot say: attribute {name!r}; a name has no brackets, commas, quotes or "
            "white space at its ends"
        )
    return name


def _write_value(value: Value) -> str:
    if isinstance(value, bool):
        raise FilterError(f"PADRES cannot say: {value}; it has no booleans")
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    try:
        return write_number(value)
    except ValueError as error:
        raise FilterError(f"PADRES cannot say: {error}") from None
