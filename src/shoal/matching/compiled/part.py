"""Contract of a compiled part of an index: input, answers, guarantees.

Parts are immutable.  They are made of rows, conjunctions side by side, and can give them back; a
part answers with numbers of its own members, and `rows` says which row each member was.

>>> import numpy as np
>>> CompiledRows(1, {"symbol": np.array([0], np.int32)}, {}).size
1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from shoal.matching.compiled.columns import ColumnBatch, Doubles
from shoal.model import Attributes, Value

Numbers = npt.NDArray[np.int64]
Members = npt.NDArray[np.uint32]
Kept = npt.NDArray[np.bool_]
Vocabularies = Mapping[str, Mapping[Value, int]]

# Room for members at first; it doubles when they do not fit.
FIRST_ROOM = 2**18


class CompiledRows(NamedTuple):
    """Conjunctions as columns: codes demanded (-1: none) and closed ranges (infinite: open)."""

    size: int
    equalities: dict[str, npt.NDArray[np.int32]]
    ranges: dict[str, tuple[Doubles, Doubles]]


def chosen_rows(rows: CompiledRows, members: Numbers | None) -> CompiledRows:
    """Some of the rows, by their numbers; None chooses all."""
    if members is None or len(members) == rows.size:
        return rows
    return CompiledRows(
        len(members),
        {name: codes[members] for name, codes in rows.equalities.items()},
        {name: (low[members], high[members]) for name, (low, high) in rows.ranges.items()},
    )


def joined_rows(several: Sequence[CompiledRows]) -> CompiledRows:
    """All rows, one after the other."""
    if len(several) == 1:
        return several[0]
    size = sum(rows.size for rows in several)
    equalities: dict[str, npt.NDArray[np.int32]] = {}
    ranges: dict[str, tuple[Doubles, Doubles]] = {}
    begin = 0
    for rows in several:
        end = begin + rows.size
        for name, codes in rows.equalities.items():
            if name not in equalities:
                equalities[name] = np.full(size, -1, np.int32)
            equalities[name][begin:end] = codes
        for name, (low, high) in rows.ranges.items():
            if name not in ranges:
                ranges[name] = np.full(size, -np.inf), np.full(size, np.inf)
            ranges[name][0][begin:end], ranges[name][1][begin:end] = low, high
        begin = end
    return CompiledRows(size, equalities, ranges)


class CompiledMatches(NamedTuple):
    """The members found for each point: `members[begins[i] : begins[i] + counts[i]]`.

    `order` has the points in the order in which they were matched, close ones together.
    """

    order: Numbers
    members: Members
    begins: Numbers
    counts: Numbers


NOTHING_FOUND: Members = np.empty(0, np.uint32)

# Room for members, by part, that one call uses again and again.
Rooms = dict[int, Members]

# Finds the members that match each of the publications from one number to another, of a batch.
Search = Callable[[int, int, Rooms], CompiledMatches]


class CompiledPart(Protocol):
    """Some conjunctions, compiled."""

    rows: Numbers

    def search(self, batch: ColumnBatch) -> Search:
        """Read the needed columns of a batch, so that it can be searched piece by piece."""

    def find(self, attributes: Attributes) -> Members:
        """The members that match one publication."""

    def as_rows(self) -> CompiledRows:
        """Return the rows of the part, in the order of its members."""


def run_kernel(
    part: CompiledPart,
    rooms: Rooms,
    order: Numbers,
    kernel: Callable[..., tuple[int, int]],
    given: tuple[object, ...],
) -> CompiledMatches:
    """Call a kernel until it has done every point, with more room each time it stops early."""
    members = rooms.get(id(part))
    if members is None:
        members = np.empty(FIRST_ROOM, np.uint32)
    size = len(order)
    begins, counts = np.zeros(size, np.int64), np.zeros(size, np.int64)
    done, at = kernel(*given, begins, counts, members, 0, 0)
    while done < size:
        members = np.concatenate((members, np.empty_like(members)))
        done, at = kernel(*given, begins, counts, members, at, done)
    rooms[id(part)] = members
    return CompiledMatches(order, members, begins, counts)
