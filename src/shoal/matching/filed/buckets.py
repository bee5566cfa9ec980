"""The conjunctions that demand the same values: ladders of thresholds, bitmaps of ranges, tests."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeVar

from shoal.matching.domains import double_at_least, integer_at_least
from shoal.matching.filed.bitmaps import Bitmaps
from shoal.matching.filed.expression_tables import ExpressionTables
from shoal.matching.filed.places import FilterPlace, PlaceStep
from shoal.matching.predicates import TYPES, Test
from shoal.model import Attributes, Kind

# Up to so many of a kind are tested one by one; of more, those with attributes that are there.
FEW = 32


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
Ladders = dict[type, tuple[list[Any], list[Hashable], list[Test]]]


_Asked = TypeVar("_Asked")


def present(
    by_attribute: dict[str, _Asked], attributes: Attributes
) -> Iterable[tuple[str, _Asked]]:
    """Return the entries for attributes of a publication, in a fixed order."""
    if len(by_attribute) <= FEW:
        return by_attribute.items()
    return [(name, by_attribute[name]) for name in sorted(attributes) if name in by_attribute]


class FilterBucket:
    """All conjunctions with the same equalities."""

    __slots__ = (
        "always",
        "bitmaps",
        "expression_work",
        "expressions",
        "falling",
        "is_plain",
        "ladders",
        "others",
        "plain",
        "ranged",
        "rising",
        "size",
        "tested",
        "tests",
        "types",
        "ways",
        "weight",
    )

    def __init__(self, place: FilterPlace) -> None:
        # A dictionary finds the bucket of 1 under TRUE too; such a find is checked by type.
        self.types: tuple[tuple[type, ...], ...] | None = None
        together = place.values if len(place.signature) > 1 else (place.values,)
        if any(value in (0, 1) for value in together):
            self.types = tuple(TYPES[kind] for _, kind in place.signature)
        # number of conjunctions
        self.size = 0
        # As many tests as all of them count.
        self.weight = 0
        self.always: dict[Hashable, None] = {}
        self.ladders: dict[PlaceStep, _Ladder] = {}
        self.others: dict[tuple[Hashable, int], tuple[Hashable, Test]] = {}
        self.expressions: ExpressionTables | None = None
        # As how many tests the expressions of other conjunctions count.
        self.expression_work = 0
        self.bitmaps: dict[Hashable, Bitmaps] = {}
        # As matching walks through them, by an attribute: bitmaps by the first they ask for, and
        # the ladders that say all by themselves.
        self.ranged: dict[str, Sequence[Bitmaps]] = {}
        self.rising: dict[str, Ladders] = {}
        self.falling: dict[str, Ladders] = {}
        # Ladders with conjunctions that have further tests, rising or not; and their number.
        self.tested: dict[bool, dict[str, Ladders]] = {True: {}, False: {}}
        self.tests = 0
        # Rising and falling ladders in one, None if there are many.
        self.plain: tuple[tuple[str, Ladders], ...] | None = ()
        # True if neither kinds nor tests are to be looked at.
        self.is_plain = self.types is None
        # a user's cache for the bucket as it is (see `outcomes`)
        self.ways: Any = None

    def suits(self, values: Any) -> bool:
        """Return whether the values a look-up was made with are of the bucket's own kinds."""
        assert self.types is not None
        together = values if len(self.types) > 1 else (values,)
        return all(type(value) in types for value, types in zip(together, self.types, strict=True))

    def is_empty(self) -> bool:
        return not self.size

    def add(self, id: Hashable, number: int, place: FilterPlace, test: Test | None) -> int:
        """File a conjunction; how many tests more a search counts as."""
        self.size += 1
        work = place.expression_work
        self.weight += 1 + work
        self._count(int(place.is_tested))
        if place.is_of_expressions:
            tables = self.expressions
            if tables is None:
                tables = self.expressions = ExpressionTables()
            before = tables.tests
            tables.add((id, number), place, test)
            return tables.tests - before
        if test is not None:
            self.expression_work += work
        if place.step is not None:
            ladder = self.ladders.get(place.step)
            if ladder is None:
                ladder = self.ladders[place.step] = _Ladder(place.step.kind)
                by_type = self._beside(place.step).setdefault(place.step.attribute, {})
                for each, thresholds in ladder.thresholds_by_type.items():
                    by_type[each] = (thresholds, ladder.ids, ladder.tests)
                self._arrange()
            ladder.add(place.threshold, id, test)
        elif place.ranges:
            asked = _asked(place)
            bitmaps = self.bitmaps.get(asked)
            if bitmaps is None:
                bitmaps = self.bitmaps[asked] = Bitmaps()
                name = place.ranges[0].attribute
                self.ranged[name] = (*self.ranged.get(name, ()), bitmaps)
            before = bitmaps.tests
            bitmaps.add((id, number), place.ranges)
            return bitmaps.tests - before
        elif test is not None:
            self.others[id, number] = (id, test)
        else:
            self.always[id] = None
        return int(test is not None)

    def remove(self, id: Hashable, number: int, place: FilterPlace) -> int:
        """Forget a conjunction; how many tests more a search counts as, which is none or fewer."""
        self.size -= 1
        work = place.expression_work
        self.weight -= 1 + work
        self._count(-place.is_tested)
        if place.is_of_expressions:
            assert self.expressions is not None
            before = self.expressions.tests
            self.expressions.remove((id, number), place)
            after = self.expressions.tests
            if not len(self.expressions):
                self.expressions = None
            return after - before
        if place.rest:
            self.expression_work -= work
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
                self._arrange()
        elif place.ranges:
            bitmaps = self.bitmaps[_asked(place)]
            before = bitmaps.tests
            bitmaps.remove((id, number))
            if not len(bitmaps):
                del self.bitmaps[_asked(place)]
                name = place.ranges[0].attribute
                left = tuple(each for each in self.ranged.pop(name) if each is not bitmaps)
                if left:
                    self.ranged[name] = left
            return bitmaps.tests - before
        elif place.rest:
            del self.others[id, number]
        else:
            del self.always[id]
        return -bool(place.rest)

    def answer_order(self, attributes: Attributes) -> list[Hashable]:
        """The ids of all conjunctions without tests that ask only for these attributes, in the
        order in which a search finds them.
        """
        found = [*self.always]
        for ladders in (self.rising, self.falling):
            for name, by_type in present(ladders, attributes):
                ladder = by_type.get(type(attributes.get(name)))
                if ladder is not None:
                    found += ladder[1]
        for _, ranged in present(self.ranged, attributes):
            for bitmaps in ranged:
                found += bitmaps.ids
        return found

    def _count(self, tests: int) -> None:
        self.tests += tests
        self.is_plain = self.types is None and not self.tests
        self.ways = None

    def plain_for(self, attributes: Attributes) -> list[tuple[str, Ladders]]:
        """As `plain`, of many those that a publication may stand on."""
        return [*present(self.rising, attributes), *present(self.falling, attributes)]

    def _arrange(self) -> None:
        is_few = len(self.rising) + len(self.falling) <= FEW
        self.plain = (*self.rising.items(), *self.falling.items()) if is_few else None

    def _beside(self, step: PlaceStep) -> dict[str, Ladders]:
        """The ladders that are walked through together with that of a step."""
        if step.tested:
            return self.tested[step.rising]
        return self.rising if step.rising else self.falling


def _asked(place: FilterPlace) -> Hashable:
    """Return the attributes of ranges; members of the same bitmaps share them."""
    return tuple((range.attribute, range.types) for range in place.ranges)
