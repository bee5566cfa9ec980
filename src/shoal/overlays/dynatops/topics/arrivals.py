"""What is done where publications arrive: each is delivered once, and its entry hears of it.

Of what an entry sends here for a publisher (or its topic), numbers grow; what is sent again in a
later view has a number that was here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from shoal.broker.effects import Effect
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId
from shoal.overlays.dynatops.members.membership import Membership
from shoal.overlays.dynatops.messages import Arrived, Arriving
from shoal.overlays.dynatops.topics.keys import key_of

# Publishers, or their topics, whose last publication is remembered.
MAX_REMEMBERED = 200_000

# Whose order is kept: the entry, its life, the publisher and, by topic, that.
Stream = tuple[BrokerId, int, ClientId, str | None]


class Home(Protocol):
    """What is done with what arrives."""

    def deliver(self, routed: RoutedPublication, hops: int, out: list[Effect]) -> None:
        """Deliver to the local clients that want it."""

    def arrived(self, message: Arrived, out: list[Effect]) -> None:
        """Tell the entry, here or elsewhere."""


class Arrivals:
    """At one broker; with `is_by_topic` order is kept by the topic that `topic` names only."""

    def __init__(self, membership: Membership, topic: str, is_by_topic: bool, home: Home) -> None:
        self._membership = membership
        self._broker = membership.broker
        self._topic = topic
        self._is_by_topic = is_by_topic
        self._home = home
        self._last: dict[Stream, int] = {}

    def arrive(self, carrier: Arriving, out: list[Effect]) -> None:
        """Deliver what has not been here, and say that all of it is."""
        # What nobody waits for is sent at most once: it may have been here in an earlier life.
        may_be_repeated = carrier.again and self._membership.has_just_come
        for routed in carrier.publications:
            key = key_of(routed.publication.attributes, self._topic) if self._is_by_topic else None
            stream = (carrier.entry, carrier.life, routed.message_id.publisher, key)
            number = routed.message_id.number
            last = self._last.pop(stream, -1)
            self._last[stream] = max(last, number)
            if number > last and (routed.publication.assured or not may_be_repeated):
                self._home.deliver(routed, carrier.hops, out)
        while len(self._last) > MAX_REMEMBERED:
            del self._last[next(iter(self._last))]
        self.say_arrived(carrier, out)

    def say_arrived(self, carrier: Arriving, out: list[Effect]) -> None:
        """Tell the entry, also that nobody wants it."""
        numbers = tuple(
            (routed.message_id.publisher, routed.message_id.number)
            for routed in carrier.publications
        )
        arrived = Arrived(carrier.age, carrier.entry, self._broker, carrier.total, numbers)
        self._home.arrived(arrived, out)

    def begin(self, lives: Mapping[BrokerId, int]) -> None:
        """In a new view nobody repeats what an earlier life of an entry sent."""
        if lives:
            self._last = {
                stream: number
                for stream, number in self._last.items()
                if lives.get(stream[0], stream[1]) == stream[1]
            }
