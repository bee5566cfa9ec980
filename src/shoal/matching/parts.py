"""The compiled parts of an index: immutable, each good at conjunctions of one shape.

A conjunction asks for values (strings, booleans: equality) and for closed ranges of numbers.  Many
that only have ranges, on the same attributes, become a grid, or blocks when a grid would take too
much memory; all others are filed in tables under the values they demand.  A part answers with its
members' numbers; `rows` says which row of its source each member was.

>>> import numpy as np
>>> from shoal.matching.columns import Batch
>>> rows = Rows(2, {}, {"a": (np.array([1.0, 5.0]), np.array([6.0, np.inf]))})
>>> [part] = compile_parts(rows, {})
>>> found = part.match(Batch.of_columns({"a": np.array([3.0, 5.5])}), 0, 2, {})
>>> found.counts.tolist(), part.rows[found.members[found.begins[1] :][:2]].tolist()
([1, 2], [0, 1])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from shoal.matching.columns import Batch, Doubles
from shoal.matching.kernels_blocks import BLOCK, match_blocks, pack_blocks, span_blocks
from shoal.matching.kernels_grid import (
    CUT_DIMENSIONS,
    STEPS,
    count_cells,
    fill_cells,
    locate,
    match_grid,
    step_table,
)
from shoal.matching.kernels_tables import hash_keys, match_table
from shoal.model import Value

Numbers = npt.NDArray[np.int64]
Kept = npt.NDArray[np.bool_]
Vocabularies = Mapping[str, Mapping[Value, int]]

# Fewer boxes than this are tested one after the other in a table, which is as fast.
SPATIAL_MINIMUM = 128

# A grid numbers its boxes and their bounds with 16 bits.
GRID_MAXIMUM = 2**16 - 1

# How often a grid may store a box, on average: 18 bytes each for 4 dimensions.
GRID_COPIES = 64

# Cells per dimension of a grid: more make shorter lists and more copies.
GRID_CELLS = (12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)

# Cells per dimension for putting boxes and points that are close together side by side.
CLOSE_CELLS = 32

# A table's key is one 64-bit number; values beyond are tested like ranges of their codes.
KEY_MAXIMUM = 2**62

# Room for members at first; it doubles when they do not fit.
FIRST_ROOM = 2**16


class Rows(NamedTuple):
    """Conjunctions as columns: codes demanded (-1: none) and closed ranges (infinite: open)."""

    size: int
    equalities: dict[str, npt.NDArray[np.int32]]
    ranges: dict[str, tuple[Doubles, Doubles]]


class Found(NamedTuple):
    """The members found for each point: `members[begins[i] : begins[i] + counts[i]]`.

    `order` has the points in the order in which they were matched, close ones together.
    """

    order: Numbers
    members: npt.NDArray[np.int32]
    begins: Numbers
    counts: Numbers


# Room for members, by part, that one call uses again and again.
Rooms = dict[int, npt.NDArray[np.int32]]


class Part(Protocol):
    """Some conjunctions, compiled."""

    rows: Numbers

    def match(self, batch: Batch, begin: int, end: int, rooms: Rooms) -> Found:
        """The members that match each of the publications from `begin` to `end`."""

    def restricted(self, kept: Kept) -> Part:
        """The same conjunctions without those not kept, at least one of them."""


# One dimension's distinct low and high bounds, ascending, and what shortens a search in them.
_Steps = npt.NDArray[np.int32]
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
        return _run(
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
        below, above = (np.ascontiguousarray(each[order].T) for each in (low, high))
        lowest, highest, self._inner_low, self._inner_high = span_blocks(below, above, BLOCK)
        group_lowest, group_highest, *_ = span_blocks(below, above, BLOCK * BLOCK)
        self._boxes = pack_blocks(below, above)
        self._blocks = pack_blocks(lowest, highest)
        self._groups = pack_blocks(group_lowest, group_highest)

    def match(self, batch: Batch, begin: int, end: int, rooms: Rooms) -> Found:
        pairs = [batch.numbers(attribute) for attribute in self._attributes]
        down = np.column_stack([low[begin:end] for low, _ in pairs])
        up = np.column_stack([high[begin:end] for _, high in pairs])
        columns = [down[:, at] for at in range(len(self._edges))]
        order = np.argsort(_closeness(columns, self._edges), kind="stable")
        packed = (self._boxes, self._blocks, self._groups, self._inner_low, self._inner_high)
        size = len(self.rows)
        return _run(
            self,
            rooms,
            order,
            lambda *found: match_blocks(order, down, up, size, *packed, *found),
        )

    def restricted(self, kept: Kept) -> Part:
        dimensions = len(self._attributes)
        bounds = self._boxes.transpose(0, 2, 1).reshape(-1, 2 * dimensions)[: len(self.rows)][kept]
        low, high = bounds[:, :dimensions], bounds[:, dimensions:]
        return box_part(self._attributes, low, high, self.rows[kept])


class EqualityTable:
    """Conjunctions that demand values of the same attributes; see `kernels_tables`."""

    def __init__(
        self,
        attributes: Sequence[str],
        vocabularies: Vocabularies,
        codes: npt.NDArray[np.int32],
        slots: _Slots,
        rows: Numbers,
    ) -> None:
        self._attributes = tuple(attributes)
        self._vocabularies = vocabularies
        self._sizes = np.array([len(vocabularies[name]) for name in attributes], np.int64)
        keys = np.zeros(len(rows), np.int64)
        for at, size in enumerate(self._sizes):
            keys = keys * size + codes[:, at]
        order = np.argsort(keys, kind="stable")
        self._keys, begins = np.unique(keys[order], return_index=True)
        self._starts = np.append(begins, len(rows)).astype(np.int64)
        self._places = hash_keys(self._keys)
        self._slots = slots.taken(order)
        self._codes = codes[order]
        self.rows = rows[order]

    def match(self, batch: Batch, begin: int, end: int, rooms: Rooms) -> Found:
        size = end - begin
        codes = np.empty((size, len(self._attributes)), np.int32)
        for at, attribute in enumerate(self._attributes):
            codes[:, at] = batch.codes(attribute, self._vocabularies[attribute])[begin:end]
        down = np.zeros((size, 1 + len(self._slots.columns)))
        up = down
        pairs = [self._numbers(batch, name, coded) for name, coded in self._slots.columns]
        if any(low is not high for low, high in pairs):
            up = down.copy()
        for column, (low, high) in enumerate(pairs, start=1):
            down[:, column] = low[begin:end]
            if up is not down:
                up[:, column] = high[begin:end]
        slots = self._slots
        return _run(
            self,
            rooms,
            np.arange(size),
            lambda *found: match_table(
                codes,
                self._sizes,
                down,
                up,
                self._keys,
                self._places,
                self._starts,
                slots.tested,
                slots.low,
                slots.high,
                *found,
            ),
        )

    def _numbers(self, batch: Batch, attribute: str, coded: bool) -> tuple[Doubles, Doubles]:
        if not coded:
            return batch.numbers(attribute)
        codes = batch.codes(attribute, self._vocabularies[attribute]).astype(np.float64)
        return codes, codes

    def restricted(self, kept: Kept) -> Part:
        slots = self._slots.taken(np.flatnonzero(kept))
        codes, rows = self._codes[kept], self.rows[kept]
        return EqualityTable(self._attributes, self._vocabularies, codes, slots, rows)


class _Slots(NamedTuple):
    """Ranges beside the conjunctions of a table: `tested` counts columns from 1, 0 is no test."""

    columns: list[tuple[str, bool]]  # attribute, and whether its codes are meant
    tested: npt.NDArray[np.int16]
    low: Doubles
    high: Doubles

    def taken(self, order: Numbers) -> _Slots:
        return _Slots(self.columns, self.tested[order], self.low[order], self.high[order])


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
                parts.append(box_part(attributes, low, high, members))
                left[members] = False
    others = np.flatnonzero(left)
    widths = asked[others, len(rows.equalities) :].sum(axis=1)
    # Conjunctions with few ranges share a table, so that few look-ups find all of them.
    widths = np.maximum(widths, 2)[:, None]
    for shape, members in _groups(np.column_stack((demanding[others], widths))):
        attributes = [
            name for name, is_asked in zip(rows.equalities, shape[:-1], strict=True) if is_asked
        ]
        parts.append(_table(rows, vocabularies, attributes, int(shape[-1]), others[members]))
    return parts


def box_part(attributes: Sequence[str], low: Doubles, high: Doubles, rows: Numbers) -> Part:
    """Boxes, (rows, attributes), in a grid if they are few enough for one."""
    kind = BoxGrid if len(rows) <= GRID_MAXIMUM else BoxBlocks
    return kind(attributes, low, high, rows)


def _table(
    rows: Rows, vocabularies: Vocabularies, attributes: list[str], width: int, members: Numbers
) -> Part:
    keyed: list[str] = []
    product = 1
    for name in attributes:
        product *= max(1, len(vocabularies[name]))
        if product < KEY_MAXIMUM:
            keyed.append(name)
    coded = attributes[len(keyed) :]
    columns: list[tuple[str, bool]] = []
    tested = np.zeros((len(members), width + len(coded)), np.int16)
    low, high = (np.zeros(tested.shape) for _ in range(2))
    used = np.zeros(len(members), np.int64)

    def ask(attribute: str, is_coded: bool, below: Doubles, above: Doubles) -> None:
        chosen = np.flatnonzero((below > -np.inf) | (above < np.inf))
        if chosen.size:
            columns.append((attribute, is_coded))
            tested[chosen, used[chosen]] = len(columns)
            low[chosen, used[chosen]] = below[chosen]
            high[chosen, used[chosen]] = above[chosen]
            used[chosen] += 1

    for name, (below, above) in rows.ranges.items():
        ask(name, False, below[members], above[members])
    for name in coded:
        demanded = rows.equalities[name][members].astype(np.float64)
        ask(name, True, demanded, demanded)
    codes = np.empty((len(members), len(keyed)), np.int32)
    for at, name in enumerate(keyed):
        codes[:, at] = rows.equalities[name][members]
    return EqualityTable(keyed, vocabularies, codes, _Slots(columns, tested, low, high), members)


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


def _run(part: Part, rooms: Rooms, order: Numbers, kernel: Callable[..., tuple[int, int]]) -> Found:
    """Call a kernel until it has done every point, with more room each time it stops early."""
    members = rooms.get(id(part))
    if members is None:
        members = np.empty(FIRST_ROOM, np.int32)
    size = len(order)
    begins, counts = np.zeros(size, np.int64), np.zeros(size, np.int64)
    done, at = kernel(begins, counts, members, 0, 0)
    while done < size:
        members = np.concatenate((members, np.empty_like(members)))
        done, at = kernel(begins, counts, members, at, done)
    rooms[id(part)] = members
    return Found(order, members, begins, counts)


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
