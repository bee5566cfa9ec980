"""A linear index of boxes, as the paper's prototype has: every subscription is looked at.

It holds filters that are one conjunction of ranges of numbers, as arrays, and compares a
publication with all of them at once; so a simulated cluster can hold millions of copies. A range
may be in several parts, as one that wraps round an attribute's ends: such a filter is several
boxes, apart from each other. It gives
the answer of `shoal.matching.MatchIndex` for such filters, in the order they were added.

>>> from shoal.language import parse
>>> index = LinearIndex(("x", "y"))
>>> index.add("s", parse("x >= 1 AND x < 3 AND y >= 0"))
>>> index.match({"x": 1, "y": 9.5}), index.match({"x": 3, "y": 9.5}), index.match({"x": 1})
(['s'], [], [])
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.matching.relations.decisions import Values, remembered_regions
from shoal.matching.segments import Dimension
from shoal.model import Attributes, Filter

_FIRST_ROOM = 64


class LinearBoxes(NamedTuple):
    """Boxes: ids; lowest and highest values, both included, a row each."""

    ids: tuple[Any, ...]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


class LinearIndex:
    """Boxes over the same attributes."""

    def __init__(self, attributes: tuple[str, ...]) -> None:
        self._attributes = attributes
        # How often a filter was added or removed.
        self.changes = 0
        # The filter of each row, and the rows of each filter.
        self._ids: list[Hashable] = []
        self._rows: dict[Hashable, list[int]] = {}
        # A line for the lowest values on each attribute, and one for the highest, negated: a box
        # holds a publication when no value of its column is above the publication's.
        self._bounds = np.empty((2 * len(attributes), _FIRST_ROOM))

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, id: Hashable, filter: Filter) -> None:
        """File a filter, in place of the one with this id; ValueError when it is no box, and not
        several apart.
        """
        columns = _columns(filter, self._attributes)
        self.changes += 1
        rows = self._rows.setdefault(id, [])
        while len(rows) > len(columns):
            self._drop_row(rows[-1])
        while len(rows) < len(columns):
            rows.append(len(self._ids))
            self._ids.append(id)
            if len(self._ids) > self._bounds.shape[1]:
                self._bounds = np.concatenate([self._bounds, np.empty_like(self._bounds)], axis=1)
        for row, column in zip(rows, columns, strict=True):
            self._bounds[:, row] = column

    def remove(self, id: Hashable) -> None:
        """Forget a filter."""
        rows = self._rows[id]
        self.changes += 1
        while rows:
            self._drop_row(rows[-1])
        del self._rows[id]

    def _drop_row(self, row: int) -> None:
        """Remove a row; the last one takes its place."""
        last = len(self._ids) - 1
        self._rows[self._ids[row]].remove(row)
        if row < last:
            moved = self._ids[row] = self._ids[last]
            self._rows[moved].remove(last)
            self._rows[moved].append(row)
            self._bounds[:, row] = self._bounds[:, last]
        self._ids.pop()

    @property
    def boxes(self) -> LinearBoxes:
        """All boxes, in the order in which a match gives them."""
        count, attributes = len(self._ids), len(self._attributes)
        bounds = self._bounds[:, :count].T
        return LinearBoxes(tuple(self._ids), bounds[:, :attributes], -bounds[:, attributes:])

    @property
    def most_candidates(self) -> int:
        """The number of boxes, all of which a publication is compared with."""
        return len(self._ids)

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        """True: boxes have neither texts nor expressions."""
        return True

    def match(self, attributes: Attributes) -> list[Any]:
        """The ids of the boxes that hold a publication; none unless it has all attributes."""
        values = [attributes.get(name) for name in self._attributes]
        if not all(type(value) is float or type(value) is int for value in values):
            return []
        place = np.array([*values, *(-value for value in values)], np.float64)  # type: ignore[operator]
        below = self._bounds[:, : len(self._ids)] <= place[:, None]
        rows = np.flatnonzero(np.logical_and.reduce(below, axis=0)).tolist()
        ids = self._ids
        return [ids[row] for row in rows]


def _is_interval(values: Values) -> bool:
    numbers = values.numbers
    return numbers.points is None and not (numbers.excluded or values.absent or values.booleans)


@lru_cache(65_536)
def _columns(filter: Filter, attributes: tuple[str, ...]) -> tuple[npt.NDArray[np.float64], ...]:
    """Of each box the lowest values on all attributes, then the highest, negated; included."""
    made = remembered_regions(filter)
    if any(set(each) - set(attributes) for each in made):
        raise ValueError(f"{filter!r} is not over {', '.join(attributes)}")
    parts = []
    for dimension in _dimensions(attributes):
        name = dimension.attribute
        parts.append(dimension.ranges(filter))
        if any(name in each and not _is_interval(each[name]) for each in made):
            raise ValueError(f"{filter!r} is not a range of numbers on {name}")
    # As many different conjunctions as there are combinations of parts are all combinations.
    bounds = {
        tuple(
            (each[name].numbers.low, each[name].numbers.high) if name in each else None
            for name in attributes
        )
        for each in made
    }
    found = [
        np.array([*(part.low for part in each), *(-part.high for part in each)])
        for each in product(*parts)
    ]
    if not found or len(bounds) != len(found) or len(made) != len(found):
        raise ValueError(f"{filter!r} is not one conjunction of ranges")
    return tuple(found)


@lru_cache(16)
def _dimensions(attributes: tuple[str, ...]) -> tuple[Dimension, ...]:
    return tuple(Dimension(attribute=name) for name in attributes)
