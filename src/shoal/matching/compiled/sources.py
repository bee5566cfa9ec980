"""Sources of compiled parts: filters, arrays of ranges, tables of conjunctions.

Each becomes `CompiledRows`, with the values that equalities demand numbered by a vocabulary per
attribute. A filter's conjunctions become one row each, or one for each value of a list; conditions
that a row cannot express exactly (negations, lists, patterns, order of strings, huge integers,
infinities) stay beside it as a test that runs on the few publications that the row lets through.

>>> from shoal.language import parse
>>> rows, tests, _ = rows_of_filters([parse("symbol = 'A' AND price > 3 AND name LIKE 'x%'")], {})
>>> rows.equalities["symbol"].tolist(), rows.ranges["price"][1].tolist(), len(tests)
([0], [inf], 1)
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.matching.compiled.columns import EXACT_INTEGERS, Doubles
from shoal.matching.compiled.part import CompiledRows
from shoal.matching.derived import evaluated_in, uses_of
from shoal.matching.predicates import Test, alternatives, compile_conjunction
from shoal.model import INTEGER_MAX, Filter, Kind, Operator, Predicate, Value

# Values of a growing set of parts: attribute -> value -> code.
Vocabularies = dict[str, dict[Value, int]]

_Ranges = dict[str, tuple[float, float]]


def rows_of_filters(
    filters: Sequence[Filter], vocabularies: Vocabularies
) -> tuple[CompiledRows, list[Test | None], npt.NDArray[np.int64]]:
    """Return rows in the order of the filters, the remaining tests of each, and the filter of
    each.
    """
    conjunctions = [
        (number, each)
        for number, filter in enumerate(filters)
        for conjunction in filter.normal_form
        for each in alternatives(conjunction)
    ]
    size = len(conjunctions)
    equalities: dict[str, npt.NDArray[np.int32]] = {}
    ranges: dict[str, tuple[Doubles, Doubles]] = {}
    tests: list[Test | None] = []
    shared: set[str] = set()
    uses = uses_of(conjunction for _, conjunction in conjunctions)
    for row, (_, conjunction) in enumerate(conjunctions):
        demanded: dict[str, Value] = {}
        asked: _Ranges = {}
        evaluated = evaluated_in(conjunction, shared, uses)
        rest = [
            each
            for each in conjunction
            if each.attribute in evaluated or not _take(each, demanded, asked)
        ]
        for name, value in demanded.items():
            if name not in equalities:
                equalities[name] = np.full(size, -1, np.int32)
            equalities[name][row] = code_of(vocabularies.setdefault(name, {}), value)
        for name, (low, high) in asked.items():
            if name not in ranges:
                ranges[name] = np.full(size, -np.inf), np.full(size, np.inf)
            ranges[name][0][row], ranges[name][1][row] = low, high
        tests.append(compile_conjunction(tuple(rest)) if rest else None)
    numbers = np.array([number for number, _ in conjunctions], np.int64)
    return CompiledRows(size, equalities, ranges), tests, numbers


def ids_of(given: Any) -> npt.NDArray[np.int64]:
    """Ids as the 64-bit integers they are; ValueError for anything else."""
    ids = np.asarray(given)
    is_integer = ids.dtype.kind in "iu" or not ids.size
    if not is_integer or (ids.dtype.kind == "u" and (ids > INTEGER_MAX).any()):
        raise ValueError(f"ids must be 64-bit integers; got {ids.dtype}")
    return np.ascontiguousarray(ids, dtype=np.int64)


def rows_of_ranges(attributes: Sequence[str], low: Any, high: Any) -> CompiledRows:
    """Rows of closed ranges; ValueError when the arrays do not fit each other."""
    below, above = (np.asarray(each, dtype=np.float64) for each in (low, high))
    if below.ndim != 2 or below.shape != above.shape or below.shape[1] != len(attributes):
        raise ValueError(
            f"ranges over {len(attributes)} attributes need `low` and `high` of shape "
            f"(n, {len(attributes)}); got {below.shape} and {above.shape}"
        )
    if len(set(attributes)) < len(attributes):
        raise ValueError(f"ranges name an attribute twice: {', '.join(attributes)}")
    if np.isnan(below).any() or np.isnan(above).any():
        raise ValueError("NaN cannot bound a range; an open side is -inf or +inf")
    ranges = {
        name: (np.ascontiguousarray(below[:, at]), np.ascontiguousarray(above[:, at]))
        for at, name in enumerate(attributes)
    }
    return CompiledRows(len(below), {}, ranges)


def rows_of_table(
    table: Any, vocabularies: Vocabularies
) -> tuple[npt.NDArray[np.int64], CompiledRows]:
    """Ids and rows of an Arrow table: columns `id`, `<attribute>` and `<attribute>.low`, `.high`.

    A null asks for nothing.  Strings and booleans in `<attribute>` are demanded; numbers there
    are ranges of one value.
    """
    if "id" not in table.column_names:
        raise ValueError(f"the table has no column 'id'; it has {', '.join(table.column_names)}")
    repeated = [name for name, times in Counter(table.column_names).items() if times > 1]
    if repeated:
        raise ValueError(f"the table has two columns {repeated[0]!r}")
    if table.column("id").null_count:
        raise ValueError("column 'id' has nulls; every row needs an id")
    ids = ids_of(table.column("id").to_numpy())
    equalities: dict[str, npt.NDArray[np.int32]] = {}
    ranges: dict[str, tuple[Doubles, Doubles]] = {}
    for column in table.column_names:
        if column == "id":
            continue
        values = table.column(column).combine_chunks()
        name, _, side = column.rpartition(".")
        if name and side in ("low", "high"):
            open_side = -np.inf if side == "low" else np.inf
            sides = ranges.setdefault(name, (np.full(len(ids), -np.inf), np.full(len(ids), np.inf)))
            bounds = _bounds(column, values, open_side)
            tighter = np.maximum if side == "low" else np.minimum
            at = 0 if side == "low" else 1
            tighter(sides[at], bounds, out=sides[at])
        elif _is_demanded(values):
            encoded = values if hasattr(values, "indices") else values.dictionary_encode()
            vocabulary = vocabularies.setdefault(column, {})
            known = [
                -1 if value is None else code_of(vocabulary, value)
                for value in encoded.dictionary.to_pylist()
            ]
            codes = np.array([*known, -1], np.int32)
            indices = encoded.indices.cast("int64").fill_null(len(known))
            equalities[column] = codes[indices.to_numpy()]
        else:
            sides = ranges.setdefault(
                column, (np.full(len(ids), -np.inf), np.full(len(ids), np.inf))
            )
            np.maximum(sides[0], _bounds(column, values, -np.inf), out=sides[0])
            np.minimum(sides[1], _bounds(column, values, np.inf), out=sides[1])
    return ids, CompiledRows(len(ids), equalities, ranges)


def code_of(vocabulary: dict[Value, int], value: Value) -> int:
    """The value's number, a new one if it is new."""
    return vocabulary.setdefault(value, len(vocabulary))


