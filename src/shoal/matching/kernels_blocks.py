"""Compiled loops over blocks of boxes: which of any number of boxes hold each point.

Boxes that lie close together share a block of 64, and 64 blocks a group.  A point that misses
what a block's boxes span together skips the block; a point inside all of them takes the block
without a test; only the others are tested box by box, eight or so per instruction.  Nothing is
stored twice, so a block index costs little more than the bounds themselves.

>>> import numpy as np
>>> low, high = np.array([[0.0] * 64 + [5.0] * 64]), np.array([[1.0] * 64 + [9.0] * 64])
>>> span_blocks(low, high, 64)[0].tolist()
[[0.0, 5.0]]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shoal.matching.kernels import kernel

BLOCK = 64

_Bounds = npt.NDArray[np.float64]  # (dimensions, boxes)
_Spans = tuple[_Bounds, _Bounds, _Bounds, _Bounds]
_Packed = npt.NDArray[np.float64]  # (blocks, 2 x dimensions, BLOCK)


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
def pack_blocks(low: _Bounds, high: _Bounds) -> _Packed:
    """Bounds as (blocks, 2 x dimensions, BLOCK), each block in one place; padding holds nothing."""
    dimensions, boxes = low.shape
    packed = np.empty(((boxes + BLOCK - 1) // BLOCK, 2 * dimensions, BLOCK))
    packed[:, :dimensions] = np.inf
    packed[:, dimensions:] = -np.inf
    for dimension in range(dimensions):
        for box in range(boxes):
            packed[box // BLOCK, dimension, box % BLOCK] = low[dimension, box]
            packed[box // BLOCK, dimensions + dimension, box % BLOCK] = high[dimension, box]
    return packed


@kernel
def _test(
    bounds: _Bounds,
    down: npt.NDArray[np.float64],
    up: npt.NDArray[np.float64],
    passed: npt.NDArray[np.bool_],
) -> None:
    """Which boxes of a block hold the point."""
    dimensions = down.size
    passed[:] = True
    for dimension in range(dimensions):
        lows = bounds[dimension]
        highs = bounds[dimensions + dimension]
        value_down = down[dimension]
        value_up = up[dimension]
        for box in range(BLOCK):
            passed[box] &= (lows[box] <= value_down) & (highs[box] >= value_up)


@kernel
def _is_inside(
    inner_low: _Bounds,
    inner_high: _Bounds,
    block: int,
    down: npt.NDArray[np.float64],
    up: npt.NDArray[np.float64],
) -> bool:
    for dimension in range(inner_low.shape[0]):
        if inner_low[dimension, block] > down[dimension]:
            return False
        if inner_high[dimension, block] < up[dimension]:
            return False
    return True


@kernel
def match_blocks(
    order: npt.NDArray[np.int64],
    down: npt.NDArray[np.float64],
    up: npt.NDArray[np.float64],
    boxes: int,
    packed: _Packed,
    packed_blocks: _Packed,
    packed_groups: _Packed,
    inner_low: _Bounds,
    inner_high: _Bounds,
    begins: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    found: npt.NDArray[np.int32],
    at: int,
    done: int,
) -> tuple[int, int]:
    """The boxes of the points `order[done:]`; `down` and `up` are (points, dimensions).

    `packed` has the boxes, `packed_blocks` what each block spans, `packed_groups` what 64 blocks
    span.  Stops before a point whose boxes do not fit in `found`, and returns how many points of
    the order are done and how much of `found` is used.
    """
    in_group = np.empty(BLOCK, np.bool_)
    in_block = np.empty(BLOCK, np.bool_)
    passed = np.empty(BLOCK, np.bool_)
    for place in range(done, order.size):
        point = order[place]
        begins[point] = at
        for run in range(packed_groups.shape[0]):
            _test(packed_groups[run], down[point], up[point], in_group)
            for group in range(run * BLOCK, run * BLOCK + BLOCK):
                if not in_group[group % BLOCK]:
                    continue
                _test(packed_blocks[group], down[point], up[point], in_block)
                for block in range(group * BLOCK, group * BLOCK + BLOCK):
                    if not in_block[block % BLOCK]:
                        continue
                    begin = block * BLOCK
                    if at + BLOCK > found.size:
                        return place, begins[point]
                    if _is_inside(inner_low, inner_high, block, down[point], up[point]):
                        size = min(BLOCK, boxes - begin)
                        for box in range(size):
                            found[at + box] = begin + box
                        at += size
                        continue
                    _test(packed[block], down[point], up[point], passed)
                    for box in range(BLOCK):
                        found[at] = begin + box
                        at += passed[box]
        counts[point] = at - begins[point]
    return order.size, at
