"""Filters filed for one publication at a time: which of them match, without testing each.

Each conjunction of a filter's normal form is filed under the equalities it demands (one
dictionary look-up finds all filters that want `carrier = 'UA' AND origin = 'EWR'`), within those
under one order comparison (a bisection finds all thresholds that a value passes), and only what
is left is tested one by one.  Adding and removing touch one place per conjunction.  Where filters
name many attributes, only those are looked at that name one of the publication's.

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

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from shoal.matching.domains import double_at_least, integer_at_least
from shoal.matching.given import checked
from shoal.matching.predicates import (
    RISING,
    TYPES,
    Test,
    alternatives,
    compile_conjunction,
    threshold,
)
from shoal.model import Attributes, Conjunction, Filter, Kind, Operator, Predicate

# Equalities an entry is filed under: attributes in order of their names, and the kinds of values
# (TRUE and 1 are one key to a dictionary).
_Signature = tuple[tuple[str, Kind], ...]

# So many of a kind are gone through one by one; of more, those whose attributes are there.
FEW = 32

# The values they must have, as `itemgetter` brings them: one bare value, or a tuple.
_Values = Any


class _Step(NamedTuple):
    """Names a ladder within a bucket: what is compared, how, and whether tests remain."""

    attribute: str
    kind: Kind
    rising: bool
    tested: bool


class _Place(NamedTuple):
    """Where a conjunction is filed: a function of the conjunction alone."""

    signature: _Signature
    values: _Values
    step: _Step | None
    threshold: Any
    rest: tuple[Predicate, ...]


class _Ladder:
    """Entries in the order of their thresholds; `tests` runs beside `ids` if the step has them.

    Numbers have their thresholds twice, as integers for integers and as doubles for doubles:
    comparing the two types with each other costs as much again as the rest of a bisection.
    """

    __slots__ = ("ids", "tests", "thresholds", "thresholds_by_type")

    def __init__(self, kind: Kind) -> None:
        self.thresholds: list[Any] = []
        self.thresholds_by_type: dict[type, list[Any]] = {str: self.thresholds}
        if kind is Kind.NUMBER:
            self.thresholds_by_type = {int: [], float: []}
        self.ids: list[Hashable] = []
        self.tests: list[Test] = []

    def add(self, threshold: Any, id: Hashable, test: Test | None) -> None:
        at = bisect_right(self.thresholds, threshold)
        self.thresholds.insert(at, threshold)
        if float in self.thresholds_by_type:
            self.thresholds_by_type[int].insert(at, integer_at_least(threshold))
            self.thresholds_by_type[float].insert(at, double_at_least(threshold))
        self.ids.insert(at, id)
        if test is not None:
            self.tests.insert(at, test)

    def remove(self, threshold: Any, id: Hashable) -> None:
        at = self.ids.index(id, bisect_left(self.thresholds, threshold))
        del self.thresholds[at], self.ids[at]
        if float in self.thresholds_by_type:
            del self.thresholds_by_type[int][at], self.thresholds_by_type[float][at]
        if self.tests:
            del self.tests[at]


# A ladder's own lists (thresholds of the type, ids, tests) by the type of the attribute's value.
_Ladders = dict[type, tuple[list[Any], list[Hashable], list[Test]]]


class _Table(NamedTuple):
    """The buckets of one signature, and how a publication's is found.

    `first` is the attribute that is looked for first, the rarest; `values_of` brings the values if
    there are several.  None and None where no equality is asked for.
    """

    number: int
    first: str | None
    values_of: Callable[[Any], _Values] | None
    buckets: dict[_Values, _Bucket]


class _Bucket:
    """All conjunctions with the same equalities."""

    __slots__ = (
        "always",
        "falling",
        "is_plain",
        "ladders",
        "others",
        "rising",
        "tested",
        "tests",
        "types",
        "ways",
    )

    def __init__(self, place: _Place) -> None:
        # A dictionary finds the bucket of 1 under TRUE too; such a find is checked by type.
        self.types: tuple[tuple[type, ...], ...] | None = None
        together = place.values if len(place.signature) > 1 else (place.values,)
        if any(value in (0, 1) for value in together):
            self.types = tuple(TYPES[kind] for _, kind in place.signature)
        self.always: dict[Hashable, None] = {}
        self.ladders: dict[_Step, _Ladder] = {}
        self.others: dict[tuple[Hashable, int], tuple[Hashable, Test]] = {}
        # The ladders that say all by themselves, as matching walks through them: by attribute.
        self.rising: dict[str, _Ladders] = {}
        self.falling: dict[str, _Ladders] = {}
        # Those whose conjunctions are to be tested too, rising or not; and how many these are.
        self.tested: dict[bool, dict[str, _Ladders]] = {True: {}, False: {}}
        self.tests = 0
        # Whether neither kinds nor tests are to be looked at.
        self.is_plain = self.types is None
        # What somebody knows of the bucket as it is (see `outcomes`).
        self.ways: Any = None

    def suits(self, values: Any) -> bool:
        """Whether the values a look-up was made with are of the bucket's own kinds."""
        assert self.types is not None
        together = values if len(self.types) > 1 else (values,)
        return all(type(value) in types for value, types in zip(together, self.types, strict=True))

    def is_empty(self) -> bool:
        return not (self.always or self.ladders or self.others)

    def add(self, id: Hashable, number: int, place: _Place, test: Test | None) -> None:
        self._count(test is not None)
        if place.step is not None:
            ladder = self.ladders.get(place.step)
            if ladder is None:
                ladder = self.ladders[place.step] = _Ladder(place.step.kind)
                by_type = self._beside(place.step).setdefault(place.step.attribute, {})
                for each, thresholds in ladder.thresholds_by_type.items():
                    by_type[each] = (thresholds, ladder.ids, ladder.tests)
            ladder.add(place.threshold, id, test)
        elif test is not None:
            self.others[id, number] = (id, test)
        else:
            self.always[id] = None

    def remove(self, id: Hashable, number: int, place: _Place) -> None:
        self._count(-bool(place.rest))
        if place.step is not None:
            ladder = self.ladders[place.step]
            ladder.remove(place.threshold, id)
            if not ladder.ids:
                del self.ladders[place.step]
                beside = self._beside(place.step)
                by_type = beside[place.step.attribute]
                for each in ladder.thresholds_by_type:
                    del by_type[each]
                if not by_type:
                    del beside[place.step.attribute]
        elif place.rest:
            del self.others[id, number]
        else:
            del self.always[id]

    def _count(self, tests: int) -> None:
        self.tests += tests
        self.is_plain = self.types is None and not self.tests
        self.ways = None

    def _beside(self, step: _Step) -> dict[str, _Ladders]:
        """The ladders that are walked through together with that of a step."""
        if step.tested:
            return self.tested[step.rising]
        return self.rising if step.rising else self.falling


