"""Gateways on a ring, each with a cluster of brokers behind it that are not on the ring.

Positions are clusters one after the other, each with its gateway first. A broker behind a gateway
sends everything to its gateway; gateways form a Chord ring of their own, and only they are roots; a
gateway sends to brokers behind it directly.

>>> from shoal.overlays.dynatops.structures.structure import route
>>> hybrid = Gateways(12, 3)
>>> hybrid.neighbours(4), route(hybrid, 4, 11), route(hybrid, 4, 5)
((3,), [4, 3, 9, 11], [4, 3, 5])

Source: DYNATOPS, section 7: in a hybrid network "only gateway brokers from each cluster [...] will
join the core structured rendezvous network".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.structures.structure import Structure


class Gateways:
    """`size` positions in clusters of `together`; the last cluster may be smaller.

    `make_ring` makes the gateways' structure from their number.
    """

    def __init__(
        self, size: int, together: int, make_ring: Callable[[int], Structure] = Chord
    ) -> None:
        if together < 1:
            raise ValueError("a cluster has at least its gateway")
        self.size = size
        self.together = together
        self._ring = make_ring(-(-size // together))

    def gateway(self, position: int) -> int:
        """Of the position's cluster."""
        return position - position % self.together

    def behind(self, gateway: int) -> range:
        """The other positions of a gateway's cluster."""
        return range(gateway + 1, min(gateway + self.together, self.size))

    def root(self, key: str) -> int:
        return self._ring.root(key) * self.together

    def next_hop(self, position: int, target: int) -> int:
        own, other = self.gateway(position), self.gateway(target)
        if position != own:
            return own
        if own == other:
            return target
        ring = self._ring.next_hop(own // self.together, other // self.together)
        return ring * self.together

    def neighbours(self, position: int) -> Sequence[int]:
        gateway = self.gateway(position)
        if position != gateway:
            return (gateway,)
        ring = self._ring.neighbours(gateway // self.together)
        return (*(each * self.together for each in ring), *self.behind(gateway))

    def routing_tree(self, root: int) -> Sequence[int]:
        first = self.gateway(root)
        on_ring = self._ring.routing_tree(first // self.together)
        parents = [self.gateway(each) for each in range(self.size)]
        for number, parent in enumerate(on_ring):
            parents[number * self.together] = parent * self.together
        # Its own gateway is reached from the root, if that is no gateway.
        parents[first] = root
        parents[root] = root
        return parents
