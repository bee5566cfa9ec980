"""Which brokers want which topics, as far as their clients' filters say.

A broker of which some filter names no topic wants any, so it is a subscriber of every topic; and
those of them are the subscribers of what has no topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set

from shoal.model import BrokerId, Filter

# None: any topic, and none.
Topic = str | None


class Subscribers:
    """As one broker has heard; `topics_of` says which a filter names, None: any."""

    def __init__(self, topics_of: Callable[[Filter], frozenset[str] | None]) -> None:
        self._topics_of = topics_of
        self._rows: dict[Topic, Counter[BrokerId]] = {}
        # Grows with every change of who wants what.
        self.version = 0

    def clear(self) -> None:
        self._rows.clear()
        self.version += 1

    def heard(self, home: BrokerId, filter: Filter, is_there: bool) -> None:
        """Clients of a home have a filter, or have it no more."""
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
        """Who wants a topic, those that want any included."""
        found = self._rows.get(None, Counter()).keys()
        return found if topic is None else found | self._rows.get(topic, Counter()).keys()

    def by_topic(self) -> Mapping[Topic, Set[BrokerId]]:
        """Who wants what, of all that somebody does."""
        return {topic: self.of(topic) for topic in self._rows}
