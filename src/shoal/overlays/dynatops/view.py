"""A view: the members in the order of their positions, and their incarnations.

Views follow each other; of two the one that is later in `age` is valid. All messages about topics
belong to one view: its paths, its roots.

>>> from shoal.overlays.dynatops.structures.chord import Chord
>>> places = ViewPlaces(View(0, "", ("A", "B", "C", "D")), Chord)
>>> places.next_hop("A", "D"), places.neighbours("A")
('C', ('B', 'C'))
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from shoal.model import BrokerId
from shoal.overlays.dynatops.parameters import place_of
from shoal.overlays.dynatops.structures.gateways import Gateways
from shoal.overlays.dynatops.structures.geography import Coordinates, is_on_earth
from shoal.overlays.dynatops.structures.structure import Structure

# More views than there will ever be; higher counts still fit into a message.
MAX_VERSION = 2**53

# The order of views; no two have the same.
Age = tuple[int, BrokerId]
MakeStructure = Callable[[int], Structure]
MakeOnEarth = Callable[[Sequence[Coordinates]], Structure]


class View(msgspec.Struct, frozen=True):
    """`maker` made it; `lives` are when its members started (µs), of the first view unknown.

    `is_held`: an operator holds its members at their positions. `per_gateway`: this many
    consecutive members are a cluster, of which the first alone stands on the structure. `base` is
    the age of the view before if only positions have changed since: no member, no incarnation.
    `coordinates` are those of the members that said some.
    """

    version: int
    maker: BrokerId
    members: tuple[BrokerId, ...]
    lives: Mapping[BrokerId, int] = {}
    is_held: bool = False
    per_gateway: int = 1
    base: Age | None = None
    coordinates: Mapping[BrokerId, Coordinates] = {}

    @property
    def age(self) -> Age:
        return self.version, self.maker

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts that a member keeps on disk; the members' incarnations end with a restart."""
        rows = {"version": self.version, "maker": self.maker, "members": list(self.members)}
        rows |= {"is_held": self.is_held}
        if self.coordinates:
            rows["coordinates"] = {each: list(at) for each, at in self.coordinates.items()}
        return {"view": rows}

    @property
    def is_sound(self) -> bool:
        """Whether it has members, each at one position, and start times and coordinates of
        members only.
        """
        return (
            0 < len(self.members) == len(set(self.members))
            and 0 <= self.version < MAX_VERSION
            and self.lives.keys() <= set(self.members)
            and self.coordinates.keys() <= set(self.members)
            and all(map(is_on_earth, self.coordinates.values()))
            and self.per_gateway >= 1
        )

    def continues(self, former: View) -> bool:
        """Whether it is based on the former view, and has its members in their incarnations."""
        return (
            self.base == former.age
            and self.per_gateway == former.per_gateway
            and self.coordinates == former.coordinates
            and sorted(self.members) == sorted(former.members)
            and all(self.lives.get(each) == life for each, life in former.lives.items())
        )


def known_view(facts: Mapping[str, Any], per_gateway: int) -> View | None:
    """The last view that a broker was in before it started, if it was in one."""
    rows = facts.get("view")
    return None if rows is None else msgspec.convert(rows | {"per_gateway": per_gateway}, View)


