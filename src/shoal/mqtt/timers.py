"""Deadlines by key, the earliest first; a key that is set again moves.

>>> timers = Timers()
>>> timers.set("a", 30), timers.set("b", 20), timers.set("a", 10), timers.cancel("b")
(None, None, None, None)
>>> timers.next_us, list(timers.due(15)), timers.next_us
(10, ['a'], None)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

# With a connection: when its client will have been silent for too long.
SILENCE_TIMER = "silence"
# With a connection: when what let its client in expires.
EXPIRY_TIMER = "expiry"
# Entries of the heap that no longer hold are dropped when they outnumber those that do.
_STALE_MINIMUM = 1_000


class Timers:
    """Which keys are due, in the order of their times, and of being set at equal times."""

    def __init__(self) -> None:
        # The serial number of each key's entry that holds.
        self._holds: dict[Hashable, int] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._serials = count()

    @property
    def next_us(self) -> int | None:
        """When the earliest is due."""
        heap = self._heap
        while heap and self._holds.get(heap[0][2]) != heap[0][1]:
            heappop(heap)
        return heap[0][0] if heap else None

    def set(self, key: Hashable, at_us: int) -> None:
        holds, heap = self._holds, self._heap
        holds[key] = serial = next(self._serials)
        heappush(heap, (at_us, serial, key))
        if len(heap) > 2 * len(holds) + _STALE_MINIMUM:
            self._heap = [entry for entry in heap if holds.get(entry[2]) == entry[1]]
            heapify(self._heap)

    def cancel(self, key: Hashable) -> None:
        """Forget a key; nothing happens if it is not set."""
        self._holds.pop(key, None)

    def due(self, now_us: int) -> Iterator[Any]:
        """Take out, one by one, the keys whose time has come."""
        while (at_us := self.next_us) is not None and at_us <= now_us:
            key = heappop(self._heap)[2]
            del self._holds[key]
            yield key
