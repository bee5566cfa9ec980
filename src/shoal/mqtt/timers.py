"""Deadlines by key, the earliest first; setting a key again moves its deadline.

>>> timers = MqttTimers()
>>> timers.set("a", 30), timers.set("b", 20), timers.set("a", 10), timers.cancel("b")
(None, None, None, None)
>>> timers.next_us, list(timers.take_due(15)), timers.next_us
(10, ['a'], None)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

# With a connection: the keep-alive timeout of its client.
SILENCE_TIMER = "silence"
# With a connection: the expiry of its client's admission.
EXPIRY_TIMER = "expiry"
# Outdated entries of the heap are dropped when they outnumber the others.
_STALE_MINIMUM = 1_000


class MqttTimers:
    """Deadlines in the order of their times; equal times in the order of `set`."""

    def __init__(self) -> None:
        # The serial number of each key's valid entry.
        self._holds: dict[Hashable, int] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._serials = count()

    @property
    def next_us(self) -> int | None:
        """The earliest deadline."""
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
        """Remove a key; a key that is not set is ignored."""
        self._holds.pop(key, None)

    def take_due(self, now_us: int) -> Iterator[Any]:
        """Take out, one by one, the keys that are due."""
        while (at_us := self.next_us) is not None and at_us <= now_us:
            key = heappop(self._heap)[2]
            del self._holds[key]
            yield key
