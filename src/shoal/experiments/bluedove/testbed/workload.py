"""Subscriptions and messages, drawn by a seed: the evaluation's (IV-B), or those of real data.

The evaluation's have four attributes of length 1,000.  A subscription is a range of 250 on each;
ranges lie around a hot spot, in a normal distribution cut off at the ends, and the hot spots of the
attributes are spread evenly.  A message has a value on each: even over the whole length or, on
adversely skewed attributes, in the subscriptions' own distribution (IV-F).

That leaves open the places of the hot spots, the treatment of a range that reaches beyond an end,
and how a range that meets several segments can be at one matcher only (IV-B). So there are four
drawings:

    moved    hot spots amid the attribute's quarters, ranges moved inside
    cut      hot spots from one end to the other, ranges cut off at the ends
    single   ranges of 10, hot spots amid the quarters, ranges moved inside the segment of their
             middle, so that each is at one matcher for each attribute
    ring     hot spots from one end to the other, ranges wrap round the attribute's ends

With real data a message is a row of a table of numbers, and a subscription a range around a row,
a quarter of the length of each attribute; so both are skewed alike, as the data are.

>>> workload = BlueDoveWorkload(Random(1), deviation=250.0, adverse=0)
>>> workload.messages(3).shape
(3, 4)
>>> workload.hot_spots
(125.0, 375.0, 625.0, 875.0)
>>> BlueDoveWorkload(Random(1), deviation=250.0, adverse=0, drawing="cut").hot_spots[::3]
(0.0, 1000.0)

Source: Li et al., BlueDove, sections IV-B and IV-F.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from shoal.matching.segments import Dimension, quantile_cuts
from shoal.model import And, Expression, Filter, Operator, Or, predicate

LENGTH = 1_000.0
RANGE = 250.0
NARROW = 10.0
ATTRIBUTES = ("a1", "a2", "a3", "a4")
Drawing = Literal["moved", "cut", "single", "ring"]
# The length of an attribute of real data has all but the outermost values.
OUTERMOST = 0.01


class StudyTraffic(Protocol):
    """An endless supply of filters and messages."""

    @property
    def attributes(self) -> tuple[str, ...]: ...

    def dimensions(self, segments: int) -> tuple[Dimension, ...]:
        """The searchable attributes, to be cut into so many segments."""

    def filter(self) -> Filter: ...

    def messages(self, count: int) -> npt.NDArray[np.float64]:
        """The next messages, a row each, by attribute."""


class BlueDoveWorkload:
    """The evaluation's.

    deviation   of the ranges' middles around the hot spot of an attribute
    adverse     so many attributes have messages skewed like the subscriptions
    drawing     position and length of ranges
    segments    of an attribute, for ranges that lie in one
    """

    attributes = ATTRIBUTES

    def __init__(
        self,
        random: Random,
        *,
        deviation: float,
        adverse: int,
        drawing: Drawing = "moved",
        segments: int = 1,
    ) -> None:
        self._random = random
        self._deviation = deviation
        self._adverse = adverse
        self._drawing = drawing
        self._segment = LENGTH / segments
        count = len(ATTRIBUTES)
        self.hot_spots = (
            tuple(np.linspace(0.0, LENGTH, count).tolist())
            if drawing in ("cut", "ring")
            else tuple(((np.arange(count) + 0.5) * LENGTH / count).tolist())
        )

    def dimensions(self, segments: int) -> tuple[Dimension, ...]:
        return tuple(Dimension(attribute=name, low=0.0, high=LENGTH) for name in ATTRIBUTES)

    def filter(self) -> Filter:
        """A range on each attribute."""
        ranges = [self._range(self._skewed(hot_spot)) for hot_spot in self.hot_spots]
        return _box(ATTRIBUTES, *zip(*ranges, strict=True))

    def messages(self, count: int) -> npt.NDArray[np.float64]:
        """A value on each attribute, for each message."""
        even, skewed, adverse = self._random.random, self._skewed, self._adverse
        if not adverse:
            drawn = [even() for _ in range(count * len(ATTRIBUTES))]
            return np.array(drawn).reshape(count, len(ATTRIBUTES)) * LENGTH
        rows = [
            [
                skewed(hot_spot) if number < adverse else even() * LENGTH
                for number, hot_spot in enumerate(self.hot_spots)
            ]
            for _ in range(count)
        ]
        return np.array(rows).reshape(count, len(ATTRIBUTES))

    def _range(self, middle: float) -> tuple[float, float]:
        """Around a place, as the drawing has it; one from a high to a low value wraps."""
        if self._drawing == "cut":
            return max(middle - RANGE / 2, 0.0), min(middle + RANGE / 2, LENGTH)
        if self._drawing == "ring":
            return (middle - RANGE / 2) % LENGTH, (middle + RANGE / 2) % LENGTH
        if self._drawing == "moved":
            return _moved(middle, RANGE, 0.0, LENGTH)
        start = middle // self._segment * self._segment
        return _moved(middle, NARROW, start, start + self._segment)

    def _skewed(self, hot_spot: float) -> float:
        while True:
            value = self._random.gauss(hot_spot, self._deviation)
            if 0 <= value < LENGTH:
                return value


def _moved(middle: float, length: float, low: float, high: float) -> tuple[float, float]:
    """A range around a place, moved inside two bounds."""
    start = min(max(middle - length / 2, low), high - length)
    return start, start + length


class Points(NamedTuple):
    """A table of numbers: a column per name, none missing."""

    names: tuple[str, ...]
    values: npt.NDArray[np.float64]


def save_points(file: Path, points: Points) -> None:
    """Keep a table for runs to read, wherever they run."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as opened:
        np.savez_compressed(opened, names=np.array(points.names), values=points.values)