def with_joiners(members: Iterable[BrokerId], joiners: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
    """The members in their order, each joiner in front of the first that its hash is below."""
    found = list(members)
    for joiner in sorted(joiners, key=place_of):
        place = place_of(joiner)
        before = (at for at, each in enumerate(found) if place_of(each) > place)
        found.insert(next(before, len(found)), joiner)
    return tuple(found)


def seated(
    members: Sequence[BrokerId],
    gone: Collection[BrokerId],
    joiners: Iterable[BrokerId],
    per_gateway: int,
) -> tuple[BrokerId, ...]:
    """The same in clusters, of which as many as possible stay as they are.

    If a gateway has left, the next of its cluster becomes one. Joiners fill gaps first, then the
    last members.

    >>> seated(["a", "b", "c", "d", "e"], ["a", "b"], ["x"], 2)
    ('c', 'd', 'e', 'x')
    """
    rows = [
        [each for each in members[start : start + per_gateway] if each not in gone]
        for start in range(0, len(members), per_gateway)
    ]
    rows = [row for row in rows if row]
    coming = deque(sorted(joiners, key=place_of))
    at = 0
    while at < len(rows):
        row = rows[at]
        while len(row) < per_gateway and (coming or at < len(rows) - 1):
            row.append(coming.popleft() if coming else rows[-1].pop())
            if not rows[-1]:
                rows.pop()
        at += 1
    return (*(each for row in rows for each in row), *coming)


class ViewPlaces:
    """A view's structure, by brokers' names."""

    def __init__(
        self, view: View, make_structure: MakeStructure, make_on_earth: MakeOnEarth | None = None
    ) -> None:
        """With the coordinates of all members their structure is that of `make_on_earth`."""
        self.members = view.members
        self._per_gateway = view.per_gateway
        self.is_on_earth = make_on_earth is not None and view.coordinates.keys() == {*view.members}
        if make_on_earth is not None and self.is_on_earth:
            points = tuple(view.coordinates[each] for each in view.members)
            self.structure = _structure_on_earth(make_on_earth, points)
        else:
            self.structure = _structure(make_structure, len(view.members), view.per_gateway)
        self._positions = {broker: at for at, broker in enumerate(view.members)}
        self._senders = _senders(self.structure, len(view.members))

    def __contains__(self, broker: object) -> bool:
        return broker in self._positions

    def root(self, key: str) -> BrokerId:
        return self.members[self.structure.root(key)]

    def next_hop(self, broker: BrokerId, target: BrokerId) -> BrokerId:
        """Next hop of a message from `broker` to another one."""
        hop = self.structure.next_hop(self._positions[broker], self._positions[target])
        return self.members[hop]

    def followed_by(
        self, gone: Collection[BrokerId], joiners: Collection[BrokerId]
    ) -> tuple[BrokerId, ...]:
        """The positions without some members, and with others."""
        if self._per_gateway > 1:
            return seated(self.members, gone, joiners, self._per_gateway)
        return with_joiners((each for each in self.members if each not in gone), joiners)

    def neighbours(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """Those that `broker` sends to."""
        found = self.structure.neighbours(self._positions[broker])
        return tuple(self.members[at] for at in found)

    def linked_to(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """Those that `broker` sends to, or that send to it."""
        senders = (self.members[at] for at in self._senders[self._positions[broker]])
        return tuple(dict.fromkeys([*self.neighbours(broker), *senders]))

    def hops(
        self, broker: BrokerId, targets: Iterable[BrokerId]
    ) -> Mapping[BrokerId, list[BrokerId]]:
        """The targets, each another broker, by their next hops."""
        found: dict[BrokerId, list[BrokerId]] = {}
        for target in targets:
            found.setdefault(self.next_hop(broker, target), []).append(target)
        return found


@lru_cache(64)
def _structure(make_structure: MakeStructure, size: int, per_gateway: int) -> Structure:
    """Brokers of one process that are in the same view share it."""
    if per_gateway > 1:
        return Gateways(size, per_gateway, make_structure)
    return make_structure(size)


@lru_cache(64)
def _structure_on_earth(
    make_on_earth: MakeOnEarth, coordinates: tuple[Coordinates, ...]
) -> Structure:
    """The same by coordinates."""
    return make_on_earth(coordinates)


@lru_cache(64)
def _senders(structure: Structure, size: int) -> Sequence[Sequence[int]]:
    """By position: the positions that send to it, in order."""
    found: list[list[int]] = [[] for _ in range(size)]
    for position in range(size):
        for neighbour in dict.fromkeys(structure.neighbours(position)):
            found[neighbour].append(position)
    return found
