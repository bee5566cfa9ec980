"""What an overlay whose links change asks of whatever routes over it."""

from __future__ import annotations

from typing import Protocol

from shoal.broker.effects import Effect, Started
from shoal.broker.messages import Message
from shoal.model import BrokerId
from shoal.overlays.tree.contraction import Around


class Routing(Around, Protocol):
    """What routes over the tree: the tree itself, or what surrounds it."""

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None: ...

    def replaced(
        self, old: BrokerId | None, new: tuple[BrokerId, ...], now_us: int, out: list[Effect]
    ) -> None:
        """These neighbours have taken the place of one, if any, and the tables have turned."""

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None: ...
