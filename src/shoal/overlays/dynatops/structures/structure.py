"""Interface of a structured overlay: its positions, roots and paths, whichever brokers are there.

A structure has positions 0, 1, ... Each key has a responsible position, its root. The paths from
one position to all others by `next_hop` form a tree (`routing_tree`): paths to positions beyond a
common one are equal up to there. So a topic's tree is the part of its root's tree that leads to
subscribers.

Source: DYNATOPS, sections 3 and 5.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

_HASH_BYTES = 8
HASH_BITS = 8 * _HASH_BYTES


class Structure(Protocol):
    """Positions, and the paths between them."""

    def __hash__(self) -> int: ...

    @property
    def size(self) -> int:
        """Number of positions, at least one."""

    def root(self, key: str) -> int:
        """The position that is responsible for a key."""

    def next_hop(self, position: int, target: int) -> int:
        """Next hop of a message to `target`, another position."""

    def neighbours(self, position: int) -> Sequence[int]:
        """The positions that this one sends to, in their order."""

    def routing_tree(self, root: int) -> Sequence[int]:
        """The predecessor of each position on paths from `root`; the root's own is itself."""


def hash_of(key: str) -> int:
    """The same on every machine: `HASH_BITS` bits."""
    digest = hashlib.blake2b(key.encode(), digest_size=_HASH_BYTES).digest()
    return int.from_bytes(digest, "big")


def route(structure: Structure, start: int, target: int) -> list[int]:
    """The positions on the path, both ends included."""
    way = [start]
    while way[-1] != target:
        way.append(structure.next_hop(way[-1], target))
    return way
