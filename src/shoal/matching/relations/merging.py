"""Merging: those unions of several filters that one filter expresses exactly.

Filters are merged that are one conjunction each and differ in the bounds on one attribute only, the
last by name that they bound: if their intervals meet, one filter with the wider bounds matches the
union, and nothing else (PADRES' perfect merging). Unions that are no single conjunction are not
made: intervals that leave nothing out, lists of values, patterns.

A union is a filter beside its parts, and covers them; the owner of a covering set adds the union
there. So no component must know the parts of a union.

>>> from shoal.language import parse
>>> merging = Merging()
>>> merging.add("s1", parse("symbol = 'A' AND price > 3 AND price < 5")).new
()
>>> change = merging.add("s2", parse("price >= 5 AND price <= 9 AND symbol = 'A'"))
>>> change.new == (parse("symbol = 'A' AND price > 3 AND price <= 9"),)
True
>>> merging.remove("s1") == Merged(new=(), gone=change.new)
True
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from shoal.matching.domains import END
from shoal.matching.predicates import RISING, threshold
from shoal.matching.relations.ordered_sets import NUMBERS, STRINGS
from shoal.model import And, Expression, Filter, Kind, Predicate

# Of filters that differ in the bounds on one attribute only, so many are merged: as one covers no
# more in routing tables, and as each change looks at all of them.
MOST_MERGED = 256
# Larger filters are not merged.
MOST_TESTS = 32

_DOMAINS = {Kind.NUMBER: NUMBERS, Kind.STRING: STRINGS}

Id = TypeVar("Id", bound=Hashable)


class Merged(NamedTuple):
    """Change by one call: new unions, and unions that are gone."""

    new: tuple[Filter, ...]
    gone: tuple[Filter, ...]


class _MergeGroup(NamedTuple):
    """The common part of filters that may be merged: the attribute, and all other tests."""

    attribute: str
    kind: Kind
    others: tuple[Predicate, ...]


class _MergedPart(NamedTuple):
    """An interval, `low <= x < high`, and the tests that say its two ends, if it has them."""

    low: Any
    high: Any
    lower: Predicate | None
    upper: Predicate | None


class Merging(Generic[Id]):
    """Filters by id, and the unions of them.

    The unions depend only on the filters, and on their order if a kind has more filters than are
    merged.
    """

    def __init__(self) -> None:
        self._places: dict[Id, tuple[_MergeGroup, _MergedPart]] = {}
        self._groups: dict[_MergeGroup, dict[Id, _MergedPart]] = {}
        self._unions: dict[_MergeGroup, tuple[Filter, ...]] = {}

    def add(self, id: Id, filter: Filter) -> Merged:
        """Take in a filter, in place of the one under this id.

        FilterError for a filter with too large a normal form; nothing is changed then.
        """
        place = _read(filter)
        touched = self._forget((id,))
        if place is not None:
            group, part = self._places[id] = place
            self._groups.setdefault(group, {})[id] = part
            touched[group] = None
        return self._look_at(touched)

    def remove(self, *ids: Id) -> Merged:
        """Forget filters, as far as they are there."""
        return self._look_at(self._forget(ids))

    def _forget(self, ids: Iterable[Id]) -> dict[_MergeGroup, None]:
        """Remove filters; return the groups that have lost one."""
        touched: dict[_MergeGroup, None] = {}
        for id in ids:
            place = self._places.pop(id, None)
            if place is not None:
                group, _ = place
                del self._groups[group][id]
                touched[group] = None
        return touched

    def _look_at(self, groups: Iterable[_MergeGroup]) -> Merged:
        before: dict[Filter, None] = {}
        after: dict[Filter, None] = {}
        for group in groups:
            before.update(dict.fromkeys(self._unions.pop(group, ())))
            parts = self._groups[group]
            if not parts:
                del self._groups[group]
                continue
            unions = _unions(group, islice(parts.values(), MOST_MERGED))
            if unions:
                self._unions[group] = unions
                after.update(dict.fromkeys(unions))
        return Merged(
            tuple(each for each in after if each not in before),
            tuple(each for each in before if each not in after),
        )


def _read(filter: Filter) -> tuple[_MergeGroup, _MergedPart] | None:
    """Among which others a filter may be merged, and its interval; None for one that may not."""
    if len(filter.normal_form) != 1 or filter.size > MOST_TESTS:
        return None
    (tests,) = filter.normal_form
    by_attribute: dict[str, list[Predicate]] = {}
    for test in tests:
        by_attribute.setdefault(test.attribute, []).append(test)
    for name in sorted(by_attribute, reverse=True):
        kinds = {test.kind for test in by_attribute[name]}
        bounds = all(test.operator in RISING for test in by_attribute[name])
        if not bounds or len(kinds) != 1 or not kinds <= _DOMAINS.keys():
            continue
        (kind,) = kinds
        assert kind is not None
        part = _part(kind, by_attribute[name])
        others = sorted((test for test in tests if test.attribute != name), key=repr)
        return (_MergeGroup(name, kind, tuple(others)), part) if part.low < part.high else None
    return None


def _part(kind: Kind, tests: Iterable[Predicate]) -> _MergedPart:
    low, high, lower, upper = _DOMAINS[kind].lowest, END, None, None
    for test in tests:
        end = threshold(test)
        if RISING[test.operator] and (lower is None or end > low):
            low, lower = end, test
        elif not RISING[test.operator] and (upper is None or end < high):
            high, upper = end, test
    return _MergedPart(low, high, lower, upper)


def _unions(group: _MergeGroup, parts: Iterable[_MergedPart]) -> tuple[Filter, ...]:
    """The unions of those that meet, and are not one of them."""
    found: list[tuple[_MergedPart, _MergedPart]] = []
    # Of those with the same low end the widest first: by high end, and then, stably, by low end.
    ordered = sorted(parts, key=lambda each: each.high, reverse=True)
    for part in sorted(ordered, key=lambda each: each.low):
        if found:
            first, last = found[-1]
            is_all = first.lower is None and part.upper is None
            if part.low <= last.high and not is_all:
                if part.high > last.high:
                    found[-1] = first, part
                continue
        found.append((part, part))
    return tuple(_filter(group, *each) for each in found if each[0] is not each[1])


def _filter(group: _MergeGroup, first: _MergedPart, last: _MergedPart) -> Filter:
    tests: list[Expression] = [*group.others]
    tests += [test for test in (first.lower, last.upper) if test is not None]
    return Filter(tests[0] if len(tests) == 1 else And(tuple(tests)))
