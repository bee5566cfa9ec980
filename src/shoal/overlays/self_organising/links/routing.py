"""Interface between an overlay with changing links and the system that routes over it."""

from __future__ import annotations

from typing import Protocol

from shoal.broker.effects import Effect, Started
from shoal.broker.messages import Message
from shoal.model import BrokerId
from shoal.overlays.tree.contraction import Around


class OverlayRouting(Around, Protocol):
    """The system that routes over the tree: the tree itself, or a wrapper of it."""

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None: ...

    def replaced(
        self, old: BrokerId | None, new: tuple[BrokerId, ...], now_us: int, out: list[Effect]
    ) -> None:
        """The neighbours `new` have taken the place of `old`, if any, and the tables have
        turned.
        """

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None: ...
