"""Structures in which a message comes one digit nearer to its target with every hop.

Tapestry has random identifiers, a quad grid those of its cells: halves of halves, both ways. A
table has an entry for each prefix: the nearest of the positions with that prefix, by a given
distance.

>>> from shoal.overlays.dynatops.structures.structure import route
>>> grid = QuadGrid(4)
>>> grid.size, route(grid, grid.at(0, 0), grid.at(3, 3))
(16, [0, 12, 15])

Source: DYNATOPS, section 6.2: Bayeux over Tapestry, and GeoPS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

from shoal.overlays.dynatops.structures.structure import HASH_BITS, hash_of

Digits = tuple[int, ...]
Distance = Callable[[int, int], float]
_QUADRANTS = 4
_SPARE_BITS = 4


class Prefixes:
    """Positions with identifiers of digits, all different and of the same length."""

    def __init__(self, ids: Sequence[Digits], base: int, distance: Distance) -> None:
        self.size = len(ids)
        self._ids = ids
        self._base = base
        self._distance = distance
        self._having: dict[Digits, list[int]] = {}
        for position, digits in enumerate(ids):
            for length in range(len(digits) + 1):
                self._having.setdefault(digits[:length], []).append(position)
        self._entries: dict[tuple[int, Digits], int] = {}

    def root(self, key: str) -> int:
        """Digit by digit; if no position has the digit, the next one that exists."""
        number, prefix = hash_of(key), Digits()
        for _ in range(len(self._ids[0])):
            number, wanted = divmod(number, self._base)
            tried = ((*prefix, (wanted + more) % self._base) for more in range(self._base))
            prefix = next(each for each in tried if each in self._having)
        (position,) = self._having[prefix]
        return position

    def next_hop(self, position: int, target: int) -> int:
        wanted = self._ids[target]
        return self._entry(position, wanted[: _shared(self._ids[position], wanted) + 1])

    def neighbours(self, position: int) -> Sequence[int]:
        return sorted({self._entry(position, each) for each in self._beside(position, 0)})

    def routing_tree(self, root: int) -> Sequence[int]:
        parents = [root] * self.size
        # A position, and how many digits all have in common that it has to reach.
        open_parts = [(root, 0)]
        while open_parts:
            position, length = open_parts.pop()
            for prefix in self._beside(position, length):
                child = self._entry(position, prefix)
                parents[child] = position
                open_parts.append((child, len(prefix)))
        return parents

    def _beside(self, position: int, length: int) -> Iterable[Digits]:
        """The prefixes that leave this position's identifier behind that many digits."""
        digits = self._ids[position]
        for end in range(length, len(digits)):
            for digit in range(self._base):
                prefix = (*digits[:end], digit)
                if digit != digits[end] and prefix in self._having:
                    yield prefix

    def _entry(self, position: int, prefix: Digits) -> int:
        found = self._entries.get((position, prefix))
        if found is None:
            candidates = self._having[prefix]
            found = min(candidates, key=lambda each: (self._distance(position, each), each))
            self._entries[position, prefix] = found
        return found


class QuadGrid(Prefixes):
    """`side` x `side` cells, each a position; ValueError unless `side` is a power of two."""

    def __init__(self, side: int) -> None:
        depth = side.bit_length() - 1
        if side < 1 or side != 2**depth:
            raise ValueError(f"{side} cells on a side: must be a power of two")
        self.side = side
        self._cells = sorted(
            (_quadrants(x, y, depth), x, y) for x in range(side) for y in range(side)
        )
        self._positions = {(x, y): position for position, (_, x, y) in enumerate(self._cells)}
        super().__init__([digits for digits, _, _ in self._cells], _QUADRANTS, self.apart)

    def at(self, x: int, y: int) -> int:
        """The position of a cell; KeyError when there is none."""
        return self._positions[x, y]

    def digits(self, cell: int) -> Digits:
        """The identifier of a position."""
        return self._cells[cell][0]

    def apart(self, left: int, right: int) -> float:
        """The square of the distance of two positions."""
        (_, x, y), (_, other_x, other_y) = self._cells[left], self._cells[right]
        return (x - other_x) ** 2 + (y - other_y) ** 2


def quad_cells(size: int) -> Prefixes:
    """Cells spread over the smallest quad grid with enough of them.

    >>> quad_cells(5).size, quad_cells(4).root("a") == QuadGrid(2).root("a")
    (5, True)
    """
    side = 1
    while side * side < size:
        side *= 2
    grid = QuadGrid(side)
    chosen = [cell * grid.size // size for cell in range(size)]
    ids = [grid.digits(cell) for cell in chosen]
    return Prefixes(ids, _QUADRANTS, lambda one, other: grid.apart(chosen[one], chosen[other]))


def tapestry(size: int, seed: int, base: int = 16, distance: Distance | None = None) -> Prefixes:
    """Random identifiers of digits below `base`, a power of two up to 16.

    Without a distance tables prefer the identifiers that follow; with one, this is proximity
    neighbour selection.
    """
    random = Random(seed)
    # Enough digits that collisions are rare; a hash has as many.
    bits = min(HASH_BITS, _SPARE_BITS + 2 * size.bit_length())
    length = bits // (base.bit_length() - 1)
    ids: dict[Digits, None] = {}
    while len(ids) < size:
        ids[tuple(random.randrange(base) for _ in range(length))] = None
    return Prefixes(list(ids), base, distance or (lambda one, other: (other - one) % size))


def _quadrants(x: int, y: int, depth: int) -> Digits:
    return tuple(2 * (y >> bit & 1) + (x >> bit & 1) for bit in reversed(range(depth)))


def _shared(left: Digits, right: Digits) -> int:
    """Length of the common prefix of two identifiers."""
    return next(
        (index for index, (one, other) in enumerate(zip(left, right, strict=True)) if one != other),
        len(left),
    )
