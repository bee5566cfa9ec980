"""Base of systems that wrap a tree: it delegates tables, status and links to the tree."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sized

from shoal.broker.effects import Effect
from shoal.broker.routing_decision import RoutingDecision, RoutingQuery
from shoal.model import Attributes, BrokerId
from shoal.overlays.coordination.strategy import CoordinatedStrategy
from shoal.overlays.tree.forwarding import TreeForwarding
from shoal.overlays.tree.routing import TreeRouting
from shoal.overlays.tree.routing_table import RoutingTable


class AroundTree(CoordinatedStrategy):
    """A strategy with the tables and the status of its `tree`, and inputs of its own."""

    def __init__(self, tree: TreeRouting) -> None:
        self.tree = tree
        self.changes = tree.changes

    @property
    def tables(self) -> RoutingTable:
        return self.tree.tables

    @property
    def forwarding(self) -> TreeForwarding:
        return self.tree.forwarding

    @property
    def description(self) -> Mapping[str, int]:
        return self.tree.description

    @property
    def searched(self) -> Sized:
        return self.tree.searched

    @property
    def most_candidates(self) -> int:
        return self.tree.most_candidates

    def work_of(self, attributes: Attributes) -> int:
        return self.tree.work_of(attributes)

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        return self.tree.prepare(attributes, work_us)

    @property
    def is_ready(self) -> bool:
        return self.tree.is_ready

    @property
    def awaited(self) -> Collection[BrokerId]:
        return self.tree.awaited

    @property
    def keeps_order(self) -> bool:
        return self.tree.keeps_order

    def routing_decision(self, asked: RoutingQuery) -> RoutingDecision:
        return self.tree.routing_decision(asked)

    def succeeded(
        self, broker: BrokerId, successor: BrokerId, now_us: int, out: list[Effect]
    ) -> None:
        self.tree.succeeded(broker, successor, now_us, out)