def ladders_for(
    ladders: dict[str, _Ladders], attributes: Attributes
) -> Iterable[tuple[str, _Ladders]]:
    """Those that a publication may stand on, by attribute, in an order that is always the same."""
    if len(ladders) <= FEW:
        return ladders.items()
    return [(name, ladders[name]) for name in sorted(attributes) if name in ladders]


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
        # Conjunctions that are tested one by one where their equalities are met.
        self._tested = 0
        # How often filters name each attribute.
        self._named: Counter[str] = Counter()
        self._tables: dict[_Signature, _Table] = {}
        self._tables_made = 0
        self._by_first: dict[str | None, dict[_Signature, _Table]] = {}

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
            for number, place in _places(normal_form)
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
        self._named.update(_names(normal_form))
        for number, place, test in filed:
            table = self._tables.get(place.signature)
            if table is None:
                table = self._open(place.signature)
            bucket = table.buckets.get(place.values)
            if bucket is None:
                bucket = table.buckets[place.values] = _Bucket(place)
            bucket.add(id, number, place, test)
            self._tested += bool(place.rest)

    def remove(self, id: Hashable) -> None:
        """Forget a filter; KeyError if there is none under this id."""
        normal_form = self._filters.pop(id).normal_form
        if id in self._destinations:
            destination = self._destinations.pop(id)
            self._destination_sizes[destination] -= 1
            if not self._destination_sizes[destination]:
                del self._destination_sizes[destination]
        self._several -= len(normal_form) > 1
        for name in _names(normal_form):
            self._named[name] -= 1
            if not self._named[name]:
                del self._named[name]
        for number, place in _places(normal_form):
            table = self._tables[place.signature]
            bucket = table.buckets[place.values]
            bucket.remove(id, number, place)
            self._tested -= bool(place.rest)
            if bucket.is_empty():
                del table.buckets[place.values]
                if not table.buckets:
                    self._close(place.signature)

    def match(self, attributes: Attributes) -> list[Any]:
        """The ids of the filters that match a publication with these attributes, each once.

        TypeError, here as in all questions, names a value that is none of ours (see `given`).
        """
        return self._match(checked(attributes))

    def matches_any(self, attributes: Attributes) -> bool:
        """Whether any filter matches; the first found ends the search."""
        return bool(self._walk(checked(attributes), bool))

    @property
    def has_tests(self) -> bool:
        """Whether some filters are tested one by one where their equalities are met."""
        return self._tested > 0

    @property
    def matches_everything(self) -> bool:
        """Whether some filter asks for nothing, so that no publication need be looked at."""
        table = self._tables.get(())
        bucket = table.buckets.get(()) if table is not None else None
        return bucket is not None and bool(bucket.always)

    def tables_for(self, attributes: Attributes) -> Collection[_Table]:
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

        are_known(self._walk(checked(attributes), are_known))
        return list(known)

    def _match(self, attributes: Attributes) -> list[Any]:
        found = self._walk(attributes, None)
        return list(dict.fromkeys(found)) if self._several and len(found) > 1 else found

    def _tests_for(self, attributes: Attributes) -> int:
        """How many conjunctions a search would test one by one, without testing them."""
        get = attributes.get
        tests = 0
        for _, first, values_of, table in self.tables_for(attributes):
            values: _Values = ()
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
            tests += len(bucket.others)
            for rising, ladders in bucket.tested.items():
                for name, by_type in ladders_for(ladders, attributes):
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
        for _, first, values_of, table in self.tables_for(attributes):
            values: _Values = ()
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
            for name, by_type in ladders_for(bucket.rising, attributes):
                value = get(name)
                ladder = by_type.get(type(value))
                if ladder is not None:
                    cut = bisect_right(ladder[0], value)
                    if cut:
                        found += ladder[1][:cut]
                        if is_enough is not None and is_enough(found):
                            return found
            for name, by_type in ladders_for(bucket.falling, attributes):
                value = get(name)
                ladder = by_type.get(type(value))
                if ladder is not None:
                    found += ladder[1][bisect_right(ladder[0], value) :]
                    if is_enough is not None and is_enough(found):
                        return found
            for rising, ladders in bucket.tested.items():
                for name, by_type in ladders_for(ladders, attributes):
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

    def _open(self, signature: _Signature) -> _Table:
        """A table for what demands these equalities, found by the attribute of fewest tables."""
        by_first = self._by_first
        names = [name for name, _ in signature]
        # Between equals not by what every publication of a kind has, as those of MQTT a topic.
        first = min(names, key=lambda n: (len(by_first.get(n, ())), n[:1] == "$"), default=None)
        values_of = itemgetter(*names) if len(names) > 1 else None
        table = _Table(self._tables_made, first, values_of, {})
        self._tables_made += 1
        self._tables[signature] = by_first.setdefault(first, {})[signature] = table
        return table

    def _close(self, signature: _Signature) -> None:
        """Forget a table that is empty."""
        first = self._tables.pop(signature).first
        beside = self._by_first[first]
        del beside[signature]
        if not beside:
            del self._by_first[first]