def _is_demanded(values: Any) -> bool:
    """Return whether an Arrow array has strings or booleans, plain or by dictionary."""
    kind = values.dictionary.type if hasattr(values, "indices") else values.type
    return str(kind) in ("string", "large_string", "string_view", "bool")


def _bounds(column: str, values: Any, open_side: float) -> Doubles:
    if hasattr(values, "indices"):
        values = values.dictionary_decode()
    if not re.fullmatch("null|u?int(8|16|32|64)|halffloat|float|double", str(values.type)):
        raise ValueError(
            f"column {column!r} is {values.type}; a bound is a number, a value is a string, an "
            "integer, a double or a boolean"
        )
    raw = values.to_numpy(zero_copy_only=False)
    missing = values.is_null().to_numpy(zero_copy_only=False)
    bounds = np.where(missing, open_side, raw).astype(np.float64)
    if np.isnan(bounds).any():
        raise ValueError(f"column {column!r}: NaN cannot bound a range; use null for an open side")
    if raw.dtype.kind in "iu" and (np.abs(bounds) >= EXACT_INTEGERS)[~missing].any():
        raise ValueError(
            f"column {column!r}: integers from 2**53 on are not exact as doubles; "
            "add these conjunctions as filters"
        )
    return bounds


def _take(tested: Predicate, demanded: dict[str, Value], asked: _Ranges) -> bool:
    """Return whether a predicate could be added to the row exactly."""
    operand = tested.operand
    if tested.operator is Operator.EQ and tested.kind is not Kind.NUMBER:
        assert isinstance(operand, str | bool)
        return tested.attribute not in asked and (
            demanded.setdefault(tested.attribute, operand) == operand
        )
    # Of a double and its neighbour on one side, integers from 2**53 on may lie between them.
    if (
        tested.kind is not Kind.NUMBER
        or not isinstance(operand, int | float)
        or abs(operand) >= EXACT_INTEGERS
        or tested.attribute in demanded
    ):
        return False
    value = float(operand)
    low, high = asked.get(tested.attribute, (-math.inf, math.inf))
    match tested.operator:
        case Operator.EQ:
            low, high = max(low, value), min(high, value)
        case Operator.GE:
            low = max(low, value)
        case Operator.GT:
            low = max(low, math.nextafter(value, math.inf))
        case Operator.LE:
            high = min(high, value)
        case Operator.LT:
            high = min(high, math.nextafter(value, -math.inf))
        case _:
            return False
    asked[tested.attribute] = low, high
    return True
