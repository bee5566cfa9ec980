"""Which brokers, subscriptions and intervals the indices of the arrays stand for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from shoal.experiments.bluedove.testbed.compiled.arrays import CELLS, SetArrays, Whole
from shoal.experiments.bluedove.testbed.compiled.kernel import fill_cells
from shoal.experiments.bluedove.testbed.linear_index import LinearIndex
from shoal.matching.segments import HIGHEST, LOWEST
from shoal.model import BrokerId
from shoal.overlays.bluedove.protocol import Bluedove
from shoal.overlays.bluedove.serving.matcher import Matcher


class ClusterLayout(NamedTuple):
    """Names by index, and the parts of the arrays that do not change.

    number      index of a broker
    cuts        of each dimension, between the intervals that matchers serve
    intervals   index of each dimension's first interval
    columns     of the dimensions among the attributes
    """

    number: Mapping[BrokerId, int]
    dispatchers: tuple[BrokerId, ...]
    matchers: tuple[BrokerId, ...]
    sets: SetArrays
    cuts: tuple[Whole, ...]
    intervals: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def brokers(self) -> tuple[BrokerId, ...]:
        return (*self.dispatchers, *self.matchers)

    def places(self, values: np.ndarray) -> Whole:
        """The intervals of messages, by dimension; `values` has a row for each."""
        found = [
            first + np.searchsorted(cuts, np.clip(values[:, column], LOWEST, HIGHEST), side="right")
            for column, cuts, first in zip(self.columns, self.cuts, self.intervals, strict=True)
        ]
        return np.stack(found, axis=1).astype(np.int64)


def layout_of(
    strategies: Mapping[BrokerId, Bluedove], dispatchers: tuple[BrokerId, ...],
    attributes: tuple[str, ...], filed: FiledSets,
) -> ClusterLayout:  # fmt: skip
    """The layout of a cluster by its first dispatcher's table."""
    node = strategies[dispatchers[0]].node
    owned = [node.table.intervals(number) for number in range(len(node.dimensions))]
    matchers = tuple(sorted({name for _, owners in owned for names in owners for name in names}))
    number_of = {name: number for number, name in enumerate(matchers)}
    first, owners, intervals = [0], [], []
    for _, names in owned:
        intervals.append(len(first) - 1)
        for each in names:
            owners += [number_of[name] for name in each]
            first.append(len(owners))
    sets = filed.of([matcher_of(strategies[name]) for name in matchers], dispatchers)
    return ClusterLayout(
        {name: number for number, name in enumerate((*dispatchers, *matchers))},
        dispatchers,
        matchers,
        sets._replace(owners=np.array(owners, np.int64), first=np.array(first, np.int64)),
        tuple(np.array(cuts, np.float64) for cuts, _ in owned),
        tuple(intervals),
        tuple(attributes.index(dimension.attribute) for dimension in node.dimensions),
    )


def matcher_of(strategy: Bluedove) -> Matcher:
    """The matcher of a broker that has one."""
    assert strategy.matcher is not None
    return strategy.matcher


class FiledSets:
    """The arrays of one cluster's sets, filed anew only if a set has changed."""

    def __init__(self) -> None:
        self._sets: SetArrays | None = None
        # The sets' indexes, and how often each had changed.
        self._filed: list[tuple[LinearIndex, int]] = []

    def of(self, matchers: list[Matcher], dispatchers: tuple[BrokerId, ...]) -> SetArrays:
        indexes = [each.index for matcher in matchers for each in matcher.sets]
        filed = [(index, index.changes) for index in indexes if isinstance(index, LinearIndex)]
        if self._sets is None or filed != self._filed:
            self._sets, self._filed = _sets(matchers, dispatchers), filed
        return self._sets


def _sets(matchers: list[Matcher], dispatchers: tuple[BrokerId, ...]) -> SetArrays:
    number_of = {name: number for number, name in enumerate(dispatchers)}
    bounds, homes, start, total = [], [], [], 0
    for matcher in matchers:
        for each in matcher.sets:
            index = each.index
            assert isinstance(index, LinearIndex)
            boxes, rows = index.boxes, each.rows
            bounds.append(np.concatenate([boxes.low, boxes.high], axis=1))
            homes += [number_of[rows[id].home] for id in boxes.ids]
            start.append(total)
            total += len(boxes.ids)
    every = np.ascontiguousarray(np.concatenate(bounds))
    attributes = every.shape[1] // 2
    finite = np.where(np.isfinite(every), every, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of an attribute without bounds
        lowest = np.nan_to_num(np.nanmin(finite[:, :attributes], axis=0))
        highest = np.nan_to_num(np.nanmax(finite[:, attributes:], axis=0))
    sizes = np.array([len(each) for each in bounds], np.int64)
    words = (sizes + 63) // 64 * attributes * CELLS
    sets = SetArrays(
        bounds=every,
        home=np.array(homes, np.int64),
        start=np.array(start, np.int64).reshape(len(matchers), -1),
        rows=sizes.reshape(len(matchers), -1),
        lowest=lowest,
        per_cell=CELLS / np.maximum(highest - lowest, 1e-9),
        bits=np.zeros(int(words.sum()), np.uint64),
        first_word=np.cumsum(words) - words,
        owners=np.zeros(0, np.int64),
        first=np.zeros(0, np.int64),
    )
    fill_cells(sets)
    return sets
