"""Shared notifications of brokers in the fast model, from the times of interests, without caches.

>>> types = [Interested([1.0, 2.0, 3.0])]
>>> pairs, triples = SharingPairs(3, types), SharingTriples(3, types, kept=100)
>>> for at, brokers in ((0.0, frozenset({0, 1})), (2.5, frozenset({0, 1, 2}))):
...     pairs.become(at, 0, brokers)
...     triples.become(at, 0, brokers)
>>> pairs.since_told(2.0, 0), pairs.since_told(9.0, 0)
(array([2, 2, 0]), array([1, 1, 1]))
>>> triples.count(0.0, 9.0, 0, 1, 2)
1

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
Flags = npt.NDArray[np.bool_]

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
    """A type of notifications: its times, and the brokers that are interested in it now."""

    def __init__(self, publications: Sequence[float]) -> None:
        self.publications = publications
        self.brokers: frozenset[int] = frozenset()

    def published(self, until: float) -> int:
        """Publications up to a time."""
        return bisect_right(self.publications, until)


def publication_times(publications: Sequence[Sequence[float]]) -> tuple[Times, Counts]:
    """Times of all types' publications, one type after the other, and where each type begins
    (types + 1).
    """
    lengths = [len(times) for times in publications]
    return (
        np.array([at for times in publications for at in times], np.float64),
        np.cumsum([0, *lengths], dtype=np.int64),
    )


class SharingPairs:
    """Number of notifications in which each two brokers were both interested so far."""

    def __init__(self, brokers: int, types: Sequence[Interested]) -> None:
        self._types = types
        # Brokers that are interested now, and the publications of a type in the sums.
        self._is_wanted = np.zeros((len(types), brokers), dtype=np.int64)
        self._counted = np.zeros(len(types), np.int64)
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

    def since_told(self, at: float, broker: int) -> Counts:
        """Return each broker's shared notifications with this broker, since the last call for
        it.

        Shape (brokers). Each call is at the time of the last one, or later.
        """
        published = np.array([type.published(at) for type in self._types], np.int64)
        uncounted = (published - self._counted) * self._is_wanted[:, broker]
        found: Counts = self._sums[broker] - self._told[broker] + uncounted @ self._is_wanted
        self._told[broker] += found
        return found


class SharingTriples:
    """Number of notifications in which three brokers were interested, as far back as needed.

    Each row is a span of time in which the same brokers were interested in a type. A span that has
    ended more than `kept` before its type's next change is forgotten, and its row is used again.
    """

    def __init__(self, brokers: int, types: Sequence[Interested], kept: float) -> None:
        self._kept = kept
        self._times, self._begins = publication_times([type.publications for type in types])
        self._rows: list[list[int]] = [[] for _ in types]
        self._free: list[int] = []
        # By row: its type, and its span.
        self._types = np.zeros(0, np.int64)
        self._since = np.zeros(0, np.float64)
        self._until = np.zeros(0, np.float64)
        # (brokers, rows)
        self._is_wanted = np.zeros((brokers, 0), np.bool_)

    def become(self, at: float, type: int, brokers: frozenset[int]) -> None:
        """From now on these are interested in a type."""
        rows = self._rows[type]
        if rows:
            self._until[rows[-1]] = at
        old = [row for row in rows if self._until[row] <= at - self._kept]
        self._is_wanted[:, old] = False
        self._free += old
        if not self._free:
            self._grow()
        new = self._free.pop()
        self._types[new], self._since[new], self._until[new] = type, at, np.inf
        self._is_wanted[list(brokers), new] = True
        self._rows[type] = [row for row in rows if row not in old] + [new]

    def _grow(self) -> None:
        rows = len(self._types)
        more = max(64, rows)
        self._free = list(range(rows, rows + more))
        self._types = np.pad(self._types, (0, more))
        self._since = np.pad(self._since, (0, more))
        self._until = np.pad(self._until, (0, more))
        self._is_wanted = np.pad(self._is_wanted, ((0, 0), (0, more)))

    def count(self, since: float, until: float, one: int, two: int, three: int) -> int:
        """Notifications after `since`, up to `until`, that all of these were to get."""
        return int(
            _count(
                since,
                until,
                self._is_wanted[one],
                self._is_wanted[two],
                self._is_wanted[three],
                self._types,
                self._since,
                self._until,
                self._times,
                self._begins,
            )
        )


@kernel
def _count(
    since: float,
    until: float,
    one: Flags,
    two: Flags,
    three: Flags,
    types: Counts,
    starts: Times,
    ends: Times,
    times: Times,
    begins: Counts,
) -> int:
    found = 0
    for row in range(len(types)):
        if one[row] and two[row] and three[row]:
            low, high = max(starts[row], since), min(ends[row], until)
            if low < high:
                of_type = times[begins[types[row]] : begins[types[row] + 1]]
                found += np.searchsorted(of_type, high, side="right")
                found -= np.searchsorted(of_type, low, side="right")
    return found


class SharedInterest:
    """Counts one broker's shared notifications, in the place of its cache."""

    def __init__(self, broker: int, triples: SharingTriples) -> None:
        self._broker = broker
        self._triples = triples
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
            found = self._triples.count(since, until, self._broker, one.origin, two.origin)
            if len(self._by_three) >= MOST_REMEMBERED:
                self._by_three.clear()
            self._by_three[asked] = found
        return found
