"""Filters that match a wanted share of one publisher's events.

A threshold is a quantile of the publisher's own values.  For each filter a few are drawn (above,
below or within two thresholds on one attribute; for larger shares also on two) and the first that
comes close enough to the share is taken, else the closest.  Events that lack the attribute do not
match, so they count on the other side; the measured share is exact for the events given.

>>> events = {"delay": Numbers.of([5, 1, 3, 2, 4, None, 7, 6, 9, 8])}
>>> aimed = aim(events, 10, 0.5, random.Random(1), taken=set())
>>> aimed.matches, [(test.operator.value, test.operand) for test in aimed.predicates]
(5, [('>=', 1), ('<=', 5)])

Source: the kinds of subscription in the relocation paper, section 5.1, which gives one example of
each; that thresholds are drawn so that subscriptions differ is ours.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.model import Operator, Predicate, predicate

# Distance from the wanted share (as a share of all events) within which a filter is taken at once.
TOLERANCE = 0.01
# Draws before the closest so far is taken; ties in the data make some shares unreachable.
DRAWS = 24
# From this share on, a filter may test two attributes.
SHARE_FOR_TWO = 0.3
# An attribute that follows the clock more closely than this would make a filter a time window.
CLOCK_CORRELATION = 0.9

_Array = npt.NDArray[np.number[Any]]


class Numbers(NamedTuple):
    """A numeric attribute of one publisher's events: values where present, in event order."""

    values: _Array
    present: npt.NDArray[np.bool_]
    ascending: _Array

    @classmethod
    def of(cls, values: Sequence[float | int | None]) -> Numbers:
        """From values with None where the event lacks the attribute."""
        present = np.array([value is not None for value in values], dtype=bool)
        filled = np.array([0 if value is None else value for value in values])
        kind = np.int64 if filled.dtype.kind == "i" else np.float64
        return cls.masked(filled.astype(kind), present)

    @classmethod
    def masked(cls, values: _Array, present: npt.NDArray[np.bool_]) -> Numbers:
        """From values of which only those that are `present` count."""
        return cls(values, present, np.sort(values[present]))

    @property
    def can_aim(self) -> bool:
        """Return whether thresholds can divide the events: finite, not constant, not the clock."""
        if len(self.ascending) == 0 or self.ascending[0] == self.ascending[-1]:
            return False
        if not np.isfinite(self.ascending).all():
            return False
        order = np.flatnonzero(self.present)
        correlation = np.corrcoef(order, self.values[self.present])[0, 1]
        return bool(len(order) < 3 or abs(correlation) <= CLOCK_CORRELATION)


class Aimed(NamedTuple):
    """Predicates, all of which must hold, and how many of the events they match."""

    predicates: tuple[Predicate, ...]
    matches: int


def aim(
    numbers: Mapping[str, Numbers],
    events: int,
    share: float,
    source: random.Random,
    taken: set[tuple[Predicate, ...]],
) -> Aimed | None:
    """Predicates that match about `share` of `events` events, other than those `taken`.

    At least one event is aimed at.  None when no attribute can aim (see `Numbers.can_aim`).
    """
    names = sorted(name for name, of_name in numbers.items() if of_name.can_aim)
    if not names:
        return None
    wanted = max(1, round(share * events))
    close_enough = max(TOLERANCE * events, 0.5)

    def faults(candidate: Aimed) -> tuple[bool, bool, int]:
        miss = abs(candidate.matches - wanted)
        return miss > close_enough, candidate.predicates in taken, miss

    best: Aimed | None = None
    for _ in range(DRAWS):
        for candidate in _draw(numbers, names, wanted, share, source):
            if best is None or faults(candidate) < faults(best):
                best = candidate
        if best is not None and faults(best)[:2] == (False, False):
            break
    return best


def _draw(
    numbers: Mapping[str, Numbers],
    names: Sequence[str],
    wanted: int,
    share: float,
    source: random.Random,
) -> Iterator[Aimed]:
    name = source.choice(names)
    shapes = ["above", "below", "within"]
    if share >= SHARE_FOR_TWO and len(names) > 1:
        shapes.append("two")
    shape = source.choice(shapes)
    if shape == "two":
        yield from _two(numbers, names, wanted, source)
    elif shape == "within":
        yield from _within(name, numbers[name].ascending, wanted, source)
    else:
        yield from _tail(name, numbers[name].ascending, wanted, upper=shape == "above")


def _tail(name: str, ascending: _Array, wanted: int, *, upper: bool) -> Iterator[Aimed]:
    count = len(ascending)
    if count == 0:
        return
    wanted = min(wanted, count)
    threshold = ascending[count - wanted] if upper else ascending[wanted - 1]
    left, right = _ranks(ascending, threshold)
    # The neighbour's value with a strict comparison reads better, and says the same.
    if upper:
        yield _single(name, Operator.GE, threshold, count - left)
        yield _single(name, Operator.GT, threshold, count - right)
        if left > 0:
            yield _single(name, Operator.GT, ascending[left - 1], count - left)
    else:
        yield _single(name, Operator.LE, threshold, right)
        yield _single(name, Operator.LT, threshold, left)


def _within(name: str, ascending: _Array, wanted: int, source: random.Random) -> Iterator[Aimed]:
    wanted = min(wanted, len(ascending))
    start = source.randint(0, len(ascending) - wanted)
    low, high = ascending[start], ascending[start + wanted - 1]
    matches = _ranks(ascending, high)[1] - _ranks(ascending, low)[0]
    yield Aimed((_predicate(name, Operator.GE, low), _predicate(name, Operator.LE, high)), matches)


def _two(
    numbers: Mapping[str, Numbers], names: Sequence[str], wanted: int, source: random.Random
) -> Iterator[Aimed]:
    first, second = source.sample(names, 2)
    of_first, of_second = numbers[first], numbers[second]
    # The first bound keeps more events than wanted, the second cuts the rest.
    kept = source.randint(wanted, max(wanted, len(of_first.ascending)))
    ascending = of_first.ascending
    threshold = ascending[len(ascending) - min(kept, len(ascending))]
    rows = of_first.present & (of_first.values >= threshold) & of_second.present
    left_over = np.sort(of_second.values[rows])
    for cut in _tail(second, left_over, wanted, upper=source.random() < 0.5):
        yield Aimed((_predicate(first, Operator.GE, threshold), *cut.predicates), cut.matches)


def _ranks(ascending: _Array, value: np.generic) -> tuple[int, int]:
    left = int(np.searchsorted(ascending, value, side="left"))
    return left, int(np.searchsorted(ascending, value, side="right"))


def _single(name: str, operator: Operator, value: np.generic, matches: int) -> Aimed:
    return Aimed((_predicate(name, operator, value),), matches)


def _predicate(name: str, operator: Operator, value: np.generic) -> Predicate:
    return predicate(name, operator, value.item())
