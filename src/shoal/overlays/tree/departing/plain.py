"""What a plain tree answers where a system around it looks after links: it remembers nothing."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.broker.effects import Effect
from shoal.model import BrokerId
from shoal.overlays.tree.messages import Stead


class PlainLinks:
    """Of the tree's links; see `Around`."""

    @property
    def is_moving(self) -> bool:
        """Nothing of a plain tree's needs links to stay."""
        return False

    def replaced(
        self, old: BrokerId | None, new: tuple[BrokerId, ...], now_us: int, out: list[Effect]
    ) -> None:
        """The tables have turned, and that is all."""

    def since_us(self, neighbour: BrokerId) -> int:
        """A plain tree's links are those that are up."""
        return 0

    def settled(self, neighbour: BrokerId, at_us: int, *, is_in: bool) -> int:
        """Nothing of that is remembered."""
        return at_us

    def parting(self, neighbours: Iterable[BrokerId], now_us: int, out: list[Effect]) -> None:
        """A plain tree's links go with their brokers."""

    def stood_in(self, neighbour: BrokerId) -> Stead:
        """Who is back knows nobody else."""
        return ()
