"""Alternate routes: neighbours other than the last hop that announced the same subscription.

A table has one last hop for each subscription. While links come and go, a subscription may come
from two neighbours at once. One of them has it from this very broker, or from a broker that is not
its neighbour any more, which shows only when that neighbour retracts it. So both announcements are
kept until then: when the last hop retracts its own, the alternate route takes its place.

A neighbour announces exactly the subscriptions that it does not have from here, so a walk from last
hop to last hop never goes back; in a tree at rest it ends at the client.

An alternate route lasts exactly as long as the neighbour counts this broker as informed: it
retracts the subscription, or is dead, or restarts. When rows turn silently, alternate routes are
handed over (`contraction.py`); a leaving broker, and the brokers of a cycle, must have none then.
"""

from __future__ import annotations

from shoal.model import BrokerId, Subscription, SubscriptionId

Alternates = dict[BrokerId | None, Subscription]


class AlternateRoutes:
    """The alternate routes of one broker, by subscription; None stands for a client here."""

    def __init__(self) -> None:
        self._alternates: dict[SubscriptionId, Alternates] = {}

    def __bool__(self) -> bool:
        return bool(self._alternates)

    def has(self, id: SubscriptionId, hop: BrokerId | None) -> bool:
        return hop in self._alternates.get(id, ())

    def add(self, subscription: Subscription, hop: BrokerId | None) -> None:
        """Remember that this neighbour, too, announced the subscription."""
        self._alternates.setdefault(subscription.id, {})[hop] = subscription

    def drop(self, id: SubscriptionId, hop: BrokerId | None) -> None:
        """The neighbour has retracted the subscription."""
        said = self._alternates.get(id)
        if said is not None and said.pop(hop, None) is not None and not said:
            del self._alternates[id]

    def drop_all(self, hop: BrokerId) -> None:
        """The neighbour is dead, or restarts."""
        for id in list(self._alternates):
            self.drop(id, hop)

    def rename(self, old: BrokerId, new: BrokerId) -> None:
        """One neighbour has taken another's place, and its announcements."""
        for said in self._alternates.values():
            if old in said:
                said[new] = said.pop(old)

    def take(self, id: SubscriptionId) -> tuple[Subscription, BrokerId | None] | None:
        """Take the oldest alternate route, after the last hop has retracted the subscription."""
        said = self._alternates.get(id)
        if said is None:
            return None
        hop, subscription = next(iter(said.items()))
        self.drop(id, hop)
        return subscription, hop

    def take_all(self, id: SubscriptionId) -> Alternates:
        """Remove and return all alternate routes of a subscription."""
        return self._alternates.pop(id, {})

    def put(self, id: SubscriptionId, said: Alternates) -> None:
        """Put back routes that `take_all` has removed."""
        if said:
            self._alternates[id] = said
