"""A view: who stands at which position of the structure, and since which of their lives.

Views follow each other; of two the one that is later in `age` holds.  Everything that brokers say
to each other about topics belongs to one view: its ways, its roots.

>>> from shoal.overlays.dynatops.structures.chord import Chord
>>> places = Places(View(0, "", ("A", "B", "C", "D")), Chord)
>>> places.next_hop("A", "D"), places.neighbours("A")
('C', ('B', 'C'))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import msgspec

from shoal.model import BrokerId
from shoal.overlays.dynatops.parameters import place_of
from shoal.overlays.dynatops.structures.structure import Structure

# More views than there will ever be; what is counted further still fits into a message.
MAX_VERSION = 2**53

# Which of two views is later; no two have the same.
Age = tuple[int, BrokerId]
MakeStructure = Callable[[int], Structure]


class View(msgspec.Struct, frozen=True):
    """`maker` made it; `lives` are when its members started (µs), of the first view unknown.

    `is_held`: an operator wants its members to stand where they do.
    """

    version: int
    maker: BrokerId
    members: tuple[BrokerId, ...]
    lives: Mapping[BrokerId, int] = {}
    is_held: bool = False

    @property
    def age(self) -> Age:
        return self.version, self.maker

    @property
    def is_sound(self) -> bool:
        """Whether it has members, each at one position, and started when it says of whom."""
        return (
            0 < len(self.members) == len(set(self.members))
            and 0 <= self.version < MAX_VERSION
            and self.lives.keys() <= set(self.members)
        )


def with_joiners(members: Iterable[BrokerId], joiners: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
    """The members in their order, each joiner in front of the first that its hash is below."""
    found = list(members)
    for joiner in sorted(joiners, key=place_of):
        place = place_of(joiner)
        before = (at for at, each in enumerate(found) if place_of(each) > place)
        found.insert(next(before, len(found)), joiner)
    return tuple(found)


class Places:
    """A view's structure, by brokers' names."""

    def __init__(self, view: View, make_structure: MakeStructure) -> None:
        self.members = view.members
        self.structure = _structure(make_structure, len(view.members))
        self._positions = {broker: at for at, broker in enumerate(view.members)}

    def __contains__(self, broker: object) -> bool:
        return broker in self._positions

    def root(self, key: str) -> BrokerId:
        return self.members[self.structure.root(key)]

    def next_hop(self, broker: BrokerId, target: BrokerId) -> BrokerId:
        """Where what `broker` has for another one goes next."""
        hop = self.structure.next_hop(self._positions[broker], self._positions[target])
        return self.members[hop]

    def neighbours(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """Those that `broker` sends to."""
        found = self.structure.neighbours(self._positions[broker])
        return tuple(self.members[at] for at in found)

    def linked_to(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """Those that `broker` sends to, or that send to it."""
        there = dict.fromkeys(self.neighbours(broker))
        there.update((each, None) for each in self.members if broker in self.neighbours(each))
        return tuple(there)

    def hops(
        self, broker: BrokerId, targets: Iterable[BrokerId]
    ) -> Mapping[BrokerId, list[BrokerId]]:
        """The targets, each another broker, by where what is for them goes next."""
        found: dict[BrokerId, list[BrokerId]] = {}
        for target in targets:
            found.setdefault(self.next_hop(broker, target), []).append(target)
        return found


@lru_cache(64)
def _structure(make_structure: MakeStructure, size: int) -> Structure:
    """Brokers of one process that are in the same view share it."""
    return make_structure(size)
