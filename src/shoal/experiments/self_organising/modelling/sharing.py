"""Shared notifications of brokers in the fast model, from the times of interests, without caches.

>>> types = [Interested([1.0, 2.0, 3.0], kept=100)]
>>> pairs = SharingPairs(3, types)
>>> for at, brokers in ((0.0, frozenset({0, 1})), (2.5, frozenset({0, 2}))):
...     pairs.become(at, 0, brokers)
...     types[0].become(at, brokers)
>>> pairs.since_told(2.0, 0), pairs.since_told(9.0, 0)
(array([2, 2, 0]), array([1, 0, 1]))

Source: Cost and Interest, sections 4.1 and 4.3.1.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.matching.compiled.kernels.compiler import kernel

Counts = npt.NDArray[np.int64]
Times = npt.NDArray[np.float64]

MOST_REMEMBERED = 10_000


class SharingInterval(NamedTuple):
    """Content of one broker's broadcast: its time span, and the notifications that each broker
    shares with it then.
    """

    origin: int
    since: float
    until: float
    shared: Counts


class Interested:
    """Brokers that were interested in a type of notifications, with times, as far as needed."""

    def __init__(self, publications: Sequence[float], kept: float) -> None:
        self.publications = publications
        self._kept = kept
        self._spans: list[tuple[float, float, frozenset[int]]] = []
        self._since = 0.0
        self.brokers: frozenset[int] = frozenset()

    def become(self, at: float, brokers: frozenset[int]) -> None:
        """From now on it is these."""
        self._spans = [span for span in self._spans if span[1] > at - self._kept]
        self._spans.append((self._since, at, self.brokers))
        self.brokers = brokers
        self._since = at

    def published(self, until: float) -> int:
        """Publications up to a time."""
        return bisect_right(self.publications, until)

    def count(self, since: float, until: float, wanted: frozenset[int]) -> int:
        """Publications after `since`, up to `until`, that all of these were to get."""
        found = 0
        for start, end, members in (*self._spans, (self._since, until, self.brokers)):
            if wanted <= members:
                low, high = max(start, since), min(end, until)
                if low < high:
                    found += self.published(high) - self.published(low)
        return found


class SharingPairs:
    """Number of notifications in which each two brokers were both interested so far."""

    def __init__(self, brokers: int, types: Sequence[Interested]) -> None:
        self._types = types
        # Brokers that are interested now, and the publications of a type in the sums.
        self._is_wanted = np.zeros((len(types), brokers), dtype=np.int64)
        self._counted = np.zeros(len(types), np.int64)
        self._sums = np.zeros((brokers, brokers), dtype=np.int64)
        self._told = np.zeros((brokers, brokers), dtype=np.int64)
        # Of all types, one after the other: when each publishes, where it begins, and how many were
        # published when a broker told last. Brokers tell in the order of time.
        self._times = np.array([at for type in types for at in type.publications], np.float64)
        lengths = [len(type.publications) for type in types]
        self._begins = np.cumsum([0, *lengths], dtype=np.int64)
        self._published = np.zeros(len(types), np.int64)

    def become(self, at: float, type: int, brokers: frozenset[int]) -> None:
        """From now on these are interested in a type."""
        published = self._types[type].published(at)
        row = self._is_wanted[type]
        if count := published - self._counted[type]:
            self._sums[row.nonzero()] += count * row
        self._counted[type] = published
        row[:] = 0
        row[list(brokers)] = 1

    def since_told(self, at: float, broker: int) -> Counts:
        """Return each broker's shared notifications with this broker, since the last call for
        it.

        Shape (brokers). Each call is at the time of the last one, or later.
        """
        return _since_told(
            at,
            broker,
            self._times,
            self._begins,
            self._published,
            self._counted,
            self._is_wanted,
            self._sums,
            self._told,
        )


@kernel
def _since_told(
    at: float,
    broker: int,
    times: Times,
    begins: Counts,
    published: Counts,
    counted: Counts,
    is_wanted: Counts,
    sums: Counts,
    told: Counts,
) -> Counts:
    """`SharingPairs.since_told`; `published` and `told` change."""
    found: Counts = sums[broker] - told[broker]
    for type in range(len(published)):
        while (
            begins[type] + published[type] < begins[type + 1]
            and times[begins[type] + published[type]] <= at
        ):
            published[type] += 1
        if is_wanted[type, broker]:
            found += (published[type] - counted[type]) * is_wanted[type]
    told[broker] += found
    return found


class SharedInterest:
    """Counts one broker's shared notifications, in the place of its cache."""

    def __init__(self, broker: int, types: Sequence[Interested]) -> None:
        self._broker = broker
        self._types = types
        # Of three it is asked again and again.
        self._by_three: dict[tuple[float, ...], int] = {}

    def common(self, *intervals: SharingInterval) -> int:
        if len(intervals) == 1:
            return int(intervals[0].shared[self._broker])
        one, two = intervals
        asked = (one.origin, one.until, two.origin, two.until)
        found = self._by_three.get(asked)
        if found is None:
            since, until = max(one.since, two.since), min(one.until, two.until)
            wanted = frozenset((self._broker, one.origin, two.origin))
            found = sum(type.count(since, until, wanted) for type in self._types)
            if len(self._by_three) >= MOST_REMEMBERED:
                self._by_three.clear()
            self._by_three[asked] = found
        return found
