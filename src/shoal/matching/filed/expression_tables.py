"""Conjunctions of one bucket whose expressions are not shared: by items of lists, and alike ones.

>>> from shoal.language import parse
>>> from shoal.matching.filed.places import places_with
>>> from shoal.matching.predicates import compile_conjunction
>>> tables = ExpressionTables()
>>> for number, text in enumerate(["array_contains(l, 'a')", "array_contains(l, 5) AND b > 1"]):
...     names = frozenset(test.attribute for test in parse(text).normal_form[0][:1])
...     [(_, place)] = places_with(parse(text), names)
...     tables.add((number, 0), place, compile_conjunction(place.rest) if place.rest else None)
>>> tables.search({"$list.l": '["a",5]', "b": 0}), tables.search({"$list.l": "[5.0]", "b": 2})
([0], [1])
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from shoal.matching.filed.alike import AlikeTable, Key
from shoal.matching.filed.places import FilterPlace
from shoal.matching.listed import item_keys
from shoal.matching.predicates import Test
from shoal.matching.vector_forms import FormShape
from shoal.model import Attributes


class _Entry(NamedTuple):
    """A conjunction that is tested by itself; its expressions count as so many tests."""

    id: Hashable
    test: Test | None
    work: int


class ExpressionTables:
    """The conjunctions with an item of a list or a form in their place."""

    __slots__ = ("_alike", "_few", "_large", "_listed", "_size", "tests")

    def __init__(self) -> None:
        self._size = 0
        # The cost of a search at most, in tests, but for rows that are left over.
        self.tests = 0
        # By the name of a list, then by the key of an item.
        self._listed: dict[str, dict[Hashable, dict[Key, _Entry]]] = {}
        self._alike: dict[FormShape, AlikeTable] = {}
        # Those of them that vector instructions test, and the conjunctions of the others.
        self._large: dict[FormShape, AlikeTable] = {}
        self._few: dict[Key, _Entry] = {}

    def __len__(self) -> int:
        return self._size

    def add(self, key: Key, place: FilterPlace, test: Test | None) -> None:
        """Add a conjunction that is not here yet."""
        self._size += 1
        if place.item is not None:
            self.tests += test is not None
            by_key = self._listed.setdefault(place.item.name, {})
            by_key.setdefault(place.item.key, {})[key] = _Entry(key[0], test, place.expression_work)
            return
        assert place.form is not None
        assert test is not None
        table = self._alike.get(place.form.shape)
        if table is None:
            table = self._alike[place.form.shape] = AlikeTable(place.form.shape)
        self.tests -= table.tests
        table.add(key, place.form.constants, test)
        self.tests += table.tests
        if not table.is_large:
            self._few[key] = _Entry(key[0], test, place.expression_work)
        elif place.form.shape not in self._large:
            self._large[place.form.shape] = table
            for each, _ in table:
                self._few.pop(each, None)

    def remove(self, key: Key, place: FilterPlace) -> None:
        """KeyError if it is not here."""
        self._size -= 1
        if place.item is not None:
            self.tests -= bool(place.rest)
            by_key = self._listed[place.item.name]
            del by_key[place.item.key][key]
            if not by_key[place.item.key]:
                del by_key[place.item.key]
                if not by_key:
                    del self._listed[place.item.name]
            return
        assert place.form is not None
        table = self._alike[place.form.shape]
        self.tests -= table.tests
        table.remove(key)
        self.tests += table.tests
        self._few.pop(key, None)
        if not table.is_large and self._large.pop(place.form.shape, None) is not None:
            work = place.expression_work
            self._few.update((each, _Entry(each[0], test, work)) for each, test in table)
        if not len(table):
            del self._alike[place.form.shape]

    def search(self, attributes: Attributes) -> list[Hashable]:
        """The ids of the conjunctions that match."""
        found = [
            id for id, test, _ in self._demanded(attributes) if test is None or test(attributes)
        ]
        for table in self._large.values():
            found += table.search(attributes)
        return found

    def weigh(self, attributes: Attributes) -> tuple[int, int, int]:
        """How many tests of conjunctions a search makes, as how many more it counts, and how many
        ids it finds without.
        """
        tests = looks = found = 0
        for entry in self._demanded(attributes):
            tests += entry.test is not None
            found += entry.test is None
            looks += entry.work
        for table in self._large.values():
            tested, looked, matching = table.weigh(attributes.get)
            tests += tested
            looks += looked
            found += matching
        return tests, looks, found

    def candidates(self, attributes: Attributes) -> int:
        """The number of conjunctions with expressions to work out, but for these tables."""
        listed = sum([len(each) for by_key in self._listed.values() for each in by_key.values()])
        large = [table.candidates(attributes.get) for table in self._large.values()]
        return listed + len(self._few) + sum(large)

    def _demanded(self, attributes: Attributes) -> Iterator[_Entry]:
        """The conjunctions that are tested one by one: with few alike, and those that demand an
        item of a message's lists, each once.
        """
        yield from self._few.values()
        for name, by_key in self._listed.items():
            for key in item_keys(attributes, name):
                found = by_key.get(key)
                if found is not None:
                    yield from found.values()
