"""An index of expiry times, so that expired entries are found without a scan.

Topics are filed by the rough minute in which their messages expire: a topic's message may be
replaced each second, and its former ones leave no entries.

>>> expiring = Expiring()
>>> expiring.add("a", 5_000_000)
>>> expiring.add("b", 900_000_000)
>>> list(expiring.take(600_000_000, most=10)), list(expiring.take(600_000_000, most=10))
(['a'], [])
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heappop, heappush
from math import inf

MINUTE_US = 2**26


class Expiring:
    """Topics by the expiry time of their messages."""

    def __init__(self) -> None:
        self._topics: dict[int, OrderedDict[str, None]] = {}
        # Each minute with topics, or that had some, once.
        self._minutes: list[int] = []
        # The end of the first minute; infinity without any.
        self.due_us: float = inf

    def add(self, topic: str, expires_us: int) -> None:
        """Add a topic with its expiry time."""
        minute = expires_us // MINUTE_US
        topics = self._topics.get(minute)
        if topics is None:
            topics = self._topics[minute] = OrderedDict()
            heappush(self._minutes, minute)
            self.due_us = (self._minutes[0] + 1) * MINUTE_US
        topics[topic] = None

    def discard(self, topic: str, expires_us: int) -> None:
        """Remove a topic; its message was dropped or replaced."""
        topics = self._topics.get(expires_us // MINUTE_US)
        if topics is not None:
            topics.pop(topic, None)

    def take(self, now_us: int, most: int) -> Iterator[str]:
        """Take out the topics of past minutes, the earliest first."""
        while most and self.due_us <= now_us:
            topics = self._topics[self._minutes[0]]
            if topics:
                most -= 1
                yield topics.popitem(last=False)[0]
            else:
                del self._topics[heappop(self._minutes)]
                self.due_us = (self._minutes[0] + 1) * MINUTE_US if self._minutes else inf
