"""What a tree does when its links change: which rows turn, and what is said again.

At the neighbours of a leaving broker its rows turn to the broker that is in its place; then the two
ends of a new link say their tables, as over any link that has come up (`exchange.py`).  Why nothing
is lost, `overlays/coordination` says.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from shoal.broker.effects import Effect, LinkState, Recall, TimerKey
from shoal.model import AdvertisementId, BrokerId, SubscriptionId
from shoal.overlays.coordination.messages import Change, Facts, Side
from shoal.overlays.tree.exchange import Exchange
from shoal.overlays.tree.propagation import Propagation
from shoal.overlays.tree.routing_table import RoutingTable


class Around(Protocol):
    """The system that routes over the tree, as far as links that change concern it."""

    @property
    def is_moving(self) -> bool:
        """Whether something is under way here for which links must stay as they are."""

    @property
    def missing(self) -> Collection[BrokerId]:
        """Neighbours whose links are down."""

    def is_up(self, neighbour: BrokerId) -> bool:
        """Whether there is a link, of the tree's or not, that is up."""

    def relink(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        """A link came up, failed or ended, as links do."""

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        """A timer fired."""

    def adopt(self, neighbour: BrokerId, at_us: int, now_us: int, out: list[Effect]) -> None:
        """The link to this broker belongs to the tree from then on; say tables over it."""

    def disown(self, neighbour: BrokerId, at_us: int, now_us: int, out: list[Effect]) -> None:
        """The link to this broker, whose rows have turned, does not belong to the tree any more."""

    def since_us(self, neighbour: BrokerId) -> int:
        """Since when this end of a link knows whether it belongs to the tree."""

    def departed(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A neighbour has left, or is dead."""

    def expect(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """There is to be a link to this broker."""

    def remember(self, out: list[Effect]) -> None:
        """Ask the driver to remember what must outlast the process."""


class Contraction:
    """The tables of one broker, as changes of links need them (`host.Host`)."""

    def __init__(self, propagation: Propagation, exchange: Exchange) -> None:
        self._propagation = propagation
        self._exchange = exchange

    def obstacle(self, leaver: BrokerId, *, is_own: bool) -> str:
        """Why tables cannot turn now for a broker that leaves, which may be this one."""
        propagation, exchange = self._propagation, self._exchange
        unsettled = [leaver] if not is_own else list(propagation.neighbours)
        unsettled = [each for each in unsettled if not exchange.is_settled(each)]
        if unsettled:
            return f"it has yet to exchange tables with {', '.join(unsettled)}"
        if not is_own:
            return ""
        tables = propagation.tables
        if any(row.last_hop is None for row in tables.advertisements.values()):
            return "it has publishers"
        if tables.local.clients:
            return "it has subscribers"
        return "a subscription is said to be in two places" if propagation.hearsay else ""

    def facts(self, change: Change) -> Facts:
        """Which rows the leaving broker has from which neighbour of the decider's."""
        tables = self._propagation.tables
        return Facts(tuple(_side(tables, each) for each in change.others), tables.moves)

    def own_side(self, broker: BrokerId, dead: BrokerId) -> Facts:
        """At a neighbour of a dead broker: what that one was told from here."""
        tables = self._propagation.tables
        rows = tables.advertisements.values()
        advertised = tuple(row.advertisement.id for row in rows if row.last_hop != dead)
        told = tuple(entry.subscription for entry in tables.told_to(dead))
        return Facts((Side(broker, advertised, told),), tables.moves)

    def succeed(self, change: Change, facts: Facts, out: list[Effect]) -> None:
        """At the decider: what lay behind the leaving broker lies behind its other neighbours.

        A row of which the leaving broker says nothing has been taken back there.
        """
        propagation, leaver = self._propagation, change.leaver
        tables = propagation.tables
        for side in facts.sides:
            for advertisement_id in side.advertisements:
                _turn_advertisement(tables, advertisement_id, leaver, side.neighbour)
            for subscription in side.subscriptions:
                if subscription.id not in tables.subscriptions:
                    tables.add_subscription(subscription, side.neighbour)
                _turn_subscription(tables, subscription.id, leaver, side.neighbour)
        tables.count_moves(facts.moves)
        tables.forget_told(leaver)
        propagation.relink(leaver, change.others)
        # Rows that are new here were covered on their way; the ends of new links say all anyway.
        told = [each for each in propagation.neighbours if each not in change.others]
        ids = [each.id for side in facts.sides for each in side.subscriptions]
        propagation.restate(told, ids, out)
        propagation.turned = {leaver: change.others}
        out.append(Recall(leaver, moves=change.is_dead))
        propagation.forget(leaver, out)
        self._exchange.unlinked(leaver)

    def follow(self, change: Change, out: list[Effect]) -> None:
        """At another neighbour: what lay behind the leaving broker lies behind the decider."""
        propagation, leaver, decider = self._propagation, change.leaver, change.decider
        tables = propagation.tables
        for row in tables.advertised_from(leaver):
            _turn_advertisement(tables, row.advertisement.id, leaver, decider)
        for entry in tables.subscribed_from(leaver):
            _turn_subscription(tables, entry.id, leaver, decider)
        tables.forget_told(leaver)
        propagation.hearsay.rename(leaver, decider)
        propagation.relink(leaver, (decider,))
        propagation.turned = {leaver: (decider,)}
        out.append(Recall(leaver, moves=change.is_dead))
        self._exchange.unlinked(leaver)


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
        row.turned_us = None  # whatever move turned it, the new neighbour was not on its path


def _turn_subscription(
    tables: RoutingTable, id: SubscriptionId, old: BrokerId, new: BrokerId
) -> None:
    entry = tables.subscriptions.get(id)
    if entry is not None and entry.last_hop == old:
        tables.turn_subscription(entry, new)


class PlainLinks:
    """What a plain tree answers for the system around it: it remembers nothing of its links."""

    @property
    def is_moving(self) -> bool:
        """Nothing of a plain tree's needs links to stay."""
        return False

    def since_us(self, neighbour: BrokerId) -> int:
        """A plain tree's links are those that are up."""
        return 0

    def replaced(
        self, old: BrokerId | None, new: tuple[BrokerId, ...], now_us: int, out: list[Effect]
    ) -> None:
        """The tables have turned, and that is all."""
