"""Forwarding of publications along their trees, and to each client once.

A copy carries the set of the trees that it is on, and follows the bindings; dynamic routing lets it
change, for a subscription, to another tree with a binding of it. A publication that arrives along
several trees is delivered to a client once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Sequence

import msgspec

from shoal.broker.effects import Deliver, Effect, Send
from shoal.broker.messages import RoutedPublication
from shoal.broker.routing_decision import Hop, RoutingDecision, RoutingQuery, read_told, write_told
from shoal.model import BrokerId, ClientId, SubscriptionId
from shoal.overlays.tid.messages import TreeCopy, TreeId
from shoal.overlays.tid.parameters import Matching, TidParameters
from shoal.overlays.tid.trees import SourceTrees, TreeEntry
from shoal.overlays.tid.waiting import TidDeliveries


class AlongTree(msgspec.Struct, frozen=True):
    """The trees that a copy is on, and how many links it has come over."""

    trees: tuple[TreeId, ...]
    hops: int = 0


class TidForwarding:
    """The publications of one broker.

    `is_after_former` tests whether all publications along the tree before a tree are here.
    """

    def __init__(
        self,
        parameters: TidParameters,
        trees: SourceTrees,
        neighbours: Container[BrokerId],
        is_after_former: Callable[[TreeId], bool],
    ) -> None:
        self._parameters = parameters
        self._trees = trees
        self._neighbours = neighbours
        self.deliveries = TidDeliveries(is_after_former)
        # Publications that entered each link in the last window.
        self.entered: dict[BrokerId, int] = {}
        # The clients that publications have been delivered to.
        self._delivered: OrderedDict[tuple[ClientId, int], set[ClientId]] = OrderedDict()

    @property
    def delivered(self) -> int:
        """Number of publications with known deliveries."""
        return len(self._delivered)

    def forward(
        self,
        publications: tuple[RoutedPublication, ...],
        hops: int,
        source: BrokerId | None,
        trees: tuple[TreeId, ...],
        out: list[Effect],
    ) -> None:
        """Deliver new publications here, and forward them along their trees, a copy for each
        neighbour.
        """
        copies: dict[tuple[BrokerId, tuple[TreeId, ...]], list[RoutedPublication]] = {}
        is_matched = source is None or self._parameters.matching is Matching.EVERYWHERE
        for routed in publications:
            matching: list[TreeEntry] = self._trees.index.match(routed.publication.attributes)
            on = [entry for entry in matching if entry.tree.id in trees]
            self._hand_over(routed, hops, on, trees, out)
            if not is_matched:
                on = [entry for id in trees for entry in self._entries(id)]
            for way in self._ways(on, hops, source).items():
                copies.setdefault(way, []).append(routed)
        for (neighbour, ids), part in copies.items():
            out.append(Send(neighbour, TreeCopy(tuple(part), hops + 1, ids)))

    def routing_decision(self, asked: RoutingQuery, own: Sequence[TreeId]) -> RoutingDecision:
        """Next hops of a publication, at its publisher's broker along these trees."""
        along = AlongTree(tuple(own)) if asked.source is None else read_told(asked.told, AlongTree)
        matching: list[TreeEntry] = self._trees.index.match(asked.attributes)
        on = [entry for entry in matching if entry.tree.id in along.trees]
        is_local = any(entry.hop is None for entry in on)
        if asked.source is not None and self._parameters.matching is not Matching.EVERYWHERE:
            on = [entry for id in along.trees for entry in self._entries(id)]
        hops = tuple(
            Hop(neighbour, write_told(AlongTree(ids, along.hops + 1)), f"along {_named(ids)}")
            for neighbour, ids in self._ways(on, along.hops, asked.source).items()
        )
        known = [id for id in along.trees if id in self._trees.all]
        return RoutingDecision(
            hops, is_local, "" if known else f"it does not know {_named(along.trees)}"
        )

    def _entries(self, id: TreeId) -> Iterable[TreeEntry]:
        tree = self._trees.all.get(id)
        return () if tree is None else tree.entries.values()

    def _hand_over(
        self,
        routed: RoutedPublication,
        hops: int,
        entries: Iterable[TreeEntry],
        trees: tuple[TreeId, ...],
        out: list[Effect],
    ) -> None:
        """Deliver a new publication here, behind its publisher's earlier ones along a former
        tree.
        """
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
        if len(self._delivered) > self._parameters.remembered:
            self._delivered.popitem(last=False)
        deliveries = [Deliver(name, routed, tuple(ids), hops) for name, ids in wanted.items()]
        self.deliveries.add(deliveries, () if self._parameters.dynamic else trees, out)

    def _ways(
        self, entries: Iterable[TreeEntry], hops: int, source: BrokerId | None
    ) -> dict[BrokerId, tuple[TreeId, ...]]:
        """To each neighbour, along which trees."""
        may_change = self._parameters.dynamic and hops < self._parameters.most_hops
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

    def _least_loaded(self, entry: TreeEntry, source: BrokerId | None) -> TreeEntry:
        """The binding of the same subscription whose next link carried least; this one if equal."""
        best, least = entry, self.entered.get(entry.hop or "", 0)
        for other in self._trees.others(entry):
            if other.hop is None or other.hop == source or other.hop not in self._neighbours:
                continue
            load = self.entered.get(other.hop, 0)
            if load < least:
                best, least = other, load
        return best


def _named(trees: Sequence[TreeId]) -> str:
    if not trees:
        return "any tree of its publisher"
    return f"tree{'s' if len(trees) > 1 else ''} {', '.join(trees)}"
