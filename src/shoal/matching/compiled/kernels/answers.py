"""Compiled loops that put the answers of several parts of an index together.

Each part has found, for each publication, a run of its own members; the answer to a publication
is the ids of its members in all parts, without those removed meanwhile.

>>> import numpy as np
>>> out, cursor = np.empty(2, np.int64), np.array([0, 1])
>>> copy_ids(np.array([30, 31]), np.array([0, 1]), np.array([1, 0], np.uint32), np.array([0, 1]),
...          np.array([1, 1]), cursor, out)
>>> out.tolist(), cursor.tolist()
([31, 30], [1, 2])
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shoal.matching.compiled.kernels import plain
from shoal.matching.compiled.kernels.compiler import kernel_or


@kernel_or(plain.copy_ids)
def copy_ids(
    ids: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    found: npt.NDArray[np.uint32],
    begins: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    cursor: npt.NDArray[np.int64],
    out: npt.NDArray[np.int64],
) -> None:
    """Write the ids of each point's members at its cursor, which moves past them.

    `order` has every point once: in the order of their runs in `found`, or near to it.
    """
    for point in order:
        count = counts[point]
        run = found[begins[point] : begins[point] + count]
        answer = out[cursor[point] : cursor[point] + count]
        for place in range(count):
            answer[place] = ids[run[place]]
        cursor[point] += count


@kernel_or(plain.drop_removed)
def drop_removed(
    kept: npt.NDArray[np.bool_],
    numbers: npt.NDArray[np.int64],
    found: npt.NDArray[np.uint32],
    begins: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> None:
    """Close each point's run over the members that were removed."""
    for point in range(counts.size):
        begin = begins[point]
        at = begin
        for place in range(begin, begin + counts[point]):
            member = found[place]
            found[at] = member
            at += kept[numbers[member]]
        counts[point] = at - begin


@kernel_or(plain.name_once)
def name_once(
    numbers: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], highest: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Keep the first of equal numbers in each point's run; numbers are 0 to `highest`."""
    seen = np.full(highest + 1, -1, np.int64)
    kept = np.empty(offsets.size, np.int64)
    at = 0
    for point in range(offsets.size - 1):
        kept[point] = at
        for place in range(offsets[point], offsets[point + 1]):
            number = numbers[place]
            if seen[number] != point:
                seen[number] = point
                numbers[at] = number
                at += 1
    kept[-1] = at
    return kept, numbers[:at]
