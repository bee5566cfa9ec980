"""Filters filed for one publication at a time: which of them match, without testing each.

Each conjunction of a filter's normal form is filed under the equalities it demands (one dictionary
look-up finds all filters that want `carrier = 'UA' AND origin = 'EWR'`), within those under one
order comparison (a bisection finds all thresholds that a value passes) or among others with ranges
on the same attributes (`bitmaps.py`), and only what is left is tested one by one. Adding and
removing touch one place per conjunction. If filters name many attributes, only those filters are
tested that name one of the publication's.

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
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from shoal.matching.derived import SharedDerived
from shoal.matching.filed.bitmaps import BLOCK
from shoal.matching.filed.buckets import FEW, FilterBucket, present
from shoal.matching.filed.largest import Largest
from shoal.matching.filed.places import (
    STEPS_A_TEST,
    FilterPlace,
    Signature,
    Values,
    places_with,
)
from shoal.matching.filed.remembered_tests import RememberedTest
from shoal.matching.filed.search_costs import SHORT, cost_of, longest_text, tests_in
from shoal.matching.given import checked
from shoal.matching.limited_search import search_within
from shoal.matching.predicates import Test, compile_conjunction
from shoal.model import Attributes, Conjunction, Filter
from shoal.model.expressions import DERIVED

# Expressions that count as so many tests take 20 ms at worst.
FEW_EXPRESSIONS = 8_000
_NONE: frozenset[str] = frozenset()


def _test_of(place: FilterPlace) -> Test | None:
    """The test of the rest of a conjunction, if there is a rest."""
    if not place.rest:
        return None
    test, work = compile_conjunction(place.rest), place.expression_work
    return RememberedTest(place.rest, test, work) if work else test


class FilterTable(NamedTuple):
    """The buckets of one signature, and how a publication's is found.

    `first` is the attribute that is looked for first, the rarest; `values_of` brings the values if
    there are several.  None and None where no equality is asked for.
    """

    number: int
    first: str | None
    values_of: Callable[[Any], Values] | None
    buckets: dict[Values, FilterBucket]


class FiledFilters:
    """Filters by id, and the question which of them match one publication.

    Ids are any hashable values; adding an id again replaces its filter. The order of the ids in an
    answer depends only on the sequence of additions and removals.
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
        # Those in tables of expressions.
        self._expressed = 0
        # No search counts as more tests.
        self._work = 0
        # Derived attributes; those of a filter that are not shared with others, by id.
        self._shared = SharedDerived()
        # Their evaluators: empty as long as no filter shares one.
        self.derived = self._shared.evaluators
        self._evaluated: dict[Hashable, frozenset[str]] = {}
        # Number of filters that name each attribute.
        self._named: Counter[str] = Counter()
        self._tables: dict[Signature, FilterTable] = {}
        self._tables_made = 0
        # The largest bucket of each table, by the table's number, and of all tables together.
        self._largest: dict[int, Largest] = {}
        self._most_candidates = 0
        # As how many tests all expressions count that are worked out one by one.
        self._expression_work = 0
        self._by_first: dict[str | None, dict[Signature, FilterTable]] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, id: Hashable) -> bool:
        return id in self._filters

    def add(self, id: Hashable, filter: Filter, destination: Hashable = None) -> None:
        """File a filter under an id, in place of the one that was there.

        A filter without a destination is one of its own, named by its id. An error (FilterError for
        too large a normal form, TypeError for an object that is no filter, or for an unhashable id
        or destination) changes nothing.
        """
        if not isinstance(filter, Filter):
            raise TypeError(
                f"a filter is wanted, not {type(filter).__name__}; shoal.language.parse makes one "
                "of a text"
            )
        # Everything that can fail comes before any change.
        normal_form = filter.normal_form
        names = _names(normal_form)
        derived = [name for name in names if name[:2] == DERIVED]
        evaluated = self._shared.refused(normal_form) if derived else _NONE
        filed = [
            (number, place, _test_of(place)) for number, place in places_with(filter, evaluated)
        ]
        hash(destination)
        if id in self._filters:
            self.remove(id)
        if derived:
            self._shared.take(derived, evaluated)
            if evaluated:
                self._evaluated[id] = evaluated
        self._filters[id] = filter
        if destination is not None:
            self._destinations[id] = destination
            sizes = self._destination_sizes
            sizes[destination] = sizes.get(destination, 0) + 1
        self._several += len(normal_form) > 1
        self._named.update(names)
        for number, place, test in filed:
            table = self._tables.get(place.signature)
            if table is None:
                table = self._open(place.signature)
            bucket = table.buckets.get(place.values)
            if bucket is None:
                bucket = table.buckets[place.values] = FilterBucket(place)
            before = bucket.weight
            self._work += bucket.add(id, number, place, test)
            largest = self._largest[table.number]
            self._most_candidates += largest.changed(before, bucket.weight)
            self._expression_work += bucket.weight - before - 1
            self._tested += place.is_tested
            self._expressed += place.is_of_expressions
            self._ranged += bool(place.ranges)

    def remove(self, id: Hashable) -> None:
        """Forget a filter; KeyError if there is none under this id."""
        filter = self._filters.pop(id)
        normal_form = filter.normal_form
        if id in self._destinations:
            destination = self._destinations.pop(id)
            self._destination_sizes[destination] -= 1
            if not self._destination_sizes[destination]:
                del self._destination_sizes[destination]
        self._several -= len(normal_form) > 1
        names = _names(normal_form)
        derived = [name for name in names if name[:2] == DERIVED]
        evaluated = self._evaluated.pop(id, _NONE) if derived else _NONE
        if derived:
            self._shared.give_back(derived, evaluated)
        for name in names:
            self._named[name] -= 1
            if not self._named[name]:
                del self._named[name]
        for number, place in places_with(filter, evaluated):
            table = self._tables[place.signature]
            bucket = table.buckets[place.values]
            before = bucket.weight
            self._work += bucket.remove(id, number, place)
            largest = self._largest[table.number]
            self._most_candidates += largest.changed(before, bucket.weight)
            self._expression_work -= before - bucket.weight - 1
            self._tested -= place.is_tested
            self._expressed -= place.is_of_expressions
            self._ranged -= bool(place.ranges)
            if bucket.is_empty():
                del table.buckets[place.values]
                if not table.buckets:
                    self._close(place.signature)

    def extended(self, attributes: Attributes) -> Attributes:
        """The attributes with the derived ones that filters share; checked ones, as they are.

        All that looks up filters below takes attributes so extended.
        """
        return self._shared.extended(attributes) if self.derived else attributes

    @property
    def most_candidates(self) -> int:
        """Return how many conjunctions may have to be looked at, whatever a publication says.

        A conjunction with an expression counts as several. Of those that demand values of the same
        attributes it has to do with one bucket only.
        """
        return self._most_candidates

    def match(self, attributes: Attributes) -> list[Any]:
        """The ids of the filters that match a publication with these attributes, each once.

        TypeError, here as in all questions, names a value that is none of ours (see `given`).
        """
        return self.match_checked(checked(attributes))

    def match_checked(self, attributes: Attributes) -> list[Any]:
        """As `match`, without a check of the values' types."""
        if self.derived:
            attributes = self._shared.extended(attributes)
        return self._matched(attributes)

    def _matched(self, attributes: Attributes) -> list[Any]:
        """As `match_checked`, with attributes that are extended."""
        found = self._walk(attributes, None)
        return list(dict.fromkeys(found)) if self._several and len(found) > 1 else found

    def matches_any(self, attributes: Attributes) -> bool:
        """Return whether any filter matches; the first found ends the search."""
        return self.matches_any_checked(checked(attributes))

    def matches_any_checked(self, attributes: Attributes) -> bool:
        """As `matches_any`, without a check of the values' types."""
        return bool(self._walk(self.extended(attributes), bool))

    @property
    def is_searched(self) -> bool:
        """Return whether filters are tested one by one, or so many have ranges that a batch is
        due.
        """
        return self._tested > 0 or self._ranged > BLOCK

    @property
    def matches_everything(self) -> bool:
        """Return whether some filter asks for nothing, so that no publication need be looked at."""
        table = self._tables.get(())
        bucket = table.buckets.get(()) if table is not None else None
        return bucket is not None and bool(bucket.always)

    def tables_for(self, attributes: Attributes) -> Collection[FilterTable]:
        """Those in which filters may be filed that match, in the order in which they were made."""
        if len(self._tables) <= FEW:
            return self._tables.values()
        by_first = self._by_first
        found = list(by_first.get(None, {}).values())
        for name in attributes:
            if name in by_first:
                found += by_first[name].values()
        found.sort()  # by their numbers, of which no two are the same
        return found

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

        are_known(self._walk(self.extended(checked(attributes)), are_known))
        return list(known)

    def work_of(self, attributes: Attributes) -> int:
        """Return how many tests and ids it takes to match these attributes, at most (see
        `weigh`).
        """
        tests, found = self.weigh(attributes)
        return tests + found

    def weigh(self, attributes: Attributes) -> tuple[int, int]:
        """Return how many tests a match with these takes, and how many ids it finds without, at
        most.

        No test is made.  One of a text may have to look through it, which is as much as one for
        each SHORT characters.
        """
        tests = looks = found = 0
        attributes = self.extended(attributes)
        looks += self._shared.cost // STEPS_A_TEST
        for bucket in self._buckets_for(attributes):
            tested, looked, matching = cost_of(bucket, attributes)
            tests += tested
            looks += looked
            found += matching
        if tests:
            tests *= 1 + longest_text(attributes) // SHORT
        return tests + looks, found

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        """Look at long texts and costly expressions for so long; whether all is known that `match`
        looks for in them.

        If not, a part of it is, and the next time there is less to do. Without time: whether they
        need none.
        """
        if not work_us:
            return self._expression_work <= FEW_EXPRESSIONS
        attributes = self.extended(checked(attributes))
        return search_within(work_us, lambda: self._walk(attributes, None))

    def _tests_for(self, attributes: Attributes) -> int:
        """Return the cost of a search, in tests of conjunctions one by one; none is made."""
        return sum(tests_in(bucket, attributes) for bucket in self._buckets_for(attributes))

    def _expressions_for(self, attributes: Attributes) -> int:
        """Return how many expressions there are to work out where the plain tests beside them
        hold.
        """
        tables = [bucket.expressions for bucket in self._buckets_for(attributes)]
        return sum([each.candidates(attributes) for each in tables if each is not None])

    def answer_order(self, attributes: Attributes) -> list[Any] | None:
        """The ids of all filters that demand the equalities of these attributes, and beyond that
        ask only for attributes among them, whatever their thresholds.

        Answers for publications with the same values of the attributes in equalities, and with
        these attributes of the same types or without them, have ids in this order, until a filter
        is added or removed. None if some filters are tested one by one, or may be in several
        places: then no such order is known.
        """
        if self._several or self._expressed or self.derived:
            return None
        found: list[Any] = []
        for bucket in self._buckets_for(attributes):
            if bucket.tests:
                return None
            found += bucket.answer_order(attributes)
        return found

    @property
    def keeps_order(self) -> bool:
        """Whether a change of one filter leaves the order of all other ids in answers."""
        return len(self._named) <= FEW

    def _buckets_for(self, attributes: Attributes) -> Iterator[FilterBucket]:
        """The buckets in which a search looks."""
        get = attributes.get
        for _, first, values_of, table in self.tables_for(attributes):
            values: Values = ()
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
            if bucket is not None and (bucket.types is None or bucket.suits(values)):
                yield bucket

    def _walk(
        self, attributes: Attributes, is_enough: Callable[[list[Any]], bool] | None
    ) -> list[Any]:
        """The ids of the conjunctions that match, or the first of them that are enough."""
        get = attributes.get
        found: list[Hashable] = []
        for _, first, values_of, table in self.tables_for(attributes):
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
            for name, by_type in present(bucket.rising, attributes) if bucket.rising else ():
                value = get(name)
                ladder = by_type.get(type(value))
                if ladder is not None:
                    cut = bisect_right(ladder[0], value)
                    if cut:
                        found += ladder[1][:cut]
                        if is_enough is not None and is_enough(found):
                            return found
            for name, by_type in present(bucket.falling, attributes) if bucket.falling else ():
                value = get(name)
                ladder = by_type.get(type(value))
                if ladder is not None:
                    found += ladder[1][bisect_right(ladder[0], value) :]
                    if is_enough is not None and is_enough(found):
                        return found
            for _, ranged in present(bucket.ranged, attributes) if bucket.ranged else ():
                for bitmaps in ranged:
                    found += bitmaps.search(attributes)
                    if is_enough is not None and is_enough(found):
                        return found
            for rising, ladders in bucket.tested.items() if bucket.tests else ():
                for name, by_type in present(ladders, attributes):
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
            if bucket.tests:
                if bucket.others:
                    for id, test in bucket.others.values():
                        if test(attributes):
                            found.append(id)
                            if is_enough is not None and is_enough(found):
                                return found
                if bucket.expressions is not None:
                    found += bucket.expressions.search(attributes)
                    if is_enough is not None and is_enough(found):
                        return found
        return found

    def _open(self, signature: Signature) -> FilterTable:
        """Return a table for conjunctions that demand these equalities, found by the attribute of
        fewest tables.
        """
        by_first = self._by_first
        names = [name for name, _ in signature]
        # Ties are not broken by attributes that every publication of a kind has, as those of MQTT a
        # topic.
        first = min(names, key=lambda n: (len(by_first.get(n, ())), n[:1] == "$"), default=None)
        values_of = itemgetter(*names) if len(names) > 1 else None
        table = FilterTable(self._tables_made, first, values_of, {})
        self._largest[table.number] = Largest()
        self._tables_made += 1
        self._tables[signature] = by_first.setdefault(first, {})[signature] = table
        return table

    def _close(self, signature: Signature) -> None:
        """Forget a table that is empty."""
        table = self._tables.pop(signature)
        first = table.first
        del self._largest[table.number]
        beside = self._by_first[first]
        del beside[signature]
        if not beside:
            del self._by_first[first]


def _names(normal_form: Sequence[Conjunction]) -> list[str]:
    return [tested.attribute for conjunction in normal_form for tested in conjunction]
