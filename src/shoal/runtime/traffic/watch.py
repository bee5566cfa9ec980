"""Sampled traffic of a broker's MQTT side: busiest publishers and topics, most costly filters,
latency of deliveries.

Nothing is counted where messages are handled. Every few milliseconds at most, one of the latest
messages is sampled, and stands for all since the last sample. The cost of filters is measured on
the sample: the filters that its topic leads to are evaluated once more, a few of each topic filter,
for at most a hundredth of the broker's time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from shoal.attributes import Json
from shoal.language import format_filter
from shoal.matching import matches
from shoal.model import Attributes, FilterError
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.content import attributes_of
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.session import ClientSubscription
from shoal.runtime.traffic.heavy_hitters import Lately
from shoal.runtime.traffic.latency import ELSEWHERE, HERE, Latencies
from shoal.runtime.traffic.samples import MessageSamples

# Looks are so far apart, and filters are asked for at most this share of the time.
LOOK_US, MOST_SHARE = 2_000, 0.01
# Larger messages are not read once more; so many topic filters and filters of each are asked.
LONGEST, MOST_LEAVES, MOST_ASKED = 16_384, 64, 16
# Longest time of such tests before other tasks run.
MOST_ASKING_S = 0.002
# Longer keys are cut.
MOST_CHARACTERS = 200
SHOWN = 50
# Measures of clients, topics and filters: per second, messages, bytes, and seconds of testing.
MESSAGES, BYTES, TIME = "messages", "bytes", "time"
KINDS: Mapping[str, tuple[str, ...]] = {
    "clients": (MESSAGES, BYTES),
    "topics": (MESSAGES, BYTES),
    "filters": (MESSAGES, BYTES, TIME),
}


class TrafficWatch:
    """One broker's; `due_us` is when `look` is to be called again."""

    def __init__(self, clients: BrokerClients, json: Json, clock: Callable[[], int]) -> None:
        """`clock` is the broker's, in µs."""
        now_us = clock()
        self._clock = clock
        self.latencies = Latencies()
        self.samples = MessageSamples(json)
        self.due_us = now_us
        self._clients = clients
        self._json = json
        self._begun_us = now_us
        self._published = self._delivered = 0
        self._sketches = {
            (kind, by): Lately(now_us) for kind, kinds in KINDS.items() for by in kinds
        }
        # time of evaluating filters so far, and deliveries since the last evaluation
        self._asked_us = 0.0
        self._unasked = 0

    def look(self, now_us: int) -> None:
        """Look at one of the messages that came last."""
        self.due_us = now_us + LOOK_US
        statistics = self._clients.statistics
        published, routed = statistics.published, statistics.routed
        statistics.published = statistics.routed = None
        count = statistics.publications_received - self._published
        deliveries = statistics.deliveries - self._delivered
        self._published = statistics.publications_received
        self._delivered = statistics.deliveries
        if isinstance(published, PublishedMessage) and count > 0:
            self.samples.add(published)
            for kind, key in (("clients", published.publisher), ("topics", published.topic)):
                self._add(kind, key, count, len(published.payload), now_us)
        if not isinstance(routed, PublishedMessage) or deliveries <= 0 or routed.topic[:1] == "$":
            return
        where = HERE if self._is_from_here(routed) else ELSEWHERE
        self.latencies.note(now_us - routed.published_us, where, deliveries, now_us)
        self._unasked += max(1, count)
        if self._asked_us <= MOST_SHARE * (now_us - self._begun_us):
            self._count_matches(routed, self._unasked, now_us)
            self._unasked = 0

    async def heaviest(self, _query: Mapping[str, str]) -> dict[str, Any]:
        """The heaviest clients, topics and filters, a second, by each measure."""
        now_us = self._clock()
        return {
            kind: {
                by: [
                    {"name": name, "per_s": round(per_s, 6)}
                    for name, per_s in self._sketches[kind, by].heaviest(SHOWN, now_us)
                ]
                for by in kinds
            }
            for kind, kinds in KINDS.items()
        }

    def _add(self, kind: str, key: str, count: float, size: int, now_us: int) -> None:
        name = _short(key)
        self._sketches[kind, MESSAGES].add(name, count, now_us)
        self._sketches[kind, BYTES].add(name, count * size, now_us)

    def _is_from_here(self, message: PublishedMessage) -> bool:
        """Return whether a message was published at this broker, on its clock."""
        front_end = self._clients.front_end
        if message.key is None or front_end is None:
            return True
        client = message.key[0]
        return client == front_end.client or self._clients.connection(client) is not None

    def _count_matches(self, message: PublishedMessage, weight: int, now_us: int) -> None:
        """Ask the filters that a message's topic leads to, for messages like it."""
        began = time.perf_counter()
        attributes: Attributes | None = None
        size = len(message.payload)
        leaves = self._clients.subscriptions.asked(message.topic, MOST_ASKED)
        for _, (plain, asked, among) in zip(range(MOST_LEAVES), leaves, strict=False):
            if time.perf_counter() - began > MOST_ASKING_S:
                break
            if plain is not None:
                self._add("filters", plain.topic_filter, weight * among, size, now_us)
                continue
            if size > LONGEST:
                continue
            if attributes is None:
                attributes = attributes_of(message, self._json)
            for name, is_match, took_s in _tested(asked, attributes):
                stands_for = weight * among / len(asked)
                self._sketches["filters", TIME].add(name, stands_for * took_s, now_us)
                if is_match:
                    self._add("filters", name, stands_for, size, now_us)
        message.attributes = None
        self._asked_us += 1e6 * (time.perf_counter() - began)


def _tested(
    asked: list[ClientSubscription], attributes: Attributes
) -> Iterator[tuple[str, bool, float]]:
    """Each filter in words, whether it matches, and how long that took to find out."""
    for subscription in asked:
        began = time.perf_counter()
        is_match = matches(subscription.content, attributes)
        took_s = time.perf_counter() - began
        try:
            where = format_filter(subscription.content)
        except FilterError:
            continue
        yield _short(f"{subscription.topic_filter}?{where}"), is_match, took_s


def _short(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."
