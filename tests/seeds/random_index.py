"""A match index under random churn, beside a dictionary of filters that answers naively.

Filters of every operator come and go one at a time, ranges and tables of conjunctions come in
bulk and go in part; between, publications are asked about in every way there is.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Hashable

import numpy as np
import pyarrow as pa

from shoal.language import parse
from shoal.matching import MatchIndex, matches
from shoal.model import And, Constant, Expression, Filter, FilterError, Not, Operator, Or, Value
from shoal.model import predicate as new_predicate
from tests.strategies import NUMBERS, PATTERNS, STRINGS

NAMES = ["a", "b", "c", "d"]
SYMBOLS = ["A", "B", "C"]
SMALL = [0, 1, 2, 2.5, 3, 4.0, 5, 2**53 + 1]
COMPARISONS = [Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE]
EVERY_VALUE: list[Value] = [*NUMBERS, *STRINGS, *SYMBOLS, True, False]
EVERY_VALUE += [float("nan"), float("inf"), float("-inf")]


class RandomIndex:
    """One seed's index and what it should hold."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._index = MatchIndex()
        self._filters: dict[Hashable, Filter] = {}
        self._destinations: dict[Hashable, Hashable] = {}

    def run(self, steps: int) -> int:
        """Change and ask; how many matches there were to find."""
        found = 0
        for _ in range(steps):
            change = self._random.choice(
                [self._add, self._add, self._remove, self._load_ranges, self._load_table]
            )
            change()
            assert len(self._index) == len(self._filters)
            found += self._ask()
        for id in self._random.sample(sorted(self._filters, key=str), len(self._filters)):
            self._index.remove(id)
        self._filters.clear()
        self._destinations.clear()
        return found + self._ask()

    # --- changes ------------------------------------------------------------------------------

    def _add(self) -> None:
        for _ in range(self._random.choice([1, 20, 200])):
            id: Hashable = self._random.choice(
                [self._random.randrange(900), f"s{self._random.randrange(300)}"]
            )
            filter = self._filter()
            destination = self._random.choice([None, None, "north", "south"])
            self._index.add(id, filter, destination)
            self._filters[id] = filter
            self._destinations[id] = id if destination is None else destination

    def _remove(self) -> None:
        share = self._random.choice([0.01, 0.3, 0.8])
        ids = sorted(self._filters, key=str)
        for id in self._random.sample(ids, int(len(ids) * share)):
            self._index.remove(id)
            assert id not in self._index
            del self._filters[id], self._destinations[id]

    def _load_ranges(self) -> None:
        ids = self._ids()
        names = self._random.sample(NAMES, self._random.randint(1, 4))
        low = [[self._random.choice([-np.inf, 0.0, 1.0, 2.5]) for _ in names] for _ in ids]
        high = [[self._random.choice([np.inf, 2.0, 2.5, 4.0]) for _ in names] for _ in ids]
        self._index.add_ranges(ids, names, low, high)
        for id, below, above in zip(ids, low, high, strict=True):
            bounds: list[Expression] = []
            for name, least, most in zip(names, below, above, strict=True):
                bounds += [new_predicate(name, Operator.GE, least)] * (least > -np.inf)
                bounds += [new_predicate(name, Operator.LE, most)] * (most < np.inf)
            self._loaded(id, bounds)

    def _load_table(self) -> None:
        ids = self._ids()
        symbols = [self._random.choice([None, *SYMBOLS]) for _ in ids]
        flags = [self._random.choice([None, None, True]) for _ in ids]
        low = [self._random.choice([None, 1.0, 2.5]) for _ in ids]
        exact = [self._random.choice([None, None, 2.0, 3.0]) for _ in ids]
        columns = {"id": ids, "a": symbols, "b": flags, "c.low": low, "d": exact}
        table = pa.table(columns)
        for name, kind in (("a", pa.string()), ("b", pa.bool_())):
            at = table.column_names.index(name)
            table = table.set_column(at, name, table.column(name).cast(kind))
        for name in ("c.low", "d"):
            at = table.column_names.index(name)
            table = table.set_column(at, name, table.column(name).cast(pa.float64()))
        self._index.add_table(table)
        for id, *wanted in zip(ids, symbols, flags, low, exact, strict=True):
            asked = zip(
                ("a", "b", "c", "d"),
                (Operator.EQ, Operator.EQ, Operator.GE, Operator.EQ),
                wanted,
                strict=True,
            )
            self._loaded(
                id,
                [
                    new_predicate(name, operator, value)
                    for name, operator, value in asked
                    if value is not None
                ],
            )

    def _ids(self) -> list[int]:
        size = self._random.choice([5, 100, 700])
        return [self._random.randrange(2_000) for _ in range(size)]

    def _loaded(self, id: Hashable, tests: list[Expression]) -> None:
        self._filters[id] = Filter(And(tuple(tests)) if tests else Constant(True))
        self._destinations[id] = id

    # --- filters and publications ---------------------------------------------------------------

    def _filter(self) -> Filter:
        draw = self._random.random()
        if draw < 0.4:  # as most subscriptions are: values and comparisons
            text = f"a = '{self._random.choice(SYMBOLS)}'"
            for name in self._random.sample(["b", "c", "d"], self._random.randrange(3)):
                sign = self._random.choice(["<", "<=", ">", ">=", "="])
                text += f" AND {name} {sign} {self._random.choice(SMALL)}"
            return parse(text)
        while True:
            filter = Filter(self._expression(3))
            try:
                filter.normal_form  # noqa: B018  # too large ones are refused here
            except FilterError:
                continue
            return filter

    def _expression(self, depth: int) -> Expression:
        draw = self._random.random()
        if depth == 0 or draw < 0.5:
            return self._predicate()
        if draw < 0.6:
            return Not(self._expression(depth - 1))
        parts = tuple(self._expression(depth - 1) for _ in range(self._random.randint(2, 3)))
        return And(parts) if draw < 0.85 else Or(parts)

    def _predicate(self) -> Expression:
        name = self._random.choice(NAMES)
        operator = self._random.choice([*COMPARISONS, *Operator])
        if operator in (Operator.IS_NULL, Operator.IS_NOT_NULL):
            return new_predicate(name, operator)
        if operator in (Operator.LIKE, Operator.NOT_LIKE):
            return new_predicate(name, operator, self._random.choice(PATTERNS))
        pool: list[Value] = self._random.choice([SMALL, NUMBERS, STRINGS, SYMBOLS, [True, False]])
        if operator in (Operator.IN, Operator.NOT_IN):
            size = self._random.randint(1, 4)
            return new_predicate(name, operator, tuple(self._random.choices(pool, k=size)))
        return new_predicate(name, operator, self._random.choice(pool))

    def _publication(self) -> dict[str, Value]:
        values: dict[str, Value] = {}
        for name in [*NAMES, "extra"]:
            if self._random.random() < 0.85:
                pool = self._random.choice([SMALL, SMALL, EVERY_VALUE])
                values[name] = self._random.choice(SYMBOLS if name == "a" else pool)
        return values

    # --- questions ----------------------------------------------------------------------------

    def _ask(self) -> int:
        publications = [self._publication() for _ in range(15)]
        expected = [
            {id for id, filter in self._filters.items() if matches(filter, publication)}
            for publication in publications
        ]
        goals = [{self._destinations[id] for id in ids} for ids in expected]
        index = self._index
        for publication, ids, goal in zip(publications, expected, goals, strict=True):
            _same(index.match(publication), ids)
            _same(index.match_destinations(publication), goal)
            assert index.matches_any(publication) == bool(ids)
        columns = {name: [each.get(name) for each in publications] for name in NAMES}
        for batch in (columns, publications * 10):
            _same_runs(index.match_batch(batch), expected)
            _same_runs(index.match_destinations_batch(batch), goals)
        return sum(map(len, expected))


def _same(found: list[Hashable], expected: set[Hashable]) -> None:
    assert len(found) == len(expected)
    assert set(found) == expected


def _same_runs(answer: tuple[np.ndarray, np.ndarray], expected: list[set[Hashable]]) -> None:
    offsets, names = answer
    runs = itertools.pairwise(offsets.tolist())
    for (begin, end), ids in zip(runs, itertools.cycle(expected), strict=False):
        _same(names[begin:end].tolist(), ids)
