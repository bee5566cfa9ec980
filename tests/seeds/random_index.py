"""A match index under random churn, beside a dictionary of filters that answers naively.

Filters of every operator come and go one at a time, ranges and tables of conjunctions come in bulk
and go in part. Between changes, publications are matched in every way that the index offers.

Filters also come in crowds: some hundred with the same tests on the same attributes, beside others
with different tests on these. Trees of boxes need 64 similar conjunctions in one source, so single
filters never test them; nor do sources in which an attribute has one role only, such as ranges, or
tables without a shared attribute.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Hashable
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from shoal.language import parse
from shoal.matching import MatchIndex, matches
from shoal.matching import index as index_module
from shoal.model import And, Constant, Expression, Filter, FilterError, Not, Operator, Or, Value
from shoal.model import predicate as new_predicate
from tests.strategies import NUMBERS, PATTERNS, STRINGS

NAMES = ["a", "b", "c", "d"]
SYMBOLS = ["A", "B", "C"]
SMALL = [0, 1, 2, 2.5, 3, 4.0, 5, 2**53 + 1]
COMPARISONS = [Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE]
EVERY_VALUE: list[Value] = [*NUMBERS, *STRINGS, *SYMBOLS, True, False]
EVERY_VALUE += [float("nan"), float("inf"), float("-inf")]

# A crowd's tests of an attribute: an operator, or two for a range, and the source of values.
ROLES: list[tuple[tuple[Operator, ...], list[Any]]] = [
    ((), []),
    ((), []),
    ((Operator.EQ,), SYMBOLS),
    ((Operator.EQ,), SYMBOLS),
    ((Operator.EQ,), [True, False]),
    ((Operator.EQ,), SMALL),
    ((Operator.GE, Operator.LE), SMALL),
    ((Operator.GE, Operator.LE), SMALL),
    ((Operator.GT, Operator.LT), SMALL),
    ((Operator.GT,), SMALL),
    ((Operator.LE,), SMALL),
    ((Operator.GT,), SYMBOLS),
    ((Operator.GE, Operator.EQ), SYMBOLS),
    ((Operator.LE,), [True, False]),
    ((Operator.NE,), SMALL),
    ((Operator.IN,), SYMBOLS),
    ((Operator.IN,), SMALL),
    ((Operator.IN,), [True, False]),
    ((Operator.NOT_IN,), SYMBOLS),
    ((Operator.LIKE,), PATTERNS),
    ((Operator.NOT_LIKE,), PATTERNS),
    ((Operator.IS_NULL,), []),
    ((Operator.IS_NOT_NULL,), []),
]

# Values of columns of one type each.
TYPED: list[tuple[list[Any], pa.DataType]] = [
    (SYMBOLS, pa.string()),
    ([True, False], pa.bool_()),
    ([0, 1, 2, 3, 5], pa.int64()),
    ([0.0, 1.0, 2.5, 3.0, float("nan")], pa.float64()),
]


class RandomIndex:
    """One seed's index and its expected content."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._index = MatchIndex()
        self._filters: dict[Hashable, Filter] = {}
        self._destinations: dict[Hashable, Hashable] = {}

    def run(self, steps: int) -> int:
        """Change and ask; the number of expected matches."""
        found = 0
        for _ in range(steps):
            change = self._random.choice(
                [
                    self._add,
                    self._add,
                    self._add_crowds,
                    self._add_crowds,
                    self._remove,
                    self._load_ranges,
                    self._load_table,
                    self._load_mixed_table,
                ]
            )
            change()
            assert len(self._index) == len(self._filters)
            # The bound of single tests decides which part of the index answers.
            maximum = self._random.choice([-1, 100, index_module.TESTS_MAXIMUM])
            with mock.patch.object(index_module, "TESTS_MAXIMUM", maximum):
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

    def _add_crowds(self) -> None:
        names = self._random.sample(NAMES, self._random.randint(1, 3))
        roles = [
            [self._random.choice(ROLES) for _ in names] for _ in range(self._random.randint(2, 4))
        ]
        for each in roles:
            for _ in range(self._random.choice([1, 80, 250])):
                id = self._random.randrange(3_000)
                tests = [
                    test
                    for name, (operators, pool) in zip(names, each, strict=True)
                    for test in self._tests(name, operators, pool)
                ]
                self._index.add(id, _all_of(tests))
                self._filters[id], self._destinations[id] = _all_of(tests), id

    def _tests(
        self, name: str, operators: tuple[Operator, ...], pool: list[Any]
    ) -> list[Expression]:
        tests: list[Expression] = []
        for operator in operators:
            if operator in (Operator.IS_NULL, Operator.IS_NOT_NULL):
                tests.append(new_predicate(name, operator))
            elif operator in (Operator.IN, Operator.NOT_IN):
                values = self._random.choices(pool, k=self._random.randint(1, 3))
                tests.append(new_predicate(name, operator, tuple(values)))
            else:
                tests.append(new_predicate(name, operator, self._random.choice(pool)))
        return tests

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

    def _load_mixed_table(self) -> None:
        """Values and ranges of the same attributes, in one row too, which then matches nothing."""
        ids = self._ids()
        coded = pa.dictionary(pa.int32(), pa.string())
        kinds = {"a": pa.string(), "b": pa.bool_(), "c": pa.float64(), "d": coded}
        pools = {"a": SYMBOLS, "b": [True, False], "c": [1.0, 2.5], "d": SYMBOLS}
        asked: dict[str, list[Any]] = {}
        for name in self._random.sample(NAMES, 2):
            share = self._random.choice([0.0, 0.1, 0.9])
            for column, pool in ((name, pools[name]), (f"{name}.low", [0.0, 1.0, 2.5, 4.0])):
                asked[column] = [
                    self._random.choice(pool) if self._random.random() < share else None
                    for _ in ids
                ]
                share = 1 - share
        self._index.add_table(
            pa.table(
                {"id": ids}
                | {
                    column: pa.array(values, kinds.get(column, pa.float64()))
                    for column, values in asked.items()
                }
            )
        )
        for at, id in enumerate(ids):
            self._loaded(
                id,
                [
                    new_predicate(
                        column[0], Operator.GE if ".low" in column else Operator.EQ, v[at]
                    )
                    for column, v in asked.items()
                    if v[at] is not None
                ],
            )

    def _ids(self) -> list[int]:
        size = self._random.choice([5, 100, 700])
        return [self._random.randrange(2_000) for _ in range(size)]

    def _loaded(self, id: Hashable, tests: list[Expression]) -> None:
        self._filters[id] = _all_of(tests)
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
                values[name] = self._random.choice(self._random.choice([pool, pool, SYMBOLS]))
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
        for found, ids in zip(index.match_each(publications), expected, strict=True):
            _same(found, ids)
        columns: dict[str, Any] = {
            name: [each.get(name) for each in publications] for name in NAMES
        }
        for batch in (columns, publications * 10):
            _same_runs(index.match_batch(batch), expected)
            _same_runs(index.match_destinations_batch(batch), goals)
        return sum(map(len, expected)) + self._ask_typed()

    def _ask_typed(self) -> int:
        """Columns of one type each, as arrays have them."""
        size = 15
        given: dict[str, Any] = {}
        for name in NAMES:
            pool, kind = self._random.choice(TYPED)
            missing = self._random.choice([0.0, 0.2])
            values = [
                None if self._random.random() < missing else self._random.choice(pool)
                for _ in range(size)
            ]
            given[name] = pa.array(values, kind)
        rows = pa.table(given).to_pylist()
        publications = [{k: v for k, v in row.items() if v is not None} for row in rows]
        expected = [
            {id for id, filter in self._filters.items() if matches(filter, publication)}
            for publication in publications
        ]
        _same_runs(self._index.match_batch(given), expected)
        return sum(map(len, expected))


def _all_of(tests: list[Expression]) -> Filter:
    return Filter(And(tuple(tests)) if tests else Constant(True))


def _same(found: list[Hashable], expected: set[Hashable]) -> None:
    assert len(found) == len(expected)
    assert set(found) == expected


def _same_runs(answer: tuple[np.ndarray, np.ndarray], expected: list[set[Hashable]]) -> None:
    offsets, names = answer
    runs = itertools.pairwise(offsets.tolist())
    for (begin, end), ids in zip(runs, itertools.cycle(expected), strict=False):
        _same(names[begin:end].tolist(), ids)