def _names(normal_form: Sequence[Conjunction]) -> list[str]:
    return [tested.attribute for conjunction in normal_form for tested in conjunction]


def _kind(tested: Predicate) -> Kind:
    assert tested.kind is not None
    return tested.kind


def _places(normal_form: Sequence[Conjunction]) -> list[tuple[int, _Place]]:
    """The places where a filter is filed, each once, and the conjunction it is of."""
    numbers: dict[_Place, int] = {}
    for number, conjunction in enumerate(normal_form):
        for each in alternatives(conjunction):
            numbers.setdefault(_place(each), number)
    return [(number, place) for place, number in numbers.items()]


def _place(conjunction: Conjunction) -> _Place:
    equalities: dict[str, Predicate] = {}
    compared: Predicate | None = None
    rest: list[Predicate] = []
    for tested in conjunction:
        if tested.operator is Operator.EQ and tested.attribute not in equalities:
            equalities[tested.attribute] = tested
        elif compared is None and tested.operator in RISING and tested.kind is not Kind.BOOLEAN:
            compared = tested
        else:
            rest.append(tested)
    names = sorted(equalities)
    signature = tuple((name, _kind(equalities[name])) for name in names)
    operands = [equalities[name].operand for name in names]
    values: _Values = operands[0] if len(operands) == 1 else tuple(operands)
    if compared is None or compared.kind is None:
        return _Place(signature, values, None, None, tuple(rest))
    step = _Step(compared.attribute, compared.kind, RISING[compared.operator], bool(rest))
    return _Place(signature, values, step, threshold(compared), tuple(rest))
