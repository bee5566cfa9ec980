"""Compiled loops of a tree of boxes: which of any number of boxes hold each point.

A box is a closed interval per dimension. 32 boxes that lie close together share a node, 32 nodes a
node above them, up to one root; a node has the span of each of its 32 children, so that a few
vector instructions test all of them in a dimension. Bounds are numbered in 16 bits, in their order:
exactly while a dimension has few enough of them, or evenly, by steps of one length; where numbers
cannot decide, a box is looked at in full.

>>> import numpy as np
>>> edges = np.array([1.0, 2.0, 4.0])
>>> codes = np.zeros((4, 1), np.uint16)
>>> code_points(np.array([0.5, 2.0, 9.0, np.nan]), padded(edges), step_table(edges, 1.0, 2.0),
...             1.0, 2.0, codes, 0)
>>> codes.tolist()
[[0], [1], [3], [0]]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shoal.matching.compiled.kernels import plain
from shoal.matching.compiled.kernels.compiler import COMPILES, kernel, kernel_or
from shoal.matching.compiled.kernels.lanes import LANES, PUT_MARGIN, Lanes

if COMPILES:
    from shoal.matching.compiled.kernels.vectors import (
        lanes_within,
        lanes_within_or_next,
        put_lanes,
    )

# Steps of the table that shortens the search for a code; 2 bytes each, twice per dimension.
STEPS = 65_536

# The edges that codes count, per side of a dimension; NOTHING is a code beyond them.
EDGES_MAXIMUM = 2**16 - 3
NOTHING = 2**16 - 1

# Even codes: of no bound below, of the first step, and of no bound above.
OPEN_BELOW, FIRST_STEP = 0, 1
EVEN_STEPS = 2**16 - 4
OPEN_ABOVE = FIRST_STEP + EVEN_STEPS

# Edges that are compared at once, whether needed or not: cheaper than a branch that is guessed.
_RUN = 4

_Doubles = npt.NDArray[np.float64]
_Numbers = npt.NDArray[np.int64]
_Codes = npt.NDArray[np.uint16]
_Members = npt.NDArray[np.uint32]


def padded(edges: _Doubles) -> _Doubles:
    """Ascending edges as `code_points` wants them, which may look at some behind the last."""
    return np.append(edges, [np.nan] * _RUN)


def _code_bounds_evenly(
    values: _Doubles, origin: float, scale: float, opened: int, codes: _Codes, column: int
) -> None:
    """`code_bounds_evenly` with NumPy."""
    is_open = values == (-np.inf if opened == OPEN_BELOW else np.inf)
    steps = plain.even_codes(values, origin, scale, FIRST_STEP, EVEN_STEPS)
    codes[:, column] = np.where(is_open, opened, steps)


def _code_evenly(
    down: _Doubles,
    up: _Doubles,
    origins: _Doubles,
    scales: _Doubles,
    most: _Codes,
    least: _Codes,
    downs: _Doubles,
    ups: _Doubles,
) -> None:
    """`code_evenly` with NumPy."""
    downs[:], ups[:] = down.T, up.T
    most[:] = plain.even_codes(downs, origins, scales, FIRST_STEP, EVEN_STEPS) - 1
    above = plain.even_codes(ups, origins, scales, FIRST_STEP, EVEN_STEPS) + 1
    least[:] = np.where(np.isnan(downs), NOTHING, above)


@kernel
def _step_of(value: float, origin: float, scale: float) -> int:
    """The step of a value: never falls as the value rises, whatever the rounding."""
    position = (value - origin) * scale
    position = position if position > 0.0 else 0.0  # not so either where infinity met a scale of 0
    return int(position if position < STEPS - 1.0 else STEPS - 1.0)


@kernel_or(plain.step_table)
def step_table(edges: _Doubles, origin: float, scale: float) -> _Codes:
    """Return how many of the ascending edges are in steps before each step; STEPS places."""
    table = np.empty(STEPS, np.uint16)
    place = 0
    for step in range(STEPS):
        while place < edges.size and _step_of(edges[place], origin, scale) < step:
            place += 1
        table[step] = place
    return table


@kernel_or(plain.code_points)
def code_points(
    values: _Doubles,
    edges: _Doubles,
    steps: _Codes,
    origin: float,
    scale: float,
    codes: _Codes,
    column: int,
) -> None:
    """Number the values, into a column of `codes`: how many edges are below each.

    Codes of NaN keep their values. `edges` are `padded`; `steps` begin at `origin`, `scale` of them
    in a unit.
    """
    for place in range(values.size):
        value = values[place]
        if np.isnan(value):
            continue
        code = int(steps[_step_of(value, origin, scale)])
        run = _RUN
        while run == _RUN:
            run = 0
            for at in range(code, code + _RUN):
                run += edges[at] < value
            code += run
        codes[place, column] = code


@kernel
def even_code(value: float, origin: float, scale: float) -> int:
    """The step of a value, from FIRST_STEP on: never falls as the value rises; NaN is in it."""
    position = (value - origin) * scale
    position = position if position > 0.0 else 0.0
    last = EVEN_STEPS - 1.0
    return FIRST_STEP + int(position if position < last else last)


@kernel_or(_code_bounds_evenly)
def code_bounds_evenly(
    values: _Doubles, origin: float, scale: float, opened: int, codes: _Codes, column: int
) -> None:
    """Number a dimension's bounds on one side; `opened` is the code of those that bound nothing."""
    for place in range(values.size):
        is_open = values[place] == (-np.inf if opened == OPEN_BELOW else np.inf)
        codes[place, column] = opened if is_open else even_code(values[place], origin, scale)


