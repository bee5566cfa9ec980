"""A tree of brokers that exchange links on command, without decisions of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sized

import msgspec

from shoal.broker.effects import Effect, LinkState, MeasuredDelays, Record, Started, TimerKey
from shoal.broker.messages import Carrier, Message
from shoal.broker.strategy import BaseStrategy, BrokerContext
from shoal.model import BrokerId, ClientId
from shoal.overlays.coordination.messages import MESSAGES as CHANGE_MESSAGES
from shoal.overlays.publisher_relocation.choosing import Priority
from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters
from shoal.overlays.publisher_relocation.grape.protocol import Grape
from shoal.overlays.publisher_relocation.migration import Migrations
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import MESSAGES
from shoal.overlays.self_organising.links.overlay import TreeOverlay
from shoal.overlays.self_organising.moves.moving_publishers import MovingPublishers
from shoal.overlays.self_organising.system import SYSTEM as SELF_ORGANISING_SYSTEM
from shoal.overlays.system import System
from shoal.overlays.tree.messages import MESSAGES as TREE_MESSAGES
from shoal.overlays.tree.oracle import table_problems
from shoal.overlays.tree.routing import TreeRouting
from shoal.overlays.tree.routing_table import RoutingTable
from shoal.overlays.tree.system import TreeParameters

# The key of a timer: a number and a cycle follow, and the exchange begins.
BEGIN = "begin"


class Exchanged(msgspec.Struct, frozen=True):
    """The cycle's last broker has committed the exchange."""

    exchange: LinkExchange
    begun_us: int
    done_us: int


class Refused(msgspec.Struct, frozen=True):
    """The exchange is aborted, with the reason."""

    reason: str


class Forced(BaseStrategy):
    """One broker of this tree."""

    def __init__(self, context: BrokerContext, *, covering: bool = False) -> None:
        self.tree = TreeRouting(context, covering=covering)
        self.routing = self.make_routing(context)
        self.overlay = TreeOverlay(context, self, self.tree, self.routing)
        self._broker = context.broker
        self._begun_us = 0

    def make_routing(self, context: BrokerContext) -> TreeRouting | MovingPublishers:
        """Publishers do not move."""
        return self.tree

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
    def awaited(self) -> Collection[BrokerId]:
        return self.overlay.tree.awaited

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
        self.routing.request(client, request, now_us, out)

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        if key[0] != BEGIN:
            self.overlay.timer(key, now_us, out)
            return
        exchange = LinkExchange(cycle=key[2:], remove=int(key[1]), saving=0)
        if not self.overlay.busy:
            self._begun_us = now_us
        self.overlay.begin(exchange, now_us, out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        self.overlay.link(neighbour, state, now_us, out)

    def returned(
        self, neighbour: BrokerId, carrier: Carrier, now_us: int, out: list[Effect]
    ) -> None:
        self.overlay.returned(neighbour, carrier, now_us, out)

    def departed(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        self.overlay.departed(broker, now_us, out)

    def leave(self, now_us: int, out: list[Effect]) -> None:
        self.tree.leave(now_us, out)

    # --- results ------------------------------------------------------------------------------

    def done(self, exchange: LinkExchange, now_us: int, out: list[Effect]) -> None:
        if self._broker == exchange.cycle[-1]:
            out.append(Record(Exchanged(exchange, self._begun_us, now_us)))

    def refused(self, exchange: LinkExchange, reason: str, now_us: int, out: list[Effect]) -> None:
        if self._broker == exchange.cycle[-1]:
            out.append(Record(Refused(reason)))


class ForcedWithMoves(Forced):
    """The same with publishers that move as in GRAPE, eagerly."""

    def make_routing(self, context: BrokerContext) -> MovingPublishers:
        parameters = GrapeParameters(trace_session_length=5, priority=Priority.DELAY)
        return MovingPublishers(
            self.tree,
            lambda send_away: Grape(context, parameters, send_away),
            lambda: self.overlay.exchanging,
        )

    @property
    def migrations(self) -> Migrations:
        assert isinstance(self.routing, MovingPublishers)
        return self.routing.migrations

    def measured(self, measured: MeasuredDelays) -> None:
        self.routing.measured(measured)


def _strategy(context: BrokerContext, parameters: TreeParameters) -> Forced:
    return Forced(context, covering=parameters.covering)


def _moving(context: BrokerContext, parameters: TreeParameters) -> Forced:
    return ForcedWithMoves(context, covering=parameters.covering)


SYSTEM = System(
    name="forced",
    strategy=_strategy,
    parameters=TreeParameters,
    messages=(*TREE_MESSAGES, *CHANGE_MESSAGES, *MESSAGES),
    oracle=table_problems,
)
WITH_MOVES = System(
    name="forced_with_moves",
    strategy=_moving,
    parameters=TreeParameters,
    messages=SELF_ORGANISING_SYSTEM.messages,
    oracle=table_problems,
)
