"""Filters as SQL: `carrier = 'UA' AND dep_delay > 30`, the WHERE subset of message selectors.

Spark SQL parses a filter without expressions to the same meaning, which makes Spark an independent
judge of our matching; expressions are translated for it.  Names are case-sensitive; a bare name
means `attribute = TRUE`; BETWEEN becomes two comparisons, and a literal on the left is flipped to
the right.  An expression becomes a test of a derived attribute (`building.py`).

>>> from shoal.language import format_filter
>>> late = parse("carrier = 'UA' AND NOT (30 >= dep_delay OR dest IN ('SFO', 'LAX'))")
>>> format_filter(late)
"carrier = 'UA' AND NOT (dep_delay <= 30 OR dest IN ('SFO', 'LAX'))"
>>> parse(format_filter(late)) == late
True
"""

from __future__ import annotations

from functools import cache
from typing import cast

from lark import Lark, Token, UnexpectedCharacters, UnexpectedToken

from shoal.language.building import NO_CAST, Builder, Piece
from shoal.language.errors import (
    CostlyFilterError,
    FilterSyntaxError,
    LanguageMeaningError,
    check_encodable,
    shorten,
)
from shoal.language.tokens import PlacedKeywords, tell_keyword
from shoal.model import Filter, FilterCostError, FilterError
from shoal.model.expressions import (
    ExpressionCostError,
    ExpressionError,
    ValueExpression,
    check_expression,
)

# A subscription travels through every broker; longer texts are data, not filters.
MAX_TEXT_LENGTH = 65_536
# Predicates in one filter: the normal form is quadratic in them.
MAX_PREDICATES = 1_000

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
    "PLUS": "an operator (+, -, *, /, %, ||)",
    "_WHEN": "WHEN",
    "_THEN": "THEN",
    "_ELSE": "ELSE",
    "_END": "END",
    "_AS": "AS",
    "$END": "the end of the filter",
}

_STRAY_CHARACTERS = {
    "'": "the string that begins here has no closing quote",
    "`": "the back-quoted name that begins here is empty or not closed",
    '"': "unexpected \"; strings go in 'single quotes', names with odd characters in `back-quotes`",
    "&": "unexpected &; AND joins conditions",
    "|": "unexpected |; OR joins conditions, and || texts",
    ".": "unexpected .; a name with a dot is `a.b`, without spaces",
}
# Advice for words of other languages, where they stand behind a value.
_WORD_ADVICE = {
    "RLIKE": "there are no regular expressions; LIKE, startswith and contains test texts",
    "REGEXP": "there are no regular expressions; LIKE, startswith and contains test texts",
    "DIV": "there is no DIV; floor(a / b) divides integers",
    "MOD": "the remainder is a % b",
}


def parse(text: str) -> Filter:
    """The filter that a text stands for, its normal form computed; else FilterSyntaxError.

    CostlyFilterError, which is one, if its expressions may cost too much. TypeError for what is no
    text.
    """
    part = _read(text, "start")
    if part.size > MAX_PREDICATES:
        raise FilterSyntaxError(text, 0, f"a filter has at most {MAX_PREDICATES} predicates")
    assert part.condition is not None
    result = Filter(part.condition)
    try:
        result.check_cost()
        result.normal_form  # noqa: B018  # computed here so that its error is met here
    except FilterCostError as error:
        raise CostlyFilterError(text, 0, str(error)) from None
    except FilterError as error:
        raise FilterSyntaxError(text, 0, str(error)) from None
    return result


def parse_value(text: str) -> ValueExpression:
    """The value expression that a text stands for; else FilterSyntaxError.

    `evaluator` makes a function of it, `format_value` its text. The cost is within `MAX_COST`.

    >>> from shoal.model.expressions import evaluate_expression
    >>> evaluate_expression(parse_value("round(temp * 1.8 + 32, 1)"), {"temp": 21.37})
    70.5
    """
    part = _read(text, "value")
    try:
        check_expression(part.value)
    except ExpressionCostError as error:
        raise CostlyFilterError(text, 0, str(error)) from None
    except ExpressionError as error:
        raise FilterSyntaxError(text, 0, str(error)) from None
    return part.value


def _read(text: str, start: str) -> Piece:
    if not isinstance(text, str):
        raise TypeError(f"a filter is a text such as 'price > 10', not {type(text).__name__}")
    check_encodable(text)
    if len(text) > MAX_TEXT_LENGTH:
        raise FilterSyntaxError(
            text, MAX_TEXT_LENGTH, f"a filter has at most {MAX_TEXT_LENGTH} characters"
        )
    try:
        # The transformer turns lark's tree into a part while it parses; lark's types do not say so.
        return cast(Piece, _parser().parse(text, start=start))
    except UnexpectedCharacters as error:
        raise _stray(text, error.pos_in_stream or 0, start) from None
    except UnexpectedToken as error:
        raise _unexpected(text, error) from None
    except LanguageMeaningError as problem:
        raise FilterSyntaxError(text, problem.position, str(problem), problem.expected) from None
    except FilterCostError as error:
        raise CostlyFilterError(text, 0, str(error)) from None


def _stray(text: str, position: int, start: str) -> FilterSyntaxError:
    character = text[position]
    message = _STRAY_CHARACTERS.get(character, f"unexpected {character}")
    if character in "&|":
        return FilterSyntaxError(text, position, message)
    state = _parser().parse_interactive(text[:position], start=start)
    try:
        state.exhaust_lexer()
    except UnexpectedToken as error:  # the lexer is one token ahead of the parser
        return _unexpected(text, error)
    except LanguageMeaningError as problem:
        return FilterSyntaxError(text, problem.position, str(problem), problem.expected)
    accepted = state.accepts()  # type: ignore[no-untyped-call]  # lark leaves this one untyped
    return FilterSyntaxError(text, position, message, _words(accepted))


def _words(terminals: set[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for key, word in _WORDS.items() if key in terminals))


def _unexpected(text: str, error: UnexpectedToken) -> FilterSyntaxError:
    token: Token = error.token
    accepted = set(error.accepts or error.expected or ())
    expected = _words(accepted)
    if token.type == "$END":
        end = len(text.rstrip())
        message = "the filter ends too early" if end else "the filter is empty"
        return FilterSyntaxError(text, end, message, expected)
    message = f"unexpected {shorten(token)}"
    message += _advice(text, token)
    return FilterSyntaxError(text, token.start_pos or 0, message, expected)


def _advice(text: str, token: Token) -> str:
    """The reason why a token is refused, where it means something elsewhere."""
    start = token.start_pos or 0
    if token.type == "_NULL":
        return "; nothing compares with NULL, ask IS NULL or IS NOT NULL"
    if text[start - 2 : start] in ("<=", ">=", "<>") and token == ">":
        return "; there is no <=>, ask v = w OR (v IS NULL AND w IS NULL)"
    if token.type == "_AS":
        return f"; {NO_CAST}"
    if token == "=":
        return "; equality is one ="
    if token.type == "NAME" and (advice := _WORD_ADVICE.get(token.upper())) is not None:
        return f"; {advice}"
    return ""


def prepare() -> None:
    """Build the parser (50 ms), so that the first filter does not wait for it."""
    _parser()


@cache
def _parser() -> Lark:
    return Lark.open(
        "sql.lark",
        rel_to=__file__,
        parser="lalr",
        lexer="basic",
        start=["start", "value"],
        transformer=Builder(),
        lexer_callbacks={"NAME": tell_keyword},
        postlex=PlacedKeywords(),
        maybe_placeholders=True,
    )
