"""What is decided about publications, once for all between which no filter can tell a difference.

Whoever routes makes something of the filters that match: to whom a publication goes.  That takes
longer than matching, and there are far fewer such decisions than publications: two that meet the
same equalities and pass the same thresholds match the same filters.  So a publication is led
through what `filed` has for it, and each way to go is remembered with the decision at its end.
A change of the filters makes new ways of those it touches.

>>> from shoal.language import parse
>>> from shoal.matching.index import MatchIndex
>>> index = MatchIndex()
>>> index.add("s1", parse("carrier = 'UA' AND dep_delay > 30"))
>>> index.add("s2", parse("carrier = 'UA' AND dep_delay > 40"))
>>> decisions = Decisions(index, lambda ids: " and ".join(ids))
>>> decisions.of({"carrier": "UA", "dep_delay": 45})
's1 and s2'
>>> decisions.of({"carrier": "UA", "dep_delay": 55}) is decisions.of({"carrier": "UA", "dep_delay": 45})
True
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from shoal.matching.index import MatchIndex
from shoal.model import Attributes

Decision = TypeVar("Decision")

# Steps of ways and ids in decisions that are kept, a few MB; beyond that all begins anew.
MAX_KEPT = 100_000


class _Place(Generic[Decision]):
    """Where a way has come to: the steps from here, and the decision if it ends here."""

    __slots__ = ("decision", "steps")

    def __init__(self) -> None:
        self.steps: dict[Hashable, _Place[Decision]] = {}
        self.decision: Decision | None = None


class Decisions(Generic[Decision]):
    """What `decide` makes of the ids of the filters that match; never None.

    It must depend on these ids alone.  Attributes have values of our own types (see `given`):
    nobody looks at them again.
    """

    def __init__(self, filters: MatchIndex, decide: Callable[[list[Any]], Decision]) -> None:
        self._filters = filters
        self._decide = decide
        self._start: _Place[Decision] = _Place()
        # Where filters had to be tested, by what was found.
        self._by_found: dict[tuple[Hashable, ...], Decision] = {}
        self._kept = 0

    def of(self, attributes: Attributes) -> Decision:
        """The decision about a publication with these attributes."""
        place = self._start
        get = attributes.get
        for first, values_of, table in self._filters.scan:
            values: Any = ()
            if first is not None:
                values = get(first)
                if values is None:
                    continue
                if values_of is not None:
                    try:
                        values = values_of(attributes)
                    except KeyError:
                        continue
            bucket = table.get(values)
            if bucket is None or (bucket.types is not None and not bucket.suits(values)):
                continue
            if bucket.tests:
                return self._found(self._filters.match(attributes))
            place = place.steps.get(bucket.version) or self._grow(place, bucket.version)
            for name, by_type in bucket.plain:
                value = get(name)
                ladder = by_type.get(type(value))
                step = None
                if ladder is not None:
                    step = bisect_right(ladder[0], value)
                    if type(value) is str:  # thresholds of another ladder than those of numbers
                        step = ~step
                place = place.steps.get(step) or self._grow(place, step)
        if place.decision is None:
            place.decision = self._decided(self._filters.match(attributes))
        return place.decision

    def of_each(self, publications: Sequence[Attributes]) -> list[Decision]:
        """As `of`, for each of many."""
        if self._filters.has_tests:
            return [self._found(found) for found in self._filters.match_each(publications)]
        return [self.of(attributes) for attributes in publications]

    def _grow(self, place: _Place[Decision], step: Hashable) -> _Place[Decision]:
        self._keep(1)
        place.steps[step] = further = _Place()
        return further

    def _found(self, found: list[Any]) -> Decision:
        key = tuple(found)
        decision = self._by_found.get(key)
        if decision is None:
            decision = self._decided(found)
            self._by_found[key] = decision
        return decision

    def _decided(self, found: list[Any]) -> Decision:
        self._keep(1 + len(found))
        return self._decide(found)

    def _keep(self, size: int) -> None:
        self._kept += size
        if self._kept > MAX_KEPT:
            self._kept = size
            self._start = _Place()
            self._by_found.clear()
