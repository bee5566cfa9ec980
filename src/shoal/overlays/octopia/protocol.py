"""OctopiA at one broker: what it is told, and what it tells others of it.

Subscriptions go to the broker's own cluster (VI), advertisements to one broker of each other
cluster (V), which says whether its cluster wants them.  Publications are routed by what has come of
that (`routing.py`).  Links that come up exchange what each end must know (`exchange.py`); where one
is broken another takes its place (`attachments.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sized

from shoal.broker.effects import (
    Effect,
    LinkReady,
    LinkState,
    Loads,
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
from shoal.overlays.octopia.attachments import Attachment, Attachments
from shoal.overlays.octopia.cluster_tables import ClusterTables
from shoal.overlays.octopia.exchange import Exchange
from shoal.overlays.octopia.hosted import Hosted
from shoal.overlays.octopia.labels import Product
from shoal.overlays.octopia.messages import (
    BitCleared,
    BitSet,
    BitsSaid,
    HomeChange,
    HomeTable,
    Notification,
    NumbersBegin,
    NumbersEnd,
    TablesKnown,
    TablesSaid,
    TableWanted,
    WayLost,
)
from shoal.overlays.octopia.outputs import Outputs
from shoal.overlays.octopia.parameters import Dynamic, Parameters
from shoal.overlays.octopia.routing import Routing
from shoal.overlays.octopia.tables import Tables
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
        around = (*context.neighbours, *context.expected)
        if parameters.rows:
            self.product = parameters.product()
        else:
            rows = [(self.broker,), *((each,) for each in around)]
            self.product = Product(rows, [0] * len(around))
        self.region, self.cluster = self.product.position(self.broker)
        others = [each for each in range(self.product.clusters) if each != self.cluster]
        self.tables = Tables(self.region, self.product)
        self.hosted = Hosted(others)
        self.publishers = LocalPublishers(self.broker)
        self.outputs = Outputs(parameters.congestion, parameters.threshold)
        self._linked = set(context.neighbours)
        # Who may be sent publications, and who knows what is advertised here.
        self._usable = set(context.neighbours)
        self._advertised_to: set[BrokerId] = set()
        # What neighbours said before their link came up anew, and have not said again.
        self._stale: dict[BrokerId, dict[AdvertisementId, None]] = {}
        self._led_to: dict[BrokerId, list[int]] = {}
        expected = context.expected
        self._exchange = Exchange(
            [each for each in expected if self._is_primary(each)],
            [each for each in expected if not self._is_primary(each)],
        )
        self._up = Attachment(self._brokers(self.product.above(self.region), self.cluster))
        entries = self.product.entries(self.region)
        self._entries = {each: Attachment(self._brokers(entries, each)) for each in others}
        self._cluster_of = {purpose: each for each, purpose in self._entries.items()}
        self.attachments = Attachments(
            [*([self._up] if self._up.candidates else []), *self._entries.values()],
            [name for link in self.product.links if self.broker in link for name in link],
            parameters.retry_us,
            self._await,
            self._switch,
        )
        self.routing = Routing(
            self.product,
            self.broker,
            self.tables,
            self.hosted,
            self.outputs,
            parameters,
            lambda cluster: self._entries[cluster].current,
            self._usable.__contains__,
            context.neighbours,
        )
        self.cluster_tables = ClusterTables(
            self.tables,
            [each for each in context.neighbours if self._is_primary(each)],
            self._linked,
            self._exchange,
            self.routing.changed,
        )
        self._begin_linked(context.neighbours)

    def _begin_linked(self, neighbours: Iterable[BrokerId]) -> None:
        """These were there before anything was said, so there is nothing to say."""
        for neighbour in neighbours:
            self.attachments.linked(neighbour)
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
        return self._exchange.is_ready

    @property
    def awaited(self) -> Collection[BrokerId]:
        return self._exchange.awaited

    @property
    def keeps_order(self) -> bool:
        return self.parameters.dynamic is not Dynamic.FREE

    # --- inputs -------------------------------------------------------------------------------

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        self.tables.own.version = now_us
        self._exchange.start(started, now_us, out)
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
            return
        elif key == gate.TIMER:
            self.routing.gate.waited(now_us, out)
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
        if neighbour not in self.product or neighbour == self.broker:
            return
        self._led_to[neighbour] = self.routing.led_to(neighbour)
        self._usable.discard(neighbour)
        self.cluster_tables.told.discard(neighbour)
        self._advertised_to.discard(neighbour)
        if neighbour in self._linked:
            self.routing.lost(neighbour, now_us, out)
        self.routing.linked(neighbour, state is LinkState.UP, now_us, out)
        if state is LinkState.UP:
            self._linked.add(neighbour)
            self._exchange.linked(neighbour)
            self.attachments.linked(neighbour)
            if self._is_primary(neighbour):
                versions = {each: home.version for each, home in self.tables.homes.items()}
                out.append(Send(neighbour, TablesKnown(versions)))
            else:
                if neighbour not in self.product.rows[self.region]:
                    # It enters this cluster here; nothing need be known of it to answer.
                    out.append(LinkReady(neighbour))
                mine = [id for host, id in self.tables.secondary if host == neighbour]
                self._stale[neighbour] = dict.fromkeys(mine)
        else:
            self._linked.discard(neighbour)
            self._exchange.unlinked(neighbour)
            self.hosted.forget(neighbour)
            self._stale.pop(neighbour, None)
            for host, id in list(self.tables.secondary):
                if host == neighbour:
                    self.tables.unadvertise(host, id)
            self.attachments.unlinked(neighbour, out)
        self._settle(now_us, out, is_retried=state is LinkState.UP)

    def _settle(self, now_us: int, out: list[Effect], *, is_retried: bool = True) -> None:
        """After links or tables have changed; what is kept may go if `is_retried`."""
        self.attachments.settle(now_us, out)
        for cluster, purpose in self._entries.items():
            if purpose.current is None:
                self.routing.kept.missed(cluster, now_us, out)
            else:
                self.routing.kept.found(cluster)
        self._exchange.say(out)
        self.routing.changed(now_us, out, is_retried=is_retried)

    def leave(self, now_us: int, out: list[Effect]) -> None:
        raise ProtocolError(f"{self.broker} is one of a product, which has no place without broker")

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
        self.hosted.enter(self._cluster_of[purpose], purpose.current)
        if before in self._advertised_to and before != purpose.current:
            self._advertised_to.discard(before)
            self.hosted.forget(before)
            out += [Send(before, Unadvertise(id)) for id in self.hosted.rows]

    def _link_up(self, broker: BrokerId, before: BrokerId | None, out: list[Effect]) -> None:
        """Say by whom this broker links up now, first to that one.

        Who did so before learns it from there, behind what is on its way from there.
        """
        up = self.product.position(broker).region
        if self.tables.own.up != up:
            self.tables.link_up(self.region, up)
            self.cluster_tables.say_change((), (), out, but=before)

    # --- from neighbours ----------------------------------------------------------------------

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        if neighbour not in self._linked:
            raise ProtocolError(f"{neighbour} is not a neighbour of {self.broker}")
        if type(message) is Notification:
            self._check_bits(message.owed)
            for cluster in message.shifts:
                self._check_cluster(cluster)
            if not 0 <= message.hops < MAX_HOPS:
                raise ProtocolError(f"{message.hops} is no number of hops")
            self.routing.receive(neighbour, message, now_us, out)
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
                self._exchange.owe_bits(neighbour)
                self._exchange.say(out)
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
                purpose = self._entries[self.product.position(neighbour).cluster]
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
        self.attachments.ready(purpose, neighbour)
        self._settle(now_us, out)

    # --- from clients -------------------------------------------------------------------------

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
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
                self.routing.numbering.end(client, out)
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
        self.cluster_tables.say_change((subscription,), (), out)

    def _unsubscribe(self, ids: list[SubscriptionId], out: list[Effect]) -> None:
        for id in ids:
            self.cluster_tables.tell_bits(self.tables.remove(self.region, id), out)
        if ids:
            self.cluster_tables.say_change((), tuple(ids), out)
