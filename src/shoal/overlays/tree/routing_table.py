"""A broker's routing table: advertisements (SRT) and subscriptions (PRT) with their last hops.

A last hop is the neighbour an entry came from, or None when its client is attached here.  A
subscription's entry also knows to which neighbours it was forwarded, so that it can be taken
back from exactly those; with covering (`telling.py`), the table has for each neighbour all that it
wants, of which it is told what no other one covers.

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
    """

    __slots__ = (
        "_last_hop",
        "adopted",
        "advertisement",
        "has_turned",
        "moves",
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
    ) -> None:
        self.advertisement = advertisement
        self._last_hop = last_hop
        self.moves = moves
        self.promise = promise
        self.has_turned = False
        self.adopted = False
        self.turned_us: int | None = None
        self.others: dict[BrokerId, int] = {}
        promise.add(self)

    @property
    def last_hop(self) -> BrokerId | None:
        """Where it comes from."""
        return self._last_hop

    @last_hop.setter
    def last_hop(self, hop: BrokerId | None) -> None:
        self.promise.remove(self)
        self._last_hop = hop
        self.promise.add(self)

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

    Hashed by identity, as it is its own key in the index.
    """

    __slots__ = (
        "client",
        "forwarded_to",
        "id",
        "last_hop",
        "promises",
        "subscription",
    )

    def __init__(self, subscription: Subscription, last_hop: BrokerId | None) -> None:
        self.subscription = subscription
        self.id = subscription.id
        self.client = subscription.client
        self.last_hop = last_hop
        self.forwarded_to: set[BrokerId] = set()
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

    def add_advertisement(
        self, advertisement: Advertisement, last_hop: BrokerId | None, moves: int = 0
    ) -> AdvertisementEntry:
        """Store an advertisement whose id is not in the table."""
        filter = advertisement.filter
        promise = self._advertised.get(filter) or self._advertise(filter)
        row = AdvertisementEntry(advertisement, last_hop, moves, promise)
        self.advertisements[advertisement.id] = row
        self.published.add(advertisement.publisher, advertisement.id)
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

    def remove_advertisement(self, row: AdvertisementEntry) -> None:
        del self.advertisements[row.advertisement.id]
        self.published.remove(row.advertisement.publisher, row.advertisement.id)
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
        entry = SubscriptionEntry(subscription, last_hop)
        self.subscriptions[entry.id] = entry
        if last_hop is None:
            self.local.add(entry.client, entry.id)
        if entry.is_routed:
            self.routes.add(entry, subscription.filter)
        self._entries.add(entry, subscription.filter)
        prepare(subscription.filter)
        work = Work(MOST_WORK)
        for promise in self._promises.of(subscription.filter):
            _meet(promise, entry, work)
        return entry

    def wanted_by(self, hop: BrokerId) -> CoveringSet[SubscriptionId]:
        """With covering, what the neighbour wants."""
        assert self.wanted is not None
        if hop not in self.wanted:
            self.wanted[hop] = CoveringSet(MOST_COVERED)
        return self.wanted[hop]

    def forget_told(self, hop: BrokerId) -> None:
        """The neighbour has nothing from here, and wants nothing."""
        for entry in self.subscriptions.values():
            entry.forwarded_to.discard(hop)
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
        filter, row = entry.subscription.filter, SubscriptionEntry(entry.subscription, last_hop)
        row.forwarded_to = entry.forwarded_to
        self.subscriptions[entry.id] = row
        if entry.last_hop is None:
            self.local.remove(entry.client, entry.id)
        if last_hop is None:
            self.local.add(entry.client, entry.id)
        self.routes.remove(entry)
        self.routes.add(row, filter)
        self._entries.remove(entry, filter)
        self._entries.add(row, filter)
        for promise in entry.promises:
            del promise.overlapping[entry]
            promise.overlapping[row] = row.promises[promise] = None

    def remove_subscription(self, entry: SubscriptionEntry) -> None:
        del self.subscriptions[entry.id]
        if entry.last_hop is None:
            self.local.remove(entry.client, entry.id)
        if entry.is_routed:
            self.routes.remove(entry)
        self._entries.remove(entry, entry.subscription.filter)
        for promise in entry.promises:
            del promise.overlapping[entry]


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
