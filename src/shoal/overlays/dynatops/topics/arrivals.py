"""What is done where publications arrive: each is delivered once, and its entry hears of it.

Of what an entry sends here for a publisher (or its topic), numbers grow; what is sent again in a
later view has a number that was here.  What waits here for its turn is delivered in that order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Protocol

from shoal.broker.effects import Effect
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId, MessageId
from shoal.overlays.dynatops.members.membership import Membership
from shoal.overlays.dynatops.messages import Arrived, Arriving, HomeTurn
from shoal.overlays.dynatops.topics.keys import key_of
from shoal.overlays.dynatops.topics.turns import Parked

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
        self._last: OrderedDict[Stream, int] = OrderedDict()
        # Of each, the first that was sent for the first time.
        self._first: dict[Stream, int] = {}
        self._parked: dict[tuple[BrokerId, int, ClientId], Parked] = {}

    @property
    def parked(self) -> int:
        """Publications that wait here for their turn."""
        return sum(map(len, self._parked.values()))

    def arrive(self, carrier: Arriving, out: list[Effect]) -> None:
        """Deliver what has not been here, and say that all of it is."""
        for routed in carrier.publications:
            self._take(carrier, routed, out)
        self.say_arrived(carrier, out)

    def _take(self, carrier: Arriving, routed: RoutedPublication, out: list[Effect]) -> None:
        key = key_of(routed.publication.attributes, self._topic) if self._is_by_topic else None
        stream = (carrier.entry, carrier.life, routed.message_id.publisher, key)
        number = routed.message_id.number
        last = self._last.pop(stream, -1)
        self._last[stream] = max(last, number)
        if not carrier.again:
            self._first.setdefault(stream, number)
        if number > last and not self._was_here(carrier, routed, stream):
            self._home.deliver(routed, carrier.hops, out)
        if len(self._last) > MAX_REMEMBERED:
            oldest, _ = self._last.popitem(last=False)
            self._first.pop(oldest, None)

    def _was_here(self, carrier: Arriving, routed: RoutedPublication, stream: Stream) -> bool:
        """Whether an earlier life may have delivered what nobody waits for: at most once, it is.

        What is behind something that was first sent in this life, was first sent in it, too.
        """
        if routed.publication.assured or not carrier.again or not self._membership.may_have_been:
            return False
        first = self._first.get(stream)
        return first is None or routed.message_id.number < first

    # --- in turn ------------------------------------------------------------------------------

    def park(self, carrier: Arriving, out: list[Effect]) -> None:
        """Deliver each when its turn has come."""
        for routed in carrier.publications:
            stream = (carrier.entry, carrier.life, routed.message_id.publisher)
            self._parked.setdefault(stream, Parked()).put(carrier, routed)
        for publisher in {each.message_id.publisher for each in carrier.publications}:
            self._deliver_due((carrier.entry, carrier.life, publisher), out)

    def turn(self, message: HomeTurn, out: list[Effect]) -> None:
        """These are the publisher's next here."""
        stream = (message.entry, message.life, message.publisher)
        self._parked.setdefault(stream, Parked()).turn(message.numbers)
        self._deliver_due(stream, out)

    def _deliver_due(self, stream: tuple[BrokerId, int, ClientId], out: list[Effect]) -> None:
        parked = self._parked[stream]
        due = list(parked.due())
        if not parked:
            del self._parked[stream]
        for carrier, routed in due:
            self._take(carrier, routed, out)
        # What is said may make the entry, which may be here, send more.
        for total, some in groupby(due, lambda each: each[0].total):
            ids = [routed.message_id for _, routed in some]
            self._say(due[0][0], total, ids, out)

    # --- to the entry -------------------------------------------------------------------------

    def say_arrived(self, carrier: Arriving, out: list[Effect]) -> None:
        """Tell the entry, also that nobody wants it."""
        ids = [routed.message_id for routed in carrier.publications]
        self._say(carrier, carrier.total, ids, out)

    def _say(
        self, carrier: Arriving, total: int, ids: Iterable[MessageId], out: list[Effect]
    ) -> None:
        numbers = tuple((each.publisher, each.number) for each in ids)
        arrived = Arrived(carrier.age, carrier.entry, self._broker, total, numbers)
        self._home.arrived(arrived, out)

    def begin(self, lives: Mapping[BrokerId, int]) -> None:
        """In a new view nobody repeats what an earlier life of an entry sent.

        What waits here has not arrived; its entry sends it again.
        """
        self._parked.clear()
        if lives:
            self._last = OrderedDict(
                (stream, number)
                for stream, number in self._last.items()
                if lives.get(stream[0], stream[1]) == stream[1]
            )
            self._first = {
                stream: number for stream, number in self._first.items() if stream in self._last
            }
