"""Interface of a link reconfiguration to its broker (`link_reconfiguration.py`)."""

from __future__ import annotations

from typing import Protocol

from shoal.broker.effects import Effect
from shoal.model import BrokerId
from shoal.overlays.self_organising.link_reconfiguration.ring import ExchangeRing
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import ExchangeDecision
from shoal.overlays.tree.routing_table import RoutingTable
from shoal.overlays.tree.turning import TableTurn


class RingHost(Protocol):
    """The broker that an exchange happens to."""

    @property
    def tables(self) -> RoutingTable: ...

    @property
    def contradiction(self) -> str:
        """Why its tables cannot turn after the flush; empty when they can."""

    def obstacle(self, ring: ExchangeRing) -> str:
        """Why it cannot take part; empty when it can."""

    def send_held(self, out: list[Effect]) -> None:
        """Send the publications that this broker itself holds for links: it is about to quiesce."""

    def is_up(self, neighbour: BrokerId) -> bool:
        """Whether a link is up."""

    def suspend_covering(self, neighbour: BrokerId) -> None:
        """Forward all subscriptions to this neighbour until the exchange is decided on."""

    def latest_us(self, ring: ExchangeRing) -> int:
        """When its ends of the links that change last came or went."""

    def exchanged(
        self,
        ring: ExchangeRing,
        decision: ExchangeDecision,
        turn: TableTurn,
        now_us: int,
        out: list[Effect],
    ) -> None:
        """Turn the tables, add and remove links, and resume."""

    def kept(
        self, ring: ExchangeRing, decision: ExchangeDecision, now_us: int, out: list[Effect]
    ) -> None:
        """Nothing was changed: end the new link, if this broker is one of its ends, and resume."""


class Late(Protocol):
    """Corrects a broker's links when it receives a late decision."""

    def is_overtaken(
        self, ring: ExchangeRing, decision: ExchangeDecision, *, was_kept: bool
    ) -> bool:
        """Whether it was done, but others have changed links of the cycle since as if it was not.

        `was_kept`: this broker has the exchange as not done.
        """

    def revised(
        self, ring: ExchangeRing, decision: ExchangeDecision, now_us: int, out: list[Effect]
    ) -> None:
        """The links were exchanged, which is news."""

    def undone(
        self,
        ring: ExchangeRing,
        done: ExchangeDecision | None,
        void: ExchangeDecision,
        now_us: int,
        out: list[Effect],
    ) -> None:
        """The exchange is void: undo this broker's part, if it is known here."""
