"""Routing by tree identifiers: PADRES on overlays with cycles (OctopiA paper, II, after its [20]).

Each publisher's advertisements flood the overlay and leave a tree of first arrivals.  The broker of
a subscriber binds its subscription to every tree that overlaps it, one copy along each.  A
publication carries its tree's identifier and follows the bindings; dynamic routing lets it change,
for a subscription, to another tree to which that is bound.

Where PADRES drops a copy because another tree's has been there, it may lose: only here, where it is
delivered, is a second copy dropped, and a copy carries the set of the trees that it is on.  Links
that change make all trees anew (ours; the paper says nothing of it): a new tree is used when all
know it (`echoes.py`), and nothing that came along it overtakes the former one's (`waiting.py`).
Who leaves is a leaf of every new tree, and goes when no former one leads over it any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sized

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
from shoal.overlays.departure import Departure, DepartureMessage
from shoal.overlays.publishers import LocalPublishers
from shoal.overlays.requests import check_advertisement, check_filter, check_subscription
from shoal.overlays.tid.echoes import Echoes
from shoal.overlays.tid.messages import (
    Bind,
    Renew,
    TreeChange,
    TreeCopy,
    TreeId,
    TreeKnown,
    TreesSaid,
    Unbind,
)
from shoal.overlays.tid.parameters import Matching, Parameters
from shoal.overlays.tid.trees import Entry, Tree, Trees
from shoal.overlays.tid.waiting import Deliveries

WAIT_US = 10_000_000
RENEW: TimerKey = ("renew",)
USE: TimerKey = ("use",)
WAITED: TimerKey = ("waited",)


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
        self._expected = dict.fromkeys(context.expected)
        self._is_ready = not context.expected
        # By publisher: the tree it publishes along, and the one that takes its place.
        self._own: dict[ClientId, Tree] = {}
        self._next: dict[ClientId, Tree] = {}
        self._made = 0
        self._now_us = 0
        self._echoes = Echoes()
        self._deliveries = Deliveries(self._is_after_former)
        self._departure = Departure(context.broker, self._neighbours, self._is_free)
        # Of who leaves: the trees that lead over it, or did.
        self._through: list[Tree] | None = None
        self._renewed_us: dict[BrokerId, int] = {}
        self._entered: dict[BrokerId, int] = {}
        # To whom publications have been delivered.
        self._delivered: dict[tuple[ClientId, int], set[ClientId]] = {}

    # --- what it says of itself ---------------------------------------------------------------

    @property
    def description(self) -> Mapping[str, int]:
        bindings = sum(len(tree.entries) for tree in self.trees.all.values())
        trees = sum(bool(tree.advertisements) for tree in self.trees.all.values())
        return {"subscriptions": bindings, "trees": trees, "delivered": len(self._delivered)}

    @property
    def searched(self) -> Sized:
        return self.trees.index

    @property
    def is_ready(self) -> bool:
        return self._is_ready

    @property
    def awaited(self) -> Collection[BrokerId]:
        return list(self._expected)

    @property
    def keeps_order(self) -> bool:
        """A publisher has one tree; only who changes trees can overtake."""
        return not self.parameters.dynamic

    # --- inputs -------------------------------------------------------------------------------

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        self._made = now_us
        if self._expected:
            out.append(SetTimer(WAITED, now_us + min(WAIT_US, started.give_up_us)))
        if self.parameters.dynamic:
            out.append(Watch(self.parameters.window_us))

    def loads(self, loads: Loads, now_us: int, out: list[Effect]) -> None:
        self._entered = {name: load.entered for name, load in loads.links.items()}

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        if key == WAITED:
            self._expected.clear()
            out.append(SetTimer(USE, now_us + 2 * self.parameters.renew_us))
        elif key == RENEW:
            self._renew(now_us, out)
        elif key == USE:
            self._is_ready = self._is_ready or not self._expected

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        self._now_us = now_us
        self._neighbours.pop(neighbour, None)
        if state is not LinkState.UP:
            self._expected.pop(neighbour, None)
        self.trees.cut(neighbour)
        for tree in self.trees.all.values():
            for id, hop in list(tree.entries):
                if hop == neighbour and self.trees.unbind(tree, id, hop):
                    self._send_up(tree, Unbind(tree.id, id), out)
        known = self._echoes.lost(neighbour, out)
        if state is LinkState.UP:
            self._neighbours[neighbour] = None
            out.append(LinkReady(neighbour))
            self._introduce(neighbour, out)
        for id in known:
            self._use(id, out)
        self._deliveries.look(out)
        self._hear_renew(Renew(self.broker, now_us), None, now_us, out)
        self._departure.link(neighbour, state, out)

    def _introduce(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """Tell a neighbour of all trees; one that knows a tree otherwise keeps to that way."""
        for tree in self.trees.all.values() if self._through is None else ():
            if tree.advertisements:
                promised = tuple(tree.advertisements.values())
                change = TreeChange(tree.id, tree.version, promised, (), tree.former)
                out.append(Send(neighbour, change))
        out.append(Send(neighbour, TreesSaid()))

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        if neighbour not in self._neighbours:
            raise ProtocolError(f"{neighbour} is not a neighbour of {self.broker}")
        self._now_us = now_us
        match message:
            case TreeCopy(publications, hops, trees):
                self._forward(publications, hops, neighbour, trees, out)
            case TreeChange():
                self._change(message, neighbour, out)
            case TreeKnown(id):
                if self._echoes.heard(id, neighbour, out):
                    self._use(id, out)
            case TreesSaid():
                self._expected.pop(neighbour, None)
            case DepartureMessage():
                self._departure.receive(neighbour, message, out)
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
                    self._forward(accepted, 0, None, (self._own[client].id,), out)
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
        self._now_us = now_us
        self._departure.leave(out)

    def _is_free(self, out: list[Effect]) -> bool:
        """Whether no tree leads over this broker, which leaves; they are made anew without it."""
        if self._through is None:
            self._through = [tree for tree in self.trees.all.values() if tree.advertisements]
            at_us = max(self._now_us, self._renewed_us.get(self.broker, -1) + 1)
            self._hear_renew(Renew(self.broker, at_us), None, self._now_us, out)
        own = [tree.id for tree in self._own.values()]
        return all(map(self.trees.is_over, [*own, *(tree.id for tree in self._through)]))

    # --- advertisements -----------------------------------------------------------------------

    def _advertise(self, client: ClientId, advertisement: Advertisement, out: list[Effect]) -> None:
        known = self.advertisements.get(advertisement.id)
        check_advertisement(client, advertisement, known)
        self.publishers.attach(client, [advertisement])
        self.advertisements[advertisement.id] = advertisement
        if client not in self._own:
            self._own[client] = self._plant(client)
        for tree in self._trees_of(client):
            self._say(tree, (advertisement,), (), out)

    def _unadvertise(self, ids: list[AdvertisementId], client: ClientId, out: list[Effect]) -> None:
        for id in ids:
            self.advertisements.pop(id, None)
        if ids:
            for tree in self._trees_of(client):
                self._say(tree, (), tuple(ids), out)
        if client not in self.publishers:
            self._own.pop(client, None)
            self._next.pop(client, None)

    def _trees_of(self, client: ClientId) -> list[Tree]:
        return [trees[client] for trees in (self._own, self._next) if client in trees]

    def _plant(self, client: ClientId, former: TreeId = "") -> Tree:
        self._made += 1
        id = f"{self.broker}/{client}/{self._made}"
        tree = self.trees.all[id] = Tree(id, None, former)
        return tree

    def _say(
        self,
        tree: Tree,
        added: tuple[Advertisement, ...],
        removed: tuple[AdvertisementId, ...],
        out: list[Effect],
    ) -> None:
        change = TreeChange(tree.id, tree.version + 1, added, removed, tree.former)
        self._change(change, None, out)

    def _change(self, message: TreeChange, hop: BrokerId | None, out: list[Effect]) -> None:
        """A tree has grown or shrunk: tell everybody else once, bind and unbind what is here."""
        id = message.tree
        for each in message.added:
            check_filter(each.filter, "advertisement", each.id)
        is_new = id not in self.trees.all or (hop is None and message.version == 1)
        tree = self.trees.grow(
            id, hop, message.version, message.added, message.removed, message.former
        )
        if tree is None:
            self._hear_known(message, hop, out)
            return
        is_leaf = is_new and hop is not None and self._through is not None
        told = [each for each in self._neighbours if each != hop and not is_leaf]
        out += [Send(each, message) for each in told]
        for subscription in self.subscriptions.values():
            if tree.wants(subscription):
                self._bind(tree, subscription, None, out)
            elif self.trees.unbind(tree, subscription.id, None) and tree.advertisements:
                self._send_up(tree, Unbind(tree.id, subscription.id), out)
        if is_new and tree.former:
            self._echoes.begin(id, told, hop)
            if self._echoes.look(id, out):
                self._use(id, out)
        if not tree.advertisements:
            self.trees.fell(tree)
            self._deliveries.look(out)
            self._departure.look(out)

    def _hear_known(self, message: TreeChange, hop: BrokerId | None, out: list[Effect]) -> None:
        """A neighbour knows a tree, too, by another way."""
        if hop is None or not message.former:
            return
        if self._through is not None:
            out.append(Send(hop, TreeKnown(message.tree)))
        elif self._echoes.heard(message.tree, hop, out):
            self._use(message.tree, out)

    # --- trees made anew ----------------------------------------------------------------------

    def _hear_renew(
        self, message: Renew, neighbour: BrokerId | None, now_us: int, out: list[Effect]
    ) -> None:
        if message.at_us <= self._renewed_us.get(message.broker, -1):
            return
        self._renewed_us[message.broker] = message.at_us
        out += [Send(each, message) for each in self._neighbours if each != neighbour]
        out.append(SetTimer(RENEW, now_us + self.parameters.renew_us))

    def _renew(self, now_us: int, out: list[Effect]) -> None:
        for client, own in list(self._own.items()):
            former = self._next.pop(client, None)
            if former is not None:
                self._say(former, (), tuple(former.advertisements), out)
            tree = self._next[client] = self._plant(client, own.id)
            mine = tuple(each for each in self.advertisements.values() if each.publisher == client)
            self._say(tree, mine, (), out)
        out.append(SetTimer(USE, now_us + self.parameters.renew_us))

    def _use(self, id: TreeId, out: list[Effect]) -> None:
        """A tree that was made anew is known to everybody, and bound to."""
        for client, tree in list(self._next.items()):
            if tree.id == id:
                former, self._own[client] = self._own[client], self._next.pop(client)
                self._say(former, (), tuple(former.advertisements), out)

    def _is_after_former(self, id: TreeId) -> bool:
        """Whether all is here that came along the tree whose place this one has taken."""
        tree = self.trees.all.get(id)
        if tree is None or not tree.former:
            return True
        return self.trees.is_over(tree.former) and not self._deliveries.has(tree.former)

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
        if tree.last_hop in self._neighbours:
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
        is_matched = source is None or self.parameters.matching is Matching.EVERYWHERE
        for routed in publications:
            matching: list[Entry] = self.trees.index.match(routed.publication.attributes)
            on = [entry for entry in matching if entry.tree.id in trees]
            self._hand_over(routed, hops, on, trees, out)
            if not is_matched:
                on = [entry for id in trees for entry in self._entries(id)]
            for way in self._ways(on, hops, source).items():
                copies.setdefault(way, []).append(routed)
        for (neighbour, ids), part in copies.items():
            out.append(Send(neighbour, TreeCopy(tuple(part), hops + 1, ids)))

    def _entries(self, id: TreeId) -> Iterable[Entry]:
        tree = self.trees.all.get(id)
        return () if tree is None else tree.entries.values()

    def _hand_over(
        self,
        routed: RoutedPublication,
        hops: int,
        entries: Iterable[Entry],
        trees: tuple[TreeId, ...],
        out: list[Effect],
    ) -> None:
        """Deliver what is new here, behind what its publisher sent along a former tree."""
        wanted: dict[ClientId, dict[SubscriptionId, None]] = {}
        for entry in entries:
            if entry.hop is None:
                subscription = entry.subscription
                wanted.setdefault(subscription.client, {})[subscription.id] = None
        # Copies along other trees may be for other clients.
        had = self._delivered.setdefault(routed.publication.key, set()) if wanted else set()
        wanted = {name: ids for name, ids in wanted.items() if name not in had}
        if not wanted:
            return
        had.update(wanted)
        if len(self._delivered) > self.parameters.remembered:
            del self._delivered[next(iter(self._delivered))]
        deliveries = [Deliver(name, routed, tuple(ids), hops) for name, ids in wanted.items()]
        self._deliveries.add(deliveries, () if self.parameters.dynamic else trees, out)

    def _ways(
        self, entries: Iterable[Entry], hops: int, source: BrokerId | None
    ) -> dict[BrokerId, tuple[TreeId, ...]]:
        """To each neighbour, along which trees."""
        may_change = self.parameters.dynamic and hops < self.parameters.most_hops
        found: dict[BrokerId, dict[TreeId, None]] = {}
        for entry in entries:
            if entry.hop is None or entry.hop == source:
                continue
            if may_change:
                entry = self._least_loaded(entry, source)
            assert entry.hop is not None
            if entry.hop in self._neighbours:
                found.setdefault(entry.hop, {})[entry.tree.id] = None
        return {neighbour: tuple(sorted(ids)) for neighbour, ids in found.items()}

    def _least_loaded(self, entry: Entry, source: BrokerId | None) -> Entry:
        """The binding of the same subscription whose next link carried least; this one if equal."""
        best, least = entry, self._entered.get(entry.hop or "", 0)
        for other in self.trees.others(entry):
            if other.hop is None or other.hop == source or other.hop not in self._neighbours:
                continue
            load = self._entered.get(other.hop, 0)
            if load < least:
                best, least = other, load
        return best
