"""A broker's routing table: advertisements (SRT) and subscriptions (PRT) with their last hops.

A last hop is the neighbour an entry came from, or None when its client is attached here.  A
subscription's entry also knows to which neighbours it was forwarded, so that it can be taken
back from exactly those.  The publication index holds every subscription's filter under its
entry, so a match yields the entries themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from shoal.matching import MatchIndex
from shoal.model import (
    Advertisement,
    AdvertisementId,
    Attributes,
    BrokerId,
    Subscription,
    SubscriptionId,
)


class AdvertisementEntry:
    """One row of the SRT."""

    __slots__ = ("advertisement", "last_hop")

    def __init__(self, advertisement: Advertisement, last_hop: BrokerId | None) -> None:
        self.advertisement = advertisement
        self.last_hop = last_hop


class SubscriptionEntry:
    """One row of the PRT; hashed by identity, as it is its own key in the index."""

    __slots__ = ("client", "forwarded_to", "id", "ids", "last_hop", "subscription")

    def __init__(self, subscription: Subscription, last_hop: BrokerId | None) -> None:
        self.subscription = subscription
        self.id = subscription.id
        self.ids = (subscription.id,)  # as a delivery names it, made once
        self.client = subscription.client
        self.last_hop = last_hop
        self.forwarded_to: set[BrokerId] = set()


class RoutingTable:
    """SRT and PRT of one broker."""

    def __init__(self) -> None:
        self.advertisements: dict[AdvertisementId, AdvertisementEntry] = {}
        self.subscriptions: dict[SubscriptionId, SubscriptionEntry] = {}
        self._index = MatchIndex()
        # The entries whose filters match attributes, in an order that depends on history only.
        self.match: Callable[[Attributes], list[SubscriptionEntry]] = self._index.match

    def add_subscription(
        self, subscription: Subscription, last_hop: BrokerId | None
    ) -> SubscriptionEntry:
        """Store a subscription whose id is not in the table."""
        entry = SubscriptionEntry(subscription, last_hop)
        self.subscriptions[entry.id] = entry
        self._index.add(entry, subscription.filter)
        return entry

    def remove_subscription(self, entry: SubscriptionEntry) -> None:
        del self.subscriptions[entry.id]
        self._index.remove(entry)

    def advertisements_from(self, hop: BrokerId | None) -> Iterator[AdvertisementEntry]:
        """The rows with this last hop, oldest first."""
        return (entry for entry in self.advertisements.values() if entry.last_hop == hop)
