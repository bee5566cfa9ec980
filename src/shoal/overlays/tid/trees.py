"""The trees that one broker knows, and which subscriptions are bound to each.

>>> from shoal.language import parse
>>> trees = Trees()
>>> promise = Advertisement(id="a", publisher="P", filter=parse("x > 3"))
>>> tree = trees.grow("B1/P/0", "B2", 1, [promise], [])
>>> trees.bind(tree, Subscription(id="s", client="S", filter=parse("x < 9")), "B3")
True
>>> [(entry.subscription.id, entry.hop) for entry in tree.entries.values()]
[('s', 'B3')]
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable

from shoal.matching import MatchIndex, Work, overlaps
from shoal.model import (
    Advertisement,
    AdvertisementId,
    BrokerId,
    Subscription,
    SubscriptionId,
)
from shoal.overlays.tid.messages import TreeId

# Trees along which nothing is advertised any more whose names are known: longer than words travel.
MAX_FALLEN = 1_000
# The version of the last word about a tree: nothing that its root has said comes after it.
LAST_VERSION = 2**62


class Entry:
    """A subscription bound to a tree, and where it came from; None: its client is here."""

    __slots__ = ("hop", "subscription", "tree")

    def __init__(self, tree: Tree, subscription: Subscription, hop: BrokerId | None) -> None:
        self.tree = tree
        self.subscription = subscription
        self.hop = hop


class Tree:
    """One tree: the way to its root, None here, what is advertised along it, who is bound.

    `former` is the tree whose place it takes.
    """

    __slots__ = ("advertisements", "bound", "entries", "former", "id", "last_hop", "version")

    def __init__(self, id: TreeId, last_hop: BrokerId | None, former: TreeId = "") -> None:
        self.id = id
        self.last_hop = last_hop
        self.former = former
        self.version = 0
        self.advertisements: dict[AdvertisementId, Advertisement] = {}
        self.entries: dict[tuple[SubscriptionId, BrokerId | None], Entry] = {}
        # From how many sides each is bound.
        self.bound: Counter[SubscriptionId] = Counter()

    def wants(self, subscription: Subscription, work: Work) -> bool:
        """Whether something that is advertised may overlap a subscription: yes if work is spent."""
        promised = self.advertisements.values()
        return any(overlaps(subscription.filter, each.filter, work) for each in promised)

    def is_bound(self, id: SubscriptionId) -> bool:
        return id in self.bound


class Trees:
    """All trees at one broker, and every binding's filter."""

    def __init__(self) -> None:
        self.all: dict[TreeId, Tree] = {}
        self.index = MatchIndex()
        self._fallen: OrderedDict[TreeId, None] = OrderedDict()
        # The bindings of a subscription, to look for another tree.
        self._by_subscription: dict[SubscriptionId, dict[Entry, None]] = {}

    def grow(
        self,
        id: TreeId,
        hop: BrokerId | None,
        version: int,
        added: Iterable[Advertisement],
        removed: Iterable[AdvertisementId],
        former: TreeId = "",
    ) -> Tree | None:
        """Take in a change; None when it is known, or comes from elsewhere than the root's way."""
        tree = self.all.get(id)
        if tree is None:
            tree = self.all[id] = Tree(id, hop, former)
        if version <= tree.version or hop != tree.last_hop:
            return None
        tree.version = version
        self._fallen.pop(id, None)
        for each in removed:
            tree.advertisements.pop(each, None)
        for promise in added:
            tree.advertisements[promise.id] = promise
        return tree

    def over(self, neighbour: BrokerId) -> list[Tree]:
        """The trees whose way to the root leads over a neighbour."""
        return [
            each
            for each in self.all.values()
            if each.last_hop == neighbour and each.version < LAST_VERSION
        ]

    def is_over(self, id: TreeId) -> bool:
        """Whether nothing comes along a tree any more."""
        tree = self.all.get(id)
        return tree is None or not tree.advertisements

    def fell(self, tree: Tree) -> None:
        """Forget who was bound to a tree along which nothing is advertised any more.

        Its name and version stay known: what is still on its way must not make it grow again.
        """
        for entry in list(tree.entries.values()):
            self._remove(entry)
        self._fallen[tree.id] = None
        if len(self._fallen) > MAX_FALLEN:
            oldest, _ = self._fallen.popitem(last=False)
            self.all.pop(oldest, None)

    def bind(self, tree: Tree, subscription: Subscription, hop: BrokerId | None) -> bool:
        """Bind a subscription, in place of the one with its id; whether nobody bound it before."""
        is_new = not tree.is_bound(subscription.id)
        known = tree.entries.get((subscription.id, hop))
        if known is not None:
            if known.subscription == subscription:
                return False
            self._remove(known)
            is_new = True
        entry = Entry(tree, subscription, hop)
        tree.entries[subscription.id, hop] = entry
        tree.bound[subscription.id] += 1
        self._by_subscription.setdefault(subscription.id, {})[entry] = None
        self.index.add(entry, subscription.filter)
        return is_new

    def unbind(self, tree: Tree, id: SubscriptionId, hop: BrokerId | None) -> bool:
        """Forget a binding; whether the subscription was bound and is no longer."""
        entry = tree.entries.get((id, hop))
        if entry is None:
            return False
        self._remove(entry)
        return not tree.is_bound(id)

    def _remove(self, entry: Entry) -> None:
        id, tree = entry.subscription.id, entry.tree
        del tree.entries[id, entry.hop]
        tree.bound[id] -= 1
        if not tree.bound[id]:
            del tree.bound[id]
        self.index.remove(entry)
        del self._by_subscription[id][entry]
        if not self._by_subscription[id]:
            del self._by_subscription[id]

    def others(self, entry: Entry) -> Iterable[Entry]:
        """The bindings of the same subscription to any tree, this one included."""
        return self._by_subscription[entry.subscription.id]
