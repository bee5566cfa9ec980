"""A broker's routing table: advertisements (SRT) and subscriptions (PRT) with their last hops.

A last hop is the neighbour an entry came from, or None when its client is attached here.  A
subscription's entry also knows to which neighbours it was forwarded, so that it can be taken
back from exactly those.  Entries that overlap know each other, so that a change touches only
what it concerns.  The publication index holds every subscription's filter under its entry, so a
match yields the entries themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shoal.broker.overlap_candidates import OverlapCandidates
from shoal.matching import MatchIndex, overlaps
from shoal.model import (
    Advertisement,
    AdvertisementId,
    Attributes,
    BrokerId,
    Subscription,
    SubscriptionId,
)


class AdvertisementEntry:
    """One row of the SRT, with the rows of the PRT that overlap it, oldest first.

    `moves` counts the publisher's moves as far as this broker knows.  `has_turned` says whether
    the row ever had another last hop, `turned_us` when a move passed and turned it.  An `adopted`
    row is kept for a publisher beyond a broken link, and gives way to any copy from there.
    """

    __slots__ = (
        "adopted",
        "advertisement",
        "has_turned",
        "last_hop",
        "moves",
        "overlapping",
        "turned_us",
    )

    def __init__(self, advertisement: Advertisement, last_hop: BrokerId | None, moves: int) -> None:
        self.advertisement = advertisement
        self.last_hop = last_hop
        self.moves = moves
        self.has_turned = False
        self.adopted = False
        self.turned_us: int | None = None
        self.overlapping: dict[SubscriptionEntry, None] = {}

    @property
    def rank(self) -> int:
        """Words about the advertisement that count more moves than this are newer."""
        return self.moves - self.adopted


class SubscriptionEntry:
    """One row of the PRT, with the rows of the SRT that overlap it.

    Hashed by identity, as it is its own key in the index.
    """

    __slots__ = (
        "client",
        "forwarded_to",
        "id",
        "last_hop",
        "overlapping",
        "subscription",
    )

    def __init__(self, subscription: Subscription, last_hop: BrokerId | None) -> None:
        self.subscription = subscription
        self.id = subscription.id
        self.client = subscription.client
        self.last_hop = last_hop
        self.forwarded_to: set[BrokerId] = set()
        self.overlapping: dict[AdvertisementEntry, None] = {}

    def is_wanted_by(self, hop: BrokerId) -> bool:
        """Whether an advertisement from this neighbour asks for the subscription."""
        return any(row.last_hop == hop for row in self.overlapping)


class RoutingTable:
    """SRT and PRT of one broker."""

    def __init__(self) -> None:
        self.advertisements: dict[AdvertisementId, AdvertisementEntry] = {}
        self.subscriptions: dict[SubscriptionId, SubscriptionEntry] = {}
        self._index = MatchIndex()
        self._rows: OverlapCandidates[AdvertisementEntry] = OverlapCandidates()
        self._entries: OverlapCandidates[SubscriptionEntry] = OverlapCandidates()
        # The entries whose filters match attributes, in an order that depends on history only;
        # and those for each of several publications.
        self.match: Callable[[Attributes], list[SubscriptionEntry]] = self._index.match
        self.match_each: Callable[[Sequence[Attributes]], list[list[SubscriptionEntry]]] = (
            self._index.match_each
        )

    @property
    def sizes(self) -> dict[str, int]:
        """How many rows it has of each kind."""
        return {
            "subscriptions": len(self.subscriptions),
            "advertisements": len(self.advertisements),
        }

    def add_advertisement(
        self, advertisement: Advertisement, last_hop: BrokerId | None, moves: int = 0
    ) -> AdvertisementEntry:
        """Store an advertisement whose id is not in the table."""
        row = AdvertisementEntry(advertisement, last_hop, moves)
        self.advertisements[advertisement.id] = row
        self._rows.add(row, advertisement.filter)
        for entry in self._entries.of(advertisement.filter):
            _meet(row, entry)
        return row

    def remove_advertisement(self, row: AdvertisementEntry) -> None:
        del self.advertisements[row.advertisement.id]
        self._rows.remove(row, row.advertisement.filter)
        for entry in row.overlapping:
            del entry.overlapping[row]

    def add_subscription(
        self, subscription: Subscription, last_hop: BrokerId | None
    ) -> SubscriptionEntry:
        """Store a subscription whose id is not in the table."""
        entry = SubscriptionEntry(subscription, last_hop)
        self.subscriptions[entry.id] = entry
        self._index.add(entry, subscription.filter)
        self._entries.add(entry, subscription.filter)
        for row in self._rows.of(subscription.filter):
            _meet(row, entry)
        return entry

    def remove_subscription(self, entry: SubscriptionEntry) -> None:
        del self.subscriptions[entry.id]
        self._index.remove(entry)
        self._entries.remove(entry, entry.subscription.filter)
        for row in entry.overlapping:
            del row.overlapping[entry]


def _meet(row: AdvertisementEntry, entry: SubscriptionEntry) -> None:
    if overlaps(entry.subscription.filter, row.advertisement.filter):
        row.overlapping[entry] = None
        entry.overlapping[row] = None
