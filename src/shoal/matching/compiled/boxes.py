"""Boxes: conjunctions of closed ranges over the same attributes, compiled.

A tree with nodes of 32 children each, packed so that boxes that lie close together share a node
(sort-tile-recursive packing of an R-tree: Leutenegger, Edgington and Lopez, 1997); a point is
tested against a node's children at once. Values that all boxes demand are dimensions too, in which
a box is as thin as the value's code, and boxes that demand the same lie together.

>>> import numpy as np
>>> from shoal.matching.compiled.columns import ColumnBatch
>>> part = BoxTree(["a"], np.array([[1.0], [5.0]]), np.array([[6.0], [np.inf]]), np.arange(2))
>>> found = part.search(ColumnBatch.of_columns({"a": np.array([3.0, 5.5])}))(0, 2, {})
>>> found.counts.tolist(), part.rows[found.members[found.begins[1] :][:2]].tolist()
([1, 2], [0, 1])
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from shoal.matching.compiled.columns import ColumnBatch, Doubles, code_in, doubles_around
from shoal.matching.compiled.kernels.boxes import (
    EDGES_MAXIMUM,
    EVEN_STEPS,
    NOTHING,
    OPEN_ABOVE,
    OPEN_BELOW,
    STEPS,
    code_bounds_evenly,
    code_evenly,
    code_points,
    match_boxes,
    padded,
    step_table,
)
from shoal.matching.compiled.kernels.lanes import LANES
from shoal.matching.compiled.part import (
    CompiledMatches,
    CompiledRows,
    Members,
    Numbers,
    Rooms,
    Search,
    run_kernel,
)
from shoal.model import Attributes, Value

# Dimensions that decide which boxes are close; the others are only tested.
PACKED_DIMENSIONS = 4

# Beyond this many bytes a tree does not stay in a core's own cache, and points that are close
# together are matched one after the other.
CACHED_BYTES = 2**20

# Bits per dimension of a point's code that order nearby points together.
_CLOSE_BITS = 4

# Spread-out bounds may have even codes: fewer than this many bounds then share a step on average.
CROWD = 8

_Codes = npt.NDArray[np.uint16]
# Codes of low bounds that hold points at most, and of high bounds at least; their numbers, rounded.
_Points = tuple[_Codes, _Codes, Doubles, Doubles]


class BoxTree:
    """Any number of boxes over the same attributes; see `kernels.boxes`."""

    def __init__(
        self,
        attributes: Sequence[str],
        low: Doubles,
        high: Doubles,
        rows: Numbers,
        vocabularies: Sequence[Mapping[Value, int]] = (),
    ):
        """`low` and `high` are (boxes, attributes); `rows` says which row each box was.

        The first attributes are those that have `vocabularies`: their bounds are codes of values.
        """
        self._attributes = tuple(attributes)
        self._vocabularies = tuple(vocabularies)
        demanded = len(self._vocabularies)
        scales = None if demanded else _even_scales(low, high)
        self._codes = _EvenCodes(scales) if scales is not None else _RankCodes(low, high)
        below, above = self._codes.of_boxes(low, high)
        self._packed = demanded + _selective(low[:, demanded:], high[:, demanded:])
        middles = below[:, self._packed].astype(np.int64) + above[:, self._packed]
        order = _packing(low[:, :demanded], middles)
        self.rows = rows[order]
        self._bounds = np.hstack((low, high))[order]
        self._nodes, self._levels = _tree(below[order], above[order])

    def search(self, batch: ColumnBatch) -> Search:
        return self._search([self._numbers(batch, at) for at in range(len(self._attributes))])

    def find(self, attributes: Attributes) -> Members:
        pairs = []
        for at, name in enumerate(self._attributes):
            value = attributes.get(name)
            if at < len(self._vocabularies):
                value = code_in(self._vocabularies[at], value)
            down, up = doubles_around(value)
            pairs.append((np.array([down]), np.array([up])))
        found = self._search(pairs)(0, 1, {})
        return found.members[: found.counts[0]]

    def _search(self, pairs: Sequence[tuple[Doubles, Doubles]]) -> Search:
        """Of points with these numbers, rounded down and up, in each dimension."""
        points = self._codes.of_points(pairs)
        most = points[0]
        boxes = (self._codes.slack, self._bounds, self._nodes, self._levels, self._codes.is_even)

        def find(begin: int, end: int, rooms: Rooms) -> CompiledMatches:
            order = self._order(most[begin:end])
            given = (order, *(each[begin:end] for each in points), *boxes)
            return run_kernel(self, rooms, order, match_boxes, given)

        return find

    def _numbers(self, batch: ColumnBatch, at: int) -> tuple[Doubles, Doubles]:
        if at >= len(self._vocabularies):
            return batch.numbers(self._attributes[at])
        codes = batch.codes(self._attributes[at], self._vocabularies[at]).astype(np.float64)
        return codes, codes

    def _order(self, codes: _Codes) -> Numbers:
        """The points, close ones together if the tree is large."""
        if self._nodes.nbytes <= CACHED_BYTES:
            return np.arange(len(codes))
        close = np.zeros(len(codes), np.uint16)
        for at in (*range(len(self._vocabularies)), *self._packed)[:PACKED_DIMENSIONS]:
            share = (codes[:, at].astype(np.uint32) << _CLOSE_BITS) // (self._codes.limit(at) + 1)
            close = (close << _CLOSE_BITS | share).astype(np.uint16)
        return np.argsort(close, kind="stable")

    def as_rows(self) -> CompiledRows:
        low, high = np.split(self._bounds, 2, axis=1)
        demanded = len(self._vocabularies)
        return CompiledRows(
            len(self.rows),
            {
                name: low[:, at].astype(np.int32)
                for at, name in enumerate(self._attributes[:demanded])
            },
            {
                name: (low[:, at], high[:, at])
                for at, name in enumerate(self._attributes[demanded:], start=demanded)
            },
        )


class _RankCodes:
    """Codes that are ranks among the bounds; exact, or coarse where a dimension has too many."""

    is_even = False

    def __init__(self, low: Doubles, high: Doubles) -> None:
        self._lows = [_Coding(column, with_equal=True) for column in low.T]
        self._highs = [_Coding(column, with_equal=False) for column in high.T]
        codings = (*self._lows, *self._highs)
        self.slack = np.array([not coding.is_exact for coding in codings], np.uint16)

    def limit(self, at: int) -> int:
        """The highest code of a low bound in a dimension."""
        return self._lows[at].size

    def of_boxes(self, low: Doubles, high: Doubles) -> tuple[_Codes, _Codes]:
        below, above = np.empty(low.shape, np.uint16), np.empty(low.shape, np.uint16)
        for at in range(low.shape[1]):
            self._lows[at].write(low[:, at], below, at)
            self._highs[at].write(high[:, at], above, at)
        return below, above

    def of_points(self, pairs: Sequence[tuple[Doubles, Doubles]]) -> _Points:
        size = len(pairs[0][0])
        most = np.zeros((size, len(pairs)), np.uint16)
        least = np.full(most.shape, NOTHING, np.uint16)  # more than any box has
        for at, (down, up) in enumerate(pairs):
            self._lows[at].write(down, most, at)
            self._highs[at].write(up, least, at)
        downs = ups = np.empty((size, 0))
        if self.slack.any():
            downs = np.column_stack([down for down, _ in pairs])
            ups = np.column_stack([up for _, up in pairs])
        return most, least, downs, ups


class _EvenCodes:
    """Codes that are steps of one length: nothing has to be looked up, which small batches feel."""

    is_even = True

    def __init__(self, scales: Sequence[tuple[float, float]]) -> None:
        self._origins, self._scales = np.array(scales).T.copy()
        self.slack = np.zeros(2 * len(scales), np.uint16)

    def limit(self, at: int) -> int:
        """The highest code in a dimension."""
        return OPEN_ABOVE

    def of_boxes(self, low: Doubles, high: Doubles) -> tuple[_Codes, _Codes]:
        below, above = np.empty(low.shape, np.uint16), np.empty(low.shape, np.uint16)
        for at, scale in enumerate(zip(self._origins, self._scales, strict=True)):
            for opened, bounds, codes in ((OPEN_BELOW, low, below), (OPEN_ABOVE, high, above)):
                code_bounds_evenly(np.ascontiguousarray(bounds[:, at]), *scale, opened, codes, at)
        return below, above

    def of_points(self, pairs: Sequence[tuple[Doubles, Doubles]]) -> _Points:
        down = up = np.array([down for down, _ in pairs])
        if any(lower is not upper for lower, upper in pairs):
            up = np.array([up for _, up in pairs])
        shape = down.shape[::-1]
        most, least = np.empty(shape, np.uint16), np.empty(shape, np.uint16)
        downs, ups = np.empty(shape), np.empty(shape)
        code_evenly(down, up, self._origins, self._scales, most, least, downs, ups)
        return most, least, downs, ups


class _Coding:
    """Doubles as 16-bit codes: how many edges are below a double (or equal to it, for low bounds).

    Exact when every finite bound is an edge; else equal codes leave open which value is greater.
    """

    def __init__(self, bounds: Doubles, *, with_equal: bool) -> None:
        edges = np.unique(bounds)
        if with_equal:
            # E <= x is P < x for the double P before E; the open side, before all, is no edge.
            edges = np.nextafter(edges[edges > -np.inf], -np.inf)
        self.is_exact = len(edges) <= EDGES_MAXIMUM
        if not self.is_exact:
            edges = edges[np.arange(EDGES_MAXIMUM) * len(edges) // EDGES_MAXIMUM]
        self.size = len(edges)
        self._edges = padded(edges)
        self._origin, self._scale = _scale(edges)
        self._steps = step_table(edges, self._origin, self._scale)

    def write(self, values: Doubles, codes: _Codes, column: int) -> None:
        """Write the code of each value; a NaN leaves the column as it was."""
        edges = (self._edges, self._steps, self._origin, self._scale)
        code_points(np.ascontiguousarray(values), *edges, codes, column)


def _scale(edges: Doubles) -> tuple[float, float]:
    """Return the start of a search's steps, and steps per unit."""
    finite = edges[np.isfinite(edges)]
    if not finite.size:
        return 0.0, 0.0
    origin, width = float(finite[0]), float(finite[-1]) - float(finite[0])
    scale = STEPS / width if width > 0 else 0.0
    return origin, scale if np.isfinite(scale) and np.isfinite(width) else 0.0


