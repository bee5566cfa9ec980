"""Filters judged by their definitions, many publications at a time.

The values that an attribute has are put in order once, and each publication knows the rank of its
own.  So a test is TRUE of ranks in ranges, which are found by the definition of order
(`shoal.model.compare`), or of values that are looked at one by one (`shoal.matching.semantics`).
The index that brokers match with takes no part.

>>> from shoal.language import parse
>>> winds = pa.array([3.5, None, 12.0])
>>> judge = SmallJudge({"wind": pa.chunked_array([winds])}, 3)
>>> filters = [parse(text).expression for text in ("wind > 4", "NOT wind > 4")]
>>> [judge.matched(each, slice(0, 3)).tolist() for each in filters]
[[2], [0]]
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from shoal.matching.semantics import evaluate_predicate
from shoal.model import (
    And,
    Constant,
    Expression,
    Not,
    Operator,
    Or,
    Predicate,
    Value,
    compare,
    kind_of,
)
from shoal.model.expressions import is_derived
from shoal.pipeline.small.tables import NeedsSparkError

# Rows of the publications' table, as numbers; or all of a part of it.
Rows = npt.NDArray[np.int64]
Part = slice

_KINDS = (pa.types.is_string, pa.types.is_int64, pa.types.is_float64, pa.types.is_boolean)
# Values looked at one by one: about a second for each million.
MOST_LOOKS = 20_000_000
# The rank of a value that is missing.
_MISSING = -1

NOBODY: Rows = np.empty(0, np.int64)

_NEGATED = (Operator.NE, Operator.NOT_IN, Operator.NOT_LIKE)


class _Said(NamedTuple):
    """Result of a test: `inside` for values with a rank in the ranges, the opposite for other
    values.

    `table` has the result for each rank, if there are too many for ranges.
    """

    inside: bool
    ranges: tuple[tuple[int, int], ...]
    table: npt.NDArray[np.bool_] | None = None

    def holds(self, ranks: npt.NDArray[np.int32], wanted: bool) -> npt.NDArray[np.bool_]:
        """Return a mask of the ranks for which it gives the wanted result."""
        if self.table is not None:
            found = self.table[ranks]
        else:
            found = np.zeros(len(ranks), bool)
            for low, high in self.ranges:
                found |= (ranks >= low) & (ranks < high)
        return found if wanted is self.inside else ~found & (ranks != _MISSING)


class SmallJudge:
    """Evaluates filters on publications, with the attributes in `columns`.

    NeedsSparkError if a column mixes types, or too many values would be looked at.
    """

    def __init__(self, columns: Mapping[str, pa.ChunkedArray], publications: int) -> None:
        for column in columns.values():
            if not any(is_kind(column.type) for is_kind in _KINDS):
                raise NeedsSparkError("an attribute mixes types")
        self._columns = columns
        self._publications = publications
        self._ranked: dict[str, tuple[list[Value], npt.NDArray[np.int32]]] = {}
        self._said: dict[Predicate, _Said | None] = {}
        self._looks = 0

    def matched(self, expression: Expression, part: Part) -> Rows:
        """Of which publications of a part a filter is TRUE."""
        return self._are(expression, True, part)

    def _are(self, expression: Expression, wanted: bool, rows: Rows | Part) -> Rows:
        """Of which rows an expression is `wanted`, TRUE or FALSE; of some it may be neither."""
        match expression:
            case Predicate():
                return self._test(expression, wanted, rows)
            case Constant(value):
                return _numbers(rows) if value is wanted else NOBODY
            case Not(operand):
                return self._are(operand, not wanted, rows)
            case And(operands) | Or(operands) if isinstance(expression, And) is wanted:
                for operand in operands:
                    rows = self._are(operand, wanted, rows)
                    if not len(rows):
                        break
                return _numbers(rows)
            case And(operands) | Or(operands):
                found = [self._are(operand, wanted, rows) for operand in operands]
                all_found: Rows = np.unique(np.concatenate(found))
                return all_found

    def _test(self, tested: Predicate, wanted: bool, rows: Rows | Part) -> Rows:
        if is_derived(tested.attribute):
            raise NeedsSparkError("a filter has an expression")
        if tested not in self._said:
            self._said[tested] = self._say(tested)
        said = self._said[tested]
        if said is None:
            return NOBODY
        _, ranks = self._ranks(tested.attribute)
        holds = said.holds(ranks[rows], wanted)
        found: Rows = np.flatnonzero(holds) + rows.start if isinstance(rows, slice) else rows[holds]
        return found

    def _say(self, tested: Predicate) -> _Said | None:
        """None where it is unknown of every value."""
        values, _ = self._ranks(tested.attribute)
        operator, operand = tested.operator, tested.operand
        if operand is None:
            return _Said(operator is Operator.IS_NULL, ((_MISSING, 0),))
        if not values or kind_of(values[0]) is not tested.kind:
            return None
        inside = operator not in _NEGATED
        if operator in (Operator.LIKE, Operator.NOT_LIKE):
            self._looks += len(values)
            if self._looks > MOST_LOOKS:
                raise NeedsSparkError("there are too many values to judge")
            found = [evaluate_predicate(tested, value) is inside for value in values]
            return _Said(inside, (), np.array([*found, False]))
        if isinstance(operand, tuple):
            return _Said(inside, tuple(_equal(values, each) for each in operand))
        low, high = _equal(values, operand)
        match operator:
            case Operator.LT:
                ranks = (0, low)
            case Operator.LE:
                ranks = (0, high)
            case Operator.GT:
                ranks = (high, len(values))
            case Operator.GE:
                ranks = (low, len(values))
            case _:
                ranks = (low, high)
        return _Said(inside, (ranks,))

    def _ranks(self, name: str) -> tuple[list[Value], npt.NDArray[np.int32]]:
        """The values that an attribute has, in order, and which each publication has."""
        if name not in self._ranked:
            column = self._columns.get(name)
            if column is None:
                self._ranked[name] = [], np.full(self._publications, _MISSING, np.int32)
            else:
                self._ranked[name] = _rank(column)
        return self._ranked[name]


def _numbers(rows: Rows | Part) -> Rows:
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows


def _equal(values: list[Value], operand: Value) -> tuple[int, int]:
    """The ranks of the values that equal an operand, behind those that are below it."""

    def order(value: Value) -> int:
        found = compare(value, operand)
        assert found is not None  # the kinds are the same
        return found

    return bisect_left(values, 0, key=order), bisect_right(values, 0, key=order)


def _rank(column: pa.ChunkedArray) -> tuple[list[Value], npt.NDArray[np.int32]]:
    coded = column.combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    values: list[Any] = coded.dictionary.to_pylist()
    # NaN is above all numbers.
    order = sorted(
        range(len(values)), key=lambda code: (values[code] != values[code], values[code])
    )
    ranks = np.full(len(values) + 1, _MISSING, np.int32)
    ranks[order] = np.arange(len(values))
    codes = np.asarray(coded.indices.fill_null(len(values)))
    return [values[code] for code in order], ranks[codes]
