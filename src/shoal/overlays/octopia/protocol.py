"""OctopiA at one broker: what it is told, and what it tells others of it.

Subscriptions go to the broker's own cluster (VI), advertisements to one broker of each other
cluster (V), which says whether its cluster wants them.  Publications are routed by what has come of
that (`routing.py`).  Links that come up exchange what each end must know (`exchange.py`); where one
is broken another takes its place (`attachments.py`).  Brokers come and go: everybody knows all
places (`roster.py`), and who goes is done without, step by step (`departing.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sized

import msgspec

from shoal.broker.effects import (
    Effect,
    LinkReady,
    LinkState,
    Loads,
    Notify,
    Remember,
    Send,
    Started,
    TimerKey,
    Watch,
)
from shoal.broker.messages import (
    Advertise,
    Carrier,
    Goodbye,
    Message,
    Publish,
    Rejected,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.strategy import BaseStrategy, BrokerContext, ProtocolError, unexpected
from shoal.broker.wire import MAX_HOPS
from shoal.model import (
    Advertisement,
    AdvertisementId,
    BrokerId,
    ClientId,
    Subscription,
    SubscriptionId,
)
from shoal.overlays.octopia import attachments, exchange, gate, keeping, routing
from shoal.overlays.octopia.attachments import Attachment, Attachments, is_worse
from shoal.overlays.octopia.cluster_tables import ClusterTables
from shoal.overlays.octopia.departing import Departing
from shoal.overlays.octopia.exchange import Exchange
from shoal.overlays.octopia.hosted import Hosted
from shoal.overlays.octopia.labels import Product
from shoal.overlays.octopia.messages import (
    BitCleared,
    BitSet,
    BitsSaid,
    DepartingMessage,
    EntryLeft,
    HomeChange,
    HomeTable,
    Notification,
    NumbersBegin,
    NumbersEnd,
    Sweep,
    Swept,
    TablesKnown,
    TablesSaid,
    TableWanted,
    WayLost,
)
from shoal.overlays.octopia.outputs import Outputs
from shoal.overlays.octopia.parameters import Dynamic, Parameters
from shoal.overlays.octopia.roster import Place, Places, Roster, Stay, known_places
from shoal.overlays.octopia.routing import Routing
from shoal.overlays.octopia.sweeps import Sweeps
from shoal.overlays.octopia.tables import Entry, Tables
from shoal.overlays.publishers import LocalPublishers
from shoal.overlays.requests import check_advertisement, check_filter, check_subscription
from shoal.overlays.tree.messages import AdvertisementsSaid


class Octopia(BaseStrategy):
    """One broker of a product of a tree and a complete graph.

    Without rows it is in a cluster of its own, with its neighbours below it.
    """

    def __init__(self, context: BrokerContext, parameters: Parameters) -> None:
        self.broker = context.broker
        self.parameters = parameters
        self.publishers = LocalPublishers(self.broker)
        self.outputs = Outputs(parameters.congestion, parameters.threshold)
        self.departing = Departing(self.broker, self)
        self._linked = set(context.neighbours)
        self._searched: dict[Entry, None] = {}
        # What was asked of a broker that has no place yet.
        self._requests: list[tuple[ClientId, Message]] = []
        self._is_leaving = False
        # Who goes, or may be gone: sent nothing more, or done without in the tree.
        self._frozen: set[BrokerId] = set()
        self._done_without: set[BrokerId] = set()
        around = (*context.neighbours, *context.expected)
        if parameters.rows:
            product = parameters.product()
        else:
            rows = [(self.broker,), *((each,) for each in around)]
            product = Product(rows, [0] * len(around))
        self.is_placed = self.broker in product and (len(product.brokers) > 1 or not around)
        self._joined_at = () if self.is_placed else around
        # The links that are there without a word; who comes has one, to where it joins.
        beside = {end for link in product.links if self.broker in link for end in link}
        self._given = sorted(beside.intersection(around) if around else beside)
        self._comes = not self.is_placed or bool(around and beside - {self.broker, *around})
        if self.is_placed:
            self.roster = Roster(product)
            self._settle_in(product, context.neighbours, context.expected)
            self._begin_linked(context.neighbours)
        else:
            product = Product(((self.broker,),))
            self.roster = Roster(product)
            self._settle_in(product, (), ())
            product.remove(self.broker)
            self.roster = Roster(product)

    def _settle_in(
        self, product: Product, neighbours: Collection[BrokerId], expected: Iterable[BrokerId]
    ) -> None:
        """Know what there is to know at the place that this broker has in the product."""
        parameters = self.parameters
        self.product = product
        self.region, self.cluster = product.position(self.broker)
        self.tables = Tables(self.region, self.cluster, product, self._searched)
        self.hosted = Hosted(())
        # Linked and placed; who may be sent publications; who knows what is advertised here.
        self._met = set(neighbours)
        self._usable = set(neighbours)
        self._advertised_to: set[BrokerId] = set()
        # Those in other clusters that enter this one here.
        self._entered_by: set[BrokerId] = set()
        # What neighbours said before their link came up anew, and have not said again.
        self._stale: dict[BrokerId, dict[AdvertisementId, None]] = {}
        self._led_to: dict[BrokerId, list[int]] = {}
        expected = [each for each in expected if each in product]
        self._exchange = Exchange(
            [each for each in expected if self._is_primary(each)],
            [each for each in expected if not self._is_primary(each)],
        )
        self._up = Attachment(())
        # Whether others know to whom it links up: of who was there from the beginning they do.
        self._has_linked_up = not self._comes
        # Who took the place of the one that this broker linked up to.
        self._centre: BrokerId | None = None
        self._entries: dict[int, Attachment] = {}
        self._cluster_of: dict[Attachment, int] = {}
        self.attachments = Attachments(
            [],
            self._given,
            parameters.retry_us,
            self._await,
            self._switch,
            self._is_link_needed,
        )
        self.routing = Routing(
            product,
            self.broker,
            self.tables,
            self.hosted,
            self.outputs,
            parameters,
            self._entry_of,
            self.can_reach,
            neighbours,
        )
        self.cluster_tables = ClusterTables(
            self.tables,
            [each for each in neighbours if self._is_primary(each)],
            self._linked,
            self._exchange,
            self.routing.changed,
            lambda up, region: product.is_above(up, region, self.cluster),
            covering=parameters.covering,
        )
        self._sweeps = Sweeps(self.broker, self._onward, self._holds_up)
        self._choose_candidates([])

    def _begin_linked(self, neighbours: Iterable[BrokerId]) -> None:
        """These were there before anything was said, so there is nothing to say."""
        for neighbour in neighbours:
            self.attachments.linked(neighbour)
            if not self._is_primary(neighbour):
                self._entered_by.add(neighbour)
        for purpose in self.attachments.purposes:
            if purpose.candidates[0] in self._linked:
                purpose.current = purpose.candidates[0]
                self.attachments.ready(purpose, purpose.current)
        for cluster, purpose in self._entries.items():
            if purpose.current is not None:
                self._advertised_to.add(purpose.current)
                self.hosted.enter(cluster, purpose.current)

    def _brokers(self, regions: Iterable[int], cluster: int) -> list[BrokerId]:
        return [self.product.broker(region, cluster) for region in regions]

    def _is_primary(self, broker: BrokerId) -> bool:
        return self.product.position(broker).cluster == self.cluster

    # --- what it says of itself ---------------------------------------------------------------

    @property
    def description(self) -> Mapping[str, int]:
        return {
            "subscriptions": len(self.tables.subscriptions),
            "advertisements": len(self.hosted.rows) + len(self.tables.secondary),
            "congested": len(self.outputs.since_us),
            "diverted": self.routing.diverted,
            "held": len(self.routing.gate.lines),
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
    def is_ready(self) -> bool:
        return self.is_placed and self._exchange.is_ready

    @property
    def awaited(self) -> Collection[BrokerId]:
        return self._exchange.awaited if self.is_placed else self._joined_at

    @property
    def keeps_order(self) -> bool:
        return self.parameters.dynamic is not Dynamic.FREE

    # --- inputs -------------------------------------------------------------------------------

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        self.tables.own.version = now_us
        self._sweeps.start(now_us)
        # As long as for one that goes away now, until what is for it is dropped.
        give_up_us = started.give_up_us + self.parameters.patience_us
        waiting = msgspec.structs.replace(started, give_up_us=give_up_us)
        self._exchange.start(waiting, now_us, out)
        self._take_in(self.roster.hear(known_places(started.facts)), None, now_us, out)
        if self.is_placed:
            self._learn(now_us, out)
        if self.parameters.dynamic is not Dynamic.STATIC:
            out.append(Watch(self.parameters.window_us))

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        if key == exchange.TIMER:
            for broker in self._exchange.waited(now_us, out):
                self.attachments.unlinked(broker, out)
        elif key == attachments.TIMER:
            self.attachments.retry()
        elif key == routing.RETRY:
            self.routing.changed(now_us, out)
            return
        elif key == keeping.TIMER:
            self.routing.waited(now_us, out)
            self._go_on(now_us, out)
            return
        elif key == gate.TIMER:
            self.routing.gate.waited(now_us, out)
            self._go_on(now_us, out)
            return
        else:
            return
        self._settle(now_us, out)

    def loads(self, loads: Loads, now_us: int, out: list[Effect]) -> None:
        self.outputs.renew(loads.links, now_us)

    def returned(
        self, neighbour: BrokerId, carrier: Carrier, now_us: int, out: list[Effect]
    ) -> None:
        assert isinstance(carrier, Notification)
        led_to = self._led_to.get(neighbour, [])
        self.routing.take_back(neighbour, carrier, led_to, now_us, out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        if neighbour == self.broker:
            return
        is_up = state is LinkState.UP
        (self._linked.add if is_up else self._linked.discard)(neighbour)
        if is_up:
            out.append(Send(neighbour, Places(tuple(self.roster.places.values()))))
        if not self.is_placed or not self.product.knows(neighbour):
            self.departing.look(now_us, out)
            return
        if is_up and neighbour not in self.product:
            return
        self._link(neighbour, is_up, now_us, out)
        self._settle(now_us, out, is_retried=is_up)

    def _link(self, neighbour: BrokerId, is_up: bool, now_us: int, out: list[Effect]) -> None:
        """The link to a broker that has a place came up, with nothing said before, or is gone."""
        self._led_to[neighbour] = self.routing.led_to(neighbour)
        was_met = neighbour in self._met
        (self._met.add if is_up else self._met.discard)(neighbour)
        self._usable.discard(neighbour)
        self._frozen.discard(neighbour)
        self.cluster_tables.told.discard(neighbour)
        self._advertised_to.discard(neighbour)
        self._entered_by.discard(neighbour)
        if was_met:
            self.routing.lost(neighbour, now_us, out)
        self._sweeps.lost(neighbour, out)
        self.routing.linked(neighbour, is_up, now_us, out)
        if is_up:
            self._exchange.linked(neighbour)
            self.attachments.linked(neighbour)
            self.departing.linked(neighbour, now_us, out)
            if self._is_primary(neighbour):
                versions = {each: home.version for each, home in self.tables.homes.items()}
                out.append(Send(neighbour, TablesKnown(versions)))
            else:
                if self.product.position(neighbour).region != self.region:
                    # It enters this cluster here; nothing need be known of it to answer.
                    out.append(LinkReady(neighbour))
                mine = [id for host, id in self.tables.secondary if host == neighbour]
                self._stale[neighbour] = dict.fromkeys(mine)
        else:
            self._exchange.unlinked(neighbour)
            self.hosted.forget(neighbour)
            self._stale.pop(neighbour, None)
            for host, id in list(self.tables.secondary):
                if host == neighbour:
                    self.tables.unadvertise(host, id)
            self.attachments.unlinked(neighbour, out)
            self.departing.unlinked(neighbour)

    def _settle(self, now_us: int, out: list[Effect], *, is_retried: bool = True) -> None:
        """After links or tables have changed; what is kept may go if `is_retried`."""
        if not self.departing.is_ending:
            self.attachments.settle(now_us, out)
        for broker in sorted(self._advertised_to):
            self._withdraw_if_worse(broker, out)
        for before in self._sweeps.go_on(out):
            self._leave_entry(before, out)
            is_retried = True
        if not self._up.candidates and self.tables.own.up is not None:
            self.tables.link_up(self.region, None)
            self.cluster_tables.say_change((), (), out)
        for cluster, purpose in self._entries.items():
            if purpose.current is None:
                self.routing.kept.missed(cluster, now_us, out)
            else:
                self.routing.kept.found(cluster)
        self._exchange.say(out)
        self.routing.changed(now_us, out, is_retried=is_retried)
        self.departing.look(now_us, out)

    def _go_on(self, now_us: int, out: list[Effect]) -> None:
        """Publications have moved: what waits behind them may go."""
        if self._sweeps.are_waiting or self.departing.may_go:
            self._settle(now_us, out, is_retried=False)

    # --- who is where -------------------------------------------------------------------------

    def _hear_places(
        self, neighbour: BrokerId, places: Iterable[Place], now_us: int, out: list[Effect]
    ) -> None:
        news = self.roster.hear(places)
        own = self.roster.places.get(self.broker)
        if not self.is_placed and (own is None or own.stay is Stay.LEFT):
            # It joins here: a region of its own would be below this one.
            parent = 0
            if neighbour in self.product:
                parent = self.product.position(neighbour).region
            version = now_us if own is None else max(now_us, own.version + 1)
            own = Place(self.broker, version, Stay.COMES, parent=parent)
            self._say(self.roster.hear([own]), None, out)
        elif own is not None and own.stay in (Stay.WANTS_TO_GO, Stay.GOES) and not self._is_leaving:
            # It was to go in an earlier life.
            news += self.roster.hear([self.roster.changed(self.broker, now_us, Stay.THERE)])
            self._say(news[-1:], None, out)
        self._take_in(news, neighbour, now_us, out)

    def _say(self, news: list[Place], but: BrokerId | None, out: list[Effect]) -> None:
        if news:
            out += [Send(each, Places(tuple(news))) for each in sorted(self._linked) if each != but]

    def _take_in(
        self, news: list[Place], source: BrokerId | None, now_us: int, out: list[Effect]
    ) -> None:
        """Places have changed: tell others of it, decide what comes of it, live with it."""
        if not news:
            return
        self._say(news, source, out)
        out.append(Remember(self.roster.facts))
        if self.is_placed and self.roster.is_registrar(self.broker):
            decided = self.roster.decide(now_us)
            if decided:
                self._say(decided, None, out)
                out.append(Remember(self.roster.facts))
            news = news + decided
        if self.is_placed:
            self._follow(news, out)
        elif self.broker in self.product:
            self._take_place(now_us, out)
        else:
            return
        for neighbour in sorted(self._linked - self._met):
            if neighbour in self.product:
                self._link(neighbour, True, now_us, out)
        self._settle(now_us, out)

    def _follow(self, news: list[Place], out: list[Effect]) -> None:
        for place in news:
            if place.cluster == self.cluster and place.broker in self.product:
                above = self.product.above(place.region, self.cluster)
                self.tables.add_home(place.region, above, place.since)
            if place.broker == self.broker:
                self.departing.may_go = place.stay is Stay.GOES
            elif place.stay is Stay.GOES:
                self.outputs.shunned.add(place.broker)
            else:
                self.outputs.shunned.discard(place.broker)
                self._done_without.discard(place.broker)
        self._choose_candidates(out)

    def _take_place(self, now_us: int, out: list[Effect]) -> None:
        """This broker, which has come, has a place now."""
        self.is_placed = True
        self._settle_in(self.product, (), ())
        self.tables.own.version = now_us
        self._sweeps.start(now_us)
        for broker in self._joined_at:
            self.attachments.opened(broker)
        self._learn(now_us, out)
        requests, self._requests = self._requests, []
        for client, request in requests:
            try:
                self.request(client, request, now_us, out)
            except ProtocolError as error:
                out.append(Notify(client, Rejected(str(error))))

    def _learn(self, now_us: int, out: list[Effect]) -> None:
        if self._comes and len(self.product.regions_of(self.cluster)) > 1:
            self._exchange.learn(now_us, out)

    def _choose_candidates(self, out: list[Effect]) -> None:
        """Brokers have come or gone: others may be used for each purpose."""
        product, going = self.product, self.roster.is_going
        above = self._brokers(product.above(self.region, self.cluster), self.cluster)
        found = [each for each in above if each not in self._done_without]
        # Who goes says itself when it is done without.
        now = self._up.current
        found.sort(key=lambda each: (each != self._centre, each != now and going(each)))
        self._up.choose_from(found)
        for cluster in range(product.clusters):
            entries = self._brokers(product.entries(self.region, cluster), cluster)
            if cluster == self.cluster:
                continue
            if not all(map(going, entries)):
                if cluster not in self._entries:
                    self._entries[cluster] = purpose = Attachment(())
                    self._cluster_of[purpose] = cluster
                    self.hosted.add_cluster(cluster)
                self._entries[cluster].choose_from(sorted(entries, key=going))
            elif cluster in self._entries:
                purpose = self._entries.pop(cluster)
                self.hosted.remove_cluster(cluster)
                if purpose.current is not None:
                    self._leave_entry(purpose.current, out)
        purposes = [self._up, *self._entries.values()]
        self.attachments.purposes = [each for each in purposes if each.candidates]

    def leave(self, now_us: int, out: list[Effect]) -> None:
        own = self.roster.places.get(self.broker)
        if not self.is_placed or own is None:
            raise ProtocolError(f"{self.broker} has no place yet")
        self._is_leaving = True
        if own.stay is Stay.THERE:
            wish = self.roster.changed(self.broker, now_us, Stay.WANTS_TO_GO)
            self._take_in(self.roster.hear([wish]), None, now_us, out)

    # --- what others that go, and its own going, must know ------------------------------------

    @property
    def linked(self) -> Collection[BrokerId]:
        return self._linked

    @property
    def tree_neighbours(self) -> list[BrokerId]:
        below = [each for each, home in self.tables.homes.items() if home.up == self.region]
        there = [each for each in self.product.regions_of(self.cluster) if each in below]
        found = [each for each in self._brokers(there, self.cluster) if each in self._linked]
        return found if self._up.current is None else [self._up.current, *found]

    @property
    def is_needed(self) -> bool:
        is_apart = self.tables.own.up is not None and self._up.current is None
        has_clients = self.hosted.rows or self.tables.own.entries
        return bool(self._entered_by or has_clients or self._waits() or is_apart)

    def _is_link_needed(self, broker: BrokerId) -> bool:
        """Whether a neighbour enters this cluster here, or its own is swept, or is in its tree."""
        is_swept = self._sweeps.are_by(broker)
        return is_swept or broker in self._entered_by or broker in self.tree_neighbours

    def _waits(self) -> bool:
        """Whether any publication waits here, for a way or for its turn."""
        return bool(len(self.routing.kept) or len(self.routing.gate.lines))

    def _holds_up(self, source: BrokerId) -> bool:
        """Whether a publication that came to this cluster before a sweep may wait here.

        What waits for its turn came from another cluster: before a sweep from there, maybe.
        """
        is_entering = not self._is_primary(source)
        return self.routing.kept.is_inner or (is_entering and len(self.routing.gate.lines) > 0)

    def _onward(self, source: BrokerId) -> list[BrokerId]:
        """To whom of this cluster goes on what comes from a broker."""
        region, cluster = self.product.position(source)
        found = [each for each in self.tree_neighbours if each != source and self.can_reach(each)]
        if cluster == self.cluster and self.product.is_above(region, self.region, cluster):
            found = [each for each in found if each != self._up.current]
        return found

    def can_reach(self, broker: BrokerId) -> bool:
        return broker in self._usable and broker not in self._frozen

    def freeze(self, leaver: BrokerId, out: list[Effect]) -> None:
        self._frozen.add(leaver)
        self.routing.changed(0, out, is_retried=False)

    def turn(
        self,
        leaver: BrokerId,
        centre: BrokerId,
        others: Iterable[BrokerId],
        now_us: int,
        out: list[Effect],
    ) -> None:
        gone = self.product.position(leaver).region
        self._done_without.add(leaver)
        if centre == self.broker:
            for region in [self.product.position(each).region for each in others]:
                if self.tables.homes[region].up == gone:
                    self.tables.link_up(region, self.region)
        if self.tables.own.up == gone:
            self._centre = None if centre == self.broker else centre
            self._up.current = self._centre
            up = None if self._centre is None else self.product.position(centre).region
            self.tables.link_up(self.region, up)
            self.cluster_tables.say_change((), (), out)
        self._choose_candidates(out)
        if self._centre is not None:
            self.attachments.ready(self._up, self._centre)
        self._settle(now_us, out)

    def say_left(self, now_us: int, out: list[Effect]) -> None:
        self._say(
            self.roster.hear([self.roster.changed(self.broker, now_us, Stay.LEFT)]), None, out
        )

    # --- who is used for what -----------------------------------------------------------------

    def _await(self, purpose: Attachment, broker: BrokerId, out: list[Effect]) -> None:
        """A broker is to say what must be known of it: the bits of what is advertised here."""
        if purpose is self._up or broker in self._advertised_to:
            return
        self._advertised_to.add(broker)
        self.hosted.begins(broker)
        rows = self.hosted.rows.values()
        out += [Send(broker, Advertise(row.advertisement)) for row in rows]
        out.append(Send(broker, AdvertisementsSaid()))

    def _switch(self, purpose: Attachment, before: BrokerId | None, out: list[Effect]) -> None:
        """Another broker is used for a purpose, or nobody."""
        if purpose is self._up:
            if purpose.current is not None:
                self._link_up(purpose.current, before, out)
            return
        cluster = self._cluster_of[purpose]
        self.hosted.enter(cluster, purpose.current)
        if before is None or before not in self._linked:
            return
        self._withdraw(purpose, before, out)
        if self.keeps_order:
            self._sweeps.begin(cluster, before, out)
        else:
            self._leave_entry(before, out)

    def _withdraw(self, purpose: Attachment, broker: BrokerId, out: list[Effect]) -> None:
        """Tell a broker no more what is advertised here."""
        if broker in self._advertised_to:
            self._advertised_to.discard(broker)
            self.attachments.forgotten(purpose, broker)
            self.hosted.forget(broker)
            out += [Send(broker, Unadvertise(id)) for id in self.hosted.rows]

    def _withdraw_if_worse(self, broker: BrokerId, out: list[Effect]) -> None:
        """Who was to be used, and was not there before a better one."""
        purpose = self._entries.get(self.product.position(broker).cluster)
        if purpose is not None and is_worse(broker, purpose):
            self._withdraw(purpose, broker, out)
            self._leave_entry(broker, out)

    def _leave_entry(self, before: BrokerId, out: list[Effect]) -> None:
        """A broker by which a cluster was entered is used no more."""
        used = [purpose.current for purpose in self._entries.values()]
        if before in self._linked and before not in used:
            out.append(Send(before, EntryLeft()))

    def _entry_of(self, cluster: int) -> BrokerId | None:
        """By whom a cluster is entered now; while another takes the place of one: by nobody."""
        if cluster in self._sweeps or cluster not in self._entries:
            return None
        return self._entries[cluster].current

    def _link_up(self, broker: BrokerId, before: BrokerId | None, out: list[Effect]) -> None:
        """Say by whom this broker links up now, first to that one.

        Who did so before learns it from there, behind what is on its way from there.
        """
        up = self.product.position(broker).region
        if self.tables.own.up != up or not self._has_linked_up:
            self._has_linked_up = True
            self.tables.link_up(self.region, up)
            self.cluster_tables.say_change((), (), out, but=before)

    # --- from neighbours ----------------------------------------------------------------------

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        if neighbour not in self._linked:
            raise ProtocolError(f"{neighbour} is not a neighbour of {self.broker}")
        if type(message) is Places:
            self._hear_places(neighbour, message.places, now_us, out)
            return
        if not self.is_placed or not self.product.knows(neighbour):
            raise ProtocolError(f"no place is known for {neighbour}, or for {self.broker}")
        if type(message) is Notification:
            self._check_bits(message.owed)
            for cluster in message.shifts:
                self._check_cluster(cluster)
            if not 0 <= message.hops < MAX_HOPS:
                raise ProtocolError(f"{message.hops} is no number of hops")
            self.routing.receive(neighbour, message, now_us, out)
            self._go_on(now_us, out)
        elif isinstance(message, DepartingMessage):
            self.departing.receive(neighbour, message, now_us, out)
        elif isinstance(message, Sweep | Swept):
            self._sweeps.receive(neighbour, message, out)
            self._settle(now_us, out, is_retried=False)
        elif self._is_primary(neighbour):
            self._hear_primary(neighbour, message, now_us, out)
        else:
            self._hear_secondary(neighbour, message, now_us, out)

    def _check_bits(self, bits: int) -> None:
        if not 0 <= bits < 1 << self.product.clusters:
            raise ProtocolError(f"{bits} are no bits of {self.product.clusters} clusters")

    def _check_cluster(self, cluster: int) -> None:
        if not 0 <= cluster < self.product.clusters:
            raise ProtocolError(f"{cluster} is none of {self.product.clusters} clusters")

    def _hear_primary(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        match message:
            case HomeChange() | HomeTable():
                self.cluster_tables.change(neighbour, message, now_us, out)
            case TablesKnown(versions):
                self.cluster_tables.say_tables(neighbour, versions, out)
            case TableWanted(region) if region in self.tables.homes:
                self.cluster_tables.say_table(neighbour, region, out)
            case TablesSaid():
                self._exchange.learnt()
                self._hear_all(neighbour, self._up, now_us, out)
            case _:
                raise unexpected(message, f"primary neighbour {neighbour}")

    def _hear_secondary(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        match message:
            case Advertise(advertisement):
                check_filter(advertisement.filter, "advertisement", advertisement.id)
                self._stale.get(neighbour, {}).pop(advertisement.id, None)
                row = self.tables.advertise(neighbour, advertisement)
                if row.is_wanted:
                    self.cluster_tables.tell_bits([row], out)
            case Unadvertise(id):
                self.tables.unadvertise(neighbour, id)
            case AdvertisementsSaid():
                for id in self._stale.pop(neighbour, ()):
                    self.tables.unadvertise(neighbour, id)
                self._entered_by.add(neighbour)
                self._exchange.owe_bits(neighbour)
                self._exchange.say(out)
            case EntryLeft():
                self._entered_by.discard(neighbour)
                self.departing.look(now_us, out)
            case BitSet(id):
                self.hosted.set(neighbour, id, is_on=True)
            case BitCleared(id):
                self.hosted.set(neighbour, id, is_on=False)
            case NumbersBegin() | NumbersEnd():
                self.routing.gate.hear(neighbour, message, now_us, out)
            case WayLost():
                self.routing.gate.lines.doubt(now_us)
            case BitsSaid():
                self.hosted.all_said(neighbour)
                purpose = self._entries.get(self.product.position(neighbour).cluster)
                if purpose is not None:
                    self._hear_all(neighbour, purpose, now_us, out)
            case _:
                raise unexpected(message, f"secondary neighbour {neighbour}")

    def _hear_all(
        self, neighbour: BrokerId, purpose: Attachment, now_us: int, out: list[Effect]
    ) -> None:
        """A neighbour has said all that must be known of it."""
        self._usable.add(neighbour)
        out.append(LinkReady(neighbour))
        self._exchange.heard(neighbour)
        if purpose is self._up or neighbour in self._advertised_to:
            # Otherwise it is told no more what is advertised here: the answer is late.
            self.attachments.ready(purpose, neighbour)
        self._settle(now_us, out)

    # --- from clients -------------------------------------------------------------------------

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        if not self.is_placed:
            self._requests.append((client, request))
            return
        self._request(client, request, now_us, out)
        if self._is_leaving:
            self.departing.look(now_us, out)

    def _request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        match request:
            case Publish(publications):
                accepted = self.publishers.accept(client, publications, out)
                self.routing.publish(client, accepted, now_us, out)
            case Advertise(advertisement):
                self._advertise(client, advertisement, out)
            case Unadvertise(id):
                self.publishers.take_back(client, id)
                self._unadvertise(id, out)
            case Subscribe(subscription):
                self._subscribe(client, subscription, out)
            case Unsubscribe(id):
                entry = self.tables.own.entries.get(id)
                if entry is None or entry.subscription.client != client:
                    raise ProtocolError(f"{client} has no subscription {id} here")
                self._unsubscribe([id], out)
            case Goodbye():
                self.publishers.detach(client)
                self.routing.numbering.end(client, now_us, out)
                for advertisement in self.hosted.of(client):
                    self._unadvertise(advertisement.id, out)
                rows = self.tables.own.subscriptions
                self._unsubscribe([each.id for each in rows if each.client == client], out)
            case _:
                raise unexpected(request, f"client {client}")

    def _advertise(self, client: ClientId, advertisement: Advertisement, out: list[Effect]) -> None:
        row = self.hosted.rows.get(advertisement.id)
        known = None if row is None else row.advertisement
        check_advertisement(client, advertisement, known)
        if known == advertisement:
            return
        self.publishers.attach(client, [advertisement])
        self.hosted.add(advertisement)
        message = Advertise(advertisement)
        out += [Send(each, message) for each in sorted(self._advertised_to)]

    def _unadvertise(self, id: AdvertisementId, out: list[Effect]) -> None:
        self.hosted.remove(id)
        out += [Send(each, Unadvertise(id)) for each in sorted(self._advertised_to)]

    def _subscribe(self, client: ClientId, subscription: Subscription, out: list[Effect]) -> None:
        entry = self.tables.own.entries.get(subscription.id)
        known = None if entry is None else entry.subscription
        check_subscription(client, subscription, known)
        if known == subscription:
            return
        if known is not None:
            self.cluster_tables.tell_bits(self.tables.remove(self.region, subscription.id), out)
        self.cluster_tables.tell_bits(self.tables.add(self.region, subscription), out)
        self.cluster_tables.subscribed(subscription, out)

    def _unsubscribe(self, ids: list[SubscriptionId], out: list[Effect]) -> None:
        for id in ids:
            self.cluster_tables.tell_bits(self.tables.remove(self.region, id), out)
        self.cluster_tables.unsubscribed(ids, out)
