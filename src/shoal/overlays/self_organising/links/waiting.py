"""Deferred actions: events that would change tables during an exchange, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.broker.effects import Effect
from shoal.model import BrokerId
from shoal.overlays.self_organising.link_reconfiguration.link_reconfiguration import (
    LinkReconfiguration,
)


class DeferredActions:
    """Deferred actions of one broker; its part in the exchange says when to run them."""

    def __init__(self, ring: LinkReconfiguration) -> None:
        self._ring = ring
        self._acts: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def __len__(self) -> int:
        """Number of deferred actions."""
        return len(self._acts)

    def defer_or_run(
        self, now_us: int, out: list[Effect], act: Callable[..., None], *arguments: Any
    ) -> None:
        """Run an action now, or when tables are not quiesced any more; it gets the time of that."""
        if self._ring.is_quiesced:
            self._acts.append((act, arguments))
        else:
            act(*arguments, now_us, out)

    def forget(self, act: Callable[..., None], neighbour: BrokerId) -> None:
        """Do not do it of this neighbour, which is its first argument."""
        self._acts = [each for each in self._acts if each[0] != act or each[1][0] != neighbour]

    def run_all(self, now_us: int, out: list[Effect]) -> None:
        """Run all deferred actions; an action may be deferred again."""
        acts, self._acts = self._acts, []
        for act, arguments in acts:
            act(*arguments, now_us, out)
