"""The retained messages: the last one of each topic, for those who subscribe later.

>>> from shoal.mqtt.messages import Message
>>> store = RetainedStore(maximum=10)
>>> def sent(topic, payload, at_us):
...     return Message(topic, payload, publisher="p", published_us=at_us, retain=True)
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

from shoal.ledger import Ledger, Measure
from shoal.matching import TopicStore
from shoal.mqtt.broker_topics import is_brokers_own
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.expiring import Expiring

# Removals remembered, so that a broker which missed one does not bring the message back.
MAX_REMOVALS = 100_000
MAX_REMOVAL_BYTES = 32 * 2**20
# What each level of the topics takes, but for those that several have.
LEVEL_BYTES = 250
# Levels of topics that are looked at, and expired messages dropped, in the time in which a few
# messages are sent (see `subscribing`).
SLICE_NODES = 200
SLICE_DROPS = 10
# Expired messages that are dropped when one is kept; and at most, where it has no room else.
DROPPED_EACH, MOST_DROPPED = 8, 2_000


class Memory(Protocol):
    """Who is told what must not be forgotten (see `journal`)."""

    def retained(self, message: Message) -> None: ...


class RetainedStore:
    """At most `maximum` topics, and messages of `maximum_bytes` in all, with the levels of topics.

    Of two messages for one topic the later one stays, in whatever order they come: brokers of one
    network that have seen the same messages keep the same ones.  At equal times the publisher
    with the greater name wins.
    """

    def __init__(self, maximum: int, maximum_bytes: int = 2**62) -> None:
        # Is told what changes, if there is one.
        self.journal: Memory | None = None
        self.maximum = maximum
        self.maximum_bytes = maximum_bytes
        self._bytes = 0
        # The same by the client that published it.
        self._bytes_of: Counter[str] = Counter()
        self._messages: TopicStore[Message] = TopicStore()
        self._expiring = Expiring()
        # The message that removed each topic's, oldest first.
        self._removals: OrderedDict[str, Message] = OrderedDict()
        self._removal_bytes = 0
        # A number that is the same where the same messages are kept, in whatever order.
        self.digest = 0

    def __len__(self) -> int:
        return len(self._messages)

    def register(self, ledger: Ledger) -> None:
        def retained() -> Measure:
            size = self._bytes + LEVEL_BYTES * self._messages.levels
            return Measure(len(self._messages), size, self.maximum, self.maximum_bytes)

        def removals() -> Measure:
            count, size = len(self._removals), self._removal_bytes
            return Measure(count, size, MAX_REMOVALS, MAX_REMOVAL_BYTES)

        ledger.register("retained messages", retained)
        ledger.register("removals of retained messages", removals)

    def heaviest(self, most: int) -> list[tuple[str, int]]:
        """The clients whose retained messages take the most, by identifier, and the bytes."""
        return self._bytes_of.most_common(most)

    def date(self, message: Message) -> None:
        """Make a message, published here now, later than the one it replaces.

        The clock of the broker where that one was published may be ahead of ours.
        """
        known = self.last(message.topic)
        if known is not None and known.published_us >= message.published_us:
            message.published_us = known.published_us + 1

    def keep(self, message: Message, now_us: int = 0) -> bool:
        """Take a message in, or with an empty payload the topic's out; False if full.

        A message that has no room takes the topic's former one with it, which holds no more.  Those
        that have expired by `now_us` make room.
        """
        topic = message.topic
        if self._expiring.due_us <= now_us:
            self._drop_expired(now_us, DROPPED_EACH if self._has_room(message) else MOST_DROPPED)
        known = self.last(topic)
        if known is not None and _age(message) < _age(known):
            return True
        if not message.payload:
            self._drop(topic)
            self._remember_removal(message)
            return True
        replaced = self._messages.get(topic)
        if not self._has_room(message):
            if replaced is not None:
                self._drop(topic)
                self._remember_removal(message)
            return False
        if replaced is not None:
            self._leave(replaced)
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

    def _has_room(self, message: Message) -> bool:
        # Mostly there is, and nobody need look which of its levels there are.
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
            self._drop(topic)

    def is_news(self, message: Message) -> bool:
        """Whether a message is later than what is known of its topic."""
        known = self.last(message.topic)
        return known is None or _age(known) < _age(message)

    def matching(self, topic_filter: str, now_us: int) -> Iterator[Message]:
        """The messages of the topics that a filter matches; those that expired are dropped."""
        found = self.search(topic_filter, now_us)
        return (message for message in found if message is not None)

    def search(self, topic_filter: str, now_us: int) -> Iterator[Message | None]:
        """As `matching`; None after each slice of work: few topics of many may match.

        May be read slowly: each is the topic's message at the time when it is read.
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
                self._drop(topic)
                dropped += 1
                if not dropped % SLICE_DROPS:
                    yield None
            else:
                yield message

    def history(self) -> Iterator[Message]:
        """Every message and every removal that is remembered, to tell another broker.

        May be read slowly: of a topic it is what was said last when it is read.
        """
        for topics in (self._messages, self._removals):
            for topic in tuple(topics):
                message = None if is_brokers_own(topic) else self.last(topic)
                if message is not None:
                    yield message

    def _drop(self, topic: str) -> None:
        message = self._messages.pop(topic, None)
        if message is not None:
            self._leave(message)

    def _leave(self, message: Message) -> None:
        """A message is dropped, or replaced."""
        size = message.size
        self._bytes -= size
        self._bytes_of[message.publisher] -= size
        if not self._bytes_of[message.publisher]:
            del self._bytes_of[message.publisher]
        if message.expires_us is not None:
            self._expiring.discard(message.topic, message.expires_us)
        self._fold(message)

    def _remember_removal(self, message: Message) -> None:
        """Its topic and time are all that counts."""
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

    def _note(self, message: Message) -> None:
        if self.journal is not None and not is_brokers_own(message.topic):
            self.journal.retained(message)

    def _fold(self, message: Message) -> None:
        """Put a message into the digest, or take it out."""
        if not is_brokers_own(message.topic):
            entry = f"{message.published_us} {message.publisher} {message.topic}".encode()
            self.digest ^= int.from_bytes(blake2b(entry, digest_size=7).digest(), "big")

    def last(self, topic: str) -> Message | None:
        """What was last said about a topic: its message, or the one that removed it."""
        return self._messages.get(topic) or self._removals.get(topic)


def _age(message: Message) -> tuple[int, str]:
    return message.published_us, message.publisher


def _removal(message: Message) -> Message:
    """What removes the topic's message at the time of this one."""
    return Message(message.topic, b"", message.publisher, message.published_us, retain=True)
