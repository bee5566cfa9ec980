"""The trees of one broker's own publishers: planted, made anew, changed for the next.

A publisher has one tree, and while links change a next one.  It goes on along that when all are
bound to it and nothing is on its way along the former; see `renewal.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shoal.broker.custody import sent_before
from shoal.broker.effects import Continue, Effect, Settled
from shoal.broker.messages import RoutedPublication
from shoal.model import Advertisement, AdvertisementId, BrokerId, ClientId
from shoal.overlays.tid.messages import TreeChange, TreeId
from shoal.overlays.tid.renewal import Renewal
from shoal.overlays.tid.trees import Tree, Trees

Publications = tuple[RoutedPublication, ...]


class OwnTrees:
    """`say` tells everybody of a change of a tree, `begin` lets publications go along one."""

    def __init__(
        self,
        broker: BrokerId,
        trees: Trees,
        renewal: Renewal,
        say: Callable[[TreeChange, list[Effect]], None],
        begin: Callable[[Publications, TreeId, list[Effect]], None],
    ) -> None:
        # Of trees, so that none is named like another, also in an earlier life.
        self.made = 0
        self._broker = broker
        self._trees = trees
        self._renewal = renewal
        self._tell = say
        self._begin = begin
        # By publisher: the tree it publishes along, and the one that takes its place.
        self._own: dict[ClientId, Tree] = {}
        self._next: dict[ClientId, Tree] = {}
        # Whether nothing is on its way along the tree of who changes.
        self._changing: dict[ClientId, bool] = {}
        self._bound: set[TreeId] = set()

    @property
    def is_changing(self) -> bool:
        """Whether some publisher has a next tree."""
        return bool(self._next)

    def publish(self, client: ClientId, publications: Publications, out: list[Effect]) -> None:
        """Publications go along their publisher's tree, or wait for the next."""
        if client in self._changing:
            self._renewal.keep(client, publications, out, is_sent=False)
        else:
            self._begin(publications, self._own[client].id, out)

    # --- advertisements -----------------------------------------------------------------------

    def advertise(self, client: ClientId, advertisement: Advertisement, out: list[Effect]) -> None:
        """A publisher promises something."""
        if client not in self._own:
            self._own[client] = self._plant(client)
        for tree in self._of(client):
            self._say(tree, (advertisement,), (), out)

    def unadvertise(
        self, client: ClientId, ids: tuple[AdvertisementId, ...], out: list[Effect]
    ) -> None:
        """It does not any more."""
        for tree in self._of(client) if ids else ():
            self._say(tree, (), ids, out)

    def forget(self, client: ClientId, out: list[Effect]) -> None:
        """It promises nothing any more: nobody knows who would want what waits."""
        for rows in (self._own, self._next, self._changing):
            rows.pop(client, None)
        out += [Settled(each.key) for each in self._renewal.take(client)]

    def _of(self, client: ClientId) -> list[Tree]:
        return [trees[client] for trees in (self._own, self._next) if client in trees]

    def _plant(self, client: ClientId) -> Tree:
        self.made += 1
        id = f"{self._broker}/{client}/{self.made}"
        tree = self._trees.all[id] = Tree(id, None)
        return tree

    def _client_of(self, tree: Tree) -> ClientId:
        return tree.id[len(self._broker) + 1 :].rpartition("/")[0]

    def _say(
        self,
        tree: Tree,
        added: tuple[Advertisement, ...],
        removed: tuple[AdvertisementId, ...],
        out: list[Effect],
        *,
        is_asked: bool = False,
    ) -> None:
        self._tell(TreeChange(tree.id, tree.version + 1, added, removed, is_asked), out)

    # --- trees made anew ----------------------------------------------------------------------

    def renew(self, advertisements: Iterable[Advertisement], out: list[Effect]) -> None:
        """Links have changed: plant a tree for each publisher, in place of what it has."""
        for client in self._own:
            former = self._next.pop(client, None)
            if former is not None:
                self._bound.discard(former.id)
                self._say(former, (), tuple(former.advertisements), out)
            tree = self._next[client] = self._plant(client)
            mine = tuple(each for each in advertisements if each.publisher == client)
            self._say(tree, mine, (), out, is_asked=True)

    def begin_change(self, tree: Tree, out: list[Effect]) -> None:
        """All are bound to a tree: flush the one whose place it takes, if it is not yet."""
        client = self._client_of(tree)
        if self._next.get(client) is not tree:
            return
        self._bound.add(tree.id)
        former = self._own[client]
        if client not in self._changing:
            self._changing[client] = self._renewal.flush(former, out)
        if self._changing[client]:
            self.change(former, out)

    def change(self, former: Tree, out: list[Effect]) -> None:
        """Nothing is on its way along a tree: go on along the next, once all are bound to it."""
        client = self._client_of(former)
        if self._own.get(client) is not former or client not in self._changing:
            return
        self._changing[client] = True
        tree = self._next.get(client)
        if tree is None or tree.id not in self._bound:
            return
        self._bound.discard(tree.id)
        del self._next[client], self._changing[client]
        self._own[client] = tree
        self._send_waiting(client, tree, out)
        self._say(former, (), tuple(former.advertisements), out)

    def _send_waiting(self, client: ClientId, tree: Tree, out: list[Effect]) -> None:
        waiting = self._renewal.take(client)
        last = -1
        for key, routed in waiting:
            if routed.publication.sequence != last:
                last = routed.publication.sequence
                out.append(Continue(key))
                self._begin((routed,), tree.id, out)
        out += [Settled(key) for key in dict.fromkeys(each.key for each in waiting)]
        if waiting:
            out.append(Continue(None))

    def take_back(self, tree: Tree, publications: Publications, out: list[Effect]) -> None:
        """Publications have come back to the root of a tree: they wait for the next.

        Along a tree that is no more, which only who changes trees on the way can bring about,
        they came too late for that.
        """
        client = self._client_of(tree)
        own = self._own.get(client)
        if own is tree or client in self._changing:
            self._renewal.keep(client, publications, out, is_sent=True)
        elif own is not None:
            self._begin(tuple(map(sent_before, publications)), own.id, out)
