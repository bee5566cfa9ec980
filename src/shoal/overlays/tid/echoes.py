"""Echo: detection that all brokers know a tree, behind all bindings.

A broker that learns of a tree for the first time announces it to all its other neighbours. It
answers the neighbour that it learnt it from (`TreeKnown`) when each of them has done so, or has
announced the tree itself. Links keep order, so all bindings made meanwhile are at the root before
the last answer.
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
        """The tree was announced to these neighbours.

        `hop` had announced it here, None at its root.
        """
        self._awaited[tree] = set(told)
        self._answers_to[tree] = hop

    def on_known(self, tree: TreeId, neighbour: BrokerId, out: list[Effect]) -> bool:
        """A neighbour knows the tree; returns whether all brokers do and it is rooted here."""
        if tree not in self._awaited:
            return False
        self._awaited[tree].discard(neighbour)
        return self.look(tree, out)

    def look(self, tree: TreeId, out: list[Effect]) -> bool:
        """Send an answer that is due.

        Returns whether all brokers know the tree and it is rooted here.
        """
        if self._awaited.get(tree, {""}):
            return False
        del self._awaited[tree]
        hop = self._answers_to.pop(tree)
        if hop is not None:
            out.append(Send(hop, TreeKnown(tree)))
        return hop is None

    def lost(self, neighbour: BrokerId, out: list[Effect]) -> list[TreeId]:
        """A neighbour is lost.

        Returns the trees that are rooted here and complete because of that.
        """
        for tree, hop in list(self._answers_to.items()):
            if hop == neighbour:
                del self._answers_to[tree], self._awaited[tree]
        return [tree for tree in list(self._awaited) if self.on_known(tree, neighbour, out)]
