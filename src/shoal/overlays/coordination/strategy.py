"""Base of the systems whose brokers leave by the coordinator."""

from __future__ import annotations

from collections.abc import Collection

from shoal.broker.effects import Effect
from shoal.broker.strategy import BaseStrategy
from shoal.model import BrokerId
from shoal.overlays.coordination.coordinator import Coordinator


class CoordinatedStrategy(BaseStrategy):
    """A strategy that passes leave, stay and declare_dead to its coordinator, `changes`."""

    changes: Coordinator

    def declare_dead(
        self, broker: BrokerId, others: Collection[BrokerId], now_us: int, out: list[Effect]
    ) -> None:
        """Take the place of a dead neighbour."""
        self.changes.declare_dead(broker, others, now_us, out)

    def leave(self, now_us: int, out: list[Effect]) -> None:
        """Leave; one of the neighbours takes this broker's place."""
        self.changes.leave(now_us, out)

    def stay(self, now_us: int, out: list[Effect]) -> None:
        self.changes.stay(now_us, out)

    @property
    def obstacle(self) -> str:
        return self.changes.problem

    @property
    def is_leaving(self) -> bool:
        return self.changes.is_leaving

    @property
    def successor(self) -> BrokerId | None:
        return self.changes.successor
