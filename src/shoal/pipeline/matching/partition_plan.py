"""Places subscriptions and publications on partitions, when one worker cannot hold all
subscriptions.

Each of a few attributes, the dimensions, is cut into segments, and every segment of every dimension
is a partition, with the subscriptions whose ranges meet the segment. So a publication could be
matched in any of its candidates, one per dimension, and goes to the cheapest. As all publications
are there before, partitions that none of them needs are not filled: the plan opens partitions of
different dimensions that together have a candidate of every publication, with few subscriptions.

- cuts are quantiles of a sample of both tables, so that no segment has too much of either;
- of twofold numbers of segments that one is taken with the fewest copies in open partitions, none
  of which has more than a worker should hold, as far as wide ranges allow;
- opening is weighted set cover, by the greedy rule (most publications per subscription first) and
  without partitions that became superfluous, or one dimension alone if that is cheaper;
- a publication the sample had none like may open another partition: the cheapest of its candidates.

>>> a = Sampled("a", False, np.arange(4), np.r_[0.0, 1, 2, 3], np.r_[9.0, 9, 9, 9], np.r_[1.0, 8])
>>> b = Sampled("b", False, np.arange(4), np.r_[1.0, 3, 5, 7], np.r_[2.0, 4, 6, 8], np.r_[1.0, 8])
>>> plan = make_plan([a, b], sample=4, subscriptions=4, aim=2, opening=0)
>>> [each.attribute for each in plan.dimensions], plan.stored.tolist()
(['b', 'a'], [1, 2, 2, 1, 1, 4, 4, 4])
>>> plan.cheapest([b.places, a.places]).tolist()
[0, 3]

Source: Li et al., BlueDove, sections III-A and III-B; the choice of partitions is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.matching.segments import HIGHEST, LOWEST, place_of, quantile_cuts

MOST_SEGMENTS = 512
# So many more copies are too high a price, for partitions that fit too.
TOO_MANY = 2.0
# More candidates for a publication cost more copies than they save.
MOST_DIMENSIONS = 4

Doubles = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


class Sampled(NamedTuple):
    """A dimension as a sample shows it: ranges of subscriptions, places of publications.

    `rows` has the subscription of each range `low` to `high`; a subscription may have several, or
    none.
    """

    attribute: str
    is_text: bool
    rows: Numbers
    low: Doubles
    high: Doubles
    places: Doubles


class PlannedDimension(NamedTuple):
    """A dimension with its cuts; its segment i is the plan's partition `first + i`."""

    attribute: str
    is_text: bool
    cuts: Doubles
    first: int

    def partitions(self, places: Doubles) -> Numbers:
        """The partition of each publication."""
        return self.first + np.searchsorted(self.cuts, places, side="right")

    def partitions_met(
        self,
        rows: Numbers,
        low: Doubles,
        high: Doubles,
        is_used: npt.NDArray[np.bool_] | None = None,
    ) -> tuple[Numbers, Numbers]:
        """Return pairs of rows and their partitions, each pair once.

        With `is_used`, for all the plan's partitions, rows that meet none in use are left out.
        """
        begins = np.searchsorted(self.cuts, low, side="right")
        counts = np.maximum(np.searchsorted(self.cuts, high, side="right") + 1 - begins, 0)
        if is_used is not None:
            own = is_used[self.first : self.first + len(self.cuts) + 1]
            used_before = np.concatenate(([0], np.cumsum(own)))
            met_used = used_before[begins + counts] > used_before[begins]
            rows, begins, counts = rows[met_used], begins[met_used], counts[met_used]
        before = np.cumsum(counts) - counts
        met = np.arange(counts.sum()) - np.repeat(before - begins, counts) + self.first
        whose = np.repeat(rows, counts)
        if (rows[1:] > rows[:-1]).all():
            return whose, met
        size = self.first + len(self.cuts) + 1
        once = np.unique(whose * size + met)
        return once // size, once % size


class PartitionPlan(NamedTuple):
    """Dimensions, and for each partition its number of subscriptions and its cost."""

    dimensions: tuple[PlannedDimension, ...]
    stored: Numbers
    costs: Doubles

    def cheapest(self, places: Sequence[Doubles]) -> Numbers:
        """The partition for each publication, from its place on every dimension."""
        candidates = np.stack(
            [each.partitions(own) for each, own in zip(self.dimensions, places, strict=True)]
        )
        chosen = np.argmin(self.costs[candidates], axis=0)
        cheapest: Numbers = np.take_along_axis(candidates, chosen[None], axis=0)[0]
        return cheapest


def make_plan(
    sampled: Sequence[Sampled],
    *,
    sample: int,
    subscriptions: int,
    aim: int,
    opening: int,
) -> PartitionPlan:
    """The plan for this many subscriptions, of which `sampled` shows `sample` on each dimension.

    `aim` is the largest wanted size of a partition, `opening` the cost of another partition, in
    subscriptions. Of more dimensions than a plan has, those that would do best alone are used.
    """
    scale = subscriptions / max(sample, 1)
    best: _Sized | None = None
    segments = 2
    while segments <= MOST_SEGMENTS:
        sized = _plan(sampled, segments, scale, opening)
        if best is None or sized.is_better(best, aim):
            best = sized
        elif sized.copies > TOO_MANY * best.copies:
            break
        segments *= 2
    assert best is not None
    return best.plan


