"""Paths of migrations, from source to target, as the brokers on them know them (paper, 3.3).

A broker of the path may leave the network after the path was traced: it takes no part in any move
before the update comes. Its neighbours take its place, and the tables turn with them
(`overlays/coordination`). So the next broker towards the target finds the source's direction in its
rows, and the move continues that way. The brokers that it has passed know the former path.
"""

from __future__ import annotations

from typing import NamedTuple

from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId

Path = tuple[BrokerId, ...]


class PublisherMove(NamedTuple):
    """One move of a publisher, at one broker of its path.

    path     from source to target
    moves    number of the publisher's moves, this one included
    heard    the path as those towards the target know it
    """

    path: Path
    moves: int
    heard: Path

    def is_said(self, path: Path, moves: int) -> bool:
        """Whether a message from the side of the source is about this move."""
        return (self.path, self.moves) == (path, moves)


def check_path(path: Path) -> None:
    """ProtocolError unless it can be the path of a migration."""
    if len(path) < 2 or len(set(path)) != len(path):
        raise ProtocolError(f"{path} is not a path of a migration")


def check_position(path: Path, here: BrokerId, neighbour: BrokerId, step: int) -> None:
    """ProtocolError unless `neighbour` is the next one on the path, as `next_hop` has it."""
    check_path(path)
    if here not in path or next_hop(path, here, step) != neighbour:
        raise ProtocolError(f"{neighbour} cannot send a migration over {path} to {here}")


def next_hop(path: Path, here: BrokerId, step: int) -> BrokerId | None:
    """The next broker on the path towards the target (1) or the source (-1)."""
    position = path.index(here) + step
    return path[position] if 0 <= position < len(path) else None


def without_next(path: Path, here: BrokerId, hop: BrokerId) -> Path:
    """The path without the next broker towards the source, which has left.

    The source lies behind `hop`.

    Unchanged if no path can continue there.

    >>> without_next(("B1", "B2", "B3", "B4"), "B4", "B2")
    ('B1', 'B2', 'B4')
    >>> without_next(("B1", "B2", "B3"), "B3", "B7")
    ('B1', 'B7', 'B3')
    >>> without_next(("B1", "B2"), "B2", "B7")
    ('B1', 'B2')
    """
    place = path.index(here)
    left, behind = path[: max(0, place - 1)], path[place:]
    if not left or hop in behind:
        return path
    left = left[: left.index(hop) + 1] if hop in left else (*left, hop)
    return (*left, *behind)
