"""A root's counts of its topics, and their reports to the manager.

It reports actual publications and the homes that got some, so conditions on the content count.
Without publications there are no reports.

Source: DYNATOPS, section 5.1, online monitoring.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set

from shoal.broker.effects import Effect, SetTimer
from shoal.model import BrokerId
from shoal.overlays.dynatops.messages import TopicCount
from shoal.overlays.dynatops.planning.bound import messages_of, smoothed_rate

REPORT = ("reconfiguration", "report")
# Weight of the newest change in the factor of prices, and bound of that factor.
LEARNED = 0.3
MOST_FACTOR = 20.0
# Topics of one report; of more, those that come first.
MAX_TOPICS = 10_000
# A topic of which fewer are expected in a period is forgotten.
LEAST_EXPECTED = 0.01


class Counting:
    """The counts of one broker; it reports once in `period_us`."""

    def __init__(self, period_us: int) -> None:
        self._period_us = period_us
        self._counts: dict[str, int] = {}
        self._homes: dict[str, set[BrokerId]] = {}
        self._is_timed = False

    def count(
        self, topic: str, homes: Collection[BrokerId], now_us: int, out: list[Effect]
    ) -> None:
        """A new publication went to these homes."""
        if topic not in self._counts and len(self._counts) >= MAX_TOPICS:
            return
        self._counts[topic] = self._counts.get(topic, 0) + 1
        self._homes.setdefault(topic, set()).update(homes)
        if not self._is_timed:
            self._is_timed = True
            out.append(SetTimer(REPORT, now_us + self._period_us))

    def take(self, members: Collection[BrokerId]) -> tuple[TopicCount, ...]:
        """All counts since the last call; homes that are no members any more are left out."""
        counts, homes = self._counts, self._homes
        self._counts, self._homes, self._is_timed = {}, {}, False
        return tuple(
            TopicCount(topic, count, tuple(sorted(homes[topic].intersection(members))))
            for topic, count in counts.items()
        )


class SentPrice:
    """Price of a change in messages, as reckoned and corrected by what earlier ones took.

    Brokers report what they have sent for views; those without publications do not report.

    >>> price = SentPrice()
    >>> price.done(24, 2)
    >>> price.add(102)  # twice what was reckoned
    >>> price.learn()
    >>> round(price.of(24, 2) / messages_of(24, 2), 1)
    1.3
    """

    def __init__(self) -> None:
        self._factor = 1.0
        self._reckoned = 0.0
        self._spent = 0

    def of(self, brokers: int, moved: int) -> float:
        return self._factor * messages_of(brokers, moved)

    def done(self, brokers: int, moved: int) -> None:
        """So many brokers move now."""
        self._reckoned, self._spent = messages_of(brokers, moved), 0

    def add(self, spent: int) -> None:
        """A broker reports messages."""
        self._spent += spent

    def learn(self) -> None:
        """A period is over: all that report have."""
        if self._reckoned:
            found = min(MOST_FACTOR, max(1 / MOST_FACTOR, self._spent / self._reckoned))
            self._factor += LEARNED * (found - self._factor)
        self._reckoned = 0.0


class Estimate:
    """Expected rates of topics, from the reports of roots (Eq. 8)."""

    def __init__(self, rate_percent: int) -> None:
        self._weight = rate_percent / 100
        self._counts: dict[str, float] = {}
        self._homes: dict[str, set[BrokerId]] = {}
        self._expected: dict[str, float] = {}

    @property
    def expected(self) -> Mapping[str, float]:
        """Publications that are expected in a period, as it was reckoned last."""
        return self._expected

    def on_counts(self, topics: Iterable[TopicCount]) -> None:
        """A root reports."""
        for topic in topics:
            self._counts[topic.topic] = self._counts.get(topic.topic, 0) + topic.publications
            self._homes.setdefault(topic.topic, set()).update(topic.homes)

    def renew(self) -> tuple[Mapping[str, float], Mapping[str, Set[BrokerId]]]:
        """A period is over: returns the expected publications in one, and the homes of the last."""
        counts, self._counts = self._counts, {}
        homes, self._homes = self._homes, {}
        before = self._expected
        self._expected = {
            topic: expected
            for topic in sorted({*before, *counts})
            if (
                expected := smoothed_rate(
                    before.get(topic, float(counts.get(topic, 0))),
                    counts.get(topic, 0),
                    self._weight,
                )
            )
            >= LEAST_EXPECTED
        }
        return self._expected, homes