class _Sized(NamedTuple):
    """A plan, with the total and the largest size of its open partitions."""

    plan: PartitionPlan
    copies: float
    largest: float

    def is_better(self, other: _Sized, aim: int) -> bool:
        """Fitting at no great price, with fewer copies; else less of both together."""
        if other.largest <= aim:
            return self.largest <= aim and self.copies < other.copies
        if self.largest <= aim:
            return self.copies <= TOO_MANY * other.copies
        return self.copies * self.largest < other.copies * other.largest


def _plan(sampled: Sequence[Sampled], segments: int, scale: float, opening: int) -> _Sized:
    """A plan with so many segments on each dimension."""
    alone = []
    for each in sampled:
        dimension = PlannedDimension(each.attribute, each.is_text, _cuts(each, segments), 0)
        stored = _stored(dimension, each) * scale + opening
        alone.append((float(stored[np.unique(dimension.partitions(each.places))].sum()), each))
    alone.sort(key=lambda one: one[0])
    dimensions: list[PlannedDimension] = []
    kept = [each for _, each in alone[:MOST_DIMENSIONS]]
    first = 0
    for each in kept:
        cuts = _cuts(each, segments)
        dimensions.append(PlannedDimension(each.attribute, each.is_text, cuts, first))
        first += len(cuts) + 1
    stored = np.concatenate(
        [_stored(own, each) for own, each in zip(dimensions, kept, strict=True)]
    )
    candidates = np.stack(
        [own.partitions(each.places) for own, each in zip(dimensions, kept, strict=True)]
    )
    full = stored * scale
    is_open = cheapest_cover(candidates, full + opening)
    # Closed partitions are dearer than all open ones, and still in order.
    costs = np.where(is_open, full, full + full.max(initial=0.0) + 1)
    plan = PartitionPlan(tuple(dimensions), np.round(full).astype(np.int64), costs)
    is_filled = full[is_open]
    return _Sized(plan, float((is_filled + opening).sum()), float(is_filled.max(initial=0.0)))


def cheapest_cover(candidates: Numbers, costs: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Partitions with at least one of every publication's candidates, at little cost.

    `candidates` has a row per dimension and a column per publication.
    """
    covers = [_is_in(np.unique(row), len(costs)) for row in candidates]
    if len(candidates) > 1:
        covers.append(_without_superfluous(_greedy(candidates, costs), candidates, costs))
    return min(covers, key=lambda cover: float(costs[cover].sum()))


def _greedy(candidates: Numbers, costs: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    is_open = np.zeros(len(costs), np.bool_)
    left = candidates
    while left.shape[1]:
        gains = np.bincount(left.ravel(), minlength=len(costs))
        chosen = int(np.argmax(gains / (costs + 1)))
        is_open[chosen] = True
        left = left[:, (left != chosen).all(axis=0)]
    return is_open


def _without_superfluous(
    is_open: npt.NDArray[np.bool_], candidates: Numbers, costs: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    for partition in sorted(np.flatnonzero(is_open).tolist(), key=lambda at: -costs[at]):
        theirs = candidates[:, (candidates == partition).any(axis=0)]
        if (is_open[theirs].sum(axis=0) > 1).all():
            is_open[partition] = False
    return is_open


def _is_in(members: Numbers, size: int) -> npt.NDArray[np.bool_]:
    is_in = np.zeros(size, np.bool_)
    is_in[members] = True
    return is_in


def _cuts(sampled: Sampled, segments: int) -> Doubles:
    """Quantiles of where ranges begin and end and publications lie, each table by half."""
    ends = np.concatenate((sampled.low, sampled.high))
    tables = [ends[(ends > LOWEST) & (ends < HIGHEST)], sampled.places[sampled.places > LOWEST]]
    found = [table for table in tables if len(table)]
    if not found:
        return np.empty(0)
    size = max(map(len, found))
    even = [np.sort(table)[np.arange(size) * len(table) // size] for table in found]
    return np.array(quantile_cuts(np.concatenate(even), segments))


def _stored(dimension: PlannedDimension, sampled: Sampled) -> Numbers:
    """Return how many of the sampled subscriptions each segment has."""
    _, partitions = dimension.partitions_met(sampled.rows, sampled.low, sampled.high)
    size = len(dimension.cuts) + 1
    return np.bincount(partitions - dimension.first, minlength=size)


# --- places of columns ------------------------------------------------------------------------


def places_of_numbers(
    values: npt.NDArray[np.generic], is_missing: npt.NDArray[np.bool_]
) -> Doubles:
    """Return the places of numbers, as `segments.place_of` has them, and the lowest for a missing
    number.
    """
    places = values.astype(np.float64)
    places[np.isnan(places)] = HIGHEST
    np.minimum(places, HIGHEST, out=places)
    places[is_missing] = LOWEST
    return places


def places_of_strings(values: Sequence[str | None]) -> Doubles:
    """Return the places of strings, and the lowest for a missing string."""
    known: dict[str, float] = {}
    places = np.full(len(values), LOWEST)
    for at, value in enumerate(values):
        if value is not None:
            place = known.get(value)
            if place is None:
                place = known[value] = place_of(value)
            places[at] = place
    return places