def _even_scales(low: Doubles, high: Doubles) -> list[tuple[float, float]] | None:
    """In each dimension the first step and steps per unit; None where too many bounds share one."""
    scales = []
    for columns in zip(low.T, high.T, strict=True):
        finite = [column[np.isfinite(column)] for column in columns]
        both = np.concatenate(finite)
        if not both.size:
            return None
        origin, width = float(both.min()), float(both.max()) - float(both.min())
        scale = EVEN_STEPS / width if width > 0 else 0.0
        if not (np.isfinite(scale) and np.isfinite(width)):
            return None
        for side in finite:
            counts = np.bincount(((side - origin) * scale).astype(np.int64))
            if counts @ counts > CROWD * side.size:
                return None
        scales.append((origin, scale))
    return scales


def _selective(low: Doubles, high: Doubles) -> Numbers:
    """The dimensions to pack by: those in which a box meets the fewest others."""
    dimensions = low.shape[1]
    if dimensions <= PACKED_DIMENSIONS:
        return np.arange(dimensions)
    met = np.empty(dimensions)
    for at in range(dimensions):
        ascending = np.sort(low[:, at])
        ends = np.searchsorted(ascending, high[:, at], side="right")
        met[at] = (ends - np.searchsorted(ascending, low[:, at])).mean()
    return np.argsort(met, kind="stable")[:PACKED_DIMENSIONS]


