"""What an exchange of links asks of the broker that it happens to (`quiet_ring.py`)."""

from __future__ import annotations

from typing import Protocol

from shoal.broker.effects import Effect
from shoal.model import BrokerId
from shoal.overlays.self_organising.quiet_ring.ring import Ring
from shoal.overlays.self_organising.quiet_ring.ring_messages import Verdict
from shoal.overlays.tree.routing_table import RoutingTable
from shoal.overlays.tree.turning import Turn


class Host(Protocol):
    """The broker that an exchange happens to."""

    @property
    def tables(self) -> RoutingTable: ...

    @property
    def contradiction(self) -> str:
        """Why its tables cannot turn though all has been said; empty when they can."""

    def obstacle(self, ring: Ring) -> str:
        """Why it cannot take part; empty when it can."""

    def is_up(self, neighbour: BrokerId) -> bool:
        """Whether there is a link."""

    def latest_us(self, ring: Ring) -> int:
        """When its ends of the links that change last came or went."""

    def exchanged(
        self, ring: Ring, verdict: Verdict, turn: Turn, now_us: int, out: list[Effect]
    ) -> None:
        """Turn the tables, and do what is to be done about its links; then go on."""

    def kept(self, ring: Ring, verdict: Verdict, now_us: int, out: list[Effect]) -> None:
        """All is as it was: end the new link, if it is one of its ends; then go on."""


class Late(Protocol):
    """What becomes of a broker's links when it hears what others know of an exchange."""

    def is_overtaken(self, ring: Ring, verdict: Verdict, *, was_kept: bool) -> bool:
        """Whether it was done, and others have changed links of the cycle since as if it was not.

        `was_kept`: that is what this broker knows.
        """

    def revised(self, ring: Ring, verdict: Verdict, now_us: int, out: list[Effect]) -> None:
        """The links were exchanged, which is news."""

    def undone(
        self, ring: Ring, done: Verdict | None, void: Verdict, now_us: int, out: list[Effect]
    ) -> None:
        """The exchange is void: put right what was done for it, if that is known here."""
