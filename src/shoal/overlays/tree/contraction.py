"""How a tree's tables follow a link change: which rows turn, and which are sent again.

At the neighbours of a leaving broker its rows turn to its successor; then the two ends of a new
link synchronise their tables, as over any link that has come up (`exchange.py`).
`overlays/coordination` explains why nothing is lost.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from shoal.broker.effects import Effect, LinkState, Recall, TimerKey
from shoal.model import AdvertisementId, BrokerId, SubscriptionId
from shoal.overlays.coordination.messages import Facts, LinkChange, Side
from shoal.overlays.tree.exchange import TableExchange
from shoal.overlays.tree.propagation import Propagation
from shoal.overlays.tree.routing_table import RoutingTable


class Around(Protocol):
    """The system that wraps the tree, as the contraction sees it."""

    @property
    def is_moving(self) -> bool:
        """Whether a move or exchange is running that needs the links as they are."""

    @property
    def missing(self) -> Collection[BrokerId]:
        """Disconnected neighbours."""

    def is_up(self, neighbour: BrokerId) -> bool:
        """Whether a link to this broker is up, of the tree or not."""

    def relink(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        """Handle a link that came up, failed or ended."""

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        """A timer fired."""

    def adopt(self, neighbour: BrokerId, at_us: int, now_us: int, out: list[Effect]) -> None:
        """The link to this broker belongs to the tree from then on; synchronise tables over it."""

    def disown(self, neighbour: BrokerId, at_us: int, now_us: int, out: list[Effect]) -> None:
        """The link to this broker leaves the tree; its rows have turned."""

    def since_us(self, neighbour: BrokerId) -> int:
        """Since when this end of a link knows whether it belongs to the tree."""

    def departed(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A neighbour has left, or is dead."""

    def expect(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A link to this broker is to be expected."""

    def remember(self, out: list[Effect]) -> None:
        """Have the driver write the durable facts to disk."""


class Contraction:
    """The tables of one broker, as changes of links need them (`host.Host`)."""

    def __init__(self, propagation: Propagation, exchange: TableExchange) -> None:
        self._propagation = propagation
        self._exchange = exchange

    def obstacle(self, leaving_broker: BrokerId, *, is_own: bool) -> str:
        """Why tables cannot turn now for a leaving broker, which may be this one.

        Returns "" if they can.
        """
        propagation, exchange = self._propagation, self._exchange
        unsettled = [leaving_broker] if not is_own else list(propagation.neighbours)
        unsettled = [each for each in unsettled if not exchange.is_settled(each)]
        if unsettled:
            return f"it has yet to exchange tables with {', '.join(unsettled)}"
        if not is_own:
            return ""
        tables = propagation.tables
        if any(row.last_hop is None for row in tables.advertisements.values()):
            return "it has publishers"
        if tables.local.keys:
            return "it has subscribers"
        return "a subscription has two last hops" if propagation.alternate_routes else ""

    def facts(self, change: LinkChange) -> Facts:
        """The rows that the leaving broker has from each of the decider's new neighbours."""
        tables = self._propagation.tables
        return Facts(tuple(_side(tables, each) for each in change.others), tables.moves)

    def own_side(self, broker: BrokerId, dead: BrokerId) -> Facts:
        """At a neighbour of a dead broker: the rows that the dead broker had from here."""
        tables = self._propagation.tables
        rows = tables.advertisements.values()
        advertised = tuple(row.advertisement.id for row in rows if row.last_hop != dead)
        told = tuple(entry.subscription for entry in tables.forwarded_to(dead))
        return Facts((Side(broker, advertised, told),), tables.moves)

    def succeed(self, change: LinkChange, facts: Facts, out: list[Effect]) -> None:
        """At the decider: turn the leaving broker's rows to its other neighbours.

        A row that is not in the leaving broker's facts has been retracted there.
        """
        propagation, leaving_broker = self._propagation, change.leaving_broker
        tables = propagation.tables
        for side in facts.sides:
            for advertisement_id in side.advertisements:
                _turn_advertisement(tables, advertisement_id, leaving_broker, side.neighbour)
            for subscription in side.subscriptions:
                if subscription.id not in tables.subscriptions:
                    tables.add_subscription(subscription, side.neighbour)
                _turn_subscription(tables, subscription.id, leaving_broker, side.neighbour)
        tables.count_moves(facts.moves)
        tables.forget_forwarded(leaving_broker)
        propagation.relink(leaving_broker, change.others)
        # Rows that are new here were covered on their way; the ends of new links send all anyway.
        told = [each for each in propagation.neighbours if each not in change.others]
        ids = [each.id for side in facts.sides for each in side.subscriptions]
        propagation.restate(told, ids, out)
        propagation.turned = {leaving_broker: change.others}
        out.append(Recall(leaving_broker, moves=change.is_dead))
        propagation.forget(leaving_broker, out)
        self._exchange.unlinked(leaving_broker)

    def follow(self, change: LinkChange, out: list[Effect]) -> None:
        """At another neighbour: turn the leaving broker's rows to the decider."""
        propagation, leaving_broker, decider = (
            self._propagation,
            change.leaving_broker,
            change.decider,
        )
        tables = propagation.tables
        for row in tables.advertised_from(leaving_broker):
            _turn_advertisement(tables, row.advertisement.id, leaving_broker, decider)
        for entry in tables.subscribed_from(leaving_broker):
            _turn_subscription(tables, entry.id, leaving_broker, decider)
        tables.forget_forwarded(leaving_broker)
        propagation.alternate_routes.rename(leaving_broker, decider)
        propagation.relink(leaving_broker, (decider,))
        propagation.turned = {leaving_broker: (decider,)}
        out.append(Recall(leaving_broker, moves=change.is_dead))
        self._exchange.unlinked(leaving_broker)


def _side(tables: RoutingTable, neighbour: BrokerId) -> Side:
    return Side(
        neighbour,
        tuple(row.advertisement.id for row in tables.advertised_from(neighbour)),
        tuple(entry.subscription for entry in tables.subscribed_from(neighbour)),
    )


def _turn_advertisement(
    tables: RoutingTable, id: AdvertisementId, old: BrokerId, new: BrokerId
) -> None:
    row = tables.advertisements.get(id)
    if row is not None and row.last_hop == old:
        tables.turn_advertisement(row, new)
        row.turned_us = None  # the new neighbour was not on the path of the move that turned it


def _turn_subscription(
    tables: RoutingTable, id: SubscriptionId, old: BrokerId, new: BrokerId
) -> None:
    entry = tables.subscriptions.get(id)
    if entry is not None and entry.last_hop == old:
        tables.turn_subscription(entry, new)


class PlainLinks:
    """Host methods of a plain tree, which keeps no facts about its links."""

    @property
    def is_moving(self) -> bool:
        """False: a plain tree has no moves or exchanges."""
        return False

    def since_us(self, neighbour: BrokerId) -> int:
        """0: the links of a plain tree are those that are up."""
        return 0

    def replaced(
        self, old: BrokerId | None, new: tuple[BrokerId, ...], now_us: int, out: list[Effect]
    ) -> None:
        """Nothing to do: the tables have turned."""
