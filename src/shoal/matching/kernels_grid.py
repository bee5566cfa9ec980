"""Compiled loops of a grid of boxes: which of up to 65,535 boxes hold each point.

A box is a closed interval per dimension.  The grid cuts the first dimensions into cells and keeps
in each cell the boxes that touch it, side by side, with their bounds as 16-bit ranks: one vector
instruction tests 16 or more boxes, and the points of one cell find its boxes in the cache.  Ranks
are exact: a point's own ranks among all bounds say which of them it passes.

>>> import numpy as np
>>> bounds = np.array([1.0, 2.0, 4.0])
>>> steps = step_table(bounds, 1.0, 2.0)
>>> [rank_of(bounds, steps, 1.0, 2.0, point, True) for point in (0.5, 2.0, 9.0)]
[0, 2, 3]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shoal.matching.kernels import kernel

# Steps of the table that shortens the search for a rank; 4 bytes each, twice per dimension.
STEPS = 65_536

# Dimensions that cut the grid; the others are only tested.
CUT_DIMENSIONS = 4


@kernel
def step_of(value: float, origin: float, scale: float) -> int:
    """The step of a value: never falls as the value rises, whatever the rounding."""
    position = (value - origin) * scale
    if position >= STEPS - 1:
        return STEPS - 1
    if position > 0.0:
        return int(position)
    return 0


@kernel
def step_table(
    bounds: npt.NDArray[np.float64], origin: float, scale: float
) -> npt.NDArray[np.int32]:
    """Where each step begins among ascending bounds; STEPS + 1 places."""
    table = np.empty(STEPS + 1, np.int32)
    place = 0
    for step in range(STEPS):
        while place < bounds.size and step_of(bounds[place], origin, scale) < step:
            place += 1
        table[step] = place
    table[STEPS] = bounds.size
    return table


@kernel
def rank_of(
    bounds: npt.NDArray[np.float64],
    steps: npt.NDArray[np.int32],
    origin: float,
    scale: float,
    value: float,
    with_equal: bool,
) -> int:
    """How many of the ascending bounds are below the value (or equal to it, if asked)."""
    step = step_of(value, origin, scale)
    low: int = steps[step]
    high: int = steps[step + 1]
    while low < high:
        middle = (low + high) >> 1
        if bounds[middle] < value or (with_equal and bounds[middle] == value):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def locate(
    down: npt.NDArray[np.float64],
    up: npt.NDArray[np.float64],
    lows: npt.NDArray[np.float64],
    highs: npt.NDArray[np.float64],
    low_steps: npt.NDArray[np.int32],
    high_steps: npt.NDArray[np.int32],
    origin: float,
    scale: float,
    edges: npt.NDArray[np.float64],
    passed_lows: npt.NDArray[np.uint16],
    failed_highs: npt.NDArray[np.uint16],
    cells: npt.NDArray[np.int32],
) -> None:
    """One dimension's ranks of all points; `cells` takes the dimension in as its next digit.

    A point that lacks the attribute (NaN) falls out of the grid: its cell becomes negative.
    """
    for point in range(down.size):
        value = down[point]
        if np.isnan(value):
            cells[point] = -(2**30)
            continue
        passed_lows[point] = rank_of(lows, low_steps, origin, scale, value, True)
        failed_highs[point] = rank_of(highs, high_steps, origin, scale, up[point], False)
        digit = 0
        for edge in edges:
            digit += edge <= value
        if cells[point] >= 0:
            cells[point] = cells[point] * (edges.size + 1) + digit


@kernel
def count_cells(
    first: npt.NDArray[np.int32],
    last: npt.NDArray[np.int32],
    shape: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> None:
    """How many boxes touch each cell; boxes span cells `first` to `last` in 4 dimensions."""
    for box in range(first.shape[0]):
        for i in range(first[box, 0], last[box, 0] + 1):
            for j in range(first[box, 1], last[box, 1] + 1):
                for k in range(first[box, 2], last[box, 2] + 1):
                    base = ((i * shape[1] + j) * shape[2] + k) * shape[3]
                    for cell in range(base + first[box, 3], base + last[box, 3] + 1):
                        counts[cell] += 1


@kernel
def fill_cells(
    first: npt.NDArray[np.int32],
    last: npt.NDArray[np.int32],
    shape: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    ranks: npt.NDArray[np.uint16],
    members: npt.NDArray[np.uint16],
    bounds: npt.NDArray[np.uint16],
) -> None:
    """Copy every box into the cells it touches; `ranks` is (boxes, 2 x dimensions).

    A cell's bounds are one block of `bounds`: the low ranks of its boxes in the first dimension,
    their high ranks, then the next dimension's.
    """
    width = ranks.shape[1]
    cursor = starts[:-1].copy()
    for box in range(first.shape[0]):
        for i in range(first[box, 0], last[box, 0] + 1):
            for j in range(first[box, 1], last[box, 1] + 1):
                for k in range(first[box, 2], last[box, 2] + 1):
                    base = ((i * shape[1] + j) * shape[2] + k) * shape[3]
                    for cell in range(base + first[box, 3], base + last[box, 3] + 1):
                        at = cursor[cell]
                        cursor[cell] += 1
                        members[at] = box
                        size = starts[cell + 1] - starts[cell]
                        place = starts[cell] * width + at - starts[cell]
                        for column in range(width):
                            bounds[place] = ranks[box, column]
                            place += size


@kernel
def match_grid(
    order: npt.NDArray[np.int64],
    cells: npt.NDArray[np.int32],
    passed_lows: npt.NDArray[np.uint16],
    failed_highs: npt.NDArray[np.uint16],
    starts: npt.NDArray[np.int64],
    members: npt.NDArray[np.uint16],
    bounds: npt.NDArray[np.uint16],
    begins: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    found: npt.NDArray[np.int32],
    at: int,
    done: int,
) -> tuple[int, int]:
    """The boxes of the points `order[done:]`, cell by cell; `passed_lows` is (dimensions, points).

    Stops before a point whose boxes might not fit in `found`, and returns how many points of the
    order are done and how much of `found` is used.
    """
    dimensions = passed_lows.shape[0]
    passed = np.empty(2**16, np.bool_)
    for place in range(done, order.size):
        point = order[place]
        cell = cells[point]
        begins[point] = at
        if cell < 0:
            continue
        start = starts[cell]
        size = starts[cell + 1] - start
        if at + size > found.size:
            return place, at
        base = start * 2 * dimensions
        for dimension in range(dimensions):
            lows = bounds[base : base + size]
            highs = bounds[base + size : base + 2 * size]
            base += 2 * size
            low_rank = passed_lows[dimension, point]
            high_rank = failed_highs[dimension, point]
            if dimension == 0:
                for box in range(size):
                    passed[box] = (lows[box] < low_rank) & (highs[box] >= high_rank)
            else:
                for box in range(size):
                    passed[box] &= (lows[box] < low_rank) & (highs[box] >= high_rank)
        for box in range(size):
            found[at] = members[start + box]
            at += passed[box]
        counts[point] = at - begins[point]
    return order.size, at
