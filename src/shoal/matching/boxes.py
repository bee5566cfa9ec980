"""Boxes: conjunctions of closed ranges over the same attributes, compiled.

Few enough boxes become a grid, which is fastest and stores each of them in every cell it touches;
more become blocks, which store each once.

>>> import numpy as np
>>> from shoal.matching.columns import Batch
>>> part = box_part(["a"], np.array([[1.0], [5.0]]), np.array([[6.0], [np.inf]]), np.arange(2))
>>> found = part.match(Batch.of_columns({"a": np.array([3.0, 5.5])}), 0, 2, {})
>>> found.counts.tolist(), part.rows[found.members[found.begins[1] :][:2]].tolist()
([1, 2], [0, 1])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from shoal.matching.columns import Batch, Doubles
from shoal.matching.kernels_blocks import (
    BLOCK,
    EDGES_MAXIMUM,
    NOTHING,
    code_points,
    match_blocks,
    pack_blocks,
    span_blocks,
)
from shoal.matching.kernels_grid import (
    CUT_DIMENSIONS,
    STEPS,
    count_cells,
    fill_cells,
    locate,
    match_grid,
    step_table,
)
from shoal.matching.part import Found, Kept, Numbers, Part, Rooms, run_kernel

# A grid numbers its boxes and their bounds with 16 bits.
GRID_MAXIMUM = 2**16 - 1

# How often a grid may store a box, on average: 18 bytes each for 4 dimensions.
GRID_COPIES = 64

# Cells per dimension of a grid: more make shorter lists and more copies.
GRID_CELLS = (12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)

# Cells per dimension for putting boxes and points that are close together side by side.
CLOSE_CELLS = 32


# One dimension's distinct low and high bounds, ascending, and what shortens a search in them.
_Steps = npt.NDArray[np.int32]
_Codes = npt.NDArray[np.uint16]
_Scale = tuple[Doubles, Doubles, _Steps, _Steps, float, float]


class BoxGrid:
    """At most GRID_MAXIMUM boxes over the same attributes; see `kernels_grid`."""

    def __init__(self, attributes: Sequence[str], low: Doubles, high: Doubles, rows: Numbers):
        self.rows = rows
        self._attributes = tuple(attributes)
        size, dimensions = low.shape
        ranks = np.empty((size, 2 * dimensions), np.uint16)
        self._scales: list[_Scale] = []
        for at in range(dimensions):
            lows, ranks[:, 2 * at] = np.unique(low[:, at], return_inverse=True)
            highs, ranks[:, 2 * at + 1] = np.unique(high[:, at], return_inverse=True)
            origin, scale = _scale(lows, highs)
            low_steps = step_table(lows, origin, scale)
            self._scales.append(
                (lows, highs, low_steps, step_table(highs, origin, scale), origin, scale)
            )
        self._ranks = ranks
        self._fill(low, high)

    def _fill(self, low: Doubles, high: Doubles) -> None:
        size, dimensions = low.shape
        cut = min(dimensions, CUT_DIMENSIONS)
        for cells in GRID_CELLS:
            edges = [_edges(low[:, at], high[:, at], cells) for at in range(cut)]
            first, last = (np.zeros((size, CUT_DIMENSIONS), np.int32) for _ in range(2))
            for at in range(cut):
                first[:, at] = np.searchsorted(edges[at], low[:, at], side="right")
                last[:, at] = np.searchsorted(edges[at], high[:, at], side="right")
            spans = np.maximum(last - first + 1, 0).astype(np.float64)
            if spans.prod(axis=1).sum() <= GRID_COPIES * size:
                break
        self._edges = [*edges, *([np.empty(0)] * (dimensions - cut))]
        shape = np.ones(CUT_DIMENSIONS, np.int64)
        shape[:cut] = [each.size + 1 for each in edges]
        counts = np.zeros(int(shape.prod()), np.int64)
        count_cells(first, last, shape, counts)
        self._starts = np.concatenate(([0], np.cumsum(counts)))
        copies = int(self._starts[-1])
        self._members = np.empty(copies, np.uint16)
        self._bounds = np.empty(copies * 2 * dimensions, np.uint16)
        fill_cells(first, last, shape, self._starts, self._ranks, self._members, self._bounds)

    def match(self, batch: Batch, begin: int, end: int, rooms: Rooms) -> Found:
        size = end - begin
        lows, highs = (np.empty((len(self._attributes), size), np.uint16) for _ in range(2))
        cells = np.zeros(size, np.int32)
        for at, attribute in enumerate(self._attributes):
            down, up = (each[begin:end] for each in batch.numbers(attribute))
            locate(down, up, *self._scales[at], self._edges[at], lows[at], highs[at], cells)
        order = np.argsort(cells, kind="stable")
        return run_kernel(
            self,
            rooms,
            order,
            lambda *found: match_grid(
                order, cells, lows, highs, self._starts, self._members, self._bounds, *found
            ),
        )

    def restricted(self, kept: Kept) -> Part:
        dimensions = len(self._attributes)
        low = np.column_stack(
            [self._scales[at][0][self._ranks[kept, 2 * at]] for at in range(dimensions)]
        )
        high = np.column_stack(
            [self._scales[at][1][self._ranks[kept, 2 * at + 1]] for at in range(dimensions)]
        )
        return BoxGrid(self._attributes, low, high, self.rows[kept])


class BoxBlocks:
    """Any number of boxes over the same attributes; see `kernels_blocks`."""

    def __init__(self, attributes: Sequence[str], low: Doubles, high: Doubles, rows: Numbers):
        self._attributes = tuple(attributes)
        cut = min(len(attributes), CUT_DIMENSIONS)
        self._edges = [_edges(low[:, at], high[:, at], CLOSE_CELLS) for at in range(cut)]
        finite = [_middles(low[:, at], high[:, at]) for at in range(cut)]
        order = np.argsort(_closeness(finite, self._edges), kind="stable")
        self.rows = rows[order]
        low, high = low[order], high[order]
        self._bounds = np.column_stack((low, high))
        self._low_codes = [_Coding(column, True) for column in low.T]
        self._high_codes = [_Coding(column, False) for column in high.T]
        self._slack = np.array(
            [not coding.is_exact for coding in (*self._low_codes, *self._high_codes)], np.uint16
        )
        *_, inner_low, inner_high = span_blocks(
            np.ascontiguousarray(low.T), np.ascontiguousarray(high.T), BLOCK
        )
        self._inner = np.ascontiguousarray(np.concatenate((inner_low, inner_high)).T)
        below = np.array([each.of(low[:, at]) for at, each in enumerate(self._low_codes)])
        above = np.array([each.of(high[:, at]) for at, each in enumerate(self._high_codes)])
        block_spans = _spans(below, above)
        group_spans = _spans(*block_spans)
        self._packed = pack_blocks(below, above)
        self._packed_blocks = pack_blocks(*block_spans)
        self._packed_groups = pack_blocks(*group_spans)

    def match(self, batch: Batch, begin: int, end: int, rooms: Rooms) -> Found:
        pairs = [batch.numbers(attribute) for attribute in self._attributes]
        down = np.column_stack([low[begin:end] for low, _ in pairs])
        up = np.column_stack([high[begin:end] for _, high in pairs])
        above = np.column_stack(
            [each.of(down[:, at]) + np.uint16(1) for at, each in enumerate(self._low_codes)]
        )
        least = np.column_stack([each.of(up[:, at]) for at, each in enumerate(self._high_codes)])
        above[np.isnan(down)] = 0
        columns = [down[:, at] for at in range(len(self._edges))]
        order = np.argsort(_closeness(columns, self._edges), kind="stable")
        packed = (self._packed, self._packed_blocks, self._packed_groups)
        given = (order, down, up, above, least, self._slack, self._bounds)
        return run_kernel(
            self,
            rooms,
            order,
            lambda *found: match_blocks(*given, *packed, self._inner, *found),
        )

    def restricted(self, kept: Kept) -> Part:
        low, high = np.split(self._bounds[kept], 2, axis=1)
        return box_part(self._attributes, low, high, self.rows[kept])


def _spans(below: _Codes, above: _Codes) -> tuple[_Codes, _Codes]:
    """The least and the greatest codes of each run of BLOCK."""
    starts = np.arange(0, below.shape[1], BLOCK)
    return (
        np.minimum.reduceat(below, starts, axis=1),
        np.maximum.reduceat(above, starts, axis=1),
    )


class _Coding:
    """Doubles as 16-bit codes: how many edges are below a double (or equal to it, for low bounds).

    Exact when every bound is an edge; else equal codes leave open which value is greater.
    """

    def __init__(self, bounds: Doubles, with_equal: bool) -> None:
        distinct = np.unique(bounds)
        self.is_exact = len(distinct) <= EDGES_MAXIMUM
        if not self.is_exact:
            distinct = distinct[np.arange(EDGES_MAXIMUM) * len(distinct) // EDGES_MAXIMUM]
        self._edges = distinct
        self._with_equal = with_equal
        self._origin, self._scale = _scale(distinct, distinct)
        self._steps = step_table(distinct, self._origin, self._scale)

    def of(self, values: Doubles) -> npt.NDArray[np.uint16]:
        codes = np.full(len(values), NOTHING, np.uint16)
        values = np.ascontiguousarray(values)
        edges = (self._edges, self._steps, self._origin, self._scale)
        code_points(values, *edges, self._with_equal, codes)
        return codes


def box_part(attributes: Sequence[str], low: Doubles, high: Doubles, rows: Numbers) -> Part:
    """Boxes, (rows, attributes), in a grid if they are few enough for one."""
    kind = BoxGrid if len(rows) <= GRID_MAXIMUM else BoxBlocks
    return kind(attributes, low, high, rows)


def _scale(lows: Doubles, highs: Doubles) -> tuple[float, float]:
    """Where the steps of a search begin, and steps per unit."""
    both = np.concatenate((lows, highs))
    both = both[np.isfinite(both)]
    if not both.size:
        return 0.0, 0.0
    origin = float(both.min())
    width = float(both.max()) - origin
    scale = STEPS / width if width > 0 else 0.0
    return origin, scale if np.isfinite(scale) and np.isfinite(width) else 0.0


def _edges(low: Doubles, high: Doubles, cells: int) -> Doubles:
    """At most cells - 1 ascending cuts.

    Half by count and half by width: nobody knows whether publications come where filters are
    dense, or evenly.
    """
    both = np.concatenate((low, high))
    both = both[np.isfinite(both)]
    if cells < 2 or not both.size:
        return np.empty(0)
    both = np.sort(both)[:: max(1, both.size // 4096)]
    share = np.arange(both.size) / both.size
    if both[-1] > both[0] and np.isfinite(both[-1] - both[0]):
        share = (share + (both - both[0]) / (both[-1] - both[0])) / 2
    return np.unique(
        both[np.searchsorted(share, np.arange(1, cells) / cells).clip(0, both.size - 1)]
    )


def _middles(low: Doubles, high: Doubles) -> Doubles:
    """A finite place of each interval: its middle, or its finite end."""
    below = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))
    above = np.where(np.isfinite(high), high, below)
    return below / 2 + above / 2


def _closeness(columns: Sequence[Doubles], edges: Sequence[Doubles]) -> Numbers:
    """A number per point, such that close numbers mean points close in every dimension."""
    number = np.zeros(len(columns[0]), np.int64)
    bits = CLOSE_CELLS.bit_length() - 1
    for at, (column, cuts) in enumerate(zip(columns, edges, strict=True)):
        cell = np.searchsorted(cuts, column, side="right")
        for bit in range(bits):
            number |= (cell >> bit & 1) << (bit * len(columns) + at)
    return number
