"""Shared notifications of brokers in the fast model, from the times of interests, without caches.

>>> types = [Interested([1.0, 2.0, 3.0], kept=100)]
>>> pairs = SharingPairs(3, types)
>>> for at, brokers in ((0.0, frozenset({0, 1})), (2.5, frozenset({0, 2}))):
...     pairs.become(at, 0, brokers)
...     types[0].become(at, brokers)
>>> pairs.since_told(2.0, 0), pairs.since_told(9.0, 0)
([2, 2, 0], [1, 0, 1])

Source: Cost and Interest, sections 4.1 and 4.3.1.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

MOST_REMEMBERED = 10_000


class SharingInterval(NamedTuple):
    """Content of one broker's broadcast: its time span, and the notifications that each broker
    shares with it then.
    """

    origin: int
    since: float
    until: float
    shared: list[int]


class Interested:
    """Brokers that were interested in a type of notifications, with times, as far as needed."""

    def __init__(self, publications: Sequence[float], kept: float) -> None:
        self._publications = publications
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
        return bisect_right(self._publications, until)

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
        self._counted = [0] * len(types)
        self._sums = np.zeros((brokers, brokers), dtype=np.int64)
        self._told = np.zeros((brokers, brokers), dtype=np.int64)

    def become(self, at: float, type: int, brokers: frozenset[int]) -> None:
        """From now on these are interested in a type."""
        published = self._types[type].published(at)
        row = self._is_wanted[type]
        if count := published - self._counted[type]:
            self._sums[row.nonzero()] += count * row
        self._counted[type] = published
        row[:] = 0
        row[list(brokers)] = 1

    def since_told(self, at: float, broker: int) -> list[int]:
        """Return each broker's shared notifications with this broker, since the last call for
        it.
        """
        counted = self._counted
        fresh = [type.published(at) - counted[n] for n, type in enumerate(self._types)]
        now = self._sums[broker] + (fresh * self._is_wanted[:, broker]) @ self._is_wanted
        found: list[int] = (now - self._told[broker]).tolist()
        self._told[broker] = now
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
            return intervals[0].shared[self._broker]
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
