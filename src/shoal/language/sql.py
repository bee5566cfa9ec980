"""Filters as SQL: `carrier = 'UA' AND dep_delay > 30`, the WHERE subset of message selectors.

Whatever parses here, Spark SQL parses to the same meaning, which makes Spark an independent judge
of our matching.  Names are case-sensitive; a bare attribute means `attribute = TRUE`; BETWEEN
becomes two comparisons, and a literal on the left is flipped to the right.

>>> late = parse("carrier = 'UA' AND NOT (30 >= dep_delay OR dest IN ('SFO', 'LAX'))")
>>> format_filter(late)
"carrier = 'UA' AND NOT (dep_delay <= 30 OR dest IN ('SFO', 'LAX'))"
>>> parse(format_filter(late)) == late
True
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, cast

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args

from shoal.language.errors import FilterSyntaxError, check_encodable, shorten
from shoal.language.literals import (
    KEYWORDS,
    read_number,
    read_quoted_name,
    read_string,
    write_name,
    write_number,
    write_string,
)
from shoal.model import (
    And,
    Constant,
    Expression,
    Filter,
    FilterError,
    Not,
    Operator,
    Or,
    Predicate,
    Value,
    predicate,
)
from shoal.model.like import ESCAPE, canonical_pattern

# A subscription travels through every broker; longer texts are data, not filters.
MAX_TEXT_LENGTH = 65_536
# Parentheses and NOTs inside each other: keeps every recursion over an expression shallow.
MAX_DEPTH = 100
# Predicates in one filter: the normal form is quadratic in them.
MAX_PREDICATES = 1_000

_COMPARISONS = {
    "=": Operator.EQ,
    "<>": Operator.NE,
    "!=": Operator.NE,
    "<": Operator.LT,
    "<=": Operator.LE,
    ">": Operator.GT,
    ">=": Operator.GE,
}
_FLIPPED = {
    Operator.EQ: Operator.EQ,
    Operator.NE: Operator.NE,
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}

# What a reader calls the grammar's terminals, in the order in which an error lists them.
_WORDS = {
    "NAME": "an attribute",
    "QUOTED_NAME": "an attribute",
    "COMPARISON": "a comparison (=, <>, <, <=, >, >=)",
    "NUMBER": "a number",
    "STRING": "a 'string'",
    "TRUE": "TRUE",
    "FALSE": "FALSE",
    "NOT": "NOT",
    "_BETWEEN": "BETWEEN",
    "_IN": "IN",
    "_LIKE": "LIKE",
    "_ESCAPE": "ESCAPE",
    "_IS": "IS",
    "_NULL": "NULL",
    "LEFT": "(",
    "_RIGHT": ")",
    "_COMMA": "a comma",
    "_AND": "AND",
    "_OR": "OR",
    "$END": "the end of the filter",
}
_TERMINALS = {terminal.lstrip("_"): terminal for terminal in _WORDS}

_STRAY_CHARACTERS = {
    "'": "the string that begins here has no closing quote",
    "`": "the back-quoted name that begins here is empty or not closed",
    '"': "unexpected \"; strings go in 'single quotes', names with odd characters in `back-quotes`",
    ".": "unexpected .; a name with a dot goes in back-quotes: `a.b`",
}


def parse(text: str) -> Filter:
    """The filter that a text stands for, its normal form computed; else FilterSyntaxError.

    TypeError for what is no text.
    """
    if not isinstance(text, str):
        raise TypeError(f"a filter is a text such as 'price > 10', not {type(text).__name__}")
    check_encodable(text)
    if len(text) > MAX_TEXT_LENGTH:
        raise FilterSyntaxError(
            text, MAX_TEXT_LENGTH, f"a filter has at most {MAX_TEXT_LENGTH} characters"
        )
    try:
        # The transformer turns lark's tree into a part while it parses; lark's types do not say so.
        part = cast(_SqlPart, _parser().parse(text))
    except UnexpectedCharacters as error:
        raise _stray(text, error.pos_in_stream or 0) from None
    except UnexpectedToken as error:
        raise _unexpected(text, error) from None
    except _MeaningError as problem:
        raise FilterSyntaxError(text, problem.position, str(problem), problem.expected) from None
    if part.size > MAX_PREDICATES:
        raise FilterSyntaxError(text, 0, f"a filter has at most {MAX_PREDICATES} predicates")
    result = Filter(part.expression)
    try:
        result.normal_form  # noqa: B018  # computed here so that its error is met here
    except FilterError as error:
        raise FilterSyntaxError(text, 0, str(error)) from None
    return result


class _MeaningError(Exception):
    """Something the grammar allows and the language does not."""

    def __init__(self, message: str, position: int, expected: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.position = position
        self.expected = expected


class _SqlPart(NamedTuple):
    """A piece of expression, how deep its text nests, and how many predicates it holds."""

    expression: Expression
    depth: int
    size: int


class _Literal(NamedTuple):
    value: Value
    position: int


def _stray(text: str, position: int) -> FilterSyntaxError:
    character = text[position]
    message = _STRAY_CHARACTERS.get(character, f"unexpected {character}")
    state = _parser().parse_interactive(text[:position])
    state.exhaust_lexer()
    accepted = state.accepts()  # type: ignore[no-untyped-call]  # lark leaves this one untyped
    return FilterSyntaxError(text, position, message, _words(accepted))


def _words(terminals: set[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for key, word in _WORDS.items() if key in terminals))


def _unexpected(text: str, error: UnexpectedToken) -> FilterSyntaxError:
    token: Token = error.token
    accepted = set(error.accepts or ())
    expected = _words(accepted)
    if token.type == "$END":
        end = len(text.rstrip())
        message = "the filter ends too early" if end else "the filter is empty"
        return FilterSyntaxError(text, end, message, expected)
    message = f"unexpected {shorten(token)}"
    if "STRING" in accepted and "NAME" not in accepted:
        if token.type == "_NULL":
            message += "; nothing compares with NULL, ask IS NULL or IS NOT NULL"
        elif token.type in ("NAME", "QUOTED_NAME"):
            message += "; an attribute is compared with a constant, and strings go in single quotes"
        elif token == "=":
            message += "; equality is one ="
    return FilterSyntaxError(text, token.start_pos or 0, message, expected)


@cache
def _parser() -> Lark:
    return Lark.open(
        "sql.lark",
        rel_to=__file__,
        parser="lalr",
        lexer="basic",
        transformer=_Builder(),
        lexer_callbacks={"NAME": _tell_keyword},
        maybe_placeholders=True,
    )


def _tell_keyword(token: Token) -> Token:
    word = token.upper()
    return token.update(type=_TERMINALS[word]) if word in KEYWORDS else token


def _predicate(attribute: str, operator: Operator, *literals: _Literal) -> Predicate:
    for literal in literals:
        if type(literal.value) is not type(literals[0].value) and not (
            _is_number(literal.value) and _is_number(literals[0].value)
        ):
            raise _MeaningError("the values are of different kinds", literal.position)
    values = tuple(literal.value for literal in literals)
    if operator in (Operator.IN, Operator.NOT_IN):
        return predicate(attribute, operator, values)
    return predicate(attribute, operator, *values)


def _is_number(value: Value) -> bool:
    return type(value) in (int, float)


def _connect(connective: type[And] | type[Or], parts: tuple[_SqlPart, ...]) -> _SqlPart:
    if len(parts) == 1:
        return parts[0]
    operands: list[Expression] = []
    for part in parts:
        if isinstance(part.expression, connective):
            operands.extend(part.expression.operands)
        else:
            operands.append(part.expression)
    size = sum(part.size for part in parts)
    return _SqlPart(connective(tuple(operands)), max(part.depth for part in parts), size)


def _deeper(part: _SqlPart, token: Token) -> int:
    if part.depth >= MAX_DEPTH:
        raise _MeaningError(
            f"parentheses and NOT nest deeper than {MAX_DEPTH}", token.start_pos or 0
        )
    return part.depth + 1


@v_args(inline=True)
class _Builder(Transformer[Token, _SqlPart]):
    """Builds the expression while the parser reduces: no tree, no recursion."""

    def start(self, part: _SqlPart) -> _SqlPart:
        return part

    def disjunction(self, *parts: _SqlPart) -> _SqlPart:
        return _connect(Or, parts)

    def conjunction(self, *parts: _SqlPart) -> _SqlPart:
        return _connect(And, parts)

    def negation(self, token: Token, part: _SqlPart) -> _SqlPart:
        return _SqlPart(Not(part.expression), _deeper(part, token), part.size)

    def parenthesis(self, token: Token, part: _SqlPart) -> _SqlPart:
        return part._replace(depth=_deeper(part, token))

    def constant(self, token: Token) -> _SqlPart:
        return _SqlPart(Constant(token.type == "TRUE"), 0, 1)

    def truth(self, attribute: str) -> _SqlPart:
        return _SqlPart(predicate(attribute, Operator.EQ, True), 0, 1)

    def comparison(self, attribute: str, sign: Token, literal: _Literal) -> _SqlPart:
        return _SqlPart(_predicate(attribute, _COMPARISONS[sign], literal), 0, 1)

    def flipped(self, literal: _Literal, sign: Token, attribute: str) -> _SqlPart:
        return _SqlPart(_predicate(attribute, _FLIPPED[_COMPARISONS[sign]], literal), 0, 1)

    def between(
        self, attribute: str, negation: Token | None, low: _Literal, high: _Literal
    ) -> _SqlPart:
        # The two comparisons need not share a kind to be predicates, but Spark wants them to.
        _predicate(attribute, Operator.IN, low, high)
        if negation:
            outside = (
                _predicate(attribute, Operator.LT, low),
                _predicate(attribute, Operator.GT, high),
            )
            return _SqlPart(Or(outside), 0, 2)
        inside = (
            _predicate(attribute, Operator.GE, low),
            _predicate(attribute, Operator.LE, high),
        )
        return _SqlPart(And(inside), 0, 2)

    def membership(
        self, attribute: str, negation: Token | None, _: Token, *literals: _Literal
    ) -> _SqlPart:
        operator = Operator.NOT_IN if negation else Operator.IN
        return _SqlPart(_predicate(attribute, operator, *literals), 0, 1)

    def like(
        self, attribute: str, negation: Token | None, pattern: _Literal, escape: _Literal | None
    ) -> _SqlPart:
        escape_character = escape.value if escape else ESCAPE
        assert isinstance(pattern.value, str)
        assert isinstance(escape_character, str)
        # Spark counts UTF-16 units.
        if escape and (len(escape_character) != 1 or escape_character > "\uffff"):
            raise _MeaningError("ESCAPE takes one character", escape.position)
        try:
            canonical = canonical_pattern(pattern.value, escape_character)
        except ValueError as error:
            raise _MeaningError(str(error), pattern.position) from None
        operator = Operator.NOT_LIKE if negation else Operator.LIKE
        return _SqlPart(predicate(attribute, operator, canonical), 0, 1)

    def presence(self, attribute: str, negation: Token | None) -> _SqlPart:
        operator = Operator.IS_NOT_NULL if negation else Operator.IS_NULL
        return _SqlPart(predicate(attribute, operator), 0, 1)

    def attribute(self, token: Token) -> str:
        return read_quoted_name(token) if token.type == "QUOTED_NAME" else str(token)

    def string(self, token: Token) -> _Literal:
        return self.literal(token)

    def literal(self, token: Token) -> _Literal:
        position = token.start_pos or 0
        try:
            match token.type:
                case "NUMBER":
                    return _Literal(read_number(token), position)
                case "STRING":
                    return _Literal(read_string(token), position)
                case _:
                    return _Literal(token.type == "TRUE", position)
        except ValueError as error:
            raise _MeaningError(str(error), position) from None


def format_filter(filter: Filter) -> str:
    """The filter's text, with no more parentheses than it needs.

    `parse` reads it back where it is not too long or deep for it, as what was granted may be once
    it is written out: what must come back is stored as an expression.

    FilterError for what the language cannot write: an infinity, an attribute without name.
    """
    try:
        return _format(filter.expression, 0)
    except ValueError as error:
        raise FilterError(str(error)) from None


def _format(expression: Expression, tightness: int) -> str:
    """Text of an expression inside one that binds so tightly: 0 nothing or OR, 1 AND, 2 NOT."""
    match expression:
        case Constant():
            return "TRUE" if expression.value else "FALSE"
        case Predicate():
            return _format_predicate(expression)
        case Not():
            return f"NOT {_format(expression.operand, 2)}"
        case And() | Or():
            conjunctive = isinstance(expression, And)
            if not expression.operands:
                return "TRUE" if conjunctive else "FALSE"
            own = 1 if conjunctive else 0
            texts = (_format(operand, own) for operand in expression.operands)
            text = (" AND " if conjunctive else " OR ").join(texts)
            return f"({text})" if own < tightness else text


def _format_predicate(tested: Predicate) -> str:
    start = f"{write_name(tested.attribute)} {tested.operator.value}"
    match tested.operand:
        case None:
            return start
        case tuple():
            return f"{start} ({', '.join(map(write_value, tested.operand))})"
        case _:
            return f"{start} {write_value(tested.operand)}"


def write_value(value: Value) -> str:
    """A value as a literal; ValueError for infinities and NaN."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return write_string(value) if isinstance(value, str) else write_number(value)
