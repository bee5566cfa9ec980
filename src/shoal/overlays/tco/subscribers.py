"""The subscribers of each topic among brokers, by their clients' filters.

A broker with a filter that names no topic is a subscriber of every topic; such brokers are also the
subscribers of publications without a topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set

from shoal.model import BrokerId, Filter

# None: any topic, and none.
Topic = str | None


class TcoSubscribers:
    """Subscribers as one broker knows them; `topics_of` gives a filter's topics, None: any."""

    def __init__(self, topics_of: Callable[[Filter], frozenset[str] | None]) -> None:
        self._topics_of = topics_of
        self._rows: dict[Topic, Counter[BrokerId]] = {}
        # Increases with every change of subscribers.
        self.version = 0

    def clear(self) -> None:
        self._rows.clear()
        self.version += 1

    def on_filter(self, home: BrokerId, filter: Filter, is_there: bool) -> None:
        """Clients of a home have a filter, or have removed it."""
        topics = self._topics_of(filter)
        for topic in (None,) if topics is None else topics:
            rows = self._rows.setdefault(topic, Counter())
            rows[home] += 1 if is_there else -1
            if rows[home] == is_there:  # it is the first or was the last
                self.version += 1
            if not rows[home]:
                del rows[home]
            if not rows:
                del self._rows[topic]

    def of(self, topic: Topic) -> Set[BrokerId]:
        """The subscribers of a topic, those of any topic included."""
        found = self._rows.get(None, Counter()).keys()
        return found if topic is None else found | self._rows.get(topic, Counter()).keys()

    def by_topic(self) -> Mapping[Topic, Set[BrokerId]]:
        """The subscribers of each topic that has any."""
        return {topic: self.of(topic) for topic in self._rows}
