"""Routing by tree identifiers: PADRES on overlays with cycles (OctopiA paper, II, after its [20]).

Each publisher's advertisements flood the overlay and leave a tree of first arrivals. The broker of
a subscriber binds its subscription to every tree that overlaps it, one copy along each. A
publication carries its tree's identifier and follows the bindings; dynamic routing lets it change,
for a subscription, to another tree to which that is bound.

PADRES drops a copy at any broker that another tree's copy has passed, which may lose publications:
here only the delivering broker drops a second copy (`forwarding.py`). A change of links makes all
trees anew (ours; the paper does not cover it): a new tree is used when all know it (`echoes.py`),
and its publications do not overtake those of the former one (`waiting.py`). A leaving broker is a
leaf of every new tree, and leaves when no former one leads over it any more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sized

from shoal.broker.effects import (
    Effect,
    LinkReady,
    LinkState,
    Loads,
    Send,
    SetTimer,
    Started,
    TimerKey,
    WatchLoads,
)
from shoal.broker.messages import (
    Advertise,
    Goodbye,
    Message,
    Publish,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.routing_decision import RoutingDecision, RoutingQuery
from shoal.broker.strategy import BrokerContext, ProtocolError, unexpected
from shoal.groups import Groups
from shoal.matching import Work
from shoal.model import (
    Advertisement,
    AdvertisementId,
    Attributes,
    BrokerId,
    ClientId,
    Subscription,
    SubscriptionId,
)
from shoal.overlays.graph import GraphStrategy
from shoal.overlays.publishers import LocalPublishers
from shoal.overlays.requests import check_advertisement, check_filter, check_subscription
from shoal.overlays.tid.echoes import Echoes
from shoal.overlays.tid.forwarding import TidForwarding
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
from shoal.overlays.tid.parameters import TidParameters
from shoal.overlays.tid.trees import LAST_VERSION, SourceTree, SourceTrees

WAIT_US = 10_000_000
# Work bound of the overlap tests for one subscription, or for one change of a tree: 50 to 100 ms,
# and one pair.
MOST_WORK = 100_000
RENEW: TimerKey = ("renew",)
USE: TimerKey = ("use",)
WAITED: TimerKey = ("waited",)


class Tid(GraphStrategy):
    """One broker of any connected graph."""

    stops = False  # publications along a new tree wait for earlier ones along the former one

    def __init__(self, context: BrokerContext, parameters: TidParameters) -> None:
        super().__init__(context)
        self.parameters = parameters
        self.trees = SourceTrees()
        self.publishers = LocalPublishers(context.broker)
        self.subscriptions: dict[SubscriptionId, Subscription] = {}
        self.advertisements: dict[AdvertisementId, Advertisement] = {}
        self._wanted: Groups[ClientId, SubscriptionId] = Groups()
        self._promised: Groups[ClientId, AdvertisementId] = Groups()
        # Neighbours not connected yet, former ones among them, and the deadline of these.
        self._expected = dict.fromkeys(context.expected)
        self._former: Collection[BrokerId] = ()
        self._give_up_at_us = 0
        self._is_ready = not context.expected
        # By publisher: the tree in use, and its successor.
        self._own: dict[ClientId, SourceTree] = {}
        self._next: dict[ClientId, SourceTree] = {}
        self._made = 0
        self._now_us = 0
        self._echoes = Echoes()
        self._forwarding = TidForwarding(
            parameters, self.trees, self._neighbours, self._is_after_former
        )
        # At a leaving broker: the trees that lead over it, or did.
        self._through: list[SourceTree] | None = None
        self._renewed_us: dict[BrokerId, int] = {}

    # --- own status ---------------------------------------------------------------------------

    @property
    def description(self) -> Mapping[str, int]:
        bindings = sum(len(tree.entries) for tree in self.trees.all.values())
        trees = sum(bool(tree.advertisements) for tree in self.trees.all.values())
        return {"subscriptions": bindings, "trees": trees, "delivered": self._forwarding.delivered}

    @property
    def searched(self) -> Sized:
        return self.trees.index

    @property
    def most_candidates(self) -> int:
        return self.trees.index.most_candidates

    def work_of(self, attributes: Attributes) -> int:
        return self.trees.index.work_of(attributes)

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        return self.trees.index.prepare(attributes, work_us)

    @property
    def is_ready(self) -> bool:
        return self._is_ready

    @property
    def awaited(self) -> Collection[BrokerId]:
        return list(self._expected)

    @property
    def keeps_order(self) -> bool:
        """A publisher has one tree; only a change of trees for a subscription can overtake."""
        return not self.parameters.dynamic

    def routing_decision(self, asked: RoutingQuery) -> RoutingDecision:
        tree = self._own.get(asked.publisher)
        return self._forwarding.routing_decision(asked, () if tree is None else (tree.id,))

    # --- inputs -------------------------------------------------------------------------------

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        super().start(started, now_us, out)
        self._made = now_us
        self._former = started.former
        self._give_up_at_us = now_us + started.give_up_us
        if self._expected:
            out.append(SetTimer(WAITED, now_us + min(WAIT_US, started.give_up_us)))
        if self.parameters.dynamic:
            out.append(WatchLoads(self.parameters.window_us))

    def loads(self, loads: Loads, now_us: int, out: list[Effect]) -> None:
        self._forwarding.entered = {name: load.entered for name, load in loads.links.items()}

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        super().timer(key, now_us, out)
        if key == WAITED:
            self._waited(now_us, out)
        elif key == RENEW:
            self._renew(now_us, out)
        elif key == USE:
            self._is_ready = self._is_ready or not self._expected

    def _waited(self, now_us: int, out: list[Effect]) -> None:
        """Former neighbours are waited for until they are dead, others no longer."""
        is_over = now_us >= self._give_up_at_us
        for broker in list(self._expected):
            if is_over or broker not in self._former:
                del self._expected[broker]
        if self._expected:
            out.append(SetTimer(WAITED, self._give_up_at_us))
        else:
            out.append(SetTimer(USE, now_us + 2 * self.parameters.renew_us))

    def expect(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """Its trees are waited for as those of any other neighbour."""
        if not self._is_ready:
            self._expected[neighbour] = None

    def dismiss(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        self._expected.pop(neighbour, None)

    def on_link(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> None:
        self._now_us = now_us
        if state is not LinkState.UP:
            self._expected.pop(neighbour, None)
        self._cut(neighbour, out)
        for tree in self.trees.all.values():
            tree.told.pop(neighbour, None)
            for id, hop in list(tree.entries):
                if hop == neighbour and self.trees.unbind(tree, id, hop):
                    self._send_up(tree, Unbind(tree.id, id), out)
        known = self._echoes.lost(neighbour, out)
        if state is LinkState.UP:
            out.append(LinkReady(neighbour))
            self._introduce(neighbour, out)
        for id in known:
            self._use(id, out)
        self._forwarding.deliveries.look(out)
        self._on_renew(Renew(self.broker, now_us), None, now_us, out)
        self.changes.drain(out)

    def _cut(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """Trees with a lost way to the root are over from here on: announce that to all behind.

        Their roots make others, if they are alive. A restarted broker must not find a place in a
        tree of its earlier incarnation: the way to the root would be a loop, and so would
        publications' paths.
        """
        for tree in self.trees.over(neighbour):
            promised = tuple(tree.advertisements)
            change = TreeChange(tree.id, LAST_VERSION, (), promised, tree.former)
            out += [Send(each, change) for each in tree.told if each != neighbour]
            tree.version = LAST_VERSION
            tree.advertisements.clear()
            self.trees.fell(tree)

    def _introduce(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """Send a neighbour all trees; if it has another way to a tree's root it keeps that one."""
        for tree in self.trees.all.values() if self._through is None else ():
            if tree.advertisements:
                promised = tuple(tree.advertisements.values())
                change = TreeChange(tree.id, tree.version, promised, (), tree.former)
                tree.told[neighbour] = None
                out.append(Send(neighbour, change))
        out.append(Send(neighbour, TreesSaid()))

    def on_message(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        self._now_us = now_us
        match message:
            case TreeCopy(publications, hops, trees):
                self._forwarding.forward(publications, hops, neighbour, trees, out)
            case TreeChange():
                self._change(message, neighbour, out)
            case TreeKnown(id):
                if self._echoes.on_known(id, neighbour, out):
                    self._use(id, out)
            case TreesSaid():
                self._expected.pop(neighbour, None)
            case Bind(tree_id, subscription):
                check_filter(subscription.filter, "subscription", subscription.id)
                tree = self.trees.all.get(tree_id)
                if tree is not None and tree.advertisements and tree.last_hop != neighbour:
                    self._bind(tree, subscription, neighbour, out)
            case Unbind(tree_id, id):
                tree = self.trees.all.get(tree_id)
                if tree is not None and self.trees.unbind(tree, id, neighbour):
                    self._send_up(tree, message, out)
            case Renew():
                self._on_renew(message, neighbour, now_us, out)
            case _:
                raise unexpected(message, f"neighbour {neighbour}")

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        match request:
            case Publish(publications):
                accepted = self.publishers.accept(client, publications, out)
                if accepted:
                    self._forwarding.forward(accepted, 0, None, (self._own[client].id,), out)
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
                self._unadvertise(self._promised.of(client), client, out)
                for id in self._wanted.of(client):
                    self._unsubscribe(id, out)
            case _:
                raise unexpected(request, f"client {client}")

    @property
    def has_clients(self) -> bool:
        return bool(self._own or self.subscriptions)

    def is_drained(self, out: list[Effect]) -> bool:
        """Whether no tree leads over this leaving broker; they are made anew without it."""
        if self._through is None:
            self._through = [tree for tree in self.trees.all.values() if tree.advertisements]
            at_us = max(self._now_us, self._renewed_us.get(self.broker, -1) + 1)
            self._on_renew(Renew(self.broker, at_us), None, self._now_us, out)
        own = [tree.id for tree in self._own.values()]
        return all(map(self.trees.is_over, [*own, *(tree.id for tree in self._through)]))

    # --- advertisements -----------------------------------------------------------------------

    def _advertise(self, client: ClientId, advertisement: Advertisement, out: list[Effect]) -> None:
        known = self.advertisements.get(advertisement.id)
        check_advertisement(client, advertisement, known)
        self.publishers.attach(client, [advertisement])
        self.advertisements[advertisement.id] = advertisement
        self._promised.add(client, advertisement.id)
        if client not in self._own:
            self._own[client] = self._plant(client)
        for tree in self._trees_of(client):
            self._send_change(tree, (advertisement,), (), out)

    def _unadvertise(self, ids: list[AdvertisementId], client: ClientId, out: list[Effect]) -> None:
        for id in ids:
            if self.advertisements.pop(id, None) is not None:
                self._promised.remove(client, id)
        if ids:
            for tree in self._trees_of(client):
                self._send_change(tree, (), tuple(ids), out)
        if client not in self.publishers:
            self._own.pop(client, None)
            self._next.pop(client, None)

    def _trees_of(self, client: ClientId) -> list[SourceTree]:
        return [trees[client] for trees in (self._own, self._next) if client in trees]

    def _plant(self, client: ClientId, former: TreeId = "") -> SourceTree:
        self._made += 1
        id = f"{self.broker}/{client}/{self._made}"
        tree = self.trees.all[id] = SourceTree(id, None, former)
        return tree

    def _send_change(
        self,
        tree: SourceTree,
        added: tuple[Advertisement, ...],
        removed: tuple[AdvertisementId, ...],
        out: list[Effect],
    ) -> None:
        change = TreeChange(tree.id, tree.version + 1, added, removed, tree.former)
        self._change(change, None, out)

    def _change(self, message: TreeChange, hop: BrokerId | None, out: list[Effect]) -> None:
        """A tree has grown or shrunk: announce that to all others once, bind and unbind
        subscriptions here.
        """
        id = message.tree
        for each in message.added:
            check_filter(each.filter, "advertisement", each.id)
        is_new = id not in self.trees.all or (hop is None and message.version == 1)
        tree = self.trees.grow(
            id, hop, message.version, message.added, message.removed, message.former
        )
        if tree is None:
            self._on_known(message, hop, out)
            return
        if is_new and (hop is None or self._through is None):  # else it is a leaf of this tree
            tree.told = {each: None for each in self._neighbours if each != hop}
        out += [Send(each, message) for each in tree.told]
        work = Work(MOST_WORK)
        for subscription in self.subscriptions.values():
            if tree.wants(subscription, work):
                self._bind(tree, subscription, None, out)
            elif self.trees.unbind(tree, subscription.id, None) and tree.advertisements:
                self._send_up(tree, Unbind(tree.id, subscription.id), out)
        if is_new and tree.former:
            self._echoes.begin(id, tree.told, hop)
            if self._echoes.look(id, out):
                self._use(id, out)
        if not tree.advertisements:
            self.trees.fell(tree)
            self._forwarding.deliveries.look(out)
            self.changes.drain(out)

    def _on_known(self, message: TreeChange, hop: BrokerId | None, out: list[Effect]) -> None:
        """A neighbour knows a tree by another way, too."""
        if hop is None or not message.former:
            return
        if self._through is not None:
            out.append(Send(hop, TreeKnown(message.tree)))
        elif self._echoes.on_known(message.tree, hop, out):
            self._use(message.tree, out)

    # --- trees made anew ----------------------------------------------------------------------

    def _on_renew(
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
                self._send_change(former, (), tuple(former.advertisements), out)
            tree = self._next[client] = self._plant(client, own.id)
            mine = tuple(self.advertisements[each] for each in self._promised.of(client))
            self._send_change(tree, mine, (), out)
        out.append(SetTimer(USE, now_us + self.parameters.renew_us))

    def _use(self, id: TreeId, out: list[Effect]) -> None:
        """All brokers know a new tree, and have bound their subscriptions to it."""
        for client, tree in list(self._next.items()):
            if tree.id == id:
                former, self._own[client] = self._own[client], self._next.pop(client)
                self._send_change(former, (), tuple(former.advertisements), out)

    def _is_after_former(self, id: TreeId) -> bool:
        """Whether all publications along the tree that this one replaces are here."""
        tree = self.trees.all.get(id)
        if tree is None or not tree.former:
            return True
        return self.trees.is_over(tree.former) and not self._forwarding.deliveries.has(tree.former)

    # --- subscriptions ------------------------------------------------------------------------

    def _subscribe(self, client: ClientId, subscription: Subscription, out: list[Effect]) -> None:
        known = self.subscriptions.get(subscription.id)
        check_subscription(client, subscription, known)
        if known is not None:
            self._unsubscribe(subscription.id, out)
        self.subscriptions[subscription.id] = subscription
        self._wanted.add(client, subscription.id)
        work = Work(MOST_WORK)
        for tree in self.trees.all.values():
            if tree.wants(subscription, work):
                self._bind(tree, subscription, None, out)

    def _unsubscribe(self, id: SubscriptionId, out: list[Effect]) -> None:
        self._wanted.remove(self.subscriptions.pop(id).client, id)
        for tree in self.trees.all.values():
            if self.trees.unbind(tree, id, None):
                self._send_up(tree, Unbind(tree.id, id), out)

    def _bind(
        self, tree: SourceTree, subscription: Subscription, hop: BrokerId | None, out: list[Effect]
    ) -> None:
        if self.trees.bind(tree, subscription, hop):
            self._send_up(tree, Bind(tree.id, subscription), out)

    def _send_up(self, tree: SourceTree, message: Message, out: list[Effect]) -> None:
        if tree.last_hop in self._neighbours:
            out.append(Send(tree.last_hop, message))
