"""Filters filed for one publication at a time: which of them match, without testing each.

Each conjunction of a filter's normal form is filed under the equalities it demands (one
dictionary look-up finds all filters that want `carrier = 'UA' AND origin = 'EWR'`), within those
under one order comparison (a bisection finds all thresholds that a value passes) or among others
with ranges on the same attributes (`bitmaps.py`), and only what is left is tested one by one.
Adding and removing touch one place per conjunction.

>>> from shoal.language import parse
>>> index = FiledFilters()
>>> index.add("s1", parse("carrier = 'UA' AND dep_delay > 30"))
>>> index.add("s2", parse("dep_delay > 40 OR cancelled"))
>>> index.match({"carrier": "UA", "dep_delay": 45})
['s1', 's2']
>>> index.remove("s1")
>>> index.match({"carrier": "UA", "dep_delay": 45}), len(index)
(['s2'], 1)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable
from operator import itemgetter
from typing import Any

from shoal.matching.filed.bitmaps import BLOCK
from shoal.matching.filed.buckets import Bucket
from shoal.matching.filed.places import Signature, Values, places_of
from shoal.matching.given import checked
from shoal.matching.predicates import compile_conjunction
from shoal.model import Attributes, Filter


class FiledFilters:
    """Filters by id, and the question which of them match one publication.

    Ids are any hashable values; adding an id again replaces its filter.  The order of the ids
    in an answer depends only on what was added and removed, and in which order.
    """

    def __init__(self) -> None:
        self._filters: dict[Hashable, Filter] = {}
        # Destinations of those filters that have one, and how many filters each has.
        self._destinations: dict[Hashable, Hashable] = {}
        self._destination_sizes: dict[Hashable, int] = {}
        # Filters of several conjunctions may match in several places and must be named once.
        self._several = 0
        # Conjunctions that are tested one by one where their equalities are met; those of ranges.
        self._tested = 0
        self._ranged = 0
        self._tables: dict[Signature, dict[Values, Bucket]] = {}
        # What a table's values are of: no attribute (None), one, or several.
        self.scan: tuple[
            tuple[str | None, Callable[[Any], Values] | None, dict[Values, Bucket]], ...
        ] = ()

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, id: Hashable) -> bool:
        return id in self._filters

    def add(self, id: Hashable, filter: Filter, destination: Hashable = None) -> None:
        """File a filter under an id, in place of the one that was there.

        A filter without a destination is one of its own, named by its id.  Whatever raises
        (FilterError for too large a normal form, TypeError for what is no filter, or for an id or
        destination that cannot be hashed) changes nothing.
        """
        if not isinstance(filter, Filter):
            raise TypeError(
                f"a filter is wanted, not {type(filter).__name__}; shoal.language.parse makes one "
                "of a text"
            )
        # Everything that can fail comes before any change.
        normal_form = filter.normal_form
        filed = [
            (number, place, compile_conjunction(place.rest) if place.rest else None)
            for number, place in places_of(normal_form)
        ]
        hash(destination)
        if id in self._filters:
            self.remove(id)
        self._filters[id] = filter
        if destination is not None:
            self._destinations[id] = destination
            sizes = self._destination_sizes
            sizes[destination] = sizes.get(destination, 0) + 1
        self._several += len(normal_form) > 1
        for number, place, test in filed:
            table = self._tables.get(place.signature)
            if table is None:
                table = self._tables[place.signature] = {}
                self._add_to_scan(place.signature, table)
            bucket = table.get(place.values)
            if bucket is None:
                bucket = table[place.values] = Bucket(place)
            bucket.add(id, number, place, test)
            self._tested += bool(place.rest)
            self._ranged += bool(place.ranges)

    def remove(self, id: Hashable) -> None:
        """Forget a filter; KeyError if there is none under this id."""
        normal_form = self._filters.pop(id).normal_form
        if id in self._destinations:
            destination = self._destinations.pop(id)
            self._destination_sizes[destination] -= 1
            if not self._destination_sizes[destination]:
                del self._destination_sizes[destination]
        self._several -= len(normal_form) > 1
        for number, place in places_of(normal_form):
            table = self._tables[place.signature]
            bucket = table[place.values]
            bucket.remove(id, number, place)
            self._tested -= bool(place.rest)
            self._ranged -= bool(place.ranges)
            if bucket.is_empty():
                del table[place.values]
                if not table:
                    del self._tables[place.signature]
                    self.scan = tuple(each for each in self.scan if each[2] is not table)

    def match(self, attributes: Attributes) -> list[Any]:
        """The ids of the filters that match a publication with these attributes, each once.

        TypeError, here as in all questions, names a value that is none of ours (see `given`).
        """
        return self._match(checked(attributes))

    def matches_any(self, attributes: Attributes) -> bool:
        """Whether any filter matches; the first found ends the search."""
        return bool(self._walk(checked(attributes), bool))

    @property
    def is_searched(self) -> bool:
        """Whether filters are tested one by one, or so many have ranges that a batch is due."""
        return self._tested > 0 or self._ranged > BLOCK

    @property
    def _work(self) -> int:
        """No search takes longer than this many tests."""
        return self._tested + self._ranged

    @property
    def matches_everything(self) -> bool:
        """Whether some filter asks for nothing, so that no publication need be looked at."""
        bucket = self._tables.get((), {}).get(())
        return bucket is not None and bool(bucket.always)

    def match_destinations(self, attributes: Attributes) -> list[Any]:
        """The destinations of the filters that match, each once; ends when all are known."""
        of = self._destinations.get
        own = len(self._filters) - len(self._destinations)
        limit = len(self._destination_sizes) + own
        known: dict[Hashable, None] = {}
        seen = 0

        def are_known(found: list[Any]) -> bool:
            nonlocal seen
            for id in found[seen:]:
                known[of(id, id)] = None
            seen = len(found)
            return len(known) == limit

        are_known(self._walk(checked(attributes), are_known))
        return list(known)

    def _match(self, attributes: Attributes) -> list[Any]:
        found = self._walk(attributes, None)
        return list(dict.fromkeys(found)) if self._several and len(found) > 1 else found

    def _tests_for(self, attributes: Attributes) -> int:
        """What a search counts as, in tests of conjunctions one by one; none is made."""
        get = attributes.get
        tests = 0
        for signature, table in self._tables.items():
            values: Values = tuple(get(name) for name, _ in signature)
            if len(values) == 1:
                values = values[0]
            bucket = table.get(values)
            if bucket is None or (bucket.types is not None and not bucket.suits(values)):
                continue
            tests += len(bucket.others) + sum(bitmaps.tests for bitmaps in bucket.ranged)
            for rising, name, by_type in bucket.tested:
                value = get(name)
                ladder = by_type.get(type(value))
                if ladder is not None:
                    cut = bisect_right(ladder[0], value)
                    tests += cut if rising else len(ladder[1]) - cut
        return tests

    def _walk(
        self, attributes: Attributes, is_enough: Callable[[list[Any]], bool] | None
    ) -> list[Any]:
        """The ids of the conjunctions that match, or the first of them that are enough."""
        get = attributes.get
        found: list[Hashable] = []
        for first, values_of, table in self.scan:
            values: Values = ()
            if first is not None:
                # Most tables ask for something that most publications do not have.
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
            if bucket.always:
                found += bucket.always
                if is_enough is not None and is_enough(found):
                    return found
            for name, by_type in bucket.rising:
                value = get(name)
                ladder = by_type.get(type(value))
                if ladder is not None:
                    cut = bisect_right(ladder[0], value)
                    if cut:
                        found += ladder[1][:cut]
                        if is_enough is not None and is_enough(found):
                            return found
            for name, by_type in bucket.falling:
                value = get(name)
                ladder = by_type.get(type(value))
                if ladder is not None:
                    found += ladder[1][bisect_right(ladder[0], value) :]
                    if is_enough is not None and is_enough(found):
                        return found
            for bitmaps in bucket.ranged:
                found += bitmaps.search(attributes)
                if is_enough is not None and is_enough(found):
                    return found
            for rising, name, by_type in bucket.tested:
                value = get(name)
                ladder = by_type.get(type(value))
                if ladder is not None:
                    thresholds, ids, tests = ladder
                    cut = bisect_right(thresholds, value)
                    for at in range(cut) if rising else range(cut, len(ids)):
                        if tests[at](attributes):
                            found.append(ids[at])
                            if is_enough is not None and is_enough(found):
                                return found
            if bucket.others:
                for id, test in bucket.others.values():
                    if test(attributes):
                        found.append(id)
                        if is_enough is not None and is_enough(found):
                            return found
        return found

    def _add_to_scan(self, signature: Signature, table: dict[Values, Bucket]) -> None:
        """Have matching walk through a table, behind the others."""
        names = [name for name, _ in signature]
        values_of = itemgetter(*names) if len(names) > 1 else None
        self.scan = (*self.scan, (names[0] if names else None, values_of, table))
