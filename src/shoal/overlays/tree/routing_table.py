"""A broker's routing table: advertisements (SRT) and subscriptions (PRT) with their last hops.

A last hop is the neighbour an entry came from, or None when its client is attached here.  A
subscription's entry also knows to which neighbours it was forwarded, so that it can be taken
back from exactly those; with covering (`telling.py`), the table has for each neighbour all that it
wants, of which it is told what no other one covers.

Entries that overlap know each other, so that a change touches only what it concerns.  Which they
are is found with bounded work, as filters come from strangers: beyond it an entry may overlap all
that are left whose bounds meet its own (`OverlapCandidates`), which for comparisons is exact, and
for patterns asks for more than is needed, never less.
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

# What one row that comes may cost at once, beside all that are there: some 25 ms, and one pair's.
MOST_WORK = 30_000
# One row stands for so many others at most: as many are said at once when it goes.
MOST_COVERED = 256


class AdvertisementEntry:
    """One row of the SRT, with the rows of the PRT that overlap it, oldest first.

    `moves` counts the publisher's moves as far as this broker knows.  `has_turned` says whether
    the row ever had another last hop, `turned_us` when a move passed and turned it.  An `adopted`
    row is kept for a publisher beyond a broken link, and gives way to any copy from there.
    `others` has neighbours that said the same as their links came up, and the moves they count.
    """

    __slots__ = (
        "adopted",
        "advertisement",
        "has_turned",
        "last_hop",
        "moves",
        "others",
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
        self.others: dict[BrokerId, int] = {}
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

    @property
    def is_routed(self) -> bool:
        """Whether publications go anywhere for it: not for a union, where its parts are."""
        return self.last_hop is not None or self.client != NOBODY

    def is_told(self, hop: BrokerId) -> bool:
        """Whether this neighbour has it from here."""
        return hop in self.forwarded_to

    def is_wanted_by(self, hop: BrokerId) -> bool:
        """Whether an advertisement from this neighbour asks for the subscription."""
        return any(row.last_hop == hop for row in self.overlapping)

    def is_wanted_beyond(self, hop: BrokerId) -> bool:
        """Whether an advertisement from anywhere but this neighbour asks for the subscription."""
        return any(row.last_hop != hop for row in self.overlapping)


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
        self.routes: Outcomes[Route] = outcomes(_route)
        self.wanted: dict[BrokerId, CoveringSet[SubscriptionId]] | None = {} if covering else None
        self._rows: OverlapCandidates[AdvertisementEntry] = OverlapCandidates()
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
        row = AdvertisementEntry(advertisement, last_hop, moves)
        self.advertisements[advertisement.id] = row
        self._rows.add(row, advertisement.filter)
        prepare(advertisement.filter)
        work = Work(MOST_WORK)
        for entry in self._entries.of(advertisement.filter):
            _meet(row, entry, work)
        return row

    def candidates(self, filter: Filter) -> Collection[AdvertisementEntry]:
        """The advertisements that may overlap the filter."""
        return self._rows.of(filter)

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
        if entry.is_routed:
            self.routes.add(entry, subscription.filter)
        self._entries.add(entry, subscription.filter)
        prepare(subscription.filter)
        work = Work(MOST_WORK)
        for row in self._rows.of(subscription.filter):
            _meet(row, entry, work)
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
        self.routes.remove(entry)
        self.routes.add(row, filter)
        self._entries.remove(entry, filter)
        self._entries.add(row, filter)
        for advertised in entry.overlapping:
            del advertised.overlapping[entry]
            advertised.overlapping[row] = row.overlapping[advertised] = None

    def remove_subscription(self, entry: SubscriptionEntry) -> None:
        del self.subscriptions[entry.id]
        if entry.is_routed:
            self.routes.remove(entry)
        self._entries.remove(entry, entry.subscription.filter)
        for row in entry.overlapping:
            del row.overlapping[entry]


def _route(entries: Iterable[SubscriptionEntry]) -> Route:
    neighbours: dict[BrokerId, None] = {}
    clients: dict[ClientId, list[SubscriptionId]] = {}
    for entry in entries:
        if entry.last_hop is None:
            clients.setdefault(entry.client, []).append(entry.id)
        else:
            neighbours[entry.last_hop] = None
    return Route(tuple(neighbours), tuple((name, tuple(ids)) for name, ids in clients.items()))


def _meet(row: AdvertisementEntry, entry: SubscriptionEntry, work: Work) -> None:
    if overlaps(entry.subscription.filter, row.advertisement.filter, work):
        row.overlapping[entry] = None
        entry.overlapping[row] = None
