"""A broker at its place: its links, and what its neighbours that have a place say.

Links that come up exchange what each end must know (`known/`); where one is broken another takes
its place (`links/`).  Publications are routed by what has come of that (`routing.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from shoal.broker.effects import Continue, Effect, LinkReady, Send, Settled, TimerKey
from shoal.broker.messages import Carrier, Message
from shoal.model import BrokerId
from shoal.overlays.merging import OwnMerging
from shoal.overlays.octopia import routing
from shoal.overlays.octopia.hearing import Hearing
from shoal.overlays.octopia.known import bits, exchange
from shoal.overlays.octopia.known.bits import Bits
from shoal.overlays.octopia.known.cluster_tables import ClusterTables
from shoal.overlays.octopia.known.early import Early, waits
from shoal.overlays.octopia.known.entering import Entering
from shoal.overlays.octopia.known.exchange import Exchange
from shoal.overlays.octopia.known.hosted import Hosted
from shoal.overlays.octopia.known.tables import Entry, Tables
from shoal.overlays.octopia.links import attachments, relinking
from shoal.overlays.octopia.links.departing import Departing
from shoal.overlays.octopia.links.relinking import Relinking
from shoal.overlays.octopia.links.sweeps import Sweeps
from shoal.overlays.octopia.links.ties import Ties
from shoal.overlays.octopia.messages import (
    CARRIERS,
    DepartingMessage,
    HomeChange,
    HomeTable,
    Notification,
    Spread,
    Sweep,
    Swept,
    TablesKnown,
)
from shoal.overlays.octopia.order import gate
from shoal.overlays.octopia.parameters import UNORDERED, Parameters
from shoal.overlays.octopia.places.labels import Product
from shoal.overlays.octopia.places.roster import Place, Roster, Stay
from shoal.overlays.octopia.routing import Routing
from shoal.overlays.octopia.ways import keeping
from shoal.overlays.octopia.ways.outputs import Outputs


class Resident:
    """Everything that a broker of `product` knows and does at its place.

    `linked` are all neighbours, and of them `neighbours` were there before anything was said;
    `expected` are those that are still to come, `given` those that the driver links by itself.
    Of who `comes` others do not know to whom it links up.  `left` tells everybody that this broker
    has left.
    """

    def __init__(
        self,
        broker: BrokerId,
        parameters: Parameters,
        roster: Roster,
        product: Product,
        outputs: Outputs,
        searched: dict[Entry, None],
        linked: Collection[BrokerId],
        neighbours: Collection[BrokerId],
        expected: Iterable[BrokerId],
        given: list[BrokerId],
        left: Callable[[int, list[Effect]], None],
        *,
        comes: bool,
    ) -> None:
        self.broker = broker
        self.product = product
        self.region, self.cluster = product.position(broker)
        self.linked = linked
        self._outputs = outputs
        self._left = left
        # Linked and placed; who may be sent publications; who goes, and is sent nothing more.
        self.met = set(neighbours)
        self._usable = set(neighbours)
        self._frozen: set[BrokerId] = set()
        # Who is sent nothing until all is there that was.
        self._still: set[BrokerId] = set()
        # The regions to which neighbours led whose link has changed.
        self._led_to: dict[BrokerId, list[int]] = {}
        self.tables = Tables(self.region, self.cluster, product, searched)
        self.hosted = Hosted(())
        there = [each for each in expected if each in product]
        near = [each for each in there if product.position(each).region == self.region]
        self.exchange = Exchange([each for each in there if self._is_primary(each)], near)
        self.early = Early()
        self.sweeps = Sweeps(broker, self._onward, self._holds_up, self._is_beside)
        self.relinking = Relinking(self.cluster, self.sweeps, self._still, parameters.order_us)
        self.ties = Ties(
            broker,
            roster,
            product,
            self.tables,
            self.hosted,
            self.sweeps,
            self.relinking,
            linked,
            given,
            parameters.retry_us,
            lambda out: self.cluster_tables.say_up(out),
            lambda broker, is_own, out: self.cluster_tables.catch_up(broker, is_own, out),
            self._is_link_needed,
            lambda cluster, now_us: self.routing.numbering.is_doubtful(cluster, now_us),
            keeps_order=parameters.dynamic not in UNORDERED,
            has_linked_up=not comes,
        )
        self.attachments = self.ties.attachments
        for each in there:
            if not self._is_primary(each) and each not in near:
                # It has joined there, where it enters no cluster: that says nothing of itself.
                self.attachments.opened(each)
        self.routing = Routing(
            product,
            broker,
            self.tables,
            self.hosted,
            outputs,
            parameters,
            self.ties.entry_of,
            self.ties.former_of,
            self.can_reach,
            self._is_silent,
            neighbours,
            self._still,
        )
        self.bits = Bits(self.tables, linked, parameters.sharp_bits)
        self.cluster_tables = ClusterTables(
            self.tables,
            [each for each in neighbours if self._is_primary(each)],
            self.bits,
            self.exchange,
            self.routing.changed,
            self._goes_on,
            lambda up, region: product.is_above(up, region, self.cluster),
            covering=parameters.covering,
            merging=OwnMerging(broker) if parameters.merging else None,
        )
        self.entering = Entering(self.tables, self.bits, self.exchange)
        self.departing = Departing(broker, self)
        self.hearing = Hearing(
            self.tables,
            self.cluster_tables,
            self.hosted,
            self.entering,
            self.exchange,
            self.routing,
            self.departing,
            self._hear_all,
            self._hear_own,
        )

    def begin_linked(self, neighbours: Collection[BrokerId]) -> None:
        """These were there before anything was said, so there is nothing to say."""
        self.ties.begin_linked(neighbours)
        self.entering.hosts.update(each for each in neighbours if not self._is_primary(each))

    def _is_primary(self, broker: BrokerId) -> bool:
        return self.product.position(broker).cluster == self.cluster

    def _is_above(self, broker: BrokerId) -> bool:
        """Whether this broker may link up to a neighbour of its cluster."""
        region = self.product.position(broker).region
        return self.product.is_above(region, self.region, self.cluster)

    def _goes_on(self, neighbour: BrokerId, source: BrokerId | None) -> bool:
        """Whether a change of a table goes to a neighbour over the tree, or for want of one."""
        if not self._is_above(neighbour):
            return True
        if source is not None and self._is_above(source):
            return False
        return self.ties.up.current in (None, neighbour)

    # --- inputs -------------------------------------------------------------------------------

    def start(self, now_us: int) -> None:
        """The broker starts, or has come to its place."""
        self.tables.own.version = now_us
        self.sweeps.start(now_us)

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        if key == exchange.TIMER:
            for broker in self.exchange.waited(now_us, out):
                self.attachments.unlinked(broker, out)
        elif key == attachments.TIMER:
            self.attachments.retry()
        elif key == relinking.TIMER:
            if self.relinking.waited(now_us, out):
                self._end_relinking(now_us, out)
        elif key == bits.TIMER:
            self.bits.waited(now_us, out)
            return
        else:
            moves = {
                routing.RETRY: self.routing.returned,
                keeping.TIMER: self.routing.waited,
                gate.TIMER: self.routing.gate.waited,
            }
            if key in moves:
                self.routing.kept.look_for(self.ties.entered_by, now_us, out)
                moves[key](now_us, out)
                if key == routing.RETRY:
                    self.sweeps.returned(out)
                self._go_on(now_us, out)
            return
        self.settle(now_us, out)

    def returned(
        self, neighbour: BrokerId, carrier: Carrier, now_us: int, out: list[Effect]
    ) -> None:
        if isinstance(carrier, Spread):
            hops, clusters, regions = carrier.hops - 1, carrier.clusters, frozenset(carrier.regions)
            spreading = self.routing.spreading
            spreading.recover(carrier.publications, hops, clusters, regions, now_us, out)
            return
        assert isinstance(carrier, Notification)
        led_to = self._led_to.get(neighbour, [])
        self.routing.take_back(neighbour, carrier, led_to, now_us, out)

    def follow(
        self, news: Iterable[Place], now_us: int, out: list[Effect], *, is_leaving: bool
    ) -> None:
        """Places have changed; this broker goes only if `is_leaving`: asked to in this life."""
        self.cluster_tables.forget_left(self.product.came(self.cluster), now_us, out)
        for place in news:
            if place.cluster == self.cluster and place.broker in self.product:
                above = self.product.above(place.region, self.cluster)
                self.tables.add_home(place.region, above, place.since)
            if place.stay is Stay.LEFT:
                self.exchange.left(place.broker, self.product.beside(self.broker))
            if place.broker == self.broker:
                self.departing.may_go = is_leaving and place.stay is Stay.GOES
            elif place.stay is Stay.GOES:
                self._outputs.shunned.add(place.broker)
            else:
                self._outputs.shunned.discard(place.broker)
                self.ties.do_with(place.broker)
        self.ties.choose_candidates(out)

    def meet(self, now_us: int, out: list[Effect]) -> None:
        """Places have changed: some neighbours may have one now."""
        for neighbour in sorted(set(self.linked) - self.met):
            if neighbour in self.product:
                self.link(neighbour, True, now_us, out)
        self.settle(now_us, out)

    def link(self, neighbour: BrokerId, is_up: bool, now_us: int, out: list[Effect]) -> None:
        """The link to a broker that has a place came up, with nothing said before, or is gone."""
        region, cluster = self.product.position(neighbour)
        # What was on its way to it was for some of these.
        self._led_to[neighbour] = self.tables.take_ways(region) if cluster == self.cluster else []
        was_met = neighbour in self.met
        (self.met.add if is_up else self.met.discard)(neighbour)
        self._usable.discard(neighbour)
        self._frozen.discard(neighbour)
        self.cluster_tables.unlinked(neighbour)
        self.ties.unlinked(neighbour)
        self.entering.hosts.discard(neighbour)
        self.hosted.doubt(neighbour)
        if was_met:
            self.routing.lost(neighbour, now_us, out)
        self.sweeps.lost(neighbour, is_up, out)
        self.early.lost(neighbour, out)
        self.relinking.lost(neighbour, out)
        self.routing.linked(neighbour, is_up, now_us, out)
        if is_up:
            self.exchange.linked(neighbour)
            self.attachments.linked(neighbour)
            self.departing.linked(neighbour, now_us, out)
            self.entering.linked(neighbour)
            if self._is_primary(neighbour):
                versions = {each: home.version for each, home in self.tables.homes.items()}
                out.append(Send(neighbour, TablesKnown(versions)))
            elif region != self.region:
                # To answer it nothing need be known; what is for it itself waits there (`Early`).
                out.append(LinkReady(neighbour))
            else:
                self.routing.numbering.met(neighbour, cluster, now_us, out)
        else:
            self.exchange.unlinked(neighbour)
            self.hosted.forget(neighbour)
            self.entering.unlinked(neighbour)
            self.attachments.unlinked(neighbour, out)
            self.departing.unlinked(neighbour)

    def settle(
        self, now_us: int, out: list[Effect], *, is_retried: bool = True, is_lost: bool = False
    ) -> None:
        """After links or tables have changed; what is kept goes if `is_retried`, or has a way now.

        Not where a link `is_lost`: what was on its way there comes back first, and goes before.
        """
        has_way = self.ties.settle(now_us, out, is_ending=self.departing.is_ending)
        is_retried = (is_retried or has_way) and not is_lost
        self.routing.kept.look_for(self.ties.entered_by, now_us, out)
        self.exchange.say(out)
        if self.exchange.knows_tables:
            self.early.let_in(self.receive, now_us, out)
        self.routing.changed(now_us, out, is_retried=is_retried)
        self.departing.look(now_us, out)
        if is_retried:
            self._go_on(now_us, out)

    def _go_on(self, now_us: int, out: list[Effect]) -> None:
        """Publications have moved: what waits behind them may go."""
        if self.sweeps.are_waiting or self.departing.may_go:
            self.settle(now_us, out, is_retried=False)

    def _end_relinking(self, now_us: int, out: list[Effect]) -> None:
        """All that went the way of before has come, or will not: what came the new way goes on."""
        new, held = self.relinking.end()
        for key, message in held:
            out.append(Continue(key))
            self.routing.receive(new, message, now_us, out)
        if held:
            out += [*map(Settled, dict.fromkeys(key for key, _ in held)), Continue(None)]
        self.cluster_tables.catch_up(new, False, out)

    # --- what others that go, and its own going, must know ------------------------------------

    @property
    def tree_neighbours(self) -> list[BrokerId]:
        return self.ties.tree_neighbours

    @property
    def is_needed(self) -> bool:
        is_apart = self.tables.own.up is not None and self.ties.up.current is None
        has_clients = self.hosted.rows or self.tables.own.entries or self.entering.hosts
        return bool(has_clients or self.has_waiting or self.is_relinking or is_apart)

    @property
    def has_waiting(self) -> bool:
        routing = self.routing
        waiting = (routing.kept, routing.gate.lines, routing.giving_back, self.early)
        return routing.kept.is_returning or any(len(each) > 0 for each in waiting)

    @property
    def is_relinking(self) -> bool:
        return self.relinking.is_active

    def _is_link_needed(self, broker: BrokerId) -> bool:
        """Whether a neighbour enters here, or not all by it has come, or it is in the tree."""
        is_awaited = self.sweeps.are_by(broker) or broker == self.relinking.former
        return is_awaited or broker in self.entering.hosts or broker in self.tree_neighbours

    def _holds_up(self, source: BrokerId) -> bool:
        """Whether a publication that came to this cluster before a sweep may wait here.

        What waits for its turn came from another cluster: before a sweep from there, maybe.
        """
        if not self._is_primary(source):
            return self.routing.kept.is_inner(None) or len(self.routing.gate.lines) > 0
        region = self.product.position(source).region
        return self.relinking.holds_up(source) or self.routing.kept.is_inner(region)

    def _is_beside(self, broker: BrokerId) -> bool:
        return broker in self.met and self._is_primary(broker)

    def _onward(self, source: BrokerId) -> list[BrokerId]:
        """To whom of this cluster goes on what comes from a broker."""
        there = self._usable - self._frozen
        found = [each for each in self.tree_neighbours if each != source and each in there]
        if self._is_primary(source) and self._is_above(source):
            found = [each for each in found if each != self.ties.up.current]
        return found

    def can_reach(self, broker: BrokerId) -> bool:
        is_held_back = broker in self._frozen or broker in self._still
        return broker in self._usable and not is_held_back

    def _is_silent(self, broker: BrokerId) -> bool:
        return broker in self.met and broker not in self._usable

    def freeze(self, leaver: BrokerId, out: list[Effect]) -> None:
        self._frozen.add(leaver)
        self.routing.changed(0, out, is_retried=False)

    def thaw(self, leaver: BrokerId, now_us: int, out: list[Effect]) -> None:
        self._frozen.discard(leaver)
        self.settle(now_us, out)

    def turn(
        self,
        leaver: BrokerId,
        centre: BrokerId,
        others: Iterable[BrokerId],
        now_us: int,
        out: list[Effect],
    ) -> None:
        self.ties.do_without(leaver, centre, others, out)
        self.settle(now_us, out)

    def say_left(self, now_us: int, out: list[Effect]) -> None:
        self._left(now_us, out)

    # --- from neighbours ----------------------------------------------------------------------

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        if isinstance(message, CARRIERS):
            message.check(self.product.clusters)
        if not self.exchange.knows_tables and not self._is_primary(neighbour) and waits(message):
            self.early.hold(neighbour, message, out)
        elif type(message) is Notification:
            if self.relinking.holds(neighbour):
                self.relinking.hold(message, out)
                return
            self.routing.receive(neighbour, message, now_us, out)
            self._go_on(now_us, out)
        elif type(message) is Spread:
            self.routing.spreading.receive(neighbour, message, now_us, out)
            self._go_on(now_us, out)
        elif isinstance(message, DepartingMessage):
            self.departing.receive(neighbour, message, now_us, out)
        elif isinstance(message, Sweep | Swept):
            self.sweeps.receive(neighbour, message, out)
            if self.relinking.has_all:
                self._end_relinking(now_us, out)
            self.settle(now_us, out, is_retried=False)
        elif self._is_primary(neighbour):
            self.hearing.primary(neighbour, message, now_us, out)
        else:
            self.hearing.secondary(neighbour, message, now_us, out)

    def _hear_own(
        self, neighbour: BrokerId, message: HomeChange | HomeTable, now_us: int, out: list[Effect]
    ) -> None:
        """A neighbour says what it knows of the table of this broker."""
        if self.relinking.is_back(neighbour, message):
            self._end_relinking(now_us, out)
            self.settle(now_us, out)

    def _hear_all(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A neighbour has said all that must be known of it."""
        purpose = self.ties.answered(neighbour)
        if purpose is None:
            return
        self._usable.add(neighbour)
        self.routing.giving_back.spoken(neighbour, out)
        out.append(LinkReady(neighbour))
        self.exchange.heard(neighbour)
        if purpose is self.ties.up or neighbour in self.ties.advertised_to:
            # Otherwise it is told no more what is advertised here: the answer is late.
            self.attachments.ready(purpose, neighbour)
        self.settle(now_us, out)