@kernel_or(_code_evenly)
def code_evenly(
    down: _Doubles,
    up: _Doubles,
    origins: _Doubles,
    scales: _Doubles,
    most: _Codes,
    least: _Codes,
    downs: _Doubles,
    ups: _Doubles,
) -> None:
    """Number points, given as (dimensions, points), and turn them round: all else is the other way.

    The codes are those that low bounds may have at most, less 1, and high bounds at least, and 1:
    bounds of the very code are looked at. No box has the code of NaN.
    """
    for place in range(down.shape[1]):
        for column in range(down.shape[0]):
            lower, upper = down[column, place], up[column, place]
            downs[place, column], ups[place, column] = lower, upper
            above = even_code(upper, origins[column], scales[column]) + 1
            most[place, column] = even_code(lower, origins[column], scales[column]) - 1
            least[place, column] = NOTHING if np.isnan(lower) else above


@kernel
def _surely(
    bounds: _Doubles, maybe: Lanes, surely: Lanes, first: int, down: _Doubles, up: _Doubles
) -> Lanes:
    """The sure boxes, and of those that only may hold the point those that do."""
    doubtful = maybe & ~surely
    for lane in range(LANES):
        if doubtful >> Lanes(lane) & Lanes(1):
            holds = True
            for dimension in range(down.size):
                holds &= bounds[first + lane, dimension] <= down[dimension]
                holds &= bounds[first + lane, down.size + dimension] >= up[dimension]
            surely |= Lanes(holds) << Lanes(lane)
    return surely


@kernel_or(plain.match_boxes)
def match_boxes(
    order: _Numbers,
    most: _Codes,
    least: _Codes,
    down: _Doubles,
    up: _Doubles,
    slack: _Codes,
    bounds: _Doubles,
    nodes: _Codes,
    levels: _Numbers,
    is_even: bool,
    begins: _Numbers,
    counts: _Numbers,
    found: _Members,
    at: int,
    done: int,
) -> tuple[int, int]:
    """The boxes of the points `order[done:]`; points are (points, dimensions).

    `nodes` is flat: per node and dimension LANES low codes, then LANES high codes; `levels` has the
    number of the first node of each level, boxes first, and ends with the root's. A point may be in
    boxes with low codes up to `most` and high codes from `least` on, and is in one if `slack` more
    on either side (0, or 1 where codes are coarser than bounds) changes nothing; else `bounds`,
    (boxes, 2 x dimensions), decide. With even codes `most` and `least` are those of boxes that
    certainly hold the point, and of others 1 more and less. Stops before a point with boxes that
    might not fit in `found`, and returns how many points of the order are done and how much of
    `found` is used.
    """
    dimensions = most.shape[1]
    size = 2 * dimensions * LANES
    is_coarse = slack.any()
    every = Lanes(2**LANES - 1)
    sure_most, sure_least = np.empty_like(most[0]), np.empty_like(least[0])
    room = levels[1] + PUT_MARGIN if levels.size > 1 else 1
    here, below = np.zeros(room, np.uint32), np.zeros(room, np.uint32)
    for place in range(done, order.size):
        point = order[place]
        begins[point] = at
        here[0] = 0
        count = 1
        for level in range(levels.size - 1, 0, -1):
            first = levels[level]
            children = 0
            for number in here[:count]:
                start = (first + number) * size
                if is_even:
                    lanes = lanes_within_or_next(nodes, start, most[point], least[point]) & every
                else:
                    lanes = lanes_within(nodes, start, most[point], least[point])
                children = put_lanes(lanes, number * LANES, below, children)
            here, below = below, here
            count = children
        if at + count * LANES + PUT_MARGIN > found.size:
            return place, at
        if is_coarse:
            for dimension in range(dimensions):
                sure_most[dimension] = most[point, dimension] - slack[dimension]
                sure_least[dimension] = least[point, dimension] + slack[dimensions + dimension]
                if most[point, dimension] < slack[dimension]:
                    sure_most[dimension], sure_least[dimension] = 0, NOTHING
        for number in here[:count]:
            start = number * size
            if is_even:
                both = lanes_within_or_next(nodes, start, most[point], least[point])
                lanes, surely = both & every, both >> Lanes(LANES)
            else:
                surely = lanes = lanes_within(nodes, start, most[point], least[point])
                if is_coarse and lanes:
                    surely = lanes_within(nodes, start, sure_most, sure_least)
            if surely != lanes:
                lanes = _surely(bounds, lanes, surely, number * LANES, down[point], up[point])
            at = put_lanes(lanes, number * LANES, found, at)
        counts[point] = at - begins[point]
    return order.size, at
