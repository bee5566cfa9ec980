"""Deliveries that wait, so that a publisher's publications keep their order as its tree changes.

A tree takes the place of a former one, and its links may be faster.  The word that nothing goes
along the former tree any more travels along it, behind its last publication; until it has come,
what comes along the new tree is delivered to nobody here, and is not settled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from shoal.broker.effects import Continue, Deliver, Effect, Key, Settled, Unsettled
from shoal.overlays.tid.messages import TreeId


class Waiting(NamedTuple):
    """What a publication that came along these trees brings to clients here."""

    key: Key
    deliveries: Sequence[Deliver]
    trees: tuple[TreeId, ...]


class Deliveries:
    """`is_after_former` says whether all that came along the tree before a tree has come."""

    def __init__(self, is_after_former: Callable[[TreeId], bool]) -> None:
        self._is_after_former = is_after_former
        self._waiting: list[Waiting] = []
        self._number = 0

    def has(self, tree: TreeId) -> bool:
        """Whether anything that came along a tree waits."""
        return any(tree in each.trees for each in self._waiting)

    def add(
        self, deliveries: Sequence[Deliver], trees: tuple[TreeId, ...], out: list[Effect]
    ) -> None:
        """Deliver a publication, now or later."""
        if all(self._is_after_former(tree) and not self.has(tree) for tree in trees):
            out.extend(deliveries)
            return
        self._number += 1
        key = ("former", str(self._number))
        self._waiting.append(Waiting(key, deliveries, trees))
        out.append(Unsettled(key))

    def look(self, out: list[Effect]) -> None:
        """Trees have changed: deliver what need not wait any more, in its order."""
        while (each := self._first()) is not None:
            self._waiting.remove(each)
            out.append(Continue(each.key))
            out.extend(each.deliveries)
            out += [Settled(each.key), Continue(None)]

    def _first(self) -> Waiting | None:
        """The first that may go; along one tree none overtakes another."""
        before: set[TreeId] = set()
        for each in self._waiting:
            if before.isdisjoint(each.trees) and all(map(self._is_after_former, each.trees)):
                return each
            before.update(each.trees)
        return None