def load_points(file: Path) -> Points:
    """A table that was kept."""
    with np.load(file) as kept:
        return Points(tuple(kept["names"].tolist()), kept["values"])


def points_digest(file: Path) -> str:
    """Of a kept table's contents, however the file came to be."""
    names, values = load_points(file)
    return hashlib.sha256(repr((names, values.shape)).encode() + values.tobytes()).hexdigest()


class PointsWorkload:
    """Of real data.

    quantiles   segments have equal numbers of messages, not equal lengths, on attributes that
                have as many values

    >>> rows = Points(("x", "y"), np.array([[1.0, 5.0], [2.0, 9.0], [9.0, 7.0]]))
    >>> workload = PointsWorkload(rows, Random(1), quantiles=True)
    >>> workload.dimensions(3)[0].boundaries, workload.messages(1)[0] in rows.values
    ((2.0, 9.0), True)
    >>> workload.dimensions(4)[0].boundaries
    ()
    """

    def __init__(self, points: Points, random: Random, *, quantiles: bool) -> None:
        self._rows = points.values.tolist()
        self._values = points.values
        self._random = random
        self._quantiles = quantiles
        self.attributes = points.names
        self._low, self._high = np.quantile(points.values, (OUTERMOST, 1 - OUTERMOST), axis=0)
        self._half = (self._high - self._low) * RANGE / LENGTH / 2

    def dimensions(self, segments: int) -> tuple[Dimension, ...]:
        return tuple(
            Dimension(
                attribute=name,
                low=float(self._low[column]),
                high=float(self._high[column]),
                boundaries=self._boundaries(column, segments),
            )
            for column, name in enumerate(self.attributes)
        )

    def _boundaries(self, column: int, segments: int) -> tuple[float, ...]:
        """None, for segments of equal lengths, also where there are too few values to cut at."""
        if not self._quantiles:
            return ()
        cuts = quantile_cuts(self._values[:, column], segments)
        return cuts if len(cuts) == segments - 1 else ()

    def filter(self) -> Filter:
        """A range around a row."""
        row = self._random.choice(self._rows)
        pairs = list(zip(row, self._half.tolist(), strict=True))
        return _box(
            self.attributes,
            [value - half for value, half in pairs],
            [value + half for value, half in pairs],
        )

    def messages(self, count: int) -> npt.NDArray[np.float64]:
        """Rows."""
        numbers = range(len(self._rows))
        return self._values[[self._random.choice(numbers) for _ in range(count)]]


def _box(names: Sequence[str], lows: Sequence[float], highs: Sequence[float]) -> Filter:
    tests: list[Expression] = []
    for name, low, high in zip(names, lows, highs, strict=True):
        ends = predicate(name, Operator.GE, low), predicate(name, Operator.LT, high)
        if low < high:
            tests += ends
        else:
            tests.append(Or(ends))
    return Filter(And(tuple(tests)))
