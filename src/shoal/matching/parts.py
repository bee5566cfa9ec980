"""From rows to compiled parts: which part suits which conjunctions.

Many rows that have ranges on the same attributes, and demand the same values or none, become
boxes; all others are filed in tables under the values they demand, one table for each set of
attributes.

>>> import numpy as np
>>> from shoal.matching.columns import Batch
>>> rows = Rows(2, {}, {"a": (np.array([1.0, 5.0]), np.array([6.0, np.inf]))})
>>> [part] = compile_parts(rows, {})
>>> part.search(Batch.of_columns({"a": np.array([3.0, 5.5])}))(0, 2, {}).counts.tolist()
[1, 2]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.matching.boxes import BoxTree
from shoal.matching.part import Numbers, Part, Rows, Vocabularies
from shoal.matching.tables import KEY_MAXIMUM, table_part

# Where this many conjunctions demand the same values and have ranges on the same attributes, a
# tree finds those that match sooner than a table's test of one after the other.
SPATIAL_MINIMUM = 64


def compile_parts(rows: Rows, vocabularies: Vocabularies) -> list[Part]:
    """Parts that hold every row once; a row that asks for nothing matches everything."""
    parts: list[Part] = []
    names = [*rows.equalities, *rows.ranges]
    demanded = len(rows.equalities)
    asked = [codes >= 0 for codes in rows.equalities.values()]
    asked += [(low > -np.inf) | (high < np.inf) for low, high in rows.ranges.values()]
    left = np.ones(rows.size, np.bool_)
    for members in _groups(_row_keys(rows.size, asked)):
        shape = [each[members[0]] for each in asked]
        attributes = [name for name, is_asked in zip(names, shape, strict=True) if is_asked]
        if attributes and _is_dense(rows, attributes, members):
            parts.append(_box_tree(rows, vocabularies, attributes, members))
            left[members] = False
    others = np.flatnonzero(left)
    # Conjunctions with few ranges share a table, so that few look-ups find all of them.
    widths = np.maximum(sum(each[others].astype(np.int64) for each in asked[demanded:]), 2)
    widths = np.broadcast_to(widths, len(others))
    for group in _groups(_row_keys(len(others), [*(e[others] for e in asked[:demanded]), widths])):
        members = others[group]
        attributes = [
            name for name, each in zip(rows.equalities, asked, strict=False) if each[members[0]]
        ]
        width = int(widths[group[0]])
        parts.append(table_part(rows, vocabularies, attributes, width, members))
    return parts


def _is_dense(rows: Rows, attributes: Sequence[str], members: Numbers) -> bool:
    """Whether SPATIAL_MINIMUM of the members, on average, demand the same values."""
    if len(members) < SPATIAL_MINIMUM:
        return False
    demanded = [rows.equalities[name][members] for name in attributes if name in rows.equalities]
    if not demanded:
        return True
    distinct = len(np.unique(_row_keys(len(members), demanded)))
    return len(members) >= SPATIAL_MINIMUM * distinct


def _box_tree(
    rows: Rows, vocabularies: Vocabularies, attributes: Sequence[str], members: Numbers
) -> BoxTree:
    demanded = [rows.equalities[name][members] for name in attributes if name in rows.equalities]
    bounds = [
        [rows.ranges[name][side][members] for name in attributes[len(demanded) :]]
        for side in (0, 1)
    ]
    low, high = (np.column_stack([*demanded, *each]).astype(np.float64) for each in bounds)
    values = [vocabularies[name] for name in attributes[: len(demanded)]]
    return BoxTree(attributes, low, high, members, values)


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
