"""Deferred deliveries: they keep a publisher's order as its tree changes.

A tree replaces a former one, and its links may be faster. The end of the former tree is announced
along that tree, behind its last publication; until that has come, publications along the new tree
are not delivered here, and not settled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from shoal.broker.effects import Continue, Deliver, Effect, Key, Settled, Unsettled
from shoal.overlays.tid.messages import TreeId


class UnsettledDeliveries(NamedTuple):
    """Deliveries of a publication that came along these trees."""

    key: Key
    deliveries: Sequence[Deliver]
    trees: tuple[TreeId, ...]


class TidDeliveries:
    """`is_after_former` tests whether all publications along the tree before a tree have come."""

    def __init__(self, is_after_former: Callable[[TreeId], bool]) -> None:
        self._is_after_former = is_after_former
        self._waiting: list[UnsettledDeliveries] = []
        self._number = 0

    def has(self, tree: TreeId) -> bool:
        """Whether a delivery along a tree waits."""
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
        self._waiting.append(UnsettledDeliveries(key, deliveries, trees))
        out.append(Unsettled(key))

    def look(self, out: list[Effect]) -> None:
        """Trees have changed: make deliveries that need not wait any more, in their order."""
        while (each := self._first()) is not None:
            self._waiting.remove(each)
            out.append(Continue(each.key))
            out.extend(each.deliveries)
            out += [Settled(each.key), Continue(None)]

    def _first(self) -> UnsettledDeliveries | None:
        """The first that may go; along one tree none overtakes another."""
        before: set[TreeId] = set()
        for each in self._waiting:
            if before.isdisjoint(each.trees) and all(map(self._is_after_former, each.trees)):
                return each
            before.update(each.trees)
        return None
