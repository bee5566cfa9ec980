"""Arrivals at a home: each publication is delivered once, and its entry gets an acknowledgement.

For each stream from an entry (a publisher, or its topic) numbers increase; a retransmission in a
later view has a number that was here. Publications that wait here until their turn are delivered in
order. An unassured publication is dropped if an earlier incarnation of this broker may have
delivered it: if that may have been in the view in which it was first sent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Protocol

from shoal.broker.effects import Effect
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId, MessageId
from shoal.overlays.dynatops.members.membership import ViewMembership
from shoal.overlays.dynatops.messages import HomeTurn, PublicationArrived, UserArriving
from shoal.overlays.dynatops.topics.keys import key_of
from shoal.overlays.dynatops.topics.turns import HeldTurns

# Streams with a remembered last number.
MAX_REMEMBERED = 200_000

# An ordered stream: the entry, its incarnation, the publisher and, for order by topic, the topic.
Stream = tuple[BrokerId, int, ClientId, str | None]


class EdgeArrivals(Protocol):
    """Callbacks for arrivals."""

    def deliver(self, routed: RoutedPublication, hops: int, out: list[Effect]) -> None:
        """Deliver to the local clients that want it."""

    def arrived(self, message: PublicationArrived, out: list[Effect]) -> None:
        """Acknowledge to the entry, here or elsewhere."""


class TopicArrivals:
    """At one broker; with `is_by_topic` order is kept by the topic that `topic` names only."""

    def __init__(
        self, membership: ViewMembership, topic: str, is_by_topic: bool, home: EdgeArrivals
    ) -> None:
        self._membership = membership
        self._broker = membership.broker
        self._topic = topic
        self._is_by_topic = is_by_topic
        self._home = home
        self._last: OrderedDict[Stream, int] = OrderedDict()
        # Of each, the first that was sent for the first time.
        self._first: dict[Stream, int] = {}
        self._held: dict[tuple[BrokerId, int, ClientId], HeldTurns] = {}

    @property
    def held(self) -> int:
        """Publications that wait here for their turn."""
        return sum(map(len, self._held.values()))

    def arrive(self, carrier: UserArriving, out: list[Effect]) -> None:
        """Deliver new publications, and acknowledge all."""
        for routed in carrier.publications:
            self._take_in_order(carrier, routed, out)
        self.acknowledge(carrier, out)

    def _take_in_order(
        self, carrier: UserArriving, routed: RoutedPublication, out: list[Effect]
    ) -> None:
        key = key_of(routed.publication.attributes, self._topic) if self._is_by_topic else None
        stream = (carrier.entry, carrier.life, routed.message_id.publisher, key)
        number = routed.message_id.number
        last = self._last.pop(stream, -1)
        self._last[stream] = max(last, number)
        if carrier.first_view is None:
            self._first.setdefault(stream, number)
        if number > last and not self._was_here(carrier, routed, stream):
            self._home.deliver(routed, carrier.hops, out)
        if len(self._last) > MAX_REMEMBERED:
            oldest, _ = self._last.popitem(last=False)
            self._first.pop(oldest, None)

    def _was_here(self, carrier: UserArriving, routed: RoutedPublication, stream: Stream) -> bool:
        """Whether an earlier incarnation may have delivered an unassured publication: at most once.

        Publications behind one that was first sent in this incarnation were first sent in it, too.
        """
        view = carrier.first_view
        if (
            routed.publication.assured
            or view is None
            or not self._membership.may_have_been_in(view)
        ):
            return False
        first = self._first.get(stream)
        return first is None or routed.message_id.number < first

    # --- in turn ------------------------------------------------------------------------------

    def hold(self, carrier: UserArriving, out: list[Effect]) -> None:
        """Deliver each when its turn has come."""
        for routed in carrier.publications:
            stream = (carrier.entry, carrier.life, routed.message_id.publisher)
            self._held.setdefault(stream, HeldTurns()).put(carrier, routed)
        for publisher in {each.message_id.publisher for each in carrier.publications}:
            self._deliver_due((carrier.entry, carrier.life, publisher), out)

    def turn(self, message: HomeTurn, out: list[Effect]) -> None:
        """These are the publisher's next here."""
        stream = (message.entry, message.life, message.publisher)
        self._held.setdefault(stream, HeldTurns()).turn(message.numbers)
        self._deliver_due(stream, out)

    def _deliver_due(self, stream: tuple[BrokerId, int, ClientId], out: list[Effect]) -> None:
        held = self._held[stream]
        due = list(held.due())
        if not held:
            del self._held[stream]
        for carrier, routed in due:
            self._take_in_order(carrier, routed, out)
        # An acknowledgement may make the entry, which may be here, send more.
        for total, some in groupby(due, lambda each: each[0].total):
            ids = [routed.message_id for _, routed in some]
            self._acknowledge(due[0][0], total, ids, out)

    # --- to the entry -------------------------------------------------------------------------

    def acknowledge(self, carrier: UserArriving, out: list[Effect]) -> None:
        """Acknowledge to the entry, also for a publication without subscribers."""
        ids = [routed.message_id for routed in carrier.publications]
        self._acknowledge(carrier, carrier.total, ids, out)

    def _acknowledge(
        self, carrier: UserArriving, total: int, ids: Iterable[MessageId], out: list[Effect]
    ) -> None:
        numbers = tuple((each.publisher, each.number) for each in ids)
        arrived = PublicationArrived(carrier.age, carrier.entry, self._broker, total, numbers)
        self._home.arrived(arrived, out)

    def begin(self, lives: Mapping[BrokerId, int]) -> None:
        """In a new view no broker repeats publications of an entry's earlier incarnation.

        Publications that wait here have not arrived; their entry retransmits them.
        """
        self._held.clear()
        if lives:
            self._last = OrderedDict(
                (stream, number)
                for stream, number in self._last.items()
                if lives.get(stream[0], stream[1]) == stream[1]
            )
            self._first = {
                stream: number for stream, number in self._first.items() if stream in self._last
            }
