"""From rows to compiled parts: which part suits which conjunctions.

Many rows that have ranges on the same attributes, and demand the same values or none, become
boxes; all others are filed in tables under the values they demand, one table for each set of
attributes.

>>> import numpy as np
>>> from shoal.matching.compiled.columns import ColumnBatch
>>> rows = CompiledRows(2, {}, {"a": (np.array([1.0, 5.0]), np.array([6.0, np.inf]))})
>>> [part] = compile_parts(rows, {})
>>> part.search(ColumnBatch.of_columns({"a": np.array([3.0, 5.5])}))(0, 2, {}).counts.tolist()
[1, 2]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.matching.compiled.boxes import BoxTree
from shoal.matching.compiled.part import CompiledPart, CompiledRows, Numbers, Vocabularies
from shoal.matching.compiled.tables import KEY_MAXIMUM, table_part

# From this many conjunctions with the same values and ranges on the same attributes on, a tree
# finds matches sooner than a table that tests one after the other.
SPATIAL_MINIMUM = 64


def compile_parts(rows: CompiledRows, vocabularies: Vocabularies) -> list[CompiledPart]:
    """Parts that hold every row once; a row that asks for nothing matches everything."""
    parts: list[CompiledPart] = []
    # One row may demand a value of an attribute of which another asks a range, so these stay apart.
    is_demanded = {name: codes >= 0 for name, codes in rows.equalities.items()}
    is_ranged = {
        name: (low > -np.inf) | (high < np.inf) for name, (low, high) in rows.ranges.items()
    }
    left = np.ones(rows.size, np.bool_)
    for members in _groups(_row_keys(rows.size, [*is_demanded.values(), *is_ranged.values()])):
        demanded, ranged = _asked(is_demanded, members), _asked(is_ranged, members)
        if (demanded or ranged) and _is_dense(rows, demanded, members):
            parts.append(_box_tree(rows, vocabularies, demanded, ranged, members))
            left[members] = False
    others = np.flatnonzero(left)
    # Conjunctions with few ranges share a table, so that few look-ups find all of them.
    widths = np.maximum(sum(each[others].astype(np.int64) for each in is_ranged.values()), 2)
    widths = np.broadcast_to(widths, len(others))
    alike = [*(each[others] for each in is_demanded.values()), widths]
    for group in _groups(_row_keys(len(others), alike)):
        members = others[group]
        width = int(widths[group[0]])
        demanded = _asked(is_demanded, members)
        parts.append(table_part(rows, vocabularies, demanded, width, members))
    return parts


def _asked(is_asked: Mapping[str, npt.NDArray[np.bool_]], members: Numbers) -> list[str]:
    """The attributes that the first of the members, and so each of them, asks for."""
    return [name for name, each in is_asked.items() if each[members[0]]]


def _is_dense(rows: CompiledRows, demanded: Sequence[str], members: Numbers) -> bool:
    """Return whether SPATIAL_MINIMUM of the members, on average, demand the same values."""
    if len(members) < SPATIAL_MINIMUM:
        return False
    if not demanded:
        return True
    codes = [rows.equalities[name][members] for name in demanded]
    distinct = len(np.unique(_row_keys(len(members), codes)))
    return len(members) >= SPATIAL_MINIMUM * distinct


def _box_tree(
    rows: CompiledRows,
    vocabularies: Vocabularies,
    demanded: Sequence[str],
    ranged: Sequence[str],
    members: Numbers,
) -> BoxTree:
    codes = [rows.equalities[name][members] for name in demanded]
    low, high = (
        np.column_stack([*codes, *(rows.ranges[name][side][members] for name in ranged)])
        for side in (0, 1)
    )
    values = [vocabularies[name] for name in demanded]
    return BoxTree(
        [*demanded, *ranged], low.astype(np.float64), high.astype(np.float64), members, values
    )


def _row_keys(size: int, columns: Sequence[npt.NDArray[Any]]) -> Numbers:
    """A number for each row of columns of small integers, from -1 on; equal for equal rows."""
    keys, limit = np.zeros(size, np.int64), 1
    for column in columns:
        width = int(column.max(initial=0)) + 2
        if limit * width >= KEY_MAXIMUM:
            keys = np.unique(keys, return_inverse=True)[1].reshape(-1)
            limit = size
        keys = keys * width + column + 1
        limit *= width
    return keys


def _groups(keys: Numbers) -> list[Numbers]:
    """The places of equal keys, ascending, for each distinct key."""
    if not len(keys):
        return []
    # Small keys are sorted digit by digit, which is much faster.
    small = keys.astype(np.uint16) if keys.max() < 2**16 else keys
    order = np.argsort(small, kind="stable")
    ends = np.flatnonzero(np.diff(keys[order])) + 1
    return np.split(order, ends)
