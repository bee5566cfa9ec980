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

from collections.abc import Iterator

from shoal.matching import TopicStore
from shoal.mqtt.messages import Message


class RetainedStore:
    """At most `maximum` topics.

    Of two messages for one topic the later one stays, in whatever order they come: brokers of one
    network that have seen the same messages keep the same ones.  At equal times the publisher
    with the greater name wins.
    """

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._messages: TopicStore[Message] = TopicStore()

    def __len__(self) -> int:
        return len(self._messages)

    def date(self, message: Message) -> None:
        """Make a message, published here now, later than the one it replaces.

        The clock of the broker where that one was published may be ahead of ours.
        """
        known = self._messages.get(message.topic)
        if known is not None and known.published_us >= message.published_us:
            message.published_us = known.published_us + 1

    def keep(self, message: Message) -> bool:
        """Take a message in, or with an empty payload the topic's out; False if full."""
        topic = message.topic
        known = self._messages.get(topic)
        if known is not None and _age(message) < _age(known):
            return True
        if not message.payload:
            if known is not None:
                del self._messages[topic]
            return True
        if known is None and len(self._messages) >= self._maximum:
            return False
        self._messages[topic] = message
        return True

    def matching(self, topic_filter: str, now_us: int) -> Iterator[Message]:
        """The messages of the topics that a filter matches; those that expired are dropped."""
        for topic in list(self._messages.matching(topic_filter)):
            message = self._messages[topic]
            if message.has_expired(now_us):
                del self._messages[topic]
            else:
                yield message

    def all(self) -> Iterator[Message]:
        """Every message, to tell another broker."""
        yield from list(self._messages.values())


def _age(message: Message) -> tuple[int, str]:
    return message.published_us, message.publisher