def _packing(demanded: Doubles, middles: Numbers) -> Numbers:
    """An order of the boxes in which each run of LANES lies close together.

    Those that demand the same values are a slab; each slab is sorted by the first of the other
    dimensions and cut into slabs, and so on, with about as many cuts in every dimension.
    """
    size, dimensions = middles.shape
    place = np.arange(size)
    order, begins = place, np.zeros(size, np.int64)
    slabs = 1
    if demanded.shape[1]:
        order = np.lexsort(demanded.T[::-1])
        first = np.append(True, (np.diff(demanded[order], axis=0) != 0).any(axis=1))
        begins = np.maximum.accumulate(np.where(first, place, 0))
        slabs = int(np.count_nonzero(first))
    leaves = math.ceil(size / slabs / LANES)
    for at in range(dimensions):
        order = order[np.argsort(begins << 17 | middles[order, at], kind="stable")]
        leaves = math.ceil(leaves / math.ceil(leaves ** (1 / (dimensions - at))))
        begins = begins + (place - begins) // (leaves * LANES) * (leaves * LANES)
    return order


def _tree(below: _Codes, above: _Codes) -> tuple[_Codes, Numbers]:
    """The nodes of all levels, boxes first, and the number of the first node of each level."""
    nodes: list[_Codes] = []
    while not nodes or len(nodes[-1]) > 1:
        short = -len(below) % LANES
        shape = (-1, LANES, below.shape[1])
        below = np.pad(below, ((0, short), (0, 0)), constant_values=NOTHING).reshape(shape)
        above = np.pad(above, ((0, short), (0, 0)), constant_values=0).reshape(shape)
        # (nodes, lanes, dimensions) to (nodes, dimensions, low and high, lanes)
        nodes.append(np.stack((below, above)).transpose(1, 3, 0, 2))
        below, above = below.min(axis=1), above.max(axis=1)
    levels = np.cumsum([0, *map(len, nodes[:-1])])
    return np.concatenate([each.ravel() for each in nodes]), levels
