"""What other neighbours than a row's last hop say of the same subscription.

A table has one last hop for each subscription.  But as links come and go a subscription may come
from two neighbours at once, and one of them has it from this very broker, or from one that is no
neighbour of its any more; who, only shows when that one takes it back.  So what either says is
remembered until it does: when the last hop takes back its own the other's word holds.

That is enough.  A neighbour says exactly what it does not have from here, so from broker to last
hop one never goes back; in a tree at rest such a walk ends at the client.

Nothing is remembered for ever.  What a neighbour says is remembered here exactly as long as it
counts this broker as told: so it takes it back, or is gone, or begins anew.  Where rows turn
without a word they are handed over (`contraction.py`); a
leaver, and the brokers of a cycle, must remember nothing then.
"""

from __future__ import annotations

from shoal.model import BrokerId, Subscription, SubscriptionId

Said = dict[BrokerId | None, Subscription]


class Hearsay:
    """One broker's: by subscription, who says so beside its last hop; None is a client here."""

    def __init__(self) -> None:
        self._said: dict[SubscriptionId, Said] = {}

    def __bool__(self) -> bool:
        return bool(self._said)

    def has(self, id: SubscriptionId, hop: BrokerId | None) -> bool:
        return hop in self._said.get(id, ())

    def add(self, subscription: Subscription, hop: BrokerId | None) -> None:
        """This one says so, too."""
        self._said.setdefault(subscription.id, {})[hop] = subscription

    def drop(self, id: SubscriptionId, hop: BrokerId | None) -> None:
        """It has taken that back."""
        said = self._said.get(id)
        if said is not None and said.pop(hop, None) is not None and not said:
            del self._said[id]

    def drop_all(self, hop: BrokerId) -> None:
        """The neighbour is gone, or begins anew."""
        for id in list(self._said):
            self.drop(id, hop)

    def rename(self, old: BrokerId, new: BrokerId) -> None:
        """What one neighbour said another says now, which has taken its place."""
        for said in self._said.values():
            if old in said:
                said[new] = said.pop(old)

    def take(self, id: SubscriptionId) -> tuple[Subscription, BrokerId | None] | None:
        """What holds now that the last hop has taken back its own: what was said first."""
        said = self._said.get(id)
        if said is None:
            return None
        hop, subscription = next(iter(said.items()))
        self.drop(id, hop)
        return subscription, hop

    def take_all(self, id: SubscriptionId) -> Said:
        """All that is said of it, which is forgotten here."""
        return self._said.pop(id, {})

    def put(self, id: SubscriptionId, said: Said) -> None:
        """Remember that again."""
        if said:
            self._said[id] = said
