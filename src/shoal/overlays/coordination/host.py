"""What a coordinator needs to know of its broker, and has it do."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from shoal.broker.effects import Effect, LinkChanged, TimerFired, TimerKey
from shoal.model import BrokerId
from shoal.overlays.coordination.messages import Change, Facts

# What is remembered of changes of links goes by this name.
CHANGES = "changes"

TIMER: TimerKey = ("change",)

Deferred = LinkChanged | TimerFired


class Host(Protocol):
    """The broker whose links change, as far as its system knows them."""

    @property
    def neighbours(self) -> Collection[BrokerId]:
        """Those that it is linked to, in the order of their names."""

    @property
    def away(self) -> Collection[BrokerId]:
        """Its neighbours whose links are down."""

    def is_connected(self, broker: BrokerId) -> bool:
        """Whether there is a link to this broker, of the overlay or not, that is up."""

    def obstacle_to(self, leaver: BrokerId, *, is_dead: bool = False) -> str:
        """Why it cannot take part now in the leave of a neighbour, or in its own; "" if it can."""

    def obstacle_to_link(self, broker: BrokerId) -> str:
        """Why no change can link it to this broker; "" if one can, or if the link is there."""

    @property
    def stops(self) -> bool:
        """Whether it takes in nothing while links change, so that no publication is overtaken.

        A system that keeps the order of publications itself, whatever links come and go, need not.
        """

    def is_drained(self, out: list[Effect]) -> bool:
        """At the leaving broker, when the others have installed the change: whether it may go.

        `Coordinator.drain` asks again.
        """

    def since_us(self, neighbour: BrokerId) -> int:
        """When it was last settled whether the link belongs to the overlay."""

    def facts(self, change: Change) -> Facts:
        """At the leaving broker, or a neighbour of a dead one: what the decider must know."""

    def succeed(
        self, change: Change, facts: Facts, at_us: int, now_us: int, out: list[Effect]
    ) -> None:
        """At the decider: link to the others in the place of the leaving broker."""

    def follow(self, change: Change, at_us: int, now_us: int, out: list[Effect]) -> None:
        """At one of the others: link to the decider in the place of the leaving broker."""

    def part(self, change: Change, at_us: int, now_us: int, out: list[Effect]) -> None:
        """At the leaving broker: its links do not belong to the overlay any more."""

    def restore(self, change: Change, at_us: int, now_us: int, out: list[Effect]) -> None:
        """The broker starts, and has installed this: its links are as the change has it."""

    def go_elsewhere(
        self, leaver: BrokerId, successor: BrokerId, now_us: int, out: list[Effect]
    ) -> None:
        """The broker that this one has linked to is out of the overlay: link to its successor."""

    def record(self, out: list[Effect]) -> None:
        """Ask the driver to remember `Coordinator.facts`."""

    def resume(self, what: Deferred, now_us: int, out: list[Effect]) -> None:
        """This has waited for the end of a change."""
