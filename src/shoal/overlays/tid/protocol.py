"""Routing by tree identifiers: PADRES on overlays with cycles (OctopiA paper, II, after its [20]).

Each publisher's advertisements flood the overlay and leave a tree of first arrivals.  The broker of
a subscriber binds its subscription to every tree that overlaps it, one copy along each.  A
publication carries its tree's identifier and follows the bindings; dynamic routing lets it change,
for a subscription, to another tree to which that is bound.

Where PADRES drops a copy because another tree's has been there, it may lose: only here, where it is
delivered, is a second copy dropped, and a copy carries the set of the trees that it is on.  Links
that change make all trees anew (ours; the paper says nothing of it), and a publisher changes to its
new one when nothing is on its way along the former (`renewal.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sized
from math import inf

from shoal.broker.effects import (
    Deliver,
    Effect,
    LinkReady,
    LinkState,
    Loads,
    Send,
    SetTimer,
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
    RoutedPublication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.strategy import BaseStrategy, BrokerContext, ProtocolError, unexpected
from shoal.model import (
    Advertisement,
    AdvertisementId,
    BrokerId,
    ClientId,
    Subscription,
    SubscriptionId,
)
from shoal.overlays.publishers import LocalPublishers
from shoal.overlays.requests import check_advertisement, check_filter, check_subscription
from shoal.overlays.tid.messages import (
    Bind,
    Flush,
    Flushed,
    Renew,
    TreeBack,
    TreeBound,
    TreeChange,
    TreeCopy,
    TreeId,
    Unbind,
)
from shoal.overlays.tid.own_trees import OwnTrees
from shoal.overlays.tid.parameters import Matching, Parameters
from shoal.overlays.tid.renewal import Renewal
from shoal.overlays.tid.trees import Entry, Tree, Trees

WAIT_US = 10_000_000
RENEW: TimerKey = ("renew",)
WAITED: TimerKey = ("waited",)
# What came back from lost links has been seen to.
LOST: TimerKey = ("lost",)


class Tid(BaseStrategy):
    """One broker of any connected graph."""

    def __init__(self, context: BrokerContext, parameters: Parameters) -> None:
        self.broker = context.broker
        self.parameters = parameters
        self.trees = Trees()
        self.publishers = LocalPublishers(context.broker)
        self.subscriptions: dict[SubscriptionId, Subscription] = {}
        self.advertisements: dict[AdvertisementId, Advertisement] = {}
        self._neighbours = dict.fromkeys(sorted(context.neighbours))
        # Who has not come yet, who of them was there before, and how long those are waited for.
        self._expected = dict.fromkeys(context.expected)
        self._former: Collection[BrokerId] = ()
        self._give_up_at_us = 0
        # Whether trees have been made since the first links came up.
        self._has_renewed = not context.expected
        self._renewal = Renewal()
        self._own = OwnTrees(
            self.broker,
            self.trees,
            self._renewal,
            lambda change, out: self._change(change, None, out),
            lambda publications, tree, out: self._forward(publications, 0, None, (tree,), out),
        )
        self._renewed_us: dict[BrokerId, int] = {}
        self._entered: dict[BrokerId, int] = {}
        self._delivered: dict[tuple[ClientId, int], None] = {}

    # --- what it says of itself ---------------------------------------------------------------

    @property
    def description(self) -> Mapping[str, int]:
        bindings = sum(len(tree.entries) for tree in self.trees.all.values())
        trees = sum(bool(tree.advertisements) for tree in self.trees.all.values())
        return {
            "subscriptions": bindings,
            "trees": trees,
            "delivered": len(self._delivered),
            "kept": len(self._renewal),
        }

    @property
    def searched(self) -> Sized:
        return self.trees.index

    @property
    def is_ready(self) -> bool:
        return self._has_renewed and not (self._expected or self._own.is_changing)

    @property
    def awaited(self) -> Collection[BrokerId]:
        return list(self._expected)

    @property
    def keeps_order(self) -> bool:
        """A publisher has one tree; only who changes trees can overtake."""
        return not self.parameters.dynamic

    # --- inputs -------------------------------------------------------------------------------

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        self._own.made = now_us
        self._former = started.former
        self._give_up_at_us = now_us + started.give_up_us
        if self._expected:
            out.append(SetTimer(WAITED, now_us + min(WAIT_US, started.give_up_us)))
        if self.parameters.dynamic:
            out.append(Watch(self.parameters.window_us))

    def loads(self, loads: Loads, now_us: int, out: list[Effect]) -> None:
        self._entered = {name: load.entered for name, load in loads.links.items()}

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        if key == WAITED:
            self._waited(now_us, out)
        elif key == RENEW:
            self._has_renewed = True
            self._own.renew(self.advertisements.values(), out)
        elif key == LOST:
            for tree in [self.trees.all[id] for id in self._renewal.flushed_trees]:
                if self._renewal.hear_broken(tree, out):
                    self._own.change(tree, out)

    def _waited(self, now_us: int, out: list[Effect]) -> None:
        """Who has not come is waited for no longer; who was a neighbour before, until it counts as
        gone.
        """
        if not self._expected:
            return
        is_over = now_us >= self._give_up_at_us
        for broker in list(self._expected):
            if is_over or broker not in self._former:
                del self._expected[broker]
        if self._expected:
            out.append(SetTimer(WAITED, self._give_up_at_us))
        else:
            self._hear_renew(Renew(self.broker, now_us), None, now_us, out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        self._neighbours.pop(neighbour, None)
        self._expected.pop(neighbour, None)
        for tree in self.trees.all.values():
            tree.broken.add(neighbour)
        out.append(SetTimer(LOST, now_us))
        if state is LinkState.UP:
            self._neighbours[neighbour] = None
            out.append(LinkReady(neighbour))
        self._hear_renew(Renew(self.broker, now_us), None, now_us, out)

    def returned(
        self, neighbour: BrokerId, carrier: Carrier, now_us: int, out: list[Effect]
    ) -> None:
        """What was on its way to a root comes back from there, too: who is on that way has it."""
        if isinstance(carrier, TreeCopy):
            for id in carrier.trees:
                self._send_back(id, carrier.publications, carrier.hops, out)

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        if neighbour not in self._neighbours:
            raise ProtocolError(f"{neighbour} is not a neighbour of {self.broker}")
        match message:
            case TreeCopy(publications, hops, trees):
                self._forward(publications, hops, neighbour, trees, out)
            case TreeBack(publications, hops, id):
                self._send_back(id, publications, hops, out)
            case TreeChange():
                self._change(message, neighbour, out)
            case TreeBound(id):
                self._hear_bound(id, neighbour, out)
            case Flush(id):
                self._flush(id, neighbour, out)
            case Flushed(id):
                former = self.trees.all.get(id)
                if former is not None and self._renewal.hear_flushed(former, neighbour, out):
                    self._own.change(former, out)
            case Bind(tree_id, subscription):
                check_filter(subscription.filter, "subscription", subscription.id)
                tree = self.trees.all.get(tree_id)
                if tree is not None and tree.last_hop != neighbour:
                    self._bind(tree, subscription, neighbour, out)
            case Unbind(tree_id, id):
                tree = self.trees.all.get(tree_id)
                if tree is not None and self.trees.unbind(tree, id, neighbour):
                    self._send_up(tree, message, out)
            case Renew():
                self._hear_renew(message, neighbour, now_us, out)
            case _:
                raise unexpected(message, f"neighbour {neighbour}")

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        match request:
            case Publish(publications):
                accepted = self.publishers.accept(client, publications, out)
                if accepted:
                    self._own.publish(client, accepted, out)
            case Advertise(advertisement):
                self._advertise(client, advertisement, out)
            case Unadvertise(id):
                self.publishers.take_back(client, id)
                self._unadvertise([id], client, out)
            case Subscribe(subscription):
                self._subscribe(client, subscription, out)
            case Unsubscribe(id):
                known = self.subscriptions.get(id)
                if known is None or known.client != client:
                    raise ProtocolError(f"{client} has no subscription {id} here")
                self._unsubscribe(id, out)
            case Goodbye():
                self.publishers.detach(client)
                rows = self.advertisements.items()
                mine = [id for id, each in rows if each.publisher == client]
                self._unadvertise(mine, client, out)
                for id in [id for id, each in self.subscriptions.items() if each.client == client]:
                    self._unsubscribe(id, out)
            case _:
                raise unexpected(request, f"client {client}")

    def leave(self, now_us: int, out: list[Effect]) -> None:
        raise ProtocolError("trees that lead over a broker are not made anew before it leaves")

    # --- advertisements -----------------------------------------------------------------------

    def _advertise(self, client: ClientId, advertisement: Advertisement, out: list[Effect]) -> None:
        known = self.advertisements.get(advertisement.id)
        check_advertisement(client, advertisement, known)
        self.publishers.attach(client, [advertisement])
        self.advertisements[advertisement.id] = advertisement
        self._own.advertise(client, advertisement, out)

    def _unadvertise(self, ids: list[AdvertisementId], client: ClientId, out: list[Effect]) -> None:
        for id in ids:
            self.advertisements.pop(id, None)
        self._own.unadvertise(client, tuple(ids), out)
        if client not in self.publishers:
            self._own.forget(client, out)

    def _change(self, message: TreeChange, hop: BrokerId | None, out: list[Effect]) -> None:
        """A tree has grown or shrunk: tell everybody else once, bind and unbind what is here."""
        id, version, added, removed = (
            message.tree,
            message.version,
            message.added,
            message.removed,
        )
        for each in added:
            check_filter(each.filter, "advertisement", each.id)
        tree = self.trees.grow(id, hop, version, added, removed)
        if tree is None:
            if hop is not None and message.is_asked:
                self._hear_bound(id, hop, out)
            return
        told = [each for each in self._neighbours if each != hop]
        out += [Send(each, message) for each in told]
        for subscription in self.subscriptions.values():
            if tree.wants(subscription):
                self._bind(tree, subscription, None, out)
            elif self.trees.unbind(tree, subscription.id, None) and tree.advertisements:
                self._send_up(tree, Unbind(tree.id, subscription.id), out)
        if not tree.advertisements:
            self.trees.fell(tree)
            self._renewal.forget(id)
        elif message.is_asked and self._renewal.ask(tree, [*told, *self._expected], out):
            self._own.begin_change(tree, out)

    # --- trees made anew ----------------------------------------------------------------------

    def _hear_renew(
        self, message: Renew, neighbour: BrokerId | None, now_us: int, out: list[Effect]
    ) -> None:
        if message.at_us <= self._renewed_us.get(message.broker, -1):
            return
        self._renewed_us[message.broker] = message.at_us
        out += [Send(each, message) for each in self._neighbours if each != neighbour]
        out.append(SetTimer(RENEW, now_us + self.parameters.renew_us))

    def _hear_bound(self, id: TreeId, neighbour: BrokerId, out: list[Effect]) -> None:
        tree = self.trees.all.get(id)
        if tree is not None and self._renewal.hear_bound(tree, neighbour, out):
            self._own.begin_change(tree, out)

    def _flush(self, id: TreeId, neighbour: BrokerId, out: list[Effect]) -> None:
        tree = self.trees.all.get(id)
        if tree is None or tree.last_hop != neighbour:
            out.append(Send(neighbour, Flushed(id)))
        else:
            self._renewal.flush(tree, out)

    def _send_back(
        self,
        id: TreeId,
        publications: tuple[RoutedPublication, ...],
        hops: int,
        out: list[Effect],
    ) -> None:
        """Send publications that cannot go on along a tree to its root, which keeps them.

        On a way that is broken they stay: what is behind that comes back before it, too.
        """
        tree = self.trees.all.get(id)
        if tree is None:
            return
        if tree.last_hop is not None:
            if tree.last_hop in self._neighbours and tree.last_hop not in tree.broken:
                out.append(Send(tree.last_hop, TreeBack(publications, hops, id)))
            return
        self._own.take_back(tree, publications, out)

    # --- subscriptions ------------------------------------------------------------------------

    def _subscribe(self, client: ClientId, subscription: Subscription, out: list[Effect]) -> None:
        known = self.subscriptions.get(subscription.id)
        check_subscription(client, subscription, known)
        if known is not None:
            self._unsubscribe(subscription.id, out)
        self.subscriptions[subscription.id] = subscription
        for tree in self.trees.all.values():
            if tree.wants(subscription):
                self._bind(tree, subscription, None, out)

    def _unsubscribe(self, id: SubscriptionId, out: list[Effect]) -> None:
        del self.subscriptions[id]
        for tree in self.trees.all.values():
            if self.trees.unbind(tree, id, None):
                self._send_up(tree, Unbind(tree.id, id), out)

    def _bind(
        self, tree: Tree, subscription: Subscription, hop: BrokerId | None, out: list[Effect]
    ) -> None:
        if self.trees.bind(tree, subscription, hop):
            self._send_up(tree, Bind(tree.id, subscription), out)

    def _send_up(self, tree: Tree, message: Message, out: list[Effect]) -> None:
        if tree.last_hop in self._neighbours and tree.last_hop not in tree.broken:
            out.append(Send(tree.last_hop, message))

    # --- publications -------------------------------------------------------------------------

    def _forward(
        self,
        publications: tuple[RoutedPublication, ...],
        hops: int,
        source: BrokerId | None,
        trees: tuple[TreeId, ...],
        out: list[Effect],
    ) -> None:
        """Deliver what is new here, and pass it on along its trees, a copy for each neighbour."""
        copies: dict[tuple[BrokerId, tuple[TreeId, ...]], list[RoutedPublication]] = {}
        back: dict[TreeId, list[RoutedPublication]] = {}
        is_matched = source is None or self.parameters.matching is Matching.EVERYWHERE
        for routed in publications:
            matching: list[Entry] = self.trees.index.match(routed.publication.attributes)
            on = [entry for entry in matching if entry.tree.id in trees]
            self._deliver(routed, hops, on, out)
            if not is_matched:
                on = [entry for id in trees for entry in self._entries(id)]
            ways, broken = self._ways(on, hops, source)
            for way in ways.items():
                copies.setdefault(way, []).append(routed)
            for id in broken:
                back.setdefault(id, []).append(routed)
        for (neighbour, ids), part in copies.items():
            out.append(Send(neighbour, TreeCopy(tuple(part), hops + 1, ids)))
        for id, part in back.items():
            self._send_back(id, tuple(part), hops, out)

    def _entries(self, id: TreeId) -> Iterable[Entry]:
        tree = self.trees.all.get(id)
        return () if tree is None else tree.entries.values()

    def _deliver(
        self, routed: RoutedPublication, hops: int, entries: Iterable[Entry], out: list[Effect]
    ) -> None:
        wanted: dict[ClientId, dict[SubscriptionId, None]] = {}
        for entry in entries:
            if entry.hop is None:
                subscription = entry.subscription
                wanted.setdefault(subscription.client, {})[subscription.id] = None
        key = routed.publication.key
        if not wanted or key in self._delivered:
            return
        self._delivered[key] = None
        if len(self._delivered) > self.parameters.remembered:
            del self._delivered[next(iter(self._delivered))]
        for client, ids in wanted.items():
            out.append(Deliver(client, routed, tuple(ids), hops))

    def _ways(
        self, entries: Iterable[Entry], hops: int, source: BrokerId | None
    ) -> tuple[dict[BrokerId, tuple[TreeId, ...]], Collection[TreeId]]:
        """To each neighbour, along which trees; and the trees that lead over lost links."""
        may_change = self.parameters.dynamic and hops < self.parameters.most_hops
        found: dict[BrokerId, dict[TreeId, None]] = {}
        broken: dict[TreeId, None] = {}
        for entry in entries:
            if entry.hop is None or entry.hop == source:
                continue
            if may_change:
                entry = self._least_loaded(entry, source)
            assert entry.hop is not None
            if entry.hop in entry.tree.broken:
                broken[entry.tree.id] = None
            elif entry.hop in self._neighbours:
                found.setdefault(entry.hop, {})[entry.tree.id] = None
        return {neighbour: tuple(sorted(ids)) for neighbour, ids in found.items()}, broken

    def _least_loaded(self, entry: Entry, source: BrokerId | None) -> Entry:
        """The binding of the same subscription whose next link carried least; this one if equal."""
        best, least = entry, float(self._entered.get(entry.hop or "", 0))
        if entry.hop in entry.tree.broken:
            least = inf
        for other in self.trees.others(entry):
            if other.hop is None or other.hop == source or other.hop not in self._neighbours:
                continue
            if other.hop in other.tree.broken:
                continue
            load = self._entered.get(other.hop, 0)
            if load < least:
                best, least = other, load
        return best
