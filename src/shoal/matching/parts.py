"""From rows to compiled parts: which part suits which conjunctions.

Many rows that only have ranges, on the same attributes, become boxes; all others are filed in
tables under the values they demand, one table for each set of attributes.

>>> import numpy as np
>>> from shoal.matching.columns import Batch
>>> rows = Rows(2, {}, {"a": (np.array([1.0, 5.0]), np.array([6.0, np.inf]))})
>>> [part] = compile_parts(rows, {})
>>> part.search(Batch.of_columns({"a": np.array([3.0, 5.5])}))(0, 2, {}).counts.tolist()
[1, 2]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shoal.matching.boxes import BoxTree
from shoal.matching.part import Numbers, Part, Rows, Vocabularies
from shoal.matching.tables import table_part

# Fewer boxes than this are tested one after the other in a table, which is as fast.
SPATIAL_MINIMUM = 128


def compile_parts(rows: Rows, vocabularies: Vocabularies) -> list[Part]:
    """Parts that hold every row once; a row that asks for nothing matches everything."""
    parts: list[Part] = []
    names = [*rows.equalities, *rows.ranges]
    asked = np.zeros((rows.size, len(names)), np.bool_)
    for at, codes in enumerate(rows.equalities.values()):
        asked[:, at] = codes >= 0
    for at, (low, high) in enumerate(rows.ranges.values(), start=len(rows.equalities)):
        asked[:, at] = (low > -np.inf) | (high < np.inf)
    left = np.ones(rows.size, np.bool_)
    demanding = asked[:, : len(rows.equalities)]
    for shape, members in _groups(asked):
        if len(members) >= SPATIAL_MINIMUM and not shape[: len(rows.equalities)].any():
            attributes = [name for name, is_asked in zip(names, shape, strict=True) if is_asked]
            if attributes:
                low, high = (
                    np.column_stack([rows.ranges[name][side][members] for name in attributes])
                    for side in (0, 1)
                )
                parts.append(BoxTree(attributes, low, high, members))
                left[members] = False
    others = np.flatnonzero(left)
    widths = asked[others, len(rows.equalities) :].sum(axis=1)
    # Conjunctions with few ranges share a table, so that few look-ups find all of them.
    widths = np.maximum(widths, 2)[:, None]
    for shape, members in _groups(np.column_stack((demanding[others], widths))):
        attributes = [
            name for name, is_asked in zip(rows.equalities, shape[:-1], strict=True) if is_asked
        ]
        parts.append(table_part(rows, vocabularies, attributes, int(shape[-1]), others[members]))
    return parts


def _groups(marks: npt.NDArray[np.generic]) -> list[tuple[npt.NDArray[np.generic], Numbers]]:
    """Each distinct row, and the numbers of the rows that equal it, ascending."""
    if not len(marks):
        return []
    if not marks.shape[1] or (marks == marks[0]).all():
        return [(marks[0], np.arange(len(marks)))]
    shapes, number = np.unique(marks, axis=0, return_inverse=True)
    order = np.argsort(number.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(number.reshape(-1)))
    return list(zip(shapes, np.split(order, ends[:-1]), strict=True))
