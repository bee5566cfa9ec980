"""Conjunctions that are alike but for their constants, tested together by vector instructions.

Each is a row; the constants of a test are a column (`vector_evaluation.py`). A search asks one test
after the other, cheap ones first, for the rows that are left. Rows that are few, unsure, or have
further tests are tested one by one.

>>> from shoal.language import parse
>>> from shoal.matching.predicates import compile_conjunction
>>> from shoal.matching.vector_forms import vector_form
>>> tables = {}
>>> for number in range(100):
...     [conjunction] = parse(f"a + {number} * b > {10 * number}").normal_form
...     form = vector_form(conjunction, frozenset({conjunction[0].attribute}))
...     table = tables.setdefault(form.shape, AlikeTable(form.shape))
...     table.add((number, 0), form.constants, compile_conjunction(conjunction))
>>> len(tables), table.search({"a": 1, "b": 0.5}), len(table.search({"a": 1, "b": 10}))
(1, [0], 100)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.matching.filed.places import STEPS_A_TEST
from shoal.matching.predicates import Test
from shoal.matching.vector_evaluation import Chosen, ConstantRows, VectorTest, vector_tests
from shoal.matching.vector_forms import FormShape
from shoal.model import Attributes

# So many are tested one by one.
FEW = 24
# So many rows of an operator take as long as a test.
_ROWS_A_TEST = 500

# Id of a filter, and number of the conjunction in it.
Key = tuple[Hashable, int]


class AlikeTable:
    """The conjunctions of one form."""

    __slots__ = ("_cost", "_given", "_keys", "_numbers", "_shape", "_tests", "_vectors")

    def __init__(self, shape: FormShape) -> None:
        self._shape = shape
        self._cost = shape.cost
        # By row: the last row takes the place of one that is removed.
        self._keys: list[Key] = []
        self._tests: list[Test] = []
        self._given: list[tuple[float, ...]] = []
        self._numbers: dict[Key, int] = {}
        # None while few are here.
        self._vectors: tuple[tuple[VectorTest, ...], ConstantRows] | None = None

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[tuple[Key, Test]]:
        """The conjunctions with their tests, by row."""
        return zip(self._keys, self._tests, strict=True)

    @property
    def is_large(self) -> bool:
        """Whether vector instructions test it."""
        return self._vectors is not None

    @property
    def tests(self) -> int:
        """The cost of a search, in tests one by one, if none is left to be tested so."""
        size = len(self._keys)
        return min(size, FEW + self._cost * (1 + size // _ROWS_A_TEST))

    def add(self, key: Key, constants: tuple[float, ...], test: Test) -> None:
        """Add a conjunction that is not here yet, with a test of the whole of it."""
        self._numbers[key] = len(self._keys)
        self._keys.append(key)
        self._tests.append(test)
        self._given.append(constants)
        if self._vectors is not None:
            self._vectors[1].append(constants)
        elif len(self._keys) > FEW:
            rows = ConstantRows()
            for each in self._given:
                rows.append(each)
            self._vectors = vector_tests(self._shape), rows

    def remove(self, key: Key) -> None:
        """KeyError if it is not here."""
        row = self._numbers.pop(key)
        if self._vectors is not None:
            self._vectors[1].remove(row)
        last_key, last_test, last = self._keys.pop(), self._tests.pop(), self._given.pop()
        if row < len(self._keys):
            self._keys[row], self._tests[row], self._given[row] = last_key, last_test, last
            self._numbers[last_key] = row
        if len(self._keys) <= FEW // 2:
            self._vectors = None

    def search(self, attributes: Attributes) -> list[Hashable]:
        """The ids of the conjunctions that match, in the order of their rows."""
        keys, tests = self._keys, self._tests
        rows, is_sure = self._left(attributes.get)
        if is_sure is None:
            return [keys[row][0] for row in rows]
        return [
            keys[row][0]
            for row, sure in zip(rows, is_sure, strict=True)
            if sure or tests[row](attributes)
        ]

    def weigh(self, get: Callable[[str], Any]) -> tuple[int, int, int]:
        """How many tests of conjunctions a search makes, as how many more it counts, and how many
        ids it finds without.
        """
        rows, is_sure = self._left(get)
        sure = len(rows) if is_sure is None else sum(is_sure)
        tested = len(rows) - sure
        return tested, self.tests + tested * self._cost // STEPS_A_TEST, sure

    def candidates(self, get: Callable[[str], Any]) -> int:
        """The number of rows that pass the tests of attributes."""
        if self._vectors is None:
            return len(self._keys)
        vectors, constants = self._vectors
        rows: Chosen = None
        for shape, vector in zip(self._shape.tests, vectors, strict=True):
            if not shape.is_plain or (rows is not None and not len(rows)):
                break
            verdict = vector(get, constants, rows)
            if verdict is None:
                return 0
            numbers = np.flatnonzero(verdict.passed | verdict.unsure)
            rows = numbers if rows is None else rows[numbers]
        return len(self._keys) if rows is None else len(rows)

    def _left(self, get: Callable[[str], Any]) -> tuple[list[int], list[bool] | None]:
        """The rows that may match, and whether each does; None if all do."""
        size = len(self._keys)
        if self._vectors is None:
            return list(range(size)), [False] * size
        rows: Chosen = None
        unsure: npt.NDArray[np.bool_] | None = None
        vectors, constants = self._vectors
        for vector in vectors:
            count = size if rows is None else len(rows)
            if rows is not None and count <= FEW:
                return rows.tolist(), [False] * count
            verdict = vector(get, constants, rows)
            if verdict is None:
                return [], None
            kept = verdict.passed
            if unsure is not None or verdict.unsure is not False:
                doubts = np.zeros(count, np.bool_) if unsure is None else unsure
                doubts = doubts | verdict.unsure
                kept = kept | doubts
                unsure = doubts[kept]
            numbers = np.flatnonzero(kept)
            rows = numbers if rows is None else rows[numbers]
        assert rows is not None
        if not self._shape.is_complete:
            return rows.tolist(), [False] * len(rows)
        return rows.tolist(), None if unsure is None else (~unsure).tolist()
