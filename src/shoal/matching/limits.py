"""Limits on the cost of a filter, for brokers that take filters from strangers.

One publication is tested against a filter in time that grows with two things: how many tests its
normal form has, a fraction of a microsecond each; and how often patterns go through a text, some
3 ms each for a text of 1 MB at worst.  A filter within both limits holds a broker for at most
about 50 ms, whatever the publication; most need microseconds.

>>> from shoal.language import parse
>>> check_cost(parse("symbol = 'YHOO' AND headline LIKE '%profit%'"))
>>> check_cost(parse(" AND ".join(f"text LIKE '%{word}%'" for word in range(17))))
Traceback (most recent call last):
shoal.model.filters.FilterError: the filter's patterns go through a text 17 times; at most 16
"""

from __future__ import annotations

from shoal.matching.shapes import searched_characters
from shoal.model import And, Expression, Filter, FilterError, Not, Operator, Or, Predicate

# Of the normal form: each conjunction counts its own.
MAX_TESTS = 4_000
MAX_SEARCHES = 16

# Characters between which a pattern has `_` are compared one by one, many places at once.
_CHARACTERS_A_SEARCH = 8


def check_cost(
    filter: Filter, max_tests: int = MAX_TESTS, max_searches: int = MAX_SEARCHES
) -> None:
    """FilterError, in one line, for a filter that costs more than that, or has no normal form."""
    tests = sum(map(len, filter.normal_form))
    if tests > max_tests:
        raise FilterError(f"the filter comes to {tests} tests; at most {max_tests}")
    # Predicates outside the normal form are still evaluated if filters are not indexed.
    in_conjunctions = (test for conjunction in filter.normal_form for test in conjunction)
    searches = max(sum(map(_searches, in_conjunctions)), _searches_of(filter.expression))
    if searches > max_searches:
        raise FilterError(
            f"the filter's patterns go through a text {searches} times; at most {max_searches}"
        )


def _searches_of(expression: Expression) -> int:
    match expression:
        case Predicate():
            return _searches(expression)
        case Not():
            return _searches_of(expression.operand)
        case And() | Or():
            return sum(map(_searches_of, expression.operands))
    return 0


def _searches(tested: Predicate) -> int:
    """Return how often a pattern goes through a text."""
    if tested.operator not in (Operator.LIKE, Operator.NOT_LIKE):
        return 0
    assert isinstance(tested.operand, str)
    characters = searched_characters(tested.operand)
    return min(characters, 1) + characters // _CHARACTERS_A_SEARCH
