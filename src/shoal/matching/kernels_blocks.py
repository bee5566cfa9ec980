"""Compiled loops over blocks of boxes: which of any number of boxes hold each point.

Boxes that lie close together share a block of 64, and 64 blocks a group.  A point that misses
what a block's boxes span together skips the block; a point inside all of them takes the block
without a test; only the others are tested box by box, 16 or more per instruction.  For that,
bounds are coded in 16 bits; a box that codes cannot decide is looked at in full.

>>> import numpy as np
>>> low, high = np.array([[0.0] * 64 + [5.0] * 64]), np.array([[1.0] * 64 + [9.0] * 64])
>>> span_blocks(low, high, 64)[0].tolist()
[[0.0, 5.0]]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shoal.matching.kernels import kernel
from shoal.matching.kernels_grid import rank_of

BLOCK = 64

# The edges that codes count, per side of a dimension; NOTHING is a code beyond them.
EDGES_MAXIMUM = 2**16 - 3
NOTHING = 2**16 - 1

_Bounds = npt.NDArray[np.float64]  # (dimensions, boxes)
_Spans = tuple[_Bounds, _Bounds, _Bounds, _Bounds]
_Codes = npt.NDArray[np.uint16]  # (dimensions, boxes)
_Packed = npt.NDArray[np.uint16]  # (blocks, 2 x dimensions, BLOCK)


@kernel
def span_blocks(low: _Bounds, high: _Bounds, block: int) -> _Spans:
    """What runs of `block` boxes span: lowest low, highest high, highest low, lowest high."""
    dimensions, boxes = low.shape
    shape = (dimensions, (boxes + block - 1) // block)
    lowest = np.full(shape, np.inf)
    highest = np.full(shape, -np.inf)
    inner_low = np.full(shape, -np.inf)
    inner_high = np.full(shape, np.inf)
    for dimension in range(dimensions):
        for box in range(boxes):
            at = box // block
            lowest[dimension, at] = min(lowest[dimension, at], low[dimension, box])
            highest[dimension, at] = max(highest[dimension, at], high[dimension, box])
            inner_low[dimension, at] = max(inner_low[dimension, at], low[dimension, box])
            inner_high[dimension, at] = min(inner_high[dimension, at], high[dimension, box])
    return lowest, highest, inner_low, inner_high


@kernel
def code_points(
    values: npt.NDArray[np.float64],
    edges: npt.NDArray[np.float64],
    steps: npt.NDArray[np.int32],
    origin: float,
    scale: float,
    with_equal: bool,
    codes: npt.NDArray[np.uint16],
) -> None:
    """How many edges are below each value, or equal to it if asked; NaN is left as it is."""
    for place in range(values.size):
        if not np.isnan(values[place]):
            codes[place] = rank_of(edges, steps, origin, scale, values[place], with_equal)


@kernel
def pack_blocks(low: _Codes, high: _Codes) -> _Packed:
    """Codes as (blocks, 2 x dimensions, BLOCK), each block in one place; padding holds nothing."""
    dimensions, boxes = low.shape
    packed = np.empty(((boxes + BLOCK - 1) // BLOCK, 2 * dimensions, BLOCK), np.uint16)
    packed[:, :dimensions] = NOTHING
    packed[:, dimensions:] = 0
    for dimension in range(dimensions):
        for box in range(boxes):
            packed[box // BLOCK, dimension, box % BLOCK] = low[dimension, box]
            packed[box // BLOCK, dimensions + dimension, box % BLOCK] = high[dimension, box]
    return packed


@kernel
def _test(
    codes: _Codes,
    above: npt.NDArray[np.uint16],
    least: npt.NDArray[np.uint16],
    passed: npt.NDArray[np.bool_],
) -> None:
    """Which boxes of a block have all low codes below `above` and high codes from `least` on."""
    dimensions = above.size
    for dimension in range(dimensions):
        lows = codes[dimension]
        highs = codes[dimensions + dimension]
        top = above[dimension]
        bottom = least[dimension]
        if dimension == 0:
            for box in range(BLOCK):
                passed[box] = (lows[box] < top) & (highs[box] >= bottom)
        else:
            for box in range(BLOCK):
                passed[box] &= (lows[box] < top) & (highs[box] >= bottom)


@kernel
def _holds(
    bounds: npt.NDArray[np.float64],
    box: int,
    down: npt.NDArray[np.float64],
    up: npt.NDArray[np.float64],
) -> bool:
    """The exact test of one box: `bounds` is (boxes, 2 x dimensions)."""
    for dimension in range(down.size):
        if bounds[box, dimension] > down[dimension]:
            return False
        if bounds[box, down.size + dimension] < up[dimension]:
            return False
    return True


@kernel
def match_blocks(
    order: npt.NDArray[np.int64],
    down: npt.NDArray[np.float64],
    up: npt.NDArray[np.float64],
    above: npt.NDArray[np.uint16],
    least: npt.NDArray[np.uint16],
    slack: npt.NDArray[np.uint16],
    bounds: npt.NDArray[np.float64],
    packed: _Packed,
    packed_blocks: _Packed,
    packed_groups: _Packed,
    inner: npt.NDArray[np.float64],
    begins: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    found: npt.NDArray[np.int32],
    at: int,
    done: int,
) -> tuple[int, int]:
    """The boxes of the points `order[done:]`; points are (points, dimensions).

    `packed` has the boxes' codes, `packed_blocks` what each block spans, `packed_groups` what 64
    blocks span; a point with its low code below `above` and its high code from `least` on may be
    held, and is held if `slack` more on either side (0, or 1 where codes are coarser than bounds)
    changes nothing; else `bounds` decide.  `inner` has, like `bounds`, what all boxes of a block
    share.  Stops before a point whose boxes do not fit in `found`, and returns how many points of
    the order are done and how much of `found` is used.
    """
    boxes = bounds.shape[0]
    in_group = np.empty(BLOCK, np.bool_)
    in_block = np.empty(BLOCK, np.bool_)
    passed = np.empty(BLOCK, np.bool_)
    surely = np.empty(BLOCK, np.bool_)
    is_coarse = slack.any()
    sure_above = np.empty(slack.size // 2, np.uint16)
    sure_least = np.empty(slack.size // 2, np.uint16)
    for place in range(done, order.size):
        point = order[place]
        begins[point] = at
        for dimension in range(sure_above.size):
            sure_above[dimension] = (
                max(above[point, dimension], slack[dimension]) - slack[dimension]
            )
            sure_least[dimension] = least[point, dimension]
            if sure_least[dimension] < NOTHING:
                sure_least[dimension] += slack[sure_above.size + dimension]
        for run in range(packed_groups.shape[0]):
            _test(packed_groups[run], above[point], least[point], in_group)
            for group in range(run * BLOCK, run * BLOCK + BLOCK):
                if not in_group[group % BLOCK]:
                    continue
                _test(packed_blocks[group], above[point], least[point], in_block)
                for block in range(group * BLOCK, group * BLOCK + BLOCK):
                    if not in_block[block % BLOCK]:
                        continue
                    begin = block * BLOCK
                    if at + BLOCK > found.size:
                        return place, begins[point]
                    if _holds(inner, block, down[point], up[point]):
                        size = min(BLOCK, boxes - begin)
                        for box in range(size):
                            found[at + box] = begin + box
                        at += size
                        continue
                    _test(packed[block], above[point], least[point], passed)
                    if is_coarse:
                        _test(packed[block], sure_above, sure_least, surely)
                        unsure = 0
                        for box in range(BLOCK):
                            unsure += passed[box] ^ surely[box]
                        if unsure:
                            for box in range(BLOCK):
                                if passed[box] and not surely[box]:
                                    passed[box] = _holds(
                                        bounds, begin + box, down[point], up[point]
                                    )
                    for box in range(BLOCK):
                        found[at] = begin + box
                        at += passed[box]
        counts[point] = at - begins[point]
    return order.size, at
