"""Obstacles: why a broker can take no part in an exchange of links."""

from __future__ import annotations

from collections.abc import Collection

from shoal.model import BrokerId
from shoal.overlays.self_organising.link_reconfiguration.ring import ExchangeRing
from shoal.overlays.self_organising.links.memory import LinkMemory
from shoal.overlays.self_organising.links.routing import OverlayRouting
from shoal.overlays.tree.routing import TreeRouting


class Obstacles:
    """At one broker: links to those of `up` are up, links to those of `ending` are to end.

    All its reasons are empty if there is no obstacle.
    """

    def __init__(
        self,
        broker: BrokerId,
        tree: TreeRouting,
        routing: OverlayRouting,
        memory: LinkMemory,
        up: Collection[BrokerId],
        ending: Collection[BrokerId],
    ) -> None:
        self._broker = broker
        self._tree = tree
        self._routing = routing
        self._memory = memory
        self._up = up
        self._ending = ending

    @property
    def has_unmet(self) -> bool:
        """Whether a reconnected neighbour has yet to greet."""
        tree, memory = self._tree, self._memory
        return any(
            memory.standing(each).is_in and not (tree.is_neighbour(each) or tree.opens(each))
            for each in self._up
        )

    @property
    def unrest(self) -> str:
        """Why tables cannot turn silently now."""
        if self._routing.is_moving:
            return f"a publisher moves through {self._broker}"
        return "" if self._tree.is_at_rest else f"{self._broker} exchanges its tables"

    @property
    def contradiction(self) -> str:
        """Why its tables cannot turn after the flush."""
        is_of_one_mind = not self._tree.propagation.alternate_routes
        return "" if is_of_one_mind else f"{self._broker} has two words of one subscription"

    def against(self, ring: ExchangeRing, *, is_new: bool) -> str:
        """Why it cannot take part in an exchange, also one that is new."""
        if reason := self.unrest:
            return reason
        for neighbour in ring.path:
            is_there = neighbour in self._up and self._tree.is_neighbour(neighbour)
            if not is_there or neighbour in self._ending:
                return f"{self._broker} - {neighbour} is no link"
        # Also a link that is down just now, or whose ends have yet to greet each other.
        if ring.opens_link and self._memory.standing(ring.opposite).is_in:
            return f"{self._broker} - {ring.opposite} is a link already"
        is_left_over = ring.is_last and is_new and ring.opposite in self._up
        if ring.opens_link and (is_left_over or ring.opposite in self._ending):
            return f"{self._broker} - {ring.opposite} has yet to end"
        return ""
