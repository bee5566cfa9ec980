"""Chord: positions on a ring, each with fingers at doubling distances.

Identifiers are spaced evenly, as consistent hashing has them on average: brokers differ in their
positions only, and DYNATOPS decides these.

>>> from shoal.overlays.dynatops.structures.structure import route
>>> ring = Chord(8)
>>> ring.neighbours(1), route(ring, 1, 0)
((2, 3, 5), [1, 5, 7, 0])

Source: DYNATOPS, section 3, over Chord as Stoica et al. describe it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from shoal.overlays.dynatops.structures.structure import HASH_BITS, hash_of


class Chord:
    """A ring of `size` positions."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError("a ring has at least one position")
        self.size = size
        self._ids = [position * 2**HASH_BITS // size for position in range(size)]
        self._distances = cache(self._distances_of)

    def root(self, key: str) -> int:
        return self._successor(hash_of(key))

    def next_hop(self, position: int, target: int) -> int:
        """The farthest finger that is not behind the target."""
        distances = self._distances(position)
        ahead = (target - position) % self.size
        return (position + distances[bisect_right(distances, ahead) - 1]) % self.size

    def neighbours(self, position: int) -> Sequence[int]:
        return tuple((position + each) % self.size for each in self._distances(position))

    def routing_tree(self, root: int) -> Sequence[int]:
        """Each finger is responsible for the positions between it and the next."""
        parents = [root] * self.size
        # A position, and how far behind the root its part of the ring begins and ends.
        open_parts = [(root, 0, self.size)]
        while open_parts:
            position, begin, end = open_parts.pop()
            starts = [begin + each for each in self._distances(position) if begin + each < end]
            for start, stop in pairwise([*starts, end]):
                child = (root + start) % self.size
                parents[child] = position
                open_parts.append((child, start, stop))
        return parents

    def _distances_of(self, position: int) -> Sequence[int]:
        """Distances of the fingers ahead, nearest first."""
        starts = (self._ids[position] + 2**bit for bit in range(HASH_BITS))
        found = {(self._successor(start) - position) % self.size for start in starts}
        return tuple(sorted(found - {0}))

    def _successor(self, identifier: int) -> int:
        """The first position whose identifier is not smaller, going round."""
        return bisect_left(self._ids, identifier % 2**HASH_BITS) % self.size
