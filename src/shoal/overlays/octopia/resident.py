"""A broker at its place: its links, and the messages of neighbours with a place.

Links that come up synchronise both ends' tables (`known/`); a broken link is replaced by another
(`links/`). Publications are routed by the resulting tables (`routing.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from shoal.broker.effects import Continue, Effect, LinkReady, Send, Settled, TimerKey
from shoal.broker.messages import Carrier, Message
from shoal.model import BrokerId
from shoal.overlays.merging import OwnMerging
from shoal.overlays.octopia import routing
from shoal.overlays.octopia.dispatch import MessageDispatch
from shoal.overlays.octopia.known import bits, exchange
from shoal.overlays.octopia.known.bits import Bits
from shoal.overlays.octopia.known.cluster_tables import ClusterTables
from shoal.overlays.octopia.known.early import Early, waits
from shoal.overlays.octopia.known.entering import EnteringHosts
from shoal.overlays.octopia.known.exchange import KnownExchange
from shoal.overlays.octopia.known.hosted import Hosted
from shoal.overlays.octopia.known.tables import ClusterEntry, Tables
from shoal.overlays.octopia.links import attachments, relinking
from shoal.overlays.octopia.links.departing import Departing
from shoal.overlays.octopia.links.relinking import OctopiaRelinking
from shoal.overlays.octopia.links.sweeps import Sweeps
from shoal.overlays.octopia.links.ties import Ties
from shoal.overlays.octopia.messages import (
    CARRIERS,
    DepartingMessage,
    HomeChange,
    HomeTable,
    Notification,
    SpreadCopy,
    Sweep,
    Swept,
    TablesKnown,
)
from shoal.overlays.octopia.order import sequencer
from shoal.overlays.octopia.parameters import UNORDERED, OctopiaParameters
from shoal.overlays.octopia.places.labels import Product
from shoal.overlays.octopia.places.roster import PlaceStage, Roster, RosterPlace
from shoal.overlays.octopia.routing import OctopiaRouting
from shoal.overlays.octopia.ways import keeping
from shoal.overlays.octopia.ways.outputs import OutputLoads


class Resident:
    """State and actions of a broker of `product` at its place.

    `linked` are all neighbours, and of them `neighbours` were there from the beginning; `expected`
    are those that are still to come, `given` those that the driver links by itself. Other brokers
    do not know the parent of a joining broker (`comes`). `left` announces that this broker has
    left.
    """

    def __init__(
        self,
        broker: BrokerId,
        parameters: OctopiaParameters,
        roster: Roster,
        product: Product,
        outputs: OutputLoads,
        searched: dict[ClusterEntry, None],
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
        # Neighbours linked and placed; those that may be sent publications; leaving ones, sent
        # nothing more.
        self.met = set(neighbours)
        self._usable = set(neighbours)
        self._frozen: set[BrokerId] = set()
        # Brokers that are sent nothing until all earlier publications have arrived.
        self._still: set[BrokerId] = set()
        # The regions to which neighbours led whose link has changed.
        self._led_to: dict[BrokerId, list[int]] = {}
        self.tables = Tables(self.region, self.cluster, product, searched)
        self.hosted = Hosted(())
        there = [each for each in expected if each in product]
        near = [each for each in there if product.position(each).region == self.region]
        self.exchange = KnownExchange([each for each in there if self._is_primary(each)], near)
        self.early = Early()
        self.sweeps = Sweeps(broker, self._routing_decision, self._holds_up, self._is_beside)
        self.relinking = OctopiaRelinking(
            self.cluster, self.sweeps, self._still, parameters.order_us
        )
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
            lambda out: self.cluster_tables.announce_parent(out),
            lambda broker, is_own, out: self.cluster_tables.catch_up(broker, is_own, out),
            self._is_link_needed,
            lambda cluster, now_us: self.routing.numbering.is_doubtful(cluster, now_us),
            keeps_order=parameters.dynamic not in UNORDERED,
            has_linked_up=not comes,
        )
        self.attachments = self.ties.attachments
        for each in there:
            if not self._is_primary(each) and each not in near:
                # It has joined by that broker, where it enters no cluster: no announcement is
                # needed.
                self.attachments.opened(each)
        self.routing = OctopiaRouting(
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
        self.entering = EnteringHosts(self.tables, self.bits, self.exchange)
        self.departing = Departing(broker, self)
        self.dispatch = MessageDispatch(
            self.tables,
            self.cluster_tables,
            self.hosted,
            self.entering,
            self.exchange,
            self.routing,
            self.departing,
            self._on_complete,
            self._on_own_table,
        )

    def begin_linked(self, neighbours: Collection[BrokerId]) -> None:
        """These were linked from the beginning, so there is nothing to send."""
        self.ties.begin_linked(neighbours)
        self.entering.hosts.update(each for each in neighbours if not self._is_primary(each))

    def _is_primary(self, broker: BrokerId) -> bool:
        return self.product.position(broker).cluster == self.cluster

    def _is_above(self, broker: BrokerId) -> bool:
        """Whether this broker may be a child of a neighbour of its cluster."""
        region = self.product.position(broker).region
        return self.product.is_above(region, self.region, self.cluster)

    def _goes_on(self, neighbour: BrokerId, source: BrokerId | None) -> bool:
        """Whether a change of a table goes to a neighbour, over the tree or in its absence."""
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
                sequencer.TIMER: self.routing.sequencer.waited,
            }
            if key in moves:
                self.routing.kept.look_for(self.ties.entered_by, now_us, out)
                moves[key](now_us, out)
                if key == routing.RETRY:
                    self.sweeps.returned(out)
                self._continue(now_us, out)
            return
        self.settle(now_us, out)

    def returned(
        self, neighbour: BrokerId, carrier: Carrier, now_us: int, out: list[Effect]
    ) -> None:
        if isinstance(carrier, SpreadCopy):
            hops, clusters, regions = carrier.hops - 1, carrier.clusters, frozenset(carrier.regions)
            spreading = self.routing.spreading
            spreading.recover(carrier.publications, hops, clusters, regions, now_us, out)
            return
        assert isinstance(carrier, Notification)
        led_to = self._led_to.get(neighbour, [])
        self.routing.take_back(neighbour, carrier, led_to, now_us, out)

    def follow(
        self, news: Iterable[RosterPlace], now_us: int, out: list[Effect], *, is_leaving: bool
    ) -> None:
        """Places have changed.

        This broker leaves only if `is_leaving`: ordered in this incarnation.
        """
        self.cluster_tables.forget_left(self.product.joined(self.cluster), now_us, out)
        for place in news:
            if place.cluster == self.cluster and place.broker in self.product:
                up = self.product.best_above(place.region, self.cluster)
                self.tables.add_home(place.region, up, place.since)
            if place.stay is PlaceStage.LEFT:
                self.exchange.left(place.broker, self.product.beside(self.broker))
            if place.broker == self.broker:
                self.departing.may_go = is_leaving and place.stay is PlaceStage.GOES
            elif place.stay is PlaceStage.GOES:
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
        """The link to a broker with a place came up, empty, or is lost."""
        region, cluster = self.product.position(neighbour)
        # Publications in transit to it were for some of these.
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
                # An answer to it needs no tables; publications for this broker itself wait there
                # (`Early`).
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
        """Settle attachments and kept publications after links or tables have changed.

        Kept publications are retried if `is_retried`, or have a path.

        Not if a link `is_lost`: publications in transit there are returned first, and go first.
        """
        has_way = self.ties.settle(now_us, out, is_ending=self.departing.is_ending)
        is_retried = (is_retried or has_way) and not is_lost
        self.routing.kept.look_for(self.ties.entered_by, now_us, out)
        self.exchange.send_markers(out)
        if self.exchange.knows_tables:
            self.early.let_in(self.receive, now_us, out)
        self.routing.changed(now_us, out, is_retried=is_retried)
        self.departing.look(now_us, out)
        if is_retried:
            self._continue(now_us, out)

    def _continue(self, now_us: int, out: list[Effect]) -> None:
        """Publications have moved: those that wait behind them may go."""
        if self.sweeps.are_waiting or self.departing.may_go:
            self.settle(now_us, out, is_retried=False)

    def _end_relinking(self, now_us: int, out: list[Effect]) -> None:
        """All publications of the old path have come, or will not: those of the new path are
        released.
        """
        new, held = self.relinking.end()
        for key, message in held:
            out.append(Continue(key))
            self.routing.receive(new, message, now_us, out)
        if held:
            out += [*map(Settled, dict.fromkeys(key for key, _ in held)), Continue(None)]
        self.cluster_tables.catch_up(new, False, out)

    # --- interface of leaves ------------------------------------------------------------------

    @property
    def tree_neighbours(self) -> list[BrokerId]:
        return self.ties.tree_neighbours

    @property
    def need(self) -> str:
        if self.entering.hosts:
            return f"{', '.join(sorted(self.entering.hosts))} enters its cluster here"
        if self.hosted.rows or self.tables.own.entries:
            return "clients have subscriptions here"
        if self.has_waiting:
            return "publications wait here"
        if self.is_relinking:
            return f"publications of {self.relinking.former} have yet to arrive"
        is_apart = self.tables.own.up is not None and self.ties.up.current is None
        return "it has no link to its cluster" if is_apart else ""

    @property
    def has_waiting(self) -> bool:
        routing = self.routing
        waiting = (routing.kept, routing.sequencer.lines, routing.giving_back, self.early)
        return routing.kept.is_returning or any(len(each) > 0 for each in waiting)

    @property
    def is_relinking(self) -> bool:
        return self.relinking.is_active

    def _is_link_needed(self, broker: BrokerId) -> bool:
        """Whether a neighbour enters here, not all publications by it have come, or it is in the
        tree.
        """
        is_awaited = self.sweeps.are_by(broker) or broker == self.relinking.former
        return is_awaited or broker in self.entering.hosts or broker in self.tree_neighbours

    def _holds_up(self, source: BrokerId) -> bool:
        """Whether a publication that came to this cluster before a sweep may wait here.

        Publications waiting in sequence came from another cluster: before a sweep from there,
        maybe.
        """
        if not self._is_primary(source):
            return self.routing.kept.is_inner(None) or len(self.routing.sequencer.lines) > 0
        region = self.product.position(source).region
        return self.relinking.holds_up(source) or self.routing.kept.is_inner(region)

    def _is_beside(self, broker: BrokerId) -> bool:
        return broker in self.met and self._is_primary(broker)

    def _routing_decision(self, source: BrokerId) -> list[BrokerId]:
        """Next hops in this cluster for publications from a broker."""
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

    def freeze(self, leaving_broker: BrokerId, out: list[Effect]) -> None:
        self._frozen.add(leaving_broker)
        self.routing.changed(0, out, is_retried=False)

    def thaw(self, leaving_broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        self._frozen.discard(leaving_broker)
        self.settle(now_us, out)

    def turn(
        self,
        leaving_broker: BrokerId,
        successor: BrokerId,
        others: Iterable[BrokerId],
        now_us: int,
        out: list[Effect],
    ) -> None:
        self.ties.do_without(leaving_broker, successor, others, out)
        self.settle(now_us, out)

    def announce_left(self, now_us: int, out: list[Effect]) -> None:
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
            self._continue(now_us, out)
        elif type(message) is SpreadCopy:
            self.routing.spreading.receive(neighbour, message, now_us, out)
            self._continue(now_us, out)
        elif isinstance(message, DepartingMessage):
            self.departing.receive(neighbour, message, now_us, out)
        elif isinstance(message, Sweep | Swept):
            self.sweeps.receive(neighbour, message, out)
            if self.relinking.has_all:
                self._end_relinking(now_us, out)
            self.settle(now_us, out, is_retried=False)
        elif self._is_primary(neighbour):
            self.dispatch.primary(neighbour, message, now_us, out)
        else:
            self.dispatch.secondary(neighbour, message, now_us, out)

    def _on_own_table(
        self, neighbour: BrokerId, message: HomeChange | HomeTable, now_us: int, out: list[Effect]
    ) -> None:
        """A neighbour has sent its copy of this broker's table."""
        if self.relinking.is_back(neighbour, message):
            self._end_relinking(now_us, out)
            self.settle(now_us, out)

    def _on_complete(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A neighbour has completed its announcements."""
        purpose = self.ties.on_complete(neighbour)
        if purpose is None:
            return
        self._usable.add(neighbour)
        self.routing.giving_back.spoken(neighbour, out)
        out.append(LinkReady(neighbour))
        self.exchange.on_complete(neighbour)
        if purpose is self.ties.up or neighbour in self.ties.advertised_to:
            # Otherwise it gets no advertisements any more: the answer is late.
            self.attachments.ready(purpose, neighbour)
        self.settle(now_us, out)
