"""Rows of a broker's routing table: advertised filters, advertisements, subscriptions.

Rows refer to each other, so that a change touches only related ones. Most filters have one
advertisement, and most advertisements one last hop: a broker may have a million rows, so these take
no collections of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from shoal.groups import Groups
from shoal.model import Advertisement, BrokerId, Filter, Subscription
from shoal.overlays.merging import NOBODY

NO_OTHERS: Mapping[BrokerId, int] = {}


class AdvertisedFilter:
    """An advertised filter, its advertisements, and the rows of the PRT that overlap it.

    `overlapping` is oldest first.
    """

    __slots__ = ("_by_hop", "filter", "overlapping")

    def __init__(self, filter: Filter) -> None:
        self.filter = filter
        # The only row, or all by last hop.
        self._by_hop: AdvertisementEntry | Groups[BrokerId | None, AdvertisementEntry] | None = None
        self.overlapping: dict[SubscriptionEntry, None] = {}

    @property
    def is_advertised(self) -> bool:
        """Whether an advertisement has this filter."""
        return self._by_hop is not None

    @property
    def hops(self) -> Collection[BrokerId | None]:
        """The last hops of its advertisements."""
        rows = self._by_hop
        if isinstance(rows, Groups):
            return rows.keys
        return () if rows is None else (rows.last_hop,)

    def add(self, row: AdvertisementEntry) -> None:
        """Add an advertisement with this filter."""
        rows = self._by_hop
        if rows is None:
            self._by_hop = row
            return
        if not isinstance(rows, Groups):
            only, rows = rows, Groups()
            rows.add(only.last_hop, only)
            self._by_hop = rows
        rows.add(row.last_hop, row)

    def remove(self, row: AdvertisementEntry) -> None:
        """Remove an advertisement with this filter."""
        rows = self._by_hop
        if isinstance(rows, Groups):
            rows.remove(row.last_hop, row)
        if rows is row or not self.hops:
            self._by_hop = None

    def is_beyond(self, hop: BrokerId) -> bool:
        """Whether an advertisement with this filter has another last hop than this neighbour."""
        return len(self.hops) > (hop in self.hops)


class AdvertisementEntry:
    """One row of the SRT.

    `moves` counts the publisher's moves as far as this broker knows. `has_turned` is true if the
    row ever had another last hop; `turned_us` is when a move turned it. An `adopted` row is kept
    for a publisher beyond a broken link, and gives way to any copy from there. `others` has the
    neighbours that announced the same as their links came up, and the moves they count. Rows are
    numbered in the order of their table. Only the table changes `last_hop`.
    """

    __slots__ = (
        "adopted",
        "advertised",
        "advertisement",
        "has_turned",
        "last_hop",
        "moves",
        "number",
        "others",
        "turned_us",
    )

    def __init__(
        self,
        advertisement: Advertisement,
        last_hop: BrokerId | None,
        moves: int,
        advertised: AdvertisedFilter,
        number: int,
    ) -> None:
        self.advertisement = advertisement
        self.last_hop = last_hop
        self.number = number
        self.moves = moves
        self.advertised = advertised
        self.has_turned = False
        self.adopted = False
        self.turned_us: int | None = None
        self.others = NO_OTHERS
        advertised.add(self)

    @property
    def overlapping(self) -> Collection[SubscriptionEntry]:
        """The rows of the PRT that overlap it, oldest first."""
        return self.advertised.overlapping

    def also_from(self, hop: BrokerId, moves: int) -> None:
        """A neighbour has announced the same."""
        self.others = {**self.others, hop: moves}

    def not_from(self, hop: BrokerId | None) -> None:
        """Forget what a neighbour announced beside the last hop, if it did."""
        if hop in self.others:
            left = {each: moves for each, moves in self.others.items() if each != hop}
            self.others = left or NO_OTHERS

    @property
    def rank(self) -> int:
        """Announcements of the advertisement that count more moves than this are newer."""
        return self.moves - self.adopted


class SubscriptionEntry:
    """One row of the PRT, with the filters in the SRT that overlap it.

    Hashed by identity, as it is its own key in the index.  Only the table changes `forwarded_to`.
    """

    __slots__ = (
        "advertised",
        "client",
        "forwarded_to",
        "id",
        "last_hop",
        "number",
        "subscription",
    )

    def __init__(self, subscription: Subscription, last_hop: BrokerId | None, number: int) -> None:
        self.subscription = subscription
        self.number = number
        self.id = subscription.id
        self.client = subscription.client
        self.last_hop = last_hop
        # A dict, as a set takes more memory.
        self.forwarded_to: dict[BrokerId, None] = {}
        self.advertised: dict[AdvertisedFilter, None] = {}

    @property
    def is_routed(self) -> bool:
        """Whether it takes part in routing; unions do not, their parts do."""
        return self.last_hop is not None or self.client != NOBODY

    def was_forwarded_to(self, hop: BrokerId) -> bool:
        """Whether it was forwarded to this neighbour."""
        return hop in self.forwarded_to

    def is_wanted_by(self, hop: BrokerId) -> bool:
        """Whether it overlaps an advertisement from this neighbour."""
        return any(hop in advertised.hops for advertised in self.advertised)

    def is_wanted_beyond(self, hop: BrokerId) -> bool:
        """Whether it overlaps an advertisement from anywhere but this neighbour."""
        return any(advertised.is_beyond(hop) for advertised in self.advertised)

    @property
    def wanting(self) -> Collection[BrokerId | None]:
        """The last hops of the advertisements that it overlaps."""
        return {hop for advertised in self.advertised for hop in advertised.hops}
