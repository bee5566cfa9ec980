"""A broker's routing table: advertisements (SRT) and subscriptions (PRT) with their last hops.

A last hop is the neighbour an entry came from, or None when its client is attached here.  A
subscription's entry also knows to which neighbours it was forwarded, so that it can be taken
back from exactly those; with covering (`telling.py`), the table has for each neighbour all that it
wants, of which it is told what no other one covers.  What comes from a neighbour, and what it was
told, is known by neighbour, too: a link that comes or goes costs that, not a look at all rows.

Filters that are advertised and subscriptions that overlap them know each other, so that a change
touches only what it concerns; many advertisements may have one filter, as those of brokers' doors
that promise everything.  What overlaps is found with bounded work, as filters come from strangers:
beyond it an entry may overlap all that are left whose bounds meet its own (`OverlapCandidates`),
which for comparisons is exact, and for patterns asks for more than is needed, never less.
`routes` holds every subscription's filter under its entry, and makes one route of the entries that
match.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import count
from operator import attrgetter
from typing import TypeVar

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
from shoal.overlays.merging import NOBODY, OwnMerging
from shoal.overlays.owned import Owned

# What one row that comes may cost at once, beside all that are there: some 25 ms, and one pair's.
MOST_WORK = 30_000
# One row stands for so many others at most: as many are said at once when it goes.
MOST_COVERED = 256


class AdvertisedFilter:
    """What one or more advertisements promise, with the rows of the PRT that overlap it.

    `rows` has these advertisements, and `hops` how many of them come from where; `overlapping` is
    oldest first.
    """

    __slots__ = ("filter", "hops", "overlapping", "rows")

    def __init__(self, filter: Filter) -> None:
        self.filter = filter
        self.rows: dict[AdvertisementEntry, None] = {}
        self.hops: dict[BrokerId | None, int] = {}
        self.overlapping: dict[SubscriptionEntry, None] = {}

    def add(self, row: AdvertisementEntry) -> None:
        """One more advertisement promises it."""
        self.rows[row] = None
        self.hops[row.last_hop] = self.hops.get(row.last_hop, 0) + 1

    def remove(self, row: AdvertisementEntry) -> None:
        """One advertisement less does."""
        del self.rows[row]
        self.hops[row.last_hop] -= 1
        if not self.hops[row.last_hop]:
            del self.hops[row.last_hop]

    def is_beyond(self, hop: BrokerId) -> bool:
        """Whether anybody promises it who is not in this neighbour's direction."""
        return len(self.hops) > (hop in self.hops)


class AdvertisementEntry:
    """One row of the SRT.

    `moves` counts the publisher's moves as far as this broker knows.  `has_turned` says whether
    the row ever had another last hop, `turned_us` when a move passed and turned it.  An `adopted`
    row is kept for a publisher beyond a broken link, and gives way to any copy from there.
    `others` has neighbours that said the same as their links came up, and the moves they count.
    Rows are numbered in the order of their table.  Only the table changes `last_hop`.
    """

    __slots__ = (
        "adopted",
        "advertisement",
        "has_turned",
        "last_hop",
        "moves",
        "number",
        "others",
        "promise",
        "turned_us",
    )

    def __init__(
        self,
        advertisement: Advertisement,
        last_hop: BrokerId | None,
        moves: int,
        promise: AdvertisedFilter,
        number: int,
    ) -> None:
        self.advertisement = advertisement
        self.last_hop = last_hop
        self.number = number
        self.moves = moves
        self.promise = promise
        self.has_turned = False
        self.adopted = False
        self.turned_us: int | None = None
        self.others: dict[BrokerId, int] = {}
        promise.add(self)

    @property
    def overlapping(self) -> Collection[SubscriptionEntry]:
        """The rows of the PRT that overlap it, oldest first."""
        return self.promise.overlapping

    @property
    def rank(self) -> int:
        """Words about the advertisement that count more moves than this are newer."""
        return self.moves - self.adopted


