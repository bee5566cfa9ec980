"""A tree whose brokers exchange links when they are told to: exchanges without decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sized

from shoal.broker.effects import Effect, LinkState, Started, TimerKey
from shoal.broker.messages import Message
from shoal.broker.strategy import BaseStrategy, BrokerContext
from shoal.model import BrokerId, ClientId
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.overlay import Overlay
from shoal.overlays.tree.routing_table import RoutingTable


class Forced(BaseStrategy):
    """One broker of it; `done` and `refused` are what it heard of exchanges."""

    def __init__(self, context: BrokerContext) -> None:
        self.overlay = Overlay(context, self)
        self.exchanged = 0
        self.reasons: list[str] = []

    @property
    def tables(self) -> RoutingTable:
        return self.overlay.tree.tables

    @property
    def description(self) -> Mapping[str, int]:
        return self.tables.sizes

    @property
    def searched(self) -> Sized:
        return self.overlay.tree.searched

    @property
    def is_ready(self) -> bool:
        return self.overlay.tree.is_ready

    @property
    def keeps_order(self) -> bool:
        return True

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        self.overlay.start(started, now_us, out)

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        self.overlay.receive(neighbour, message, now_us, out)

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        self.overlay.tree.request(client, request, now_us, out)

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        self.overlay.timer(key, now_us, out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        self.overlay.link(neighbour, state, now_us, out)

    # --- what it hears ------------------------------------------------------------------------

    def done(self, exchange: LinkExchange, now_us: int, out: list[Effect]) -> None:
        self.exchanged += 1

    def refused(self, exchange: LinkExchange, reason: str, now_us: int, out: list[Effect]) -> None:
        self.reasons.append(reason)
