"""The strategy of one OctopiA broker: its place, and joins and leaves around it.

Subscriptions go to the broker's own cluster (VI), advertisements to one broker of each other
cluster (V), which announces whether its cluster wants them. `Resident` does all that at a place
(`resident.py`), for its clients (`clients.py`). All brokers know all places (`places/`); a joiner
takes the place that the registrar gives it, and others take a leaving broker's place step by step
(`links/departing.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sized

import msgspec

from shoal.broker.effects import (
    Effect,
    EndLink,
    LinkState,
    Loads,
    Notify,
    Started,
    TimerKey,
    WatchLoads,
)
from shoal.broker.messages import Carrier, Message, Rejected
from shoal.broker.routing_decision import RoutingDecision, RoutingQuery
from shoal.broker.strategy import BaseStrategy, BrokerContext, ProtocolError
from shoal.model import Attributes, BrokerId, ClientId
from shoal.overlays.octopia.clients import OctopiaClients
from shoal.overlays.octopia.known.hosted import Hosted
from shoal.overlays.octopia.known.tables import ClusterEntry, Tables
from shoal.overlays.octopia.parameters import UNORDERED, Dynamic, OctopiaParameters
from shoal.overlays.octopia.places.labels import Product
from shoal.overlays.octopia.places.news import PlaceNews
from shoal.overlays.octopia.places.roster import (
    PlacesAnnounced,
    PlaceStage,
    Roster,
    RosterPlace,
    known_places,
    wanted_place,
)
from shoal.overlays.octopia.resident import Resident
from shoal.overlays.octopia.routing import OctopiaRouting
from shoal.overlays.octopia.routing_decision import routing_decision
from shoal.overlays.octopia.ways.outputs import OutputLoads
from shoal.overlays.publishers import LocalPublishers


class Octopia(BaseStrategy):
    """One broker of a product of a tree and a complete graph.

    Without rows it is in a cluster of its own, with its neighbours below it.
    """

    def __init__(self, context: BrokerContext, parameters: OctopiaParameters) -> None:
        self.broker = context.broker
        self.parameters = parameters
        self.publishers = LocalPublishers(self.broker)
        self.outputs = OutputLoads(parameters.congestion, parameters.threshold)
        self._linked = set(context.neighbours)
        self._searched: dict[ClusterEntry, None] = {}
        # Requests to a broker that has no place yet.
        self._requests: list[tuple[ClientId, Message]] = []
        self._is_leaving = False
        around = (*context.neighbours, *context.expected)
        if parameters.rows:
            product = parameters.product()
        else:
            rows = [(self.broker,), *((each,) for each in around)]
            product = Product(rows, [0] * len(around))
        is_there = context.is_founder and self.broker in product
        self.is_placed = is_there and (len(product.brokers) > 1 or not around)
        is_named = bool(parameters.rows) and not context.is_founder
        wanted = wanted_place(self.broker, product) if is_named else None
        self._joined_at = () if self.is_placed else around
        # Links without an announcement; a joiner has one, to the broker that it joins by. A founder
        # that left and came back is a joiner: the links of its place ended with its leave.
        beside = {end for link in product.links if self.broker in link for end in link}
        is_told = bool(around) or not context.is_founder
        self._given = sorted(beside.intersection(around) if is_told else beside)
        # Brokers that are, were or will be linked.
        self._around = {*around, *self._given}
        self._comes = not self.is_placed or bool(around and beside - {self.broker, *around})
        if self.is_placed:
            self._roster = Roster(product)
            self._settle_in(product, context.neighbours, context.expected)
            self._resident.begin_linked(context.neighbours)
        else:
            product = Product(((self.broker,),))
            self._roster = Roster(product)
            self._settle_in(product, (), ())
            product.remove(self.broker)
            self._roster = Roster(product)
        self._news = PlaceNews(self.broker, self._roster, self._linked, wanted)

    def _settle_in(
        self, product: Product, neighbours: Collection[BrokerId], expected: Iterable[BrokerId]
    ) -> None:
        """Begin at the place that this broker has in the product."""
        self.product = product
        self._resident = Resident(
            self.broker,
            self.parameters,
            self._roster,
            product,
            self.outputs,
            self._searched,
            self._linked,
            neighbours,
            expected,
            self._given,
            self._announce_left,
            comes=self._comes,
        )
        self._clients = OctopiaClients(self.publishers, self._resident)

    # --- own status ---------------------------------------------------------------------------

    @property
    def region(self) -> int:
        return self._resident.region

    @property
    def cluster(self) -> int:
        return self._resident.cluster

    @property
    def tables(self) -> Tables:
        return self._resident.tables

    @property
    def hosted(self) -> Hosted:
        return self._resident.hosted

    @property
    def routing(self) -> OctopiaRouting:
        return self._resident.routing

    @property
    def description(self) -> Mapping[str, int]:
        resident = self._resident
        return {
            "subscriptions": len(self.tables.subscriptions),
            "advertisements": len(self.hosted.rows) + len(self.tables.secondary),
            "congested": len(self.outputs.since_us),
            "diverted": self.routing.diverted,
            "held": len(self.routing.sequencer.lines)
            + len(resident.relinking)
            + len(resident.early),
            "kept": len(self.routing.kept),
            "numbered": len(self.routing.numbering),
        }

    @property
    def congested(self) -> Mapping[BrokerId, int]:
        return self.outputs.since_us

    @property
    def searched(self) -> Sized:
        return self.tables.subscriptions

    @property
    def most_candidates(self) -> int:
        return self.tables.matches.most_candidates

    def work_of(self, attributes: Attributes) -> int:
        return self.tables.matches.work_of(attributes)

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        return self.tables.matches.prepare(attributes, work_us)

    @property
    def is_ready(self) -> bool:
        return self.is_placed and self._resident.exchange.is_ready

    @property
    def awaited(self) -> Collection[BrokerId]:
        return self._resident.exchange.awaited if self.is_placed else self._joined_at

    @property
    def keeps_order(self) -> bool:
        return self.parameters.dynamic not in UNORDERED

    def routing_decision(self, asked: RoutingQuery) -> RoutingDecision:
        if not self.is_placed:
            return RoutingDecision(problem="it has no place yet")
        return routing_decision(
            asked, self.broker, self.product, self.tables, self.hosted, self.routing
        )

    # --- inputs -------------------------------------------------------------------------------

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        self._resident.start(now_us)
        # As long as for a broker lost now, until publications for it are dropped.
        give_up_us = started.give_up_us + self.parameters.patience_us
        waiting = msgspec.structs.replace(started, give_up_us=give_up_us)
        self._take_in(self._roster.merge(known_places(started.facts)), None, now_us, out)
        if self.is_placed:
            self._wait(waiting, now_us, out)
            self._learn(now_us, out)
        if self.parameters.dynamic is not Dynamic.STATIC:
            out.append(WatchLoads(self.parameters.window_us))

    def _wait(self, started: Started, now_us: int, out: list[Effect]) -> None:
        """Wait for those it was linked to before, and is again by itself, if they are there."""
        former = [each for each in started.former if each in self.product]
        beside = () if self._comes else self.product.beside(self.broker)
        again = self._around.union(self._resident.ties.preferred)
        self._resident.exchange.start(
            started,
            [each for each in former if each in beside],
            [each for each in former if each in again] if self._is_alone else (),
            now_us,
            out,
        )

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        self._resident.timer(key, now_us, out)

    def loads(self, loads: Loads, now_us: int, out: list[Effect]) -> None:
        self.outputs.renew(loads.links, now_us)

    def returned(
        self, neighbour: BrokerId, carrier: Carrier, now_us: int, out: list[Effect]
    ) -> None:
        self._resident.returned(neighbour, carrier, now_us, out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        if neighbour == self.broker:
            return
        is_up = state is LinkState.UP
        (self._linked.add if is_up else self._linked.discard)(neighbour)
        self._around.add(neighbour)
        if state is LinkState.FAILED and self._has_left(neighbour):
            out.append(EndLink(neighbour))
        if is_up:
            self._news.introduce(neighbour, out)
        if not self.is_placed or not self.product.knows(neighbour):
            self._resident.departing.look(now_us, out)
            return
        if is_up and neighbour not in self.product:
            return
        self._resident.link(neighbour, is_up, now_us, out)
        self._resident.settle(now_us, out, is_lost=not is_up)

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        if neighbour not in self._linked:
            raise ProtocolError(f"{neighbour} is not a neighbour of {self.broker}")
        if type(message) is PlacesAnnounced:
            self._on_places(neighbour, message.places, now_us, out)
            return
        if not self.is_placed or not self.product.knows(neighbour):
            raise ProtocolError(f"no place is known for {neighbour}, or for {self.broker}")
        self._resident.receive(neighbour, message, now_us, out)

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        if not self.is_placed:
            self._requests.append((client, request))
            return
        self._clients.request(client, request, now_us, out)
        if self._is_leaving:
            self._resident.departing.look(now_us, out)

    def leave(self, now_us: int, out: list[Effect]) -> None:
        if self._no_place:
            raise ProtocolError(self._no_place)
        is_asked_again, self._is_leaving = self._is_leaving, True
        if self._has_left(self.broker):
            # An earlier incarnation was killed when others did without it.
            self._resident.departing.end_links(out)
        elif not is_asked_again:
            # An earlier incarnation may have got permission to leave, and leaves from there only.
            wish = self._roster.changed(self.broker, now_us, PlaceStage.WANTS_TO_GO)
            self._take_in(self._roster.merge([wish]), None, now_us, out)

    def stay(self, now_us: int, out: list[Effect]) -> None:
        if self._is_leaving:
            self._resident.departing.stay(out)
            self._is_leaving = False
            here = self._roster.changed(self.broker, now_us, PlaceStage.THERE)
            self._take_in(self._roster.merge([here]), None, now_us, out)

    def departed(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        self._resident.attachments.departed(broker)

    def declare_dead(
        self, broker: BrokerId, others: Collection[BrokerId], now_us: int, out: list[Effect]
    ) -> None:
        """Decisions on joins and leaves do not wait for this broker."""
        super().declare_dead(broker, others, now_us, out)
        if broker in self.product:
            dead = self._roster.changed(broker, now_us, PlaceStage.DEAD)
            self._take_in(self._roster.merge([dead]), None, now_us, out)

    @property
    def obstacle(self) -> str:
        if self._no_place or not self._is_leaving:
            return self._no_place
        return self._roster.why_not_permitted(self.broker) or self._resident.departing.problem

    @property
    def is_leaving(self) -> bool:
        return self.is_placed and self._has_left(self.broker)

    @property
    def _no_place(self) -> str:
        is_known = self.is_placed and self.broker in self._roster.places
        return "" if is_known else f"{self.broker} has no place yet"

    @property
    def successor(self) -> BrokerId | None:
        return next(iter(self._resident.tree_neighbours), None) if self.is_placed else None

    def _has_left(self, broker: BrokerId) -> bool:
        place = self._roster.places.get(broker)
        return place is not None and place.stay is PlaceStage.LEFT

    def _announce_left(self, now_us: int, out: list[Effect]) -> None:
        self._news.announce_left(now_us, out)

    # --- places -------------------------------------------------------------------------------

    def _on_places(
        self, neighbour: BrokerId, places: Iterable[RosterPlace], now_us: int, out: list[Effect]
    ) -> None:
        news = self._roster.merge(places)
        own = self._roster.places.get(self.broker)
        if not self.is_placed and (own is None or own.stay is PlaceStage.LEFT):
            self._news.come(neighbour, now_us, out)
        elif (
            own is not None
            and own.stay in (PlaceStage.WANTS_TO_GO, PlaceStage.GOES, PlaceStage.DEAD)
            and not self._is_leaving
        ):
            news += self._news.stay(now_us, out)
        self._take_in(news, neighbour, now_us, out)
        if self._resident.exchange.introduced(neighbour):
            self._resident.settle(now_us, out)

    def _take_in(
        self, news: list[RosterPlace], source: BrokerId | None, now_us: int, out: list[Effect]
    ) -> None:
        """Places have changed: announce that, decide on it, and adapt."""
        if not news:
            return
        news = self._news.pass_on(news, source, now_us, out, is_placed=self.is_placed)
        left = {place.broker for place in news if place.stay is PlaceStage.LEFT}
        # A broker that left while a link was down cannot end that link.
        out += [EndLink(each) for each in sorted(left & (self._around - self._linked))]
        if self.is_placed:
            if source is not None and any(map(self._came_meanwhile, news)):
                self._resident.exchange.found(now_us, out)
            self._resident.follow(news, now_us, out, is_leaving=self._is_leaving)
        elif self.broker in self.product:
            self._take_place(now_us, out)
        else:
            return
        self._resident.meet(now_us, out)

    def _came_meanwhile(self, place: RosterPlace) -> bool:
        """Whether this is a broker of this one's cluster without a table here."""
        if place.cluster != self._resident.cluster or place.broker not in self.product:
            return False
        home = self._resident.tables.homes.get(place.region)
        return place.broker != self.broker and (home is None or home.since < place.since)

    def _take_place(self, now_us: int, out: list[Effect]) -> None:
        """This broker, which has come, has a place now."""
        self.is_placed = True
        self._settle_in(self.product, (), ())
        self._resident.start(now_us)
        for broker in self._joined_at:
            self._resident.attachments.opened(broker)
        self._learn(now_us, out)
        requests, self._requests = self._requests, []
        for client, request in requests:
            try:
                self.request(client, request, now_us, out)
            except ProtocolError as error:
                out.append(Notify(client, Rejected(str(error))))

    def _learn(self, now_us: int, out: list[Effect]) -> None:
        if self._comes and not (self._is_alone and self._roster.knows_founders):
            self._resident.exchange.learn(now_us, out)

    @property
    def _is_alone(self) -> bool:
        """Whether it knows of no other broker in its cluster."""
        return len(self.product.regions_of(self.cluster)) == 1