class SubscriptionEntry:
    """One row of the PRT, with the filters in the SRT that overlap it.

    Hashed by identity, as it is its own key in the index.  Only the table changes `forwarded_to`.
    """

    __slots__ = (
        "client",
        "forwarded_to",
        "id",
        "last_hop",
        "number",
        "promises",
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
        self.promises: dict[AdvertisedFilter, None] = {}

    @property
    def is_routed(self) -> bool:
        """Whether publications go anywhere for it: not for a union, where its parts are."""
        return self.last_hop is not None or self.client != NOBODY

    def is_told(self, hop: BrokerId) -> bool:
        """Whether this neighbour has it from here."""
        return hop in self.forwarded_to

    def is_wanted_by(self, hop: BrokerId) -> bool:
        """Whether an advertisement from this neighbour asks for the subscription."""
        return any(hop in promise.hops for promise in self.promises)

    def is_wanted_beyond(self, hop: BrokerId) -> bool:
        """Whether an advertisement from anywhere but this neighbour asks for the subscription."""
        return any(promise.is_beyond(hop) for promise in self.promises)

    @property
    def wanting(self) -> Collection[BrokerId | None]:
        """From where advertisements ask for the subscription."""
        return {hop for promise in self.promises for hop in promise.hops}

    @property
    def overlapping(self) -> list[AdvertisementEntry]:
        """The rows of the SRT that overlap it."""
        return [row for promise in self.promises for row in promise.rows]


class Route:
    """Where a publication goes: the neighbours, and the local clients with their subscriptions.

    Both in the order of their first entries in the match.  Routes are told apart by what they are,
    not by what they say: one is made for all publications that match the same entries.
    """

    __slots__ = ("clients", "neighbours")

    def __init__(
        self,
        neighbours: tuple[BrokerId, ...],
        clients: tuple[tuple[ClientId, tuple[SubscriptionId, ...]], ...],
    ) -> None:
        self.neighbours = neighbours
        self.clients = clients


class RoutingTable:
    """SRT and PRT of one broker.

    `routes` says where a publication with certain attributes goes.  `wanted` has, with `covering`,
    what each neighbour wants.  With `merging`, unions of local subscriptions are rows beside these.
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
        # The advertisements of each publisher, and the subscriptions of each client that is here.
        self.published: Owned[AdvertisementId] = Owned()
        self.local: Owned[SubscriptionId] = Owned()
        # By neighbour: what comes from it, and what it has from here.
        self._advertised_from: Owned[AdvertisementId] = Owned()
        self._subscribed_from: Owned[SubscriptionId] = Owned()
        self._told: Owned[SubscriptionId] = Owned()
        self._numbers = count()
        self.routes: Outcomes[Route] = outcomes(_route, _size)
        self.wanted: dict[BrokerId, CoveringSet[SubscriptionId]] | None = {} if covering else None
        self._advertised: dict[Filter, AdvertisedFilter] = {}
        self._promises: OverlapCandidates[AdvertisedFilter] = OverlapCandidates()
        self._entries: OverlapCandidates[SubscriptionEntry] = OverlapCandidates()

    @property
    def sizes(self) -> dict[str, int]:
        """How many rows it has of each kind."""
        return {
            "subscriptions": len(self.subscriptions),
            "advertisements": len(self.advertisements),
        }

    @property
    def moves(self) -> tuple[tuple[AdvertisementId, int], ...]:
        """How often publishers have moved, by advertisement: as far as this broker knows."""
        return tuple((id, row.rank) for id, row in self.advertisements.items() if row.rank)

    def count_moves(self, moves: Iterable[tuple[AdvertisementId, int]]) -> None:
        """Publishers have moved at least so often."""
        for id, counted in moves:
            if (row := self.advertisements.get(id)) is not None:
                row.moves = max(row.moves, counted)

    def add_advertisement(
        self, advertisement: Advertisement, last_hop: BrokerId | None, moves: int = 0
    ) -> AdvertisementEntry:
        """Store an advertisement whose id is not in the table."""
        filter = advertisement.filter
        promise = self._advertised.get(filter) or self._advertise(filter)
        row = AdvertisementEntry(advertisement, last_hop, moves, promise, next(self._numbers))
        self.advertisements[advertisement.id] = row
        self.published.add(advertisement.publisher, advertisement.id)
        if last_hop is not None:
            self._advertised_from.add(last_hop, advertisement.id)
        return row

    def _advertise(self, filter: Filter) -> AdvertisedFilter:
        promise = self._advertised[filter] = AdvertisedFilter(filter)
        self._promises.add(promise, filter)
        prepare(filter)
        work = Work(MOST_WORK)
        for entry in self._entries.of(filter):
            _meet(promise, entry, work)
        return promise

    def candidates(self, filter: Filter) -> Collection[AdvertisedFilter]:
        """What is advertised that may overlap the filter."""
        return self._promises.of(filter)

    def advertised_from(self, hop: BrokerId) -> list[AdvertisementEntry]:
        """What comes from a neighbour, in the table's order."""
        return _in_order(self.advertisements[id] for id in self._advertised_from.of(hop))

    def turn_advertisement(self, row: AdvertisementEntry, last_hop: BrokerId | None) -> None:
        """The advertisement comes from elsewhere now."""
        id = row.advertisement.id
        if row.last_hop is not None:
            self._advertised_from.remove(row.last_hop, id)
        row.promise.remove(row)
        row.last_hop = last_hop
        row.promise.add(row)
        if last_hop is not None:
            self._advertised_from.add(last_hop, id)

    def remove_advertisement(self, row: AdvertisementEntry) -> None:
        id = row.advertisement.id
        del self.advertisements[id]
        self.published.remove(row.advertisement.publisher, id)
        if row.last_hop is not None:
            self._advertised_from.remove(row.last_hop, id)
        promise = row.promise
        promise.remove(row)
        if promise.rows:
            return
        del self._advertised[promise.filter]
        self._promises.remove(promise, promise.filter)
        for entry in promise.overlapping:
            del entry.promises[promise]

    def add_subscription(
        self, subscription: Subscription, last_hop: BrokerId | None
    ) -> SubscriptionEntry:
        """Store a subscription whose id is not in the table."""
        entry = SubscriptionEntry(subscription, last_hop, next(self._numbers))
        self.subscriptions[entry.id] = entry
        self._came(entry)
        if entry.is_routed:
            self.routes.add(entry, subscription.filter)
        self._entries.add(entry, subscription.filter)
        prepare(subscription.filter)
        work = Work(MOST_WORK)
        for promise in self._promises.of(subscription.filter):
            _meet(promise, entry, work)
        return entry

    def subscribed_from(self, hop: BrokerId) -> list[SubscriptionEntry]:
        """What comes from a neighbour, in the table's order."""
        return _in_order(self.subscriptions[id] for id in self._subscribed_from.of(hop))

    def _came(self, entry: SubscriptionEntry) -> None:
        if entry.last_hop is None:
            self.local.add(entry.client, entry.id)
        else:
            self._subscribed_from.add(entry.last_hop, entry.id)

    def _went(self, entry: SubscriptionEntry) -> None:
        if entry.last_hop is None:
            self.local.remove(entry.client, entry.id)
        else:
            self._subscribed_from.remove(entry.last_hop, entry.id)

    def tell(self, entry: SubscriptionEntry, hop: BrokerId) -> None:
        """The neighbour has it from here."""
        entry.forwarded_to[hop] = None
        self._told.add(hop, entry.id)

    def untell(self, entry: SubscriptionEntry, hop: BrokerId) -> None:
        """The neighbour has it no more, if it had."""
        if hop in entry.forwarded_to:
            del entry.forwarded_to[hop]
            self._told.remove(hop, entry.id)

    def told_to(self, hop: BrokerId) -> list[SubscriptionEntry]:
        """What the neighbour has from here, in the table's order."""
        return _in_order(self.subscriptions[id] for id in self._told.of(hop))

    def wanted_by(self, hop: BrokerId) -> CoveringSet[SubscriptionId]:
        """With covering, what the neighbour wants."""
        assert self.wanted is not None
        if hop not in self.wanted:
            self.wanted[hop] = CoveringSet(MOST_COVERED)
        return self.wanted[hop]

    def forget_told(self, hop: BrokerId) -> None:
        """The neighbour has nothing from here, and wants nothing."""
        for id in self._told.take(hop):
            del self.subscriptions[id].forwarded_to[hop]
        if self.wanted is not None:
            self.wanted.pop(hop, None)

    def covered_at(self, hop: BrokerId) -> list[SubscriptionEntry]:
        """What the neighbour wants and is not told, as it has others that cover it."""
        wanted = None if self.wanted is None else self.wanted.get(hop)
        if wanted is None:
            return []
        found = (self.subscriptions[id] for id in wanted)
        return [entry for entry in found if hop not in entry.forwarded_to]

    def turn_subscription(self, entry: SubscriptionEntry, last_hop: BrokerId | None) -> None:
        """The subscription comes from elsewhere now: in a new row, as routes depend on rows."""
        filter = entry.subscription.filter
        row = SubscriptionEntry(entry.subscription, last_hop, entry.number)
        row.forwarded_to = entry.forwarded_to
        self.subscriptions[entry.id] = row
        self._went(entry)
        self._came(row)
        self.routes.remove(entry)
        self.routes.add(row, filter)
        self._entries.remove(entry, filter)
        self._entries.add(row, filter)
        for promise in entry.promises:
            del promise.overlapping[entry]
            promise.overlapping[row] = row.promises[promise] = None

    def remove_subscription(self, entry: SubscriptionEntry) -> None:
        del self.subscriptions[entry.id]
        self._went(entry)
        for hop in entry.forwarded_to:
            self._told.remove(hop, entry.id)
        if entry.is_routed:
            self.routes.remove(entry)
        self._entries.remove(entry, entry.subscription.filter)
        for promise in entry.promises:
            del promise.overlapping[entry]


Row = TypeVar("Row", AdvertisementEntry, SubscriptionEntry)


def _in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows that have turned keep their numbers, and so their places."""
    return sorted(rows, key=attrgetter("number"))


def _route(entries: Iterable[SubscriptionEntry]) -> Route:
    neighbours: dict[BrokerId, None] = {}
    clients: dict[ClientId, list[SubscriptionId]] = {}
    for entry in entries:
        if entry.last_hop is None:
            clients.setdefault(entry.client, []).append(entry.id)
        else:
            neighbours[entry.last_hop] = None
    return Route(tuple(neighbours), tuple((name, tuple(ids)) for name, ids in clients.items()))


def _size(route: Route) -> int:
    return len(route.neighbours) + sum(1 + len(ids) for _, ids in route.clients)


def _meet(promise: AdvertisedFilter, entry: SubscriptionEntry, work: Work) -> None:
    if overlaps(entry.subscription.filter, promise.filter, work):
        promise.overlapping[entry] = None
        entry.promises[promise] = None
