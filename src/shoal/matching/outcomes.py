"""Outcomes of publications, computed once for all that no filter can tell apart.

Routing derives an outcome from the matching filters: a publication's destinations. That takes
longer than the match, and there are far fewer such outcomes than publications: two that meet the
same equalities and pass the same thresholds match the same filters. So a publication walks through
the structures of `filed`, and each path is remembered with the outcome at its end. After a change
of filters the paths through the changed places are recomputed.

>>> from shoal.language import parse
>>> outcomes = Outcomes(lambda ids: " and ".join(ids))
>>> outcomes.add("s1", parse("carrier = 'UA' AND dep_delay > 30"))
>>> outcomes.add("s2", parse("carrier = 'UA' AND dep_delay > 40"))
>>> late, later = ({"carrier": "UA", "dep_delay": delay} for delay in (45, 55))
>>> outcomes.of(late), outcomes.of(late) is outcomes.of(later)
('s1 and s2', True)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from shoal.matching.filed.buckets import FEW, present
from shoal.matching.index import MatchIndex
from shoal.model import Attributes, Filter

Outcome = TypeVar("Outcome")

# Bound of remembered steps, with the contents of outcomes: some MB. Beyond that all begins anew;
# one outcome counts as half of it at most, so that of a stream of one class the largest is
# remembered.
MAX_REMEMBERED = 100_000
STEP_BITS = 512


class _OutcomePlace(Generic[Outcome]):
    """A node of the paths: the next steps, and the outcome if a path ends here."""

    __slots__ = ("outcome", "steps")

    def __init__(self) -> None:
        self.steps: dict[Hashable, _OutcomePlace[Outcome]] = {}
        self.outcome: Outcome | None = None


class Outcomes(Generic[Outcome]):
    """Filters by id, and the outcomes that `make` makes of the ids of matches.

    It depends on these ids alone, in the order in which `MatchIndex.match` has them, and is never
    None.  `size_of` says how much an outcome holds, as thousands of filters may come to one thing;
    without, that is nothing.
    """

    def __init__(
        self,
        make: Callable[[list[Any]], Outcome],
        size_of: Callable[[Outcome], int] = lambda outcome: 0,
    ) -> None:
        self._make = make
        self._size_of = size_of
        self._index = MatchIndex()
        self._derived = self._index.derived
        self._start: _OutcomePlace[Outcome] = _OutcomePlace()
        # Outcomes by matching ids, for paths on which filters were tested one by one.
        self._by_ids: dict[tuple[Hashable, ...], Outcome] = {}
        self._remembered = 0
        # Those at which ways begin.
        self._begun: list[Any] = []

    def add(self, id: Hashable, filter: Filter) -> None:
        """File a filter under an id, in place of the one that was there."""
        self._index.add(id, filter)

    def remove(self, id: Hashable) -> None:
        """Forget a filter; KeyError if there is none under this id."""
        self._index.remove(id)

    def of(self, attributes: Attributes) -> Outcome:
        """Return the outcome of a publication with these attributes.

        The caller ensures that their values are of our own types (see `given`).
        """
        place = start = self._start
        if self._derived:
            attributes = self._index.extended(attributes)
        get = attributes.get
        # As in `FiledFilters`: a shared function for finding the buckets would make `of` a third
        # slower.
        for _, first, values_of, table in self._index.tables_for(attributes):
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
            if bucket is None:
                continue
            if not bucket.is_plain:
                if bucket.types is not None and not bucket.suits(values):
                    continue
                if bucket.tests:
                    return self._searched(attributes)
            own = bucket.ways or self._begin(bucket)
            place = own if place is start else place.steps.get(own) or self._lead(place, own)
            step: Hashable
            for name, ranged in present(bucket.ranged, attributes) if bucket.ranged else ():
                for bitmaps in ranged:
                    steps = bitmaps.steps(get)
                    if steps is None:
                        return self._searched(attributes)
                    # Of many not all are looked at: which they are, differs.
                    for found in steps:
                        step = found if len(bucket.ranged) <= FEW else (name, found)
                        place = place.steps.get(step) or self._lead(place, step, found)
            plain = bucket.plain
            for name, by_type in bucket.plain_for(attributes) if plain is None else plain:
                value = get(name)
                kind = type(value)
                ladder = by_type.get(kind)
                step = None
                if ladder is not None:
                    step = bisect_right(ladder[0], value)
                    if kind is str:  # a ladder of strings beside one of numbers
                        step = ~step
                if plain is None:
                    step = (name, step)
                place = place.steps.get(step) or self._lead(place, step)
        if place.outcome is None:
            place.outcome = self._found(attributes)
        return place.outcome

    def of_each(self, publications: Sequence[Attributes]) -> list[Outcome]:
        """As `of`, for each of many, in whichever way is faster."""
        if self._index.is_searched:
            return [self._of_ids(ids) for ids in self._index.match_each_checked(publications)]
        return [self.of(attributes) for attributes in publications]

    def work_of(self, attributes: Attributes) -> int:
        """As `MatchIndex.work_of`: how much it may be to find out."""
        return self._index.work_of(attributes)

    @property
    def most_candidates(self) -> int:
        """As `MatchIndex.most_candidates`: how much it may be whatever the publication says."""
        return self._index.most_candidates

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        """As `MatchIndex.prepare`."""
        return self._index.prepare(attributes, work_us)

    def _begin(self, bucket: Any) -> _OutcomePlace[Outcome]:
        """Return the start of paths at the bucket's own filters, until these change."""
        self._remember(1)
        bucket.ways = _OutcomePlace()
        self._begun.append(bucket)
        return bucket.ways  # type: ignore[no-any-return]

    def _lead(
        self, place: _OutcomePlace[Outcome], step: Hashable, bits: int = 0
    ) -> _OutcomePlace[Outcome]:
        """A step that was not taken yet; bits of many members take as much memory as several."""
        self._remember(1 + bits.bit_length() // STEP_BITS)
        further: _OutcomePlace[Outcome] = _OutcomePlace()
        place.steps[step] = further
        return further

    def _found(self, attributes: Attributes) -> Outcome:
        """Compute the outcome of a publication on a new path."""
        return self._made(self._index.match_checked(attributes))

    def _searched(self, attributes: Attributes) -> Outcome:
        """Compute the outcome of a publication that needs tests of filters beyond its path."""
        return self._of_ids(self._index.match_checked(attributes))

    def _of_ids(self, ids: list[Any]) -> Outcome:
        key = tuple(ids)
        outcome = self._by_ids.get(key)
        if outcome is None:
            outcome = self._made(ids, len(ids))
            self._by_ids[key] = outcome
        return outcome

    def _made(self, ids: list[Any], of_key: int = 0) -> Outcome:
        outcome = self._make(ids)
        size = 1 + of_key + self._size_of(outcome)
        self._remember(min(size, MAX_REMEMBERED // 2))
        return outcome

    def _remember(self, size: int) -> None:
        self._remembered += size
        if self._remembered > MAX_REMEMBERED:
            self._remembered = 0  # this outcome is on a path that is given up
            self._start = _OutcomePlace()
            self._by_ids.clear()
            for bucket in self._begun:
                bucket.ways = None
            self._begun.clear()


class OutcomesFactory(Protocol):
    """Makes `Outcomes`, given a function that makes one, and a function that returns its size."""

    def __call__(
        self, make: Callable[[list[Any]], Outcome], size_of: Callable[[Outcome], int], /
    ) -> Outcomes[Outcome]: ...
