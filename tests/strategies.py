"""Random filters and publications for property tests, made to collide.

Values come from small pools around the operands, so that equal, neighbouring and differently typed
values are frequent; NaN, infinities, integers beyond 2**53 and odd characters are among them.
"""

from __future__ import annotations

from hypothesis import strategies as st

from shoal.model import And, Constant, Expression, Filter, Not, Operator, Or, Predicate, predicate
from shoal.model.like import escape_literal

NUMBERS: list[int | float] = [
    0, 1, 2, -1, 0.0, -0.0, 1.0, 1.5, 0.5, 1e-320, 2**53, 2**53 + 1, 2**53 + 2, float(2**53),
    2**63 - 1, 2**63 - 2, -(2**63), 2.0**63, -(2.0**63), 1e300, -1e300, 1.7976931348623157e308,
]  # fmt: skip
STRINGS = [
    "", "a", "b", "ab", "aa", "abc", "ba", "A", "a\0", "a\0\0", "%", "_", "a%b", "a_b", "\\", "'",
    "a'b", "ä", "\n", "a\nb", "𝄞", "a𝄞", "\ud7ff", "\ue000", "\U0010ffff", "é", "${a}", "`", '"',
]  # fmt: skip
PATTERNS = [
    "%", "_", "", "a", "a%", "%a", "%a%", "a_", "_a%", "%a%b%", "a%b", r"a\%b", r"\_%", r"\\", "%%",
    "__", "%_", "𝄞%", "%\n%", "ab%", "%ab", "a%a", "%b%", r"%\%%",
]  # fmt: skip
PLAIN_NAMES = ["a", "b", "c"]
ODD_NAMES = ["openClose%Diff", "a.b", "and", "NULL", "with `quote`", "é", "9", "A", " ", "select"]

FINITE_NUMBERS = st.sampled_from(NUMBERS)
VALUES = st.one_of(
    st.booleans(),
    FINITE_NUMBERS,
    st.sampled_from([float("nan"), float("inf"), float("-inf")]),
    st.sampled_from(STRINGS),
)
ORDERS = (Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE)


def attributes(names: list[str] = PLAIN_NAMES) -> st.SearchStrategy[dict[str, object]]:
    """A publication's attributes; each may be missing."""
    return st.dictionaries(st.sampled_from(names), VALUES, max_size=len(names))


def patterns() -> st.SearchStrategy[str]:
    piece = st.one_of(st.sampled_from(["%", "_"]), st.sampled_from(STRINGS).map(escape_literal))
    return st.one_of(st.sampled_from(PATTERNS), st.lists(piece, max_size=4).map("".join))


def predicates(
    names: list[str] = PLAIN_NAMES, *, strings: st.SearchStrategy[str] | None = None
) -> st.SearchStrategy[Predicate]:
    """Any predicate that the parser can produce."""
    texts = st.sampled_from(STRINGS) if strings is None else strings
    name = st.sampled_from(names)
    one_kind = [st.booleans(), FINITE_NUMBERS, texts]
    lists = st.one_of([st.lists(kind, min_size=1, max_size=4).map(tuple) for kind in one_kind])
    return st.one_of(
        st.builds(predicate, name, st.sampled_from(ORDERS), st.one_of(one_kind)),
        st.builds(predicate, name, st.sampled_from([Operator.LIKE, Operator.NOT_LIKE]), patterns()),
        st.builds(predicate, name, st.sampled_from([Operator.IN, Operator.NOT_IN]), lists),
        st.builds(predicate, name, st.sampled_from([Operator.IS_NULL, Operator.IS_NOT_NULL])),
    )


def expressions(
    leaves: st.SearchStrategy[Predicate], *, max_leaves: int = 8
) -> st.SearchStrategy[Expression]:
    """Expressions as the parser builds them: AND and OR flat, with two operands or more."""
    return st.recursive(
        st.one_of(leaves, leaves, leaves, st.booleans().map(Constant)),
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, min_size=2, max_size=4).map(lambda parts: _flat(And, parts)),
            st.lists(inner, min_size=2, max_size=4).map(lambda parts: _flat(Or, parts)),
        ),
        max_leaves=max_leaves,
    )


def _flat(connective: type[And] | type[Or], parts: list[Expression]) -> And | Or:
    operands: list[Expression] = []
    for part in parts:
        operands.extend(part.operands if isinstance(part, connective) else (part,))
    return connective(tuple(operands))


def filters(names: list[str] = PLAIN_NAMES, *, max_leaves: int = 8) -> st.SearchStrategy[Filter]:
    return expressions(predicates(names), max_leaves=max_leaves).map(Filter)


def conjunctions(names: list[str] = PLAIN_NAMES, *, max_size: int = 4) -> st.SearchStrategy[Filter]:
    """Filters that are one AND of predicates."""
    return st.lists(predicates(names), min_size=1, max_size=max_size).map(
        lambda parts: Filter(And(tuple(parts)))
    )
