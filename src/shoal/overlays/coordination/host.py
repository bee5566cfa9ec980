"""Interface between a coordinator and the routing system of its broker."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from shoal.broker.effects import Effect, LinkChanged, TimerFired, TimerKey
from shoal.model import BrokerId
from shoal.overlays.coordination.messages import Facts, LinkChange

# Key of the facts about link changes that the driver keeps on disk.
CHANGES = "changes"

TIMER: TimerKey = ("change",)
# Temporary links are up that no change may need any more.
UNUSED: TimerKey = ("change", "unused")
CHANGE_TIMERS = (TIMER, UNUSED)

Deferred = LinkChanged | TimerFired


class Host(Protocol):
    """The routing system that owns the links."""

    @property
    def neighbours(self) -> Collection[BrokerId]:
        """The brokers that it is linked to, in the order of their names."""

    @property
    def away(self) -> Collection[BrokerId]:
        """Its disconnected neighbours."""

    def is_connected(self, broker: BrokerId) -> bool:
        """Whether there is a link to this broker, of the overlay or not, that is up."""

    def obstacle_to(self, leaving_broker: BrokerId, *, is_dead: bool = False) -> str:
        """Why this broker cannot take part now in a leave, its own or a neighbour's.

        Returns "" if it can.
        """

    def obstacle_to_link(self, broker: BrokerId) -> str:
        """Why no change can link it to this broker; "" if one can, or if the link is there."""

    @property
    def stops(self) -> bool:
        """Whether it quiesces while links change, so that no publication is overtaken.

        False in systems that order publications independently of the links.
        """

    def send_held(self, out: list[Effect]) -> None:
        """Send the publications that this broker itself holds for links: it is about to quiesce."""

    def is_drained(self, out: list[Effect]) -> bool:
        """At the leaving broker, when the others have installed the change: whether it may leave.

        If not, the host calls `Coordinator.drain` later.
        """

    def since_us(self, neighbour: BrokerId) -> int:
        """When it was last decided whether the link belongs to the overlay."""

    def facts(self, change: LinkChange) -> Facts:
        """At the leaving broker, or a neighbour of a dead one: the rows that the decider needs."""

    def succeed(
        self, change: LinkChange, facts: Facts, at_us: int, now_us: int, out: list[Effect]
    ) -> None:
        """At the decider: link to the others in the place of the leaving broker."""

    def follow(self, change: LinkChange, at_us: int, now_us: int, out: list[Effect]) -> None:
        """At one of the others: link to the decider in the place of the leaving broker."""

    def part(self, change: LinkChange, at_us: int, now_us: int, out: list[Effect]) -> None:
        """At the leaving broker: its links leave the overlay."""

    def restore(self, change: LinkChange, at_us: int, now_us: int, out: list[Effect]) -> None:
        """The broker restarts after it has installed this change: adopt the change's links."""

    def go_elsewhere(
        self, leaving_broker: BrokerId, successor: BrokerId, now_us: int, out: list[Effect]
    ) -> None:
        """The broker that this one has linked to is out of the overlay: link to its successor."""

    def record(self, out: list[Effect]) -> None:
        """Have the driver write `Coordinator.facts` to disk."""

    def resume(self, what: Deferred, now_us: int, out: list[Effect]) -> None:
        """Handle an event that was deferred until the end of a change."""
