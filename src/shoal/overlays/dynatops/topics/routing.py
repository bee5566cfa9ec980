"""Routing of publications from their entry over the root of their topic to the homes.

A root names the homes, and sends one copy with their names, which splits where their paths part:
the topic's routing tree, pruned to the homes of this publication. Brokers on the path keep no state
of it. A publication without a topic matches only filters for any topic, which all brokers know; so
its own broker is the root.

Source: DYNATOPS, section 3. The trees there have tables; here the root names a publication's homes,
so that a change of the ring has no tables to repair, and conditions on the content prune the tree
as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

import msgspec

from shoal.broker.effects import Effect
from shoal.broker.messages import RoutedPublication
from shoal.broker.routing_decision import Hop, RoutingDecision, RoutingQuery, read_told, write_told
from shoal.model import BrokerId
from shoal.overlays.dynatops.members.membership import ViewMembership
from shoal.overlays.dynatops.messages import BoundFor, EntryBound, HomeTurn, ToHomes, ToRoot
from shoal.overlays.dynatops.parameters import DynatopsParameters, TopicOrder
from shoal.overlays.dynatops.topics.arrivals import EdgeArrivals, TopicArrivals
from shoal.overlays.dynatops.topics.interests import Interests
from shoal.overlays.dynatops.topics.keys import key_of
from shoal.overlays.dynatops.topics.outbox import TopicBatch, alike, number_of, runs
from shoal.overlays.dynatops.topics.ways import Ways
from shoal.overlays.dynatops.view import Age

# The most homes that are shown to an operator.
NAMED = 5


class _Held(NamedTuple):
    """Publications at their root before that knows all homes' filters."""

    publications: tuple[RoutedPublication, ...]
    entry: BrokerId
    life: int
    hops: int
    first_view: Age | None
    in_turn: bool


class TopicHop(msgspec.Struct, frozen=True, omit_defaults=True):
    """Details of a publication: its root or, from there on, its homes."""

    root: BrokerId = ""
    homes: tuple[BrokerId, ...] | None = None


class Root(EdgeArrivals, Protocol):
    """Callbacks for arrivals, and for publications at their root."""

    def bound(self, message: EntryBound, out: list[Effect]) -> None:
        """Send the entry, here or elsewhere, the homes of publications."""

    def rooted(self, topic: str, homes: Collection[BrokerId], out: list[Effect]) -> None:
        """A new publication to a topic went to these homes from its root."""


