"""Publications from their entry over the root of their topic to the homes that want them.

A root tells which homes those are, and sends one copy with their names, which splits where their
ways part: the topic's routing tree, cut back to who wants this publication.  No broker on the way
knows anything of it.  Who publishes without a topic can be wanted only by those that everybody
knows of; so its own broker is the root.

Source: DYNATOPS, section 3.  The trees there have tables; here the root names who is to get a
publication, so that nothing has to be kept the same where the ring changes, and conditions on the
content prune the tree as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

import msgspec

from shoal.broker.effects import Effect
from shoal.broker.messages import RoutedPublication
from shoal.broker.onward import Asked, Hop, Onward, read_told, write_told
from shoal.model import BrokerId
from shoal.overlays.dynatops.members.membership import Membership
from shoal.overlays.dynatops.messages import Bound, BoundFor, HomeTurn, ToHomes, ToRoot
from shoal.overlays.dynatops.parameters import Order, Parameters
from shoal.overlays.dynatops.topics.arrivals import Arrivals, Home
from shoal.overlays.dynatops.topics.interests import Interests
from shoal.overlays.dynatops.topics.keys import key_of
from shoal.overlays.dynatops.topics.outbox import Batch, alike, number_of, runs
from shoal.overlays.dynatops.topics.ways import Ways

# Homes that are named to an operator.
NAMED = 5


class _Held(NamedTuple):
    """What has come to its root before that knows what all homes want."""

    publications: tuple[RoutedPublication, ...]
    entry: BrokerId
    life: int
    hops: int
    again: bool
    in_turn: bool


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a publication: the root that it goes to, or from there on the homes that it is for."""

    root: BrokerId = ""
    homes: tuple[BrokerId, ...] | None = None


class Root(Home, Protocol):
    """What is done where publications arrive, and where their root is."""

    def bound(self, message: Bound, out: list[Effect]) -> None:
        """Tell the entry, here or elsewhere, where publications go."""

    def rooted(self, topic: str, homes: Collection[BrokerId], out: list[Effect]) -> None:
        """A publication to a topic, sent for the first time, went to these homes from its root."""


class Routing:
    """At one broker."""

    def __init__(
        self,
        membership: Membership,
        parameters: Parameters,
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
        is_by_topic = parameters.order is Order.TOPIC
        self._arrivals = Arrivals(membership, parameters.topic, is_by_topic, home)
        # Publications that were passed on for others.
        self.relayed = 0

    @property
    def held(self) -> int:
        return sum(len(each.publications) for each in self._held) + self._arrivals.parked

    # --- to the root --------------------------------------------------------------------------

    def publish(self, batch: Batch, out: list[Effect]) -> None:
        """Send publications of local clients to their root."""
        view, life = self._membership.view, self._membership.life
        assert view is not None
        root, publications, again, in_turn = batch
        if root == self._broker:
            self._at_root(_Held(publications, root, life, 0, again, in_turn), out)
        else:
            carrier = ToRoot(publications, view.age, self._broker, life, root, 1, again, in_turn)
            self._ways.send(root, carrier, out)

    def to_root(self, carrier: ToRoot, out: list[Effect]) -> None:
        """A neighbour has passed on publications."""
        publications, age, entry, life, root, hops, again, in_turn = (
            carrier.publications,
            carrier.age,
            carrier.entry,
            carrier.life,
            carrier.root,
            carrier.hops,
            carrier.again,
            carrier.in_turn,
        )
        if root == self._broker:
            self._at_root(_Held(publications, entry, life, hops, again, in_turn), out)
            return
        self.relayed += len(publications)
        onward = ToRoot(publications, age, entry, life, root, hops + 1, again, in_turn)
        self._ways.send(root, onward, out)

    def _at_root(self, held: _Held, out: list[Effect]) -> None:
        if self._held or not self._interests.is_complete:
            self._held.append(held)
        else:
            self._send_to_homes(held, out)

    def look(self, out: list[Effect]) -> None:
        """All homes may have said what they want: let go what was held."""
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
            if topic is not None and not held.again:
                self._home.rooted(topic, homes, out)
            found.append((routed, homes))
        going = alike(found) if held.in_turn else runs(found)
        if held.in_turn:
            self._say_bound(held, going, out)
        for publications, homes in going:
            carrier = ToHomes(
                tuple(publications),
                view.age,
                held.entry,
                held.life,
                len(homes),
                held.hops,
                held.again,
                homes,
                held.in_turn,
            )
            if homes:
                self.to_homes(carrier, out)
            else:
                self._arrivals.say_arrived(carrier, out)

    def _say_bound(
        self,
        held: _Held,
        going: Iterable[tuple[list[RoutedPublication], tuple[BrokerId, ...]]],
        out: list[Effect],
    ) -> None:
        """Tell the entry where they go; what goes nowhere it is told as arrived."""
        view = self._membership.view
        assert view is not None
        found = tuple(
            BoundFor(homes, tuple(number_of(each) for each in publications))
            for publications, homes in going
            if homes
        )
        if found:
            self._home.bound(Bound(view.age, held.entry, found), out)

    def turn(self, message: HomeTurn, out: list[Effect]) -> None:
        """An entry says whose turn it is at a home; nothing that it says there is overtaken."""
        if message.home == self._broker:
            self._arrivals.turn(message, out)
        else:
            self._ways.send(message.home, message, out)

    def to_homes(self, carrier: ToHomes, out: list[Effect]) -> None:
        """Deliver here, if this is a home, and pass on to the others."""
        if self._broker in carrier.targets:
            if carrier.in_turn:
                self._arrivals.park(carrier, out)
            else:
                self._arrivals.arrive(carrier, out)
            others = tuple(each for each in carrier.targets if each != self._broker)
            if others:
                self._ways.spread_publications(carrier, others, out)
        else:
            self.relayed += len(carrier.publications)
            self._ways.spread_publications(carrier, carrier.targets, out)

    def onward(self, asked: Asked, root: BrokerId) -> Onward:
        """Where a publication would go; at its entry over this root."""
        if self._membership.places is None:
            return Onward(problem="it is in no view yet")
        told = Told(root) if asked.source is None else read_told(asked.told, Told)
        if told.homes is not None:
            return self._to_homes(told.homes, "on its way to")
        if told.root != self._broker:
            if told.root not in self._membership.places:
                return Onward(problem=f"the root, {told.root}, is not in its view")
            hop = self._membership.places.next_hop(self._broker, told.root)
            return Onward((Hop(hop, write_told(told), f"towards {told.root}, its topic's root"),))
        if not self._interests.is_complete:
            missing = ", ".join(self._interests.missing)
            return Onward(problem=f"the root waits until {missing} says what is wanted there")
        why = f"{self._broker} is its root, and knows that it is for"
        return self._to_homes(tuple(self._interests.homes(asked.attributes)), why)

    def _to_homes(self, homes: tuple[BrokerId, ...], why: str) -> Onward:
        others = [each for each in homes if each != self._broker]
        hops = tuple(
            Hop(hop, write_told(Told(homes=behind)), f"{why} {_named(behind)}")
            for hop, behind in self._ways.hops(others)
        )
        return Onward(hops, is_local=self._broker in homes)

    # --- a new view ---------------------------------------------------------------------------

    def begin(self, lives: Mapping[BrokerId, int]) -> None:
        """What was held is sent again by its entry."""
        self._held.clear()
        self._arrivals.begin(lives)


def _named(homes: tuple[BrokerId, ...]) -> str:
    more = f" and {len(homes) - NAMED} more" if len(homes) > NAMED else ""
    return ", ".join(homes[:NAMED]) + more
