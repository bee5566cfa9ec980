"""The retained messages: the last one of each topic, for later subscribers.

>>> from shoal.mqtt.messages import PublishedMessage
>>> store = RetainedStore(maximum=10)
>>> def sent(topic, payload, at_us):
...     return PublishedMessage(topic, payload, publisher="p", published_us=at_us, retain=True)
>>> [store.keep(sent(*each)) for each in (("a/b", b"1", 5), ("a/b", b"0", 4), ("a/c", b"2", 6))]
[True, True, True]
>>> [message.payload for message in store.matching("a/+", now_us=7)]
[b'1', b'2']
>>> store.keep(sent("a/b", b"", 8)), len(store)
(True, 1)

Source: MQTT Version 5.0, section 3.3.1.3.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from typing import Protocol

from shoal.ledger import Ledger, LedgerMeasure
from shoal.matching import TopicStore
from shoal.mqtt.broker_topics import is_brokers_own
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.expiring import Expiring

# The bounds of remembered removals, so that another broker does not bring a message back.
MAX_REMOVALS = 100_000
MAX_REMOVAL_BYTES = 32 * 2**20
# The memory of each topic level; common prefixes count once.
LEVEL_BYTES = 250
# Topic levels that a slice of a search visits, and expired messages that it drops, in the time in
# which a few messages are sent (see `subscribing`).
SLICE_NODES = 200
SLICE_DROPS = 10
# Expired messages dropped with each message kept; and at most, if there is no room otherwise.
DROPPED_EACH, MOST_DROPPED = 8, 2_000


class RetainedMemory(Protocol):
    """Records retained messages (see `journal`)."""

    def retained(self, message: PublishedMessage) -> None: ...


class RetainedStore:
    """At most `maximum` topics, and `maximum_bytes` of messages and topic levels.

    Of two messages for one topic the later one stays, in any order of arrival: brokers that have
    seen the same messages keep the same ones. At equal times the publisher with the greater name
    wins.
    """

    def __init__(self, maximum: int, maximum_bytes: int = 2**62) -> None:
        # Records changes, if there is one.
        self.journal: RetainedMemory | None = None
        self.maximum = maximum
        self.maximum_bytes = maximum_bytes
        self._bytes = 0
        # The bytes by publishing client.
        self._bytes_of: Counter[str] = Counter()
        self._messages: TopicStore[PublishedMessage] = TopicStore()
        self._expiring = Expiring()
        # The message that removed each topic's, oldest first.
        self._removals: OrderedDict[str, PublishedMessage] = OrderedDict()
        self._removal_bytes = 0
        # A hash that is equal at brokers with the same messages, in any order.
        self.digest = 0

    def __len__(self) -> int:
        return len(self._messages)

    def register(self, ledger: Ledger) -> None:
        def retained() -> LedgerMeasure:
            size = self._bytes + LEVEL_BYTES * self._messages.levels
            return LedgerMeasure(len(self._messages), size, self.maximum, self.maximum_bytes)

        def removals() -> LedgerMeasure:
            count, size = len(self._removals), self._removal_bytes
            return LedgerMeasure(count, size, MAX_REMOVALS, MAX_REMOVAL_BYTES)

        ledger.register("retained messages", retained)
        ledger.register("removals of retained messages", removals)

    def heaviest(self, most: int) -> list[tuple[str, int]]:
        """The clients whose retained messages take the most bytes, with the bytes."""
        return self._bytes_of.most_common(most)

    def date(self, message: PublishedMessage) -> None:
        """Date a message, published here now, after the one that it replaces.

        The clock of that one's broker may be ahead.
        """
        known = self.last(message.topic)
        if known is not None and known.published_us >= message.published_us:
            message.published_us = known.published_us + 1

    def keep(self, message: PublishedMessage, now_us: int = 0) -> bool:
        """Keep a message, or with an empty payload remove the topic's; False if full.

        A message that does not fit also removes the topic's former one, which is outdated. Messages
        that have expired by `now_us` are dropped for room.
        """
        topic = message.topic
        if self._expiring.due_us <= now_us:
            self._drop_expired(now_us, DROPPED_EACH if self._has_room(message) else MOST_DROPPED)
        known = self.last(topic)
        if known is not None and _age(message) < _age(known):
            return True
        if not message.payload:
            self._drop_topic(topic)
            self._remember_removal(message)
            return True
        replaced = self._messages.get(topic)
        if not self._has_room(message):
            if replaced is not None:
                self._drop_topic(topic)
                self._remember_removal(message)
            return False
        if replaced is not None:
            self._uncount(replaced)
        elif self._removals:
            self._forget_removal(topic)
        self._messages[topic] = message
        size = message.size
        self._bytes += size
        self._bytes_of[message.publisher] += size
        if message.expires_us is not None:
            self._expiring.add(topic, message.expires_us)
        self._fold(message)
        self._note(message)
        return True

    def _has_room(self, message: PublishedMessage) -> bool:
        # The common case: room enough, whichever of its levels are new.
        most = self._messages.levels + message.topic.count("/") + 1
        if (
            len(self._messages) < self.maximum
            and self._bytes + message.size + LEVEL_BYTES * most <= self.maximum_bytes
        ):
            return True
        replaced, levels, needed = self._messages.get(message.topic), 0, message.size
        if replaced is not None:
            needed -= replaced.size
        elif len(self._messages) >= self.maximum:
            return False
        else:
            levels = self._messages.lacking(message.topic)
        taken = self._bytes + LEVEL_BYTES * (self._messages.levels + levels)
        return taken + needed <= self.maximum_bytes

    def _drop_expired(self, now_us: int, most: int) -> None:
        for topic in self._expiring.take(now_us, most):
            self._drop_topic(topic)

    def is_news(self, message: PublishedMessage) -> bool:
        """Whether a message is later than the known state of its topic."""
        known = self.last(message.topic)
        return known is None or _age(known) < _age(message)

    def matching(self, topic_filter: str, now_us: int) -> Iterator[PublishedMessage]:
        """The messages of matching topics; expired ones are dropped."""
        found = self.search(topic_filter, now_us)
        return (message for message in found if message is not None)

    def search(self, topic_filter: str, now_us: int) -> Iterator[PublishedMessage | None]:
        """Like `matching`, with None after each slice of work, as few of many topics may match.

        The caller may read slowly: each result is the topic's message at that time.
        """
        dropped = 0
        for topic in self._messages.search(topic_filter, SLICE_NODES):
            if topic is None:
                yield None
                continue
            message = self._messages.get(topic)
            if message is None:
                continue
            if message.has_expired(now_us):
                self._drop_topic(topic)
                dropped += 1
                if not dropped % SLICE_DROPS:
                    yield None
            else:
                yield message

    def history(self) -> Iterator[PublishedMessage]:
        """Every message and every remembered removal, for another broker.

        The caller may read slowly: each result is the topic's latest state at that time.
        """
        for topics in (self._messages, self._removals):
            for topic in tuple(topics):
                message = None if is_brokers_own(topic) else self.last(topic)
                if message is not None:
                    yield message

    def _drop_topic(self, topic: str) -> None:
        message = self._messages.pop(topic, None)
        if message is not None:
            self._uncount(message)

    def _uncount(self, message: PublishedMessage) -> None:
        """Uncount a message that is dropped or replaced."""
        size = message.size
        self._bytes -= size
        self._bytes_of[message.publisher] -= size
        if not self._bytes_of[message.publisher]:
            del self._bytes_of[message.publisher]
        if message.expires_us is not None:
            self._expiring.discard(message.topic, message.expires_us)
        self._fold(message)

    def _remember_removal(self, message: PublishedMessage) -> None:
        """Remember a removal: its topic and its time."""
        topic = message.topic
        self._forget_removal(topic)
        self._removals[topic] = removal = _removal(message)
        self._removal_bytes += removal.size
        self._note(removal)
        while len(self._removals) > MAX_REMOVALS or self._removal_bytes > MAX_REMOVAL_BYTES:
            self._forget_removal(next(iter(self._removals)))

    def _forget_removal(self, topic: str) -> None:
        removal = self._removals.pop(topic, None)
        if removal is not None:
            self._removal_bytes -= removal.size

    def _note(self, message: PublishedMessage) -> None:
        if self.journal is not None and not is_brokers_own(message.topic):
            self.journal.retained(message)

    def _fold(self, message: PublishedMessage) -> None:
        """Add a message to the digest, or remove it."""
        if not is_brokers_own(message.topic):
            entry = f"{message.published_us} {message.publisher} {message.topic}".encode()
            self.digest ^= int.from_bytes(blake2b(entry, digest_size=7).digest(), "big")

    def last(self, topic: str) -> PublishedMessage | None:
        """The latest state of a topic: its message, or the removal."""
        return self._messages.get(topic) or self._removals.get(topic)


def _age(message: PublishedMessage) -> tuple[int, str]:
    return message.published_us, message.publisher


def _removal(message: PublishedMessage) -> PublishedMessage:
    """The removal of a topic's message at the time of this one."""
    return PublishedMessage(
        message.topic, b"", message.publisher, message.published_us, retain=True
    )
