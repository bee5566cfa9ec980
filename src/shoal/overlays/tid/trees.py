"""The trees that one broker knows, and the subscriptions bound to each.

>>> from shoal.language import parse
>>> trees = SourceTrees()
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

# The most remembered names of trees without advertisements: longer than messages are in transit.
MAX_FALLEN = 1_000
# The version of the last message about a tree, higher than any of its root's.
LAST_VERSION = 2**62


class TreeEntry:
    """A subscription bound to a tree, and where it came from; None: its client is here."""

    __slots__ = ("hop", "subscription", "tree")

    def __init__(self, tree: SourceTree, subscription: Subscription, hop: BrokerId | None) -> None:
        self.tree = tree
        self.subscription = subscription
        self.hop = hop


class SourceTree:
    """One tree: the way to its root (None here), its advertisements, and its bindings.

    `former` is the tree that it replaces. `told` are the neighbours that this broker has announced
    it to: they alone get its changes. A neighbour takes its way to the root from the first message
    about a tree, so that must be an announcement.
    """

    __slots__ = (
        "advertisements",
        "bound",
        "entries",
        "former",
        "id",
        "last_hop",
        "told",
        "version",
    )

    def __init__(self, id: TreeId, last_hop: BrokerId | None, former: TreeId = "") -> None:
        self.id = id
        self.last_hop = last_hop
        self.former = former
        self.version = 0
        self.told: dict[BrokerId, None] = {}
        self.advertisements: dict[AdvertisementId, Advertisement] = {}
        self.entries: dict[tuple[SubscriptionId, BrokerId | None], TreeEntry] = {}
        # From how many sides each is bound.
        self.bound: Counter[SubscriptionId] = Counter()

    def wants(self, subscription: Subscription, work: Work) -> bool:
        """Whether a subscription may overlap an advertisement; yes beyond the work bound."""
        promised = self.advertisements.values()
        return any(overlaps(subscription.filter, each.filter, work) for each in promised)

    def is_bound(self, id: SubscriptionId) -> bool:
        return id in self.bound


class SourceTrees:
    """All trees at one broker, and every binding's filter."""

    def __init__(self) -> None:
        self.all: dict[TreeId, SourceTree] = {}
        self.index = MatchIndex()
        self._fallen: OrderedDict[TreeId, None] = OrderedDict()
        # The bindings of a subscription, to look for another tree.
        self._by_subscription: dict[SubscriptionId, dict[TreeEntry, None]] = {}

    def grow(
        self,
        id: TreeId,
        hop: BrokerId | None,
        version: int,
        added: Iterable[Advertisement],
        removed: Iterable[AdvertisementId],
        former: TreeId = "",
    ) -> SourceTree | None:
        """Apply a change.

        None when it is known, or comes from another neighbour than the root's way.
        """
        tree = self.all.get(id)
        if tree is None:
            tree = self.all[id] = SourceTree(id, hop, former)
        if version <= tree.version or hop != tree.last_hop:
            return None
        tree.version = version
        self._fallen.pop(id, None)
        for each in removed:
            tree.advertisements.pop(each, None)
        for promise in added:
            tree.advertisements[promise.id] = promise
        return tree

    def over(self, neighbour: BrokerId) -> list[SourceTree]:
        """The trees with a way to the root over a neighbour."""
        return [
            each
            for each in self.all.values()
            if each.last_hop == neighbour and each.version < LAST_VERSION
        ]

    def is_over(self, id: TreeId) -> bool:
        """Whether no publication comes along a tree any more."""
        tree = self.all.get(id)
        return tree is None or not tree.advertisements

    def fell(self, tree: SourceTree) -> None:
        """Forget the bindings of a tree without advertisements.

        Its name and version stay known: a message in transit must not make it grow again.
        """
        for entry in list(tree.entries.values()):
            self._remove(entry)
        self._fallen[tree.id] = None
        if len(self._fallen) > MAX_FALLEN:
            oldest, _ = self._fallen.popitem(last=False)
            self.all.pop(oldest, None)

    def bind(self, tree: SourceTree, subscription: Subscription, hop: BrokerId | None) -> bool:
        """Bind a subscription, in place of the one with its id.

        Returns whether it is the first binding.
        """
        is_new = not tree.is_bound(subscription.id)
        known = tree.entries.get((subscription.id, hop))
        if known is not None:
            if known.subscription == subscription:
                return False
            self._remove(known)
            is_new = True
        entry = TreeEntry(tree, subscription, hop)
        tree.entries[subscription.id, hop] = entry
        tree.bound[subscription.id] += 1
        self._by_subscription.setdefault(subscription.id, {})[entry] = None
        self.index.add(entry, subscription.filter)
        return is_new

    def unbind(self, tree: SourceTree, id: SubscriptionId, hop: BrokerId | None) -> bool:
        """Remove a binding; returns whether it was the subscription's last."""
        entry = tree.entries.get((id, hop))
        if entry is None:
            return False
        self._remove(entry)
        return not tree.is_bound(id)

    def _remove(self, entry: TreeEntry) -> None:
        id, tree = entry.subscription.id, entry.tree
        del tree.entries[id, entry.hop]
        tree.bound[id] -= 1
        if not tree.bound[id]:
            del tree.bound[id]
        self.index.remove(entry)
        del self._by_subscription[id][entry]
        if not self._by_subscription[id]:
            del self._by_subscription[id]

    def others(self, entry: TreeEntry) -> Iterable[TreeEntry]:
        """The bindings of the same subscription to any tree, this one included."""
        return self._by_subscription[entry.subscription.id]
