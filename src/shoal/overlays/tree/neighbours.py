"""The neighbours of a broker on its tree, in the order of their names.

Each publication needs a lookup of its sender: it takes constant time, however many links a hub has.

>>> neighbours = Neighbours(["B3", "B1"])
>>> neighbours.add("B2")
>>> list(neighbours), "B2" in neighbours
(['B1', 'B2', 'B3'], True)
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.model import BrokerId


class Neighbours(dict[BrokerId, None]):
    """A set with sorted iteration; links come and go far less often than they are iterated."""

    def __init__(self, brokers: Iterable[BrokerId]) -> None:
        super().__init__(dict.fromkeys(sorted(brokers)))

    def add(self, broker: BrokerId) -> None:
        """There is a link to this broker."""
        brokers = sorted([*self, broker])
        self.clear()
        self.update(dict.fromkeys(brokers))

    def discard(self, broker: BrokerId) -> None:
        """There is none to this one, if there was."""
        self.pop(broker, None)
