"""Sets of numbers or strings as comparisons make them: an interval less some points, or points.

Intervals are half open, `low <= x < high`, which every comparison can be brought to (see
`domains`), and trimmed: `low` is a member, and so is the value before `high` where there is one.
That makes emptiness and inclusion exact down to neighbouring values.

>>> between = ordered_set(NUMBERS, low=number_successor(2**53), high=2**53 + 2)
>>> is_subset(between, ordered_set(NUMBERS, points=[2**53 + 1])), is_empty(between)
(True, False)
>>> is_empty(ordered_set(NUMBERS, low=2**53, high=2**53 + 1, excluded=[2.0**53]))
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from shoal.matching.domains import (
    END,
    LOWEST_NUMBER,
    number_predecessor,
    number_successor,
    string_predecessor,
    string_successor,
)


class Domain(NamedTuple):
    """The order of a domain; `predecessor` is None if there is none."""

    lowest: Any
    successor: Callable[[Any], Any]
    predecessor: Callable[[Any], Any]


NUMBERS = Domain(LOWEST_NUMBER, number_successor, number_predecessor)
STRINGS = Domain("", string_successor, string_predecessor)

_NONE: frozenset[Any] = frozenset()


class OrderedSet(NamedTuple):
    """Either `points` alone, or the interval less `excluded`.  Build with `ordered_set`."""

    domain: Domain
    low: Any
    high: Any
    points: frozenset[Any] | None
    excluded: frozenset[Any]

    def __contains__(self, value: object) -> bool:
        if self.points is not None:
            return value in self.points
        return value >= self.low and value < self.high and value not in self.excluded


def ordered_set(
    domain: Domain,
    low: Any = None,
    high: Any = END,
    points: Iterable[Any] | None = None,
    excluded: Iterable[Any] = (),
) -> OrderedSet:
    """The set of values (or of those `points`) in the interval and not excluded, trimmed."""
    if low is None:
        low = domain.lowest
    without = frozenset(excluded) if excluded else _NONE
    if points is not None:
        kept = frozenset(p for p in points if p >= low and p < high and p not in without)
        return OrderedSet(domain, domain.lowest, END, kept, _NONE)
    if without:
        while low in without:
            low = domain.successor(low)
        while low < high and domain.predecessor(high) in without:
            high = domain.predecessor(high)
        without = frozenset(value for value in without if value >= low and value < high)
    if not low < high:
        return OrderedSet(domain, domain.lowest, END, _NONE, _NONE)
    return OrderedSet(domain, low, high, None, without)


def is_empty(values: OrderedSet) -> bool:
    """Return whether there is no value in the set."""
    return values.points is not None and not values.points


def intersection(left: OrderedSet, right: OrderedSet) -> OrderedSet:
    """The values in both sets of one domain."""
    if left.points is not None:
        return left._replace(points=frozenset(p for p in left.points if p in right))
    if right.points is not None:
        return right._replace(points=frozenset(p for p in right.points if p in left))
    low = left.low if left.low >= right.low else right.low
    high = left.high if left.high <= right.high else right.high
    return ordered_set(left.domain, low, high, None, left.excluded | right.excluded)


def is_subset(inner: OrderedSet, outer: OrderedSet) -> bool:
    """Return whether every value of `inner` is in `outer`."""
    if inner.points is not None:
        return all(point in outer for point in inner.points)
    if outer.points is None:
        return (
            inner.low >= outer.low
            and inner.high <= outer.high
            and not any(point in inner for point in outer.excluded)
        )
    # An interval within a few points is walked; each step uses one of them up.
    value = inner.low
    while value < inner.high:
        if value not in outer.points and value not in inner.excluded:
            return False
        value = inner.domain.successor(value)
    return True
