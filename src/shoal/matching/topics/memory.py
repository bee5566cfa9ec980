"""Cache of facts about topics, up to a size: then it is emptied.

Topics may be long, and may have many matches; both count.

>>> memory: TopicMemory[str] = TopicMemory(most=2)
>>> for topic in ("a", "b", "c"):
...     memory.keep(topic, topic.upper(), places=1)
>>> dict(memory)
{'c': 'C'}
"""

from __future__ import annotations

from typing import TypeVar

from shoal.ledger import Ledger, LedgerMeasure

MOST_TOPICS = 65_536
MOST_BYTES = 64 * 2**20
# Memory of a topic and its facts beside the characters, and of each place that matches.
TOPIC_BYTES, PLACE_BYTES = 250, 8

Known = TypeVar("Known")


class TopicMemory(dict[str, Known]):
    """By topic; `most` of them, and `most_bytes` in all."""

    def __init__(self, most: int = MOST_TOPICS, most_bytes: int = MOST_BYTES) -> None:
        super().__init__()
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0

    def register(self, ledger: Ledger, name: str) -> None:
        ledger.register(
            name, lambda: LedgerMeasure(len(self), self._bytes, self._most, self._most_bytes)
        )

    def keep(self, topic: str, known: Known, places: int) -> None:
        """Remember this of a topic, which has so many places in it."""
        size = TOPIC_BYTES + len(topic) + PLACE_BYTES * places
        if len(self) >= self._most or self._bytes + size > self._most_bytes:
            self.clear()
        self[topic] = known
        self._bytes += size

    def clear(self) -> None:
        super().clear()
        self._bytes = 0
