"""When everybody knows a tree: an echo comes back over it, behind all that was bound.

Who hears of a tree for the first time tells all its other neighbours.  It answers where it heard of
it (`TreeKnown`) when each of them has said the same, or has told it of the tree itself.  Over a
link all keeps its order, so what was bound meanwhile is at the root before the last word.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.broker.effects import Effect, Send
from shoal.model import BrokerId
from shoal.overlays.tid.messages import TreeId, TreeKnown


class Echoes:
    """The trees of which this broker awaits the echo."""

    def __init__(self) -> None:
        self._awaited: dict[TreeId, set[BrokerId]] = {}
        self._answers_to: dict[TreeId, BrokerId | None] = {}

    def begin(self, tree: TreeId, told: Iterable[BrokerId], hop: BrokerId | None) -> None:
        """These have been told of a tree that `hop`, or nobody, has told this broker of."""
        self._awaited[tree] = set(told)
        self._answers_to[tree] = hop

    def heard(self, tree: TreeId, neighbour: BrokerId, out: list[Effect]) -> bool:
        """A neighbour knows the tree; whether everybody does and it is rooted here."""
        if tree not in self._awaited:
            return False
        self._awaited[tree].discard(neighbour)
        return self.look(tree, out)

    def look(self, tree: TreeId, out: list[Effect]) -> bool:
        """Say what can be said now; whether everybody knows the tree and it is rooted here."""
        if self._awaited.get(tree, {""}):
            return False
        del self._awaited[tree]
        hop = self._answers_to.pop(tree)
        if hop is not None:
            out.append(Send(hop, TreeKnown(tree)))
        return hop is None

    def lost(self, neighbour: BrokerId, out: list[Effect]) -> list[TreeId]:
        """A neighbour is gone; the trees that are rooted here and known to everybody now."""
        for tree, hop in list(self._answers_to.items()):
            if hop == neighbour:
                del self._answers_to[tree], self._awaited[tree]
        return [tree for tree in list(self._awaited) if self.heard(tree, neighbour, out)]
