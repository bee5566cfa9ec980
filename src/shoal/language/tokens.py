"""Keywords among names: those that are keywords everywhere, and those that depend on their place.

`case`, `when`, `then`, `else`, `end`, `as` and `try_cast` stay names of attributes where no
expression with them can stand, as in Spark SQL: `end > 5` and `case = 'b'` are tests of
attributes. A minus where a value begins is the sign of the number behind it.
"""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token

from shoal.language.errors import LanguageMeaningError
from shoal.language.literals import KEYWORDS

# Keywords within an expression with CASE; behind a value none of them can be a name.
_BEHIND_VALUES = {"WHEN": "_WHEN", "THEN": "_THEN", "ELSE": "_ELSE", "END": "_END", "AS": "_AS"}
_VALUE_ENDS = frozenset(
    ("NAME", "QUOTED_NAME", "NUMBER", "STRING", "TRUE", "FALSE", "_RIGHT", "_NULL", "_END")
)
# Tokens with which a value begins, if CASE stands before them.
_VALUE_STARTS = frozenset(
    ("NAME", "QUOTED_NAME", "NUMBER", "STRING", "TRUE", "FALSE", "LEFT", "NOT")
)
_FIXED = {
    "AND": "_AND", "OR": "_OR", "NOT": "NOT", "BETWEEN": "_BETWEEN", "IN": "_IN", "LIKE": "_LIKE",
    "ESCAPE": "_ESCAPE", "IS": "_IS", "NULL": "_NULL", "TRUE": "TRUE", "FALSE": "FALSE",
}  # fmt: skip


def tell_keyword(token: Token) -> Token:
    """The token, of the type of its keyword if it is one everywhere."""
    word = token.upper()
    return token.update(type=_FIXED[word]) if word in KEYWORDS else token


class PlacedKeywords:
    """Tells the other keywords from names, by the tokens before and behind them."""

    always_accept = ()

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """The same tokens; LanguageMeaningError for `--`, which begins a comment in SQL."""
        before: Token | None = None
        token = next(stream, None)
        open_cases = 0
        while token is not None:
            following = next(stream, None)
            if token.type == "NAME":
                token = _placed(token, before, following, open_cases)
                open_cases += {"CASE": 1, "_END": -1}.get(token.type, 0)
            elif _is_comment(token, before):
                raise LanguageMeaningError(
                    "-- begins a comment in SQL; write - -1 or (-1)",
                    (token.start_pos or 0) - 1,
                )
            elif _is_sign(token, before, following):
                assert following is not None
                number = following.update(value=f"-{following}")
                number.start_pos = token.start_pos
                token, following = number, next(stream, None)
            yield token
            before, token = token, following


def _placed(token: Token, before: Token | None, following: Token | None, open_cases: int) -> Token:
    word = token.upper()
    next_type = following.type if following is not None else "$END"
    is_behind_value = before is not None and before.type in _VALUE_ENDS
    if word in _BEHIND_VALUES:
        is_first = word == "WHEN" and before is not None and before.type == "CASE"
        if is_first or (is_behind_value and (open_cases > 0 or word == "AS")):
            return token.update(type=_BEHIND_VALUES[word])
    elif word == "CASE" and not is_behind_value and next_type in _VALUE_STARTS:
        return token.update(type="CASE")
    elif word == "TRY_CAST" and next_type == "LEFT":
        return token.update(type="TRY_CAST")
    return token


def _is_comment(token: Token, before: Token | None) -> bool:
    return (
        token.type == "MINUS"
        and before is not None
        and before.type == "MINUS"
        and before.end_pos == token.start_pos
    )


def _is_sign(token: Token, before: Token | None, following: Token | None) -> bool:
    """Return whether a minus belongs to the number behind it: the lowest integer needs it."""
    return (
        token.type == "MINUS"
        and following is not None
        and following.type == "NUMBER"
        and (before is None or before.type not in _VALUE_ENDS)
    )
