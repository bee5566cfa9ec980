"""How a publisher changes from its tree to one made anew, without losing or overtaking anything.

| at | hears | does |
| --- | --- | --- |
| everybody | a tree in another's place | passes it on, binds, answers when all behind have |
| | the tree from who was told it too | nothing is behind that one |
| the root | all have answered | flushes the former tree, holds back what is published |
| everybody | Flush | passes it on along the tree, answers when all behind it have |
| | a copy that cannot go on, or that comes back from a lost link | sends it back to the root |
| the root | a copy that comes back | keeps it, unsettled |
| | all have answered | sends what has come back, then what was held back, along the new tree |

So nobody must remember what it has passed on.  Who is lost meanwhile answers no more: what was
unsettled there comes back first, and its links' end makes all trees anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from shoal.broker.custody import sent_before
from shoal.broker.effects import Effect, Key, Send, Unsettled
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId
from shoal.overlays.tid.messages import Flush, Flushed, TreeBound, TreeId
from shoal.overlays.tid.trees import Tree


class Waits(NamedTuple):
    """What waits at the root for the next tree; unsettled under `key`."""

    key: Key
    routed: RoutedPublication


class Awaited:
    """By tree: the neighbours that are to answer."""

    def __init__(self) -> None:
        self._of: dict[TreeId, set[BrokerId]] = {}

    def begin(self, tree: TreeId, neighbours: Iterable[BrokerId]) -> bool:
        """These were asked; whether there are none."""
        self._of[tree] = set(neighbours)
        return self._is_over(tree)

    def heard(self, tree: TreeId, *neighbours: BrokerId) -> bool:
        """These have answered, or never will; whether that was the last."""
        if tree not in self._of:
            return False
        self._of[tree].difference_update(neighbours)
        return self._is_over(tree)

    def _is_over(self, tree: TreeId) -> bool:
        if self._of[tree]:
            return False
        del self._of[tree]
        return True

    def forget(self, tree: TreeId) -> None:
        self._of.pop(tree, None)

    def __contains__(self, tree: TreeId) -> bool:
        return tree in self._of

    @property
    def trees(self) -> list[TreeId]:
        return list(self._of)


class Renewal:
    """One broker's part in it, for its own publishers' trees and for others'."""

    def __init__(self) -> None:
        self._bound = Awaited()
        self._flushed = Awaited()
        self._waiting: dict[ClientId, list[Waits]] = {}
        self._number = 0

    # --- who is bound to a tree ---------------------------------------------------------------

    def ask(self, tree: Tree, told: Iterable[BrokerId], out: list[Effect]) -> bool:
        """A tree that takes another's place was passed on; whether it is ours, and bound.

        Among those told may be such as will be: when they are linked, trees are made anew.
        """
        return self._bound.begin(tree.id, told) and self._answer(tree, TreeBound(tree.id), out)

    def hear_bound(self, tree: Tree, neighbour: BrokerId, out: list[Effect]) -> bool:
        """All behind a neighbour are bound, or it was told by others; as above."""
        is_over = self._bound.heard(tree.id, neighbour)
        return is_over and self._answer(tree, TreeBound(tree.id), out)

    def _answer(self, tree: Tree, answer: TreeBound | Flushed, out: list[Effect]) -> bool:
        if tree.last_hop is None:
            return True
        if tree.last_hop not in tree.broken:
            out.append(Send(tree.last_hop, answer))
        return False

    # --- what is on its way along a tree ------------------------------------------------------

    def flush(self, tree: Tree, out: list[Effect]) -> bool:
        """Send a flush along a tree; whether it is ours, and nothing is under way."""
        hops = tree.hops
        out += [Send(hop, Flush(tree.id)) for hop in hops]
        return self._flushed.begin(tree.id, hops) and self._answer(tree, Flushed(tree.id), out)

    def hear_flushed(self, tree: Tree, neighbour: BrokerId, out: list[Effect]) -> bool:
        """As above."""
        is_over = self._flushed.heard(tree.id, neighbour)
        return is_over and self._answer(tree, Flushed(tree.id), out)

    @property
    def flushed_trees(self) -> list[TreeId]:
        """Those along which a flush is under way."""
        return self._flushed.trees

    def hear_broken(self, tree: Tree, out: list[Effect]) -> bool:
        """Who is behind lost links answers no more; as above."""
        is_over = self._flushed.heard(tree.id, *tree.broken)
        return is_over and self._answer(tree, Flushed(tree.id), out)

    def forget(self, tree: TreeId) -> None:
        """A tree is no more."""
        self._bound.forget(tree)
        self._flushed.forget(tree)

    # --- what waits for the next tree ---------------------------------------------------------

    def keep(
        self,
        client: ClientId,
        publications: Iterable[RoutedPublication],
        out: list[Effect],
        *,
        is_sent: bool,
    ) -> None:
        """Keep a publisher's publications; `is_sent` if they may have arrived somewhere."""
        self._number += 1
        key = ("waits", str(self._number))
        out.append(Unsettled(key))
        kept = [sent_before(each) if is_sent else each for each in publications]
        self._waiting.setdefault(client, []).extend(Waits(key, each) for each in kept)

    def take(self, client: ClientId) -> list[Waits]:
        """What waits, in the order in which it was published."""
        waiting = self._waiting.pop(client, [])
        return sorted(waiting, key=lambda each: each.routed.publication.sequence)

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))
