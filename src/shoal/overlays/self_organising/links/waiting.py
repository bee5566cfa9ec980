"""What would change tables while they must keep still for an exchange: it waits, in its order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.broker.effects import Effect
from shoal.model import BrokerId
from shoal.overlays.self_organising.quiet_ring.quiet_ring import QuietRing


class Waiting:
    """At one broker; whoever takes part in the exchange says when all may go on."""

    def __init__(self, ring: QuietRing) -> None:
        self._ring = ring
        self._acts: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def __len__(self) -> int:
        """How much waits."""
        return len(self._acts)

    def later(
        self, now_us: int, out: list[Effect], act: Callable[..., None], *arguments: Any
    ) -> None:
        """Do it now, or when the tables need not keep still any more; it is told when that is."""
        if self._ring.is_quiet:
            self._acts.append((act, arguments))
        else:
            act(*arguments, now_us, out)

    def forget(self, act: Callable[..., None], neighbour: BrokerId) -> None:
        """Do not do it of this neighbour, which is its first argument."""
        self._acts = [each for each in self._acts if each[0] != act or each[1][0] != neighbour]

    def go_on(self, now_us: int, out: list[Effect]) -> None:
        """Do all that waits; what has to wait again does so."""
        acts, self._acts = self._acts, []
        for act, arguments in acts:
            act(*arguments, now_us, out)
