"""A broker's routing table: advertisements (SRT) and subscriptions (PRT) with their last hops.

A last hop is the neighbour an entry came from, or None when its client is attached here. A
subscription's entry also has the neighbours to which it was forwarded, so that it can be retracted
from exactly those. With covering (`subscription_forwarding.py`) the table has a covering set for
each neighbour. Rows are also indexed by the neighbour they came from and were forwarded to, so that
the cost of a link change does not depend on the other rows.

Advertised filters and overlapping subscriptions refer to each other, so that a change touches only
related rows; many advertisements may have one filter, such as those of front ends for all topics.
Overlap tests have bounded work, as filters come from untrusted clients: beyond the bound an entry
counts as overlapping all remaining filters whose bounds meet its own (`OverlapCandidates`). That is
exact for comparisons, and a superset for patterns. `routes` holds every subscription's filter under
its entry, and makes one route of the entries that match.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import count
from operator import attrgetter
from typing import TypeVar

from shoal.groups import Groups
from shoal.matching import (
    CoveringSet,
    Outcomes,
    OutcomesFactory,
    Work,
    overlaps,
    prepare,
)
from shoal.matching.relations.overlap_candidates import OverlapCandidates
from shoal.model import (
    Advertisement,
    AdvertisementId,
    BrokerId,
    ClientId,
    Filter,
    Subscription,
    SubscriptionId,
)
from shoal.overlays.merging import OwnMerging
from shoal.overlays.tree.routes import Route, route_of, size_of
from shoal.overlays.tree.routing_rows import (
    AdvertisedFilter,
    AdvertisementEntry,
    SubscriptionEntry,
)

# Work bound of the overlap tests for one new row, whatever the table's size: some 25 ms, and one
# pair.
MOST_WORK = 30_000
# A row covers at most this many others, as they are all sent at once when it is removed.
MOST_COVERED = 256


class RoutingTable:
    """SRT and PRT of one broker.

    `routes` maps a publication's attributes to its route. `wanted` has, with `covering`, a covering
    set for each neighbour. With `merging`, unions of local subscriptions are rows beside these.
    """

    def __init__(
        self,
        *,
        covering: bool = False,
        merging: OwnMerging | None = None,
        outcomes: OutcomesFactory = Outcomes,
    ) -> None:
        self.merging = merging
        self.advertisements: dict[AdvertisementId, AdvertisementEntry] = {}
        self.subscriptions: dict[SubscriptionId, SubscriptionEntry] = {}
        # The number of subscriptions with a pace.
        self.paced = 0
        # The advertisements of each publisher, and the subscriptions of each attached client.
        self.published: Groups[ClientId, AdvertisementId] = Groups()
        self.local: Groups[ClientId, SubscriptionId] = Groups()
        # By neighbour: rows that came from it, and rows that were forwarded to it.
        self._advertised_from: Groups[BrokerId, AdvertisementId] = Groups()
        self._subscribed_from: Groups[BrokerId, SubscriptionId] = Groups()
        self._forwarded: Groups[BrokerId, SubscriptionId] = Groups()
        self._numbers = count()
        self.routes: Outcomes[Route] = outcomes(route_of, size_of)
        self.wanted: dict[BrokerId, CoveringSet[SubscriptionId]] | None = {} if covering else None
        self._advertised: dict[Filter, AdvertisedFilter] = {}
        self._candidates: OverlapCandidates[AdvertisedFilter] = OverlapCandidates()
        self._entries: OverlapCandidates[SubscriptionEntry] = OverlapCandidates()

    @property
    def sizes(self) -> dict[str, int]:
        """Number of rows of each kind."""
        return {
            "subscriptions": len(self.subscriptions),
            "advertisements": len(self.advertisements),
        }

    @property
    def moves(self) -> tuple[tuple[AdvertisementId, int], ...]:
        """Number of the publisher's moves, by advertisement, as far as this broker knows."""
        return tuple((id, row.rank) for id, row in self.advertisements.items() if row.rank)

    def count_moves(self, moves: Iterable[tuple[AdvertisementId, int]]) -> None:
        """Raise the counts of moves to at least these."""
        for id, counted in moves:
            if (row := self.advertisements.get(id)) is not None:
                row.moves = max(row.moves, counted)

    def add_advertisement(
        self, advertisement: Advertisement, last_hop: BrokerId | None, moves: int = 0
    ) -> AdvertisementEntry:
        """Store an advertisement with a new id."""
        filter = advertisement.filter
        advertised = self._advertised.get(filter) or self._advertise(filter)
        row = AdvertisementEntry(advertisement, last_hop, moves, advertised, next(self._numbers))
        self.advertisements[advertisement.id] = row
        self.published.add(advertisement.publisher, advertisement.id)
        if last_hop is not None:
            self._advertised_from.add(last_hop, advertisement.id)
        return row

    def _advertise(self, filter: Filter) -> AdvertisedFilter:
        advertised = self._advertised[filter] = AdvertisedFilter(filter)
        self._candidates.add(advertised, filter)
        prepare(filter)
        work = Work(MOST_WORK)
        for entry in self._entries.of(filter):
            _meet(advertised, entry, work)
        return advertised

    def candidates(self, filter: Filter) -> Collection[AdvertisedFilter]:
        """Advertised filters that may overlap the filter."""
        return self._candidates.of(filter)

    def advertised_from(self, hop: BrokerId) -> list[AdvertisementEntry]:
        """Advertisements from a neighbour, in the table's order."""
        return _in_order(self.advertisements[id] for id in self._advertised_from.of(hop))

    def turn_advertisement(self, row: AdvertisementEntry, last_hop: BrokerId | None) -> None:
        """Change the last hop of an advertisement."""
        id = row.advertisement.id
        if row.last_hop is not None:
            self._advertised_from.remove(row.last_hop, id)
        row.advertised.remove(row)
        row.last_hop = last_hop
        row.advertised.add(row)
        if last_hop is not None:
            self._advertised_from.add(last_hop, id)

    def remove_advertisement(self, row: AdvertisementEntry) -> None:
        id = row.advertisement.id
        del self.advertisements[id]
        self.published.remove(row.advertisement.publisher, id)
        if row.last_hop is not None:
            self._advertised_from.remove(row.last_hop, id)
        advertised = row.advertised
        advertised.remove(row)
        if advertised.is_advertised:
            return
        del self._advertised[advertised.filter]
        self._candidates.remove(advertised, advertised.filter)
        for entry in advertised.overlapping:
            del entry.advertised[advertised]

    def add_subscription(
        self, subscription: Subscription, last_hop: BrokerId | None
    ) -> SubscriptionEntry:
        """Store a subscription with a new id."""
        entry = SubscriptionEntry(subscription, last_hop, next(self._numbers))
        self.subscriptions[entry.id] = entry
        self.paced += subscription.pace is not None
        self._index_owner(entry)
        if entry.is_routed:
            self.routes.add(entry, subscription.filter)
        self._entries.add(entry, subscription.filter)
        prepare(subscription.filter)
        work = Work(MOST_WORK)
        for advertised in self._candidates.of(subscription.filter):
            _meet(advertised, entry, work)
        return entry

    def subscribed_from(self, hop: BrokerId) -> list[SubscriptionEntry]:
        """Subscriptions from a neighbour, in the table's order."""
        return _in_order(self.subscriptions[id] for id in self._subscribed_from.of(hop))

    def _index_owner(self, entry: SubscriptionEntry) -> None:
        if entry.last_hop is None:
            self.local.add(entry.client, entry.id)
        else:
            self._subscribed_from.add(entry.last_hop, entry.id)

    def _unindex_owner(self, entry: SubscriptionEntry) -> None:
        if entry.last_hop is None:
            self.local.remove(entry.client, entry.id)
        else:
            self._subscribed_from.remove(entry.last_hop, entry.id)

    def mark_forwarded(self, entry: SubscriptionEntry, hop: BrokerId) -> None:
        """Record that the subscription was forwarded to the neighbour."""
        entry.forwarded_to[hop] = None
        self._forwarded.add(hop, entry.id)

    def mark_retracted(self, entry: SubscriptionEntry, hop: BrokerId) -> None:
        """Record that the subscription was retracted from the neighbour."""
        if hop in entry.forwarded_to:
            del entry.forwarded_to[hop]
            self._forwarded.remove(hop, entry.id)

    def forwarded_to(self, hop: BrokerId) -> list[SubscriptionEntry]:
        """Subscriptions forwarded to the neighbour, in the table's order."""
        return _in_order(self.subscriptions[id] for id in self._forwarded.of(hop))

    def wanted_by(self, hop: BrokerId) -> CoveringSet[SubscriptionId]:
        """With covering: the covering set of the neighbour."""
        assert self.wanted is not None
        if hop not in self.wanted:
            self.wanted[hop] = CoveringSet(MOST_COVERED)
        return self.wanted[hop]

    def forget_forwarded(self, hop: BrokerId) -> None:
        """Record that nothing is forwarded to the neighbour, and nothing wanted by it."""
        for id in self._forwarded.take(hop):
            del self.subscriptions[id].forwarded_to[hop]
        if self.wanted is not None:
            self.wanted.pop(hop, None)

    def covered_at(self, hop: BrokerId) -> list[SubscriptionEntry]:
        """Subscriptions that the neighbour wants, but that others cover."""
        wanted = None if self.wanted is None else self.wanted.get(hop)
        if wanted is None:
            return []
        found = (self.subscriptions[id] for id in wanted)
        return [entry for entry in found if hop not in entry.forwarded_to]

    def turn_subscription(self, entry: SubscriptionEntry, last_hop: BrokerId | None) -> None:
        """Change a subscription's last hop: in a new row, as routes are cached by row."""
        filter = entry.subscription.filter
        row = SubscriptionEntry(entry.subscription, last_hop, entry.number)
        row.forwarded_to = entry.forwarded_to
        self.subscriptions[entry.id] = row
        self._unindex_owner(entry)
        self._index_owner(row)
        self.routes.remove(entry)
        self.routes.add(row, filter)
        self._entries.remove(entry, filter)
        self._entries.add(row, filter)
        for advertised in entry.advertised:
            del advertised.overlapping[entry]
            advertised.overlapping[row] = row.advertised[advertised] = None

    def remove_subscription(self, entry: SubscriptionEntry) -> None:
        del self.subscriptions[entry.id]
        self.paced -= entry.subscription.pace is not None
        self._unindex_owner(entry)
        for hop in entry.forwarded_to:
            self._forwarded.remove(hop, entry.id)
        if entry.is_routed:
            self.routes.remove(entry)
        self._entries.remove(entry, entry.subscription.filter)
        for advertised in entry.advertised:
            del advertised.overlapping[entry]


Row = TypeVar("Row", AdvertisementEntry, SubscriptionEntry)


def _in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows that have turned keep their numbers, and so their places."""
    return sorted(rows, key=attrgetter("number"))


def _meet(advertised: AdvertisedFilter, entry: SubscriptionEntry, work: Work) -> None:
    if overlaps(entry.subscription.filter, advertised.filter, work):
        advertised.overlapping[entry] = None
        entry.advertised[advertised] = None
