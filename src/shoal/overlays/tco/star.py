"""A star: all links lead to a hub. Messages about views and links go over it.

>>> from shoal.overlays.dynatops.structures.structure import route
>>> route(TcoStar(4, 1), 0, 3), TcoStar(4, 1).neighbours(1)
([0, 1, 3], (0, 2, 3))
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.model import BrokerId
from shoal.overlays.dynatops.view import View


class TcoStar:
    """`size` positions around that of the hub."""

    def __init__(self, size: int, hub: int) -> None:
        self.size = size
        self._hub = hub

    def root(self, key: str) -> int:
        return self._hub

    def next_hop(self, position: int, target: int) -> int:
        return target if position == self._hub else self._hub

    def neighbours(self, position: int) -> Sequence[int]:
        if position == self._hub:
            return tuple(each for each in range(self.size) if each != position)
        return (self._hub,)

    def routing_tree(self, root: int) -> Sequence[int]:
        return [root if each == self._hub else self._hub for each in range(self.size)]


def hub_of(view: View) -> BrokerId:
    """The maker of the view, as that is linked to all; of the first one the first by name."""
    return view.maker if view.maker in view.members else min(view.members)
