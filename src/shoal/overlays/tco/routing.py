"""Routing of publications from their entry along the links between subscribers of their topic.

All brokers know all subscriptions, so the entry names the receivers' edge brokers (homes), and the
path to each: a tree of shortest paths over links with subscribers at both ends, pruned to the homes
of this publication. Brokers on the path need no tables, and links may change while publications are
in transit: a broker without a link that a tree names opens it. An entry numbers its publications to
each home, and the home accepts them in this order, whichever paths they have taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby

import msgspec

from shoal.broker.effects import Effect
from shoal.broker.messages import RoutedPublication
from shoal.broker.routing_decision import Hop, RoutingDecision, RoutingQuery, read_told, write_told
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.dynatops.members.membership import ViewMembership
from shoal.overlays.dynatops.topics.arrivals import TopicArrivals
from shoal.overlays.dynatops.topics.interests import Interests
from shoal.overlays.dynatops.topics.keys import key_of
from shoal.overlays.dynatops.topics.outbox import TopicBatch
from shoal.overlays.dynatops.topics.ways import Ways
from shoal.overlays.dynatops.view import Age
from shoal.overlays.tco.messages import AlongPath, Stop
from shoal.overlays.tco.star import hub_of
from shoal.overlays.tco.subscribers import TcoSubscribers, Topic
from shoal.overlays.tco.trees import Part, branches, tree_of

# Trees that are remembered until links or subscribers change; beyond that all begins anew.
MAX_TREES = 10_000

_Homes = tuple[BrokerId, ...]


class TcoHop(msgspec.Struct, frozen=True):
    """Of a publication: the tree that it goes along, as in `AlongPath`."""

    stops: tuple[Stop, ...]


class _TcoLine:
    """Publications of one entry here: the next number, and early ones."""

    __slots__ = ("early", "next")

    def __init__(self) -> None:
        self.next = 0
        self.early: dict[int, tuple[AlongPath, RoutedPublication]] = {}

    def put(self, carrier: AlongPath, number: int) -> None:
        """These have come, the first of those that were sent together has this number."""
        for routed in carrier.publications:
            place = number + routed.message_id.number - carrier.first
            if place >= self.next:
                self.early[place] = carrier, routed

    def due(self) -> Iterator[tuple[AlongPath, RoutedPublication]]:
        """The publications that are next."""
        while (each := self.early.pop(self.next, None)) is not None:
            self.next += 1
            yield each


class TcoRouting:
    """Routing at one broker; `links` has the overlay's links of each broker."""

    def __init__(
        self,
        membership: ViewMembership,
        topic: str,
        interests: Interests,
        subscribers: TcoSubscribers,
        links: Callable[[], Mapping[BrokerId, set[BrokerId]]],
        ways: Ways,
        arrivals: TopicArrivals,
    ) -> None:
        self._membership = membership
        self._broker = membership.broker
        self._topic = topic
        self._interests = interests
        self._subscribers = subscribers
        self._links = links
        self._ways = ways
        self._arrivals = arrivals
        self._trees: dict[tuple[Topic, _Homes], list[list[Part]]] = {}
        self._version = -1
        self._sent: dict[BrokerId, int] = {}
        self._lines: dict[tuple[BrokerId, int], _TcoLine] = {}
        # Publications forwarded by a broker that does not subscribe to their topic.
        self.relayed = 0

    @property
    def held(self) -> int:
        """Publications that wait here for others that were sent before them."""
        return sum(len(line.early) for line in self._lines.values())

    def begin(self, lives: Mapping[BrokerId, int]) -> None:
        """In a new view all is numbered anew."""
        self._sent.clear()
        self._lines.clear()
        self._trees.clear()
        self._arrivals.begin(lives)

    def forget_trees(self) -> None:
        """This broker has other links."""
        self._trees.clear()

    def links_changed(self, out: list[Effect]) -> None:
        """The overlay's links have changed; messages that wait for a removed one still need it."""
        self._trees.clear()
        for hop in self._ways.hops_awaited:
            self._want(hop, out)

    def _want(self, hop: BrokerId, out: list[Effect]) -> None:
        """This broker has something for another; those to the hub are there anyway."""
        if self._hub not in (hop, self._broker):
            self._membership.links.demand(hop, out)

    # --- from here ----------------------------------------------------------------------------

    def publish(self, batch: TopicBatch, out: list[Effect]) -> None:
        """Send publications of local clients to all their homes; their root is this broker."""
        # Numbers that follow each other are as far from their place in the batch.
        for (topic, homes, _), group in groupby(enumerate(batch.publications), self._whither):
            publications = tuple(routed for _, routed in group)
            self._send_along_tree(publications, topic, homes, batch.first_view, out)

    def _whither(self, placed: tuple[int, RoutedPublication]) -> tuple[Topic, _Homes, int]:
        place, routed = placed
        attributes = routed.publication.attributes
        homes = tuple(self._interests.homes(attributes))
        return key_of(attributes, self._topic), homes, routed.message_id.number - place

    def _send_along_tree(
        self,
        publications: tuple[RoutedPublication, ...],
        topic: Topic,
        homes: _Homes,
        first_view: Age | None,
        out: list[Effect],
    ) -> None:
        membership = self._membership
        assert membership.view is not None
        carrier = AlongPath(
            publications,
            membership.view.age,
            self._broker,
            membership.life,
            len(homes),
            0,
            first_view,
            (),
            publications[0].message_id.number,
        )
        if not homes:
            self._arrivals.acknowledge(carrier, out)
            return
        for branch in self._branches(topic, homes):
            stops = [
                Stop(
                    broker,
                    max(0, before),
                    self._number(broker, len(publications)) if is_home else -1,
                )
                for broker, before, is_home in branch
            ]
            self._pass_on(carrier, tuple(stops), out)
        if self._broker in homes:
            self._arrivals.arrive(carrier, out)

    def _number(self, home: BrokerId, count: int) -> int:
        number = self._sent.get(home, 0)
        self._sent[home] = number + count
        return number

    @property
    def _hub(self) -> BrokerId:
        assert self._membership.view is not None
        return hub_of(self._membership.view)

    def _branches(self, topic: Topic, homes: _Homes) -> list[list[Part]]:
        """The trees behind this broker that lead to the other homes."""
        if self._version != self._subscribers.version or len(self._trees) >= MAX_TREES:
            self._version = self._subscribers.version
            self._trees.clear()
        found = self._trees.get((topic, homes))
        if found is None:
            links = self._membership.links
            others = {each for each in homes if each != self._broker}
            own = {each for each in links.linked if links.may_send(each)}
            subscribers = self._subscribers.of(topic)
            tree = tree_of(self._broker, others, subscribers, self._links(), own, self._hub)
            found = self._trees[topic, homes] = branches(tree)
        return found

    def _pass_on(self, carrier: AlongPath, stops: tuple[Stop, ...], out: list[Effect]) -> None:
        stops = self._over(stops)
        hop = stops[0].broker
        routing_decision = AlongPath(
            carrier.publications,
            carrier.age,
            carrier.entry,
            carrier.life,
            carrier.total,
            carrier.hops + 1,
            carrier.first_view,
            stops,
            carrier.first,
        )
        self._want(hop, out)
        self._ways.put(hop, routing_decision, out)

    def _over(self, stops: tuple[Stop, ...]) -> tuple[Stop, ...]:
        """The tree as it is; over the hub, if the link to its first broker is lost for now."""
        hop, hub = stops[0].broker, self._hub
        if hop not in self._membership.links.lost or hub in (hop, self._broker):
            return stops
        behind = [Stop(each.broker, each.before + 1, each.number) for each in stops[1:]]
        return (Stop(hub, 0, -1), Stop(hop, 0, stops[0].number), *behind)

    # --- along a tree -------------------------------------------------------------------------

    def along(self, carrier: AlongPath, out: list[Effect]) -> None:
        """Publications have come: deliver them if this is a home, and forward them."""
        stops = carrier.stops
        try:
            behind = self._behind(stops)
        except ValueError as error:
            raise ProtocolError(str(error)) from None
        for each in behind:
            self._pass_on(carrier, each, out)
        if stops[0].number >= 0:
            self._deliver_in_order(carrier, stops[0].number, out)
        else:
            self._count_relayed(carrier)

    def _behind(self, stops: tuple[Stop, ...]) -> list[tuple[Stop, ...]]:
        """The trees behind this broker; ValueError unless these make one that comes here."""
        if not stops or stops[0].broker != self._broker:
            raise ValueError("these publications have another path")
        if any(not 0 <= stop.before < at for at, stop in enumerate(stops[1:], 1)):
            raise ValueError("that is no tree")
        found = branches([(stop.broker, stop.before - 1, stop.number) for stop in stops[1:]])
        if any(branch[0][0] == self._broker for branch in found):
            raise ValueError("a broker sends nothing to itself")
        return [
            tuple(Stop(broker, max(0, before), number) for broker, before, number in branch)
            for branch in found
        ]

    def routing_decision(self, asked: RoutingQuery) -> RoutingDecision:
        """Next hops of a publication."""
        if self._membership.places is None:
            return RoutingDecision(problem="it is in no view yet")
        if asked.source is not None:
            stops = read_told(asked.told, TcoHop).stops
            behind = self._behind(stops)
            is_local, why = stops[0].number >= 0, "the next of its tree"
        elif not self._interests.is_complete:
            missing = ", ".join(self._interests.missing)
            return RoutingDecision(
                problem=f"it waits until {missing} has announced its subscriptions"
            )
        else:
            topic = key_of(asked.attributes, self._topic)
            homes = tuple(self._interests.homes(asked.attributes))
            behind = [
                tuple(Stop(broker, max(0, before), is_home - 1) for broker, before, is_home in each)
                for each in self._branches(topic, homes)
            ]
            is_local, why = self._broker in homes, "the first of its tree"
        ways = [self._over(each) for each in behind]
        hops = tuple(Hop(each[0].broker, write_told(TcoHop(each)), why) for each in ways)
        return RoutingDecision(hops, is_local=is_local)

    def _count_relayed(self, carrier: AlongPath) -> None:
        for routed in carrier.publications:
            topic = key_of(routed.publication.attributes, self._topic)
            self.relayed += self._broker not in self._subscribers.of(topic)

    def _deliver_in_order(self, carrier: AlongPath, number: int, out: list[Effect]) -> None:
        """Deliver in the order in which the entry sent it here."""
        line = self._lines.setdefault((carrier.entry, carrier.life), _TcoLine())
        line.put(carrier, number)
        for _, some in groupby(list(line.due()), lambda each: id(each[0])):
            due = list(some)
            together = due[0][0].with_publications(tuple(routed for _, routed in due))
            self._arrivals.arrive(together, out)