class TopicRouting:
    """At one broker."""

    def __init__(
        self,
        membership: ViewMembership,
        parameters: DynatopsParameters,
        interests: Interests,
        ways: Ways,
        home: Root,
    ) -> None:
        self._membership = membership
        self._broker = membership.broker
        self._topic = parameters.topic
        self._interests = interests
        self._ways = ways
        self._home = home
        self._held: list[_Held] = []
        is_by_topic = parameters.order is TopicOrder.TOPIC
        self._arrivals = TopicArrivals(membership, parameters.topic, is_by_topic, home)
        # Publications that were passed on for others.
        self.relayed = 0

    @property
    def held(self) -> int:
        return sum(len(each.publications) for each in self._held) + self._arrivals.held

    # --- to the root --------------------------------------------------------------------------

    def publish(self, batch: TopicBatch, out: list[Effect]) -> None:
        """Send publications of local clients to their root."""
        view, life = self._membership.view, self._membership.life
        assert view is not None
        root, publications, first_view, in_turn = batch
        if root == self._broker:
            self._at_root(_Held(publications, root, life, 0, first_view, in_turn), out)
        else:
            carrier = ToRoot(
                publications, view.age, self._broker, life, root, 1, first_view, in_turn
            )
            self._ways.send(root, carrier, out)

    def to_root(self, carrier: ToRoot, out: list[Effect]) -> None:
        """A neighbour has passed on publications."""
        publications, age, entry, life, root, hops, first_view, in_turn = (
            carrier.publications,
            carrier.age,
            carrier.entry,
            carrier.life,
            carrier.root,
            carrier.hops,
            carrier.first_view,
            carrier.in_turn,
        )
        if root == self._broker:
            self._at_root(_Held(publications, entry, life, hops, first_view, in_turn), out)
            return
        self.relayed += len(publications)
        passed_on = ToRoot(publications, age, entry, life, root, hops + 1, first_view, in_turn)
        self._ways.send(root, passed_on, out)

    def _at_root(self, held: _Held, out: list[Effect]) -> None:
        if self._held or not self._interests.is_complete:
            self._held.append(held)
        else:
            self._send_to_homes(held, out)

    def look(self, out: list[Effect]) -> None:
        """If all homes have announced their filters, release held publications."""
        if self._held and self._interests.is_complete:
            held, self._held = self._held, []
            for each in held:
                self._send_to_homes(each, out)

    # --- to the homes -------------------------------------------------------------------------

    def _send_to_homes(self, held: _Held, out: list[Effect]) -> None:
        view = self._membership.view
        assert view is not None
        found = []
        for routed in held.publications:
            attributes = routed.publication.attributes
            homes = tuple(self._interests.homes(attributes))
            topic = key_of(attributes, self._topic)
            if topic is not None and held.first_view is None:
                self._home.rooted(topic, homes, out)
            found.append((routed, homes))
        going = alike(found) if held.in_turn else runs(found)
        if held.in_turn:
            self._send_bound(held, going, out)
        for publications, homes in going:
            carrier = ToHomes(
                tuple(publications),
                view.age,
                held.entry,
                held.life,
                len(homes),
                held.hops,
                held.first_view,
                homes,
                held.in_turn,
            )
            if homes:
                self.to_homes(carrier, out)
            else:
                self._arrivals.acknowledge(carrier, out)

    def _send_bound(
        self,
        held: _Held,
        going: Iterable[tuple[list[RoutedPublication], tuple[BrokerId, ...]]],
        out: list[Effect],
    ) -> None:
        """Send the entry the homes; publications without homes count as arrived."""
        view = self._membership.view
        assert view is not None
        found = tuple(
            BoundFor(homes, tuple(number_of(each) for each in publications))
            for publications, homes in going
            if homes
        )
        if found:
            self._home.bound(EntryBound(view.age, held.entry, found), out)

    def turn(self, message: HomeTurn, out: list[Effect]) -> None:
        """An entry has sent a home its next numbers; the messages from it keep their order."""
        if message.home == self._broker:
            self._arrivals.turn(message, out)
        else:
            self._ways.send(message.home, message, out)

    def to_homes(self, carrier: ToHomes, out: list[Effect]) -> None:
        """Deliver here, if this is a home, and forward to the others."""
        if self._broker in carrier.targets:
            if carrier.in_turn:
                self._arrivals.hold(carrier, out)
            else:
                self._arrivals.arrive(carrier, out)
            others = tuple(each for each in carrier.targets if each != self._broker)
            if others:
                self._ways.spread_publications(carrier, others, out)
        else:
            self.relayed += len(carrier.publications)
            self._ways.spread_publications(carrier, carrier.targets, out)

    def routing_decision(self, asked: RoutingQuery, root: BrokerId) -> RoutingDecision:
        """Next hops of a publication; at its entry over this root."""
        if self._membership.places is None:
            return RoutingDecision(problem="it is in no view yet")
        told = TopicHop(root) if asked.source is None else read_told(asked.told, TopicHop)
        if told.homes is not None:
            return self._to_homes(told.homes, "on its way to")
        if told.root != self._broker:
            if told.root not in self._membership.places:
                return RoutingDecision(problem=f"the root, {told.root}, is not in its view")
            hop = self._membership.places.next_hop(self._broker, told.root)
            return RoutingDecision(
                (Hop(hop, write_told(told), f"towards {told.root}, its topic's root"),)
            )
        if not self._interests.is_complete:
            missing = ", ".join(self._interests.missing)
            return RoutingDecision(
                problem=f"the root waits until {missing} has announced its subscriptions"
            )
        why = f"{self._broker} is its root, and knows that it is for"
        return self._to_homes(tuple(self._interests.homes(asked.attributes)), why)

    def _to_homes(self, homes: tuple[BrokerId, ...], why: str) -> RoutingDecision:
        others = [each for each in homes if each != self._broker]
        hops = tuple(
            Hop(hop, write_told(TopicHop(homes=behind)), f"{why} {_named(behind)}")
            for hop, behind in self._ways.hops(others)
        )
        return RoutingDecision(hops, is_local=self._broker in homes)

    # --- a new view ---------------------------------------------------------------------------

    def begin(self, lives: Mapping[BrokerId, int]) -> None:
        """Held publications are retransmitted by their entry."""
        self._held.clear()
        self._arrivals.begin(lives)


def _named(homes: tuple[BrokerId, ...]) -> str:
    more = f" and {len(homes) - NAMED} more" if len(homes) > NAMED else ""
    return ", ".join(homes[:NAMED]) + more
