"""The tables of one broker: its cluster's subscriptions by edge broker, advertisements with bits.

The PRT (VI) is kept by edge broker: every broker of the cluster owns a versioned table that all
others know, too. Beside its subscriptions it has the region that it links up to, so that all
brokers know the tree as it is, and the direction of an edge broker is computed, not stored by row.

The SRT (V) has two kinds of rows. At its host an advertisement has the bits of the clusters that
want it; at a secondary broker it has the subscriptions of that cluster that overlap it, and its bit
at the host is on exactly while there are any.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from shoal.groups import Groups
from shoal.matching import Outcomes, Work, overlaps, prepare
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
from shoal.overlays.octopia.places.labels import Product

# Announced filters of a row for which the host's bit is off.
NOTHING: dict[Filter, None] = {}
# Work bound of the overlap tests for one new row, some 25 ms, and one pair; it counts as
# overlapping rows beyond that, so a bit may be on without need.
MOST_WORK = 30_000


class ClusterEntry:
    """One row of the PRT, with the advertisements of other clusters that overlap it."""

    __slots__ = ("overlapping", "region", "subscription")

    def __init__(self, region: int, subscription: Subscription) -> None:
        self.region = region
        self.subscription = subscription
        self.overlapping: dict[SecondaryRow, None] = {}


class SecondaryRow:
    """An advertisement of a host in another cluster, with the subscriptions that overlap it.

    `told` has the filters announced to the host (`bits.py`), one of which covers each of these, or
    None: everything. With `is_coarse` they could not be narrower.
    """

    __slots__ = ("advertisement", "host", "is_coarse", "overlapping", "told")

    def __init__(self, host: BrokerId, advertisement: Advertisement) -> None:
        self.host = host
        self.advertisement = advertisement
        self.overlapping: dict[ClusterEntry, None] = {}
        self.told: dict[Filter, None] | None = NOTHING
        self.is_coarse = False

    @property
    def is_wanted(self) -> bool:
        """The row's secondary cluster bit (SCB)."""
        return bool(self.overlapping)


class RegionTable:
    """The table of one broker of the cluster; a broker that `has_left` has no rows."""

    __slots__ = ("entries", "has_left", "since", "up", "version")

    def __init__(self, up: int | None, since: int) -> None:
        self.since = since
        self.has_left = False
        self.version = 0
        self.up = up
        self.entries: dict[SubscriptionId, ClusterEntry] = {}

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        return tuple(entry.subscription for entry in self.entries.values())


class TableMatch(NamedTuple):
    """Destinations of a publication: regions with subscribers of this cluster, and local
    clients.
    """

    regions: tuple[int, ...]
    clients: tuple[tuple[ClientId, tuple[SubscriptionId, ...]], ...]


class Tables:
    """All tables of the broker of `region` in its cluster.

    `subscriptions` takes all rows of the PRT. The table of a broker that has left stays, without
    rows.
    """

    def __init__(
        self, region: int, cluster: int, product: Product, subscriptions: dict[ClusterEntry, None]
    ) -> None:
        self.region = region
        self.homes: dict[int, RegionTable] = {}
        self.subscriptions = subscriptions
        # Subscriptions of this broker's clients.
        self.owned: Groups[ClientId, SubscriptionId] = Groups()
        self.matches: Outcomes[TableMatch] = Outcomes(self._match, _size)
        self.secondary: dict[tuple[BrokerId, AdvertisementId], SecondaryRow] = {}
        self._entries: OverlapCandidates[ClusterEntry] = OverlapCandidates()
        self._rows: OverlapCandidates[SecondaryRow] = OverlapCandidates()
        self._next: dict[int, int | None] = {}
        # By former first region, the regions with a path that begins at another one since.
        self._led_to: dict[int, dict[int, None]] = {}
        for each, since in product.joined(cluster).items():
            self.add_home(each, product.best_above(each, cluster), since)

    def add_home(self, region: int, up: int | None, since: int) -> None:
        """A broker has joined the cluster, and links up to this region, if there is one.

        It may take the place of one that has left, which has no rows any more.
        """
        known = self.homes.get(region)
        if known is None or (known.since < since and not known.entries):
            self.homes[region] = RegionTable(up, since)
            self._forget_ways()

    @property
    def own(self) -> RegionTable:
        """The table of this broker."""
        return self.homes[self.region]

    # --- subscriptions ------------------------------------------------------------------------

    def add(self, region: int, subscription: Subscription) -> ClusterEntry:
        """Store a row with a new id."""
        entry = ClusterEntry(region, subscription)
        self.homes[region].entries[subscription.id] = entry
        if region == self.region:
            self.owned.add(subscription.client, subscription.id)
        self.subscriptions[entry] = None
        self.matches.add(entry, subscription.filter)
        self._entries.add(entry, subscription.filter)
        prepare(subscription.filter)
        work = Work(MOST_WORK)
        for row in self._rows.of(subscription.filter):
            _meet(row, entry, work)
        return entry

    def remove(self, region: int, ids: Iterable[SubscriptionId]) -> list[ClusterEntry]:
        """Remove rows; returns those that were there, with the rows that they overlapped."""
        entries = self.homes[region].entries
        found = [entries.pop(id) for id in ids if id in entries]
        for entry in found:
            if region == self.region:
                self.owned.remove(entry.subscription.client, entry.subscription.id)
            del self.subscriptions[entry]
            self.matches.remove(entry)
            self._entries.remove(entry, entry.subscription.filter)
            for row in entry.overlapping:
                del row.overlapping[entry]
        return found

    def replace(
        self, region: int, subscriptions: Iterable[Subscription]
    ) -> tuple[list[ClusterEntry], list[ClusterEntry]]:
        """Make these the whole table of a region; the rows that go, and those that come."""
        entries = self.homes[region].entries
        new = {each.id: each for each in subscriptions}
        gone = [id for id, entry in entries.items() if new.get(id) != entry.subscription]
        removed = self.remove(region, gone)
        added = [self.add(region, each) for id, each in new.items() if id not in entries]
        return removed, added

    def _match(self, entries: Iterable[ClusterEntry]) -> TableMatch:
        regions: dict[int, None] = {}
        clients: dict[ClientId, list[SubscriptionId]] = {}
        for entry in entries:
            regions[entry.region] = None
            if entry.region == self.region:
                subscription = entry.subscription
                clients.setdefault(subscription.client, []).append(subscription.id)
        return TableMatch(
            tuple(regions), tuple((name, tuple(ids)) for name, ids in clients.items())
        )

    # --- the tree as it is --------------------------------------------------------------------

    def link_up(self, region: int, up: int | None) -> None:
        """This region's broker links up to that region's now."""
        self.homes[region].up = up
        self._forget_ways()

    def _forget_ways(self) -> None:
        for region, first in self._next.items():
            if first is not None:
                self._led_to.setdefault(first, {})[region] = None
        self._next.clear()

    def take_ways(self, first: int) -> list[int]:
        """The regions whose path begins at this one, or did since the last call."""
        now = [each for each in self.homes if self.next_region(each) == first]
        return list(dict.fromkeys((*self._led_to.pop(first, ()), *now)))

    def next_region(self, region: int) -> int | None:
        """Next hop to a region of this cluster; None if there is none."""
        if region not in self._next:
            self._next[region] = self._look_up_region(region)
        return self._next[region]

    def is_below(self, region: int) -> bool:
        """Whether the region is this one, or below it in the tree."""
        return self._below_here(region) is not None

    def _look_up_region(self, region: int) -> int | None:
        below = self._below_here(region)
        return self.own.up if below is None else below

    def _below_here(self, region: int) -> int | None:
        """The last region before this one on the path up from another, if it leads here.

        The walk is bounded by the number of regions: changes of parents may make a temporary loop,
        when a place is taken anew and a child of the former broker has yet to announce its new
        parent.
        """
        here: int | None = region
        before = region
        for _ in self.homes:
            if here is None or here == self.region:
                break
            before, here = here, self.homes[here].up
        return before if here == self.region else None

    # --- advertisements of other clusters -----------------------------------------------------

    def advertise(self, host: BrokerId, advertisement: Advertisement) -> SecondaryRow:
        """Store a row in place of the one of this host with its id."""
        self.unadvertise(host, advertisement.id)
        row = SecondaryRow(host, advertisement)
        self.secondary[host, advertisement.id] = row
        self._rows.add(row, advertisement.filter)
        prepare(advertisement.filter)
        work = Work(MOST_WORK)
        for entry in self._entries.of(advertisement.filter):
            _meet(row, entry, work)
        return row

    def unadvertise(self, host: BrokerId, id: AdvertisementId) -> None:
        """Forget a row, if it is there."""
        row = self.secondary.pop((host, id), None)
        if row is not None:
            self._rows.remove(row, row.advertisement.filter)
            for entry in row.overlapping:
                del entry.overlapping[row]


def _size(match: TableMatch) -> int:
    return len(match.regions) + sum(1 + len(ids) for _, ids in match.clients)


def _meet(row: SecondaryRow, entry: ClusterEntry, work: Work) -> None:
    if overlaps(entry.subscription.filter, row.advertisement.filter, work):
        row.overlapping[entry] = None
        entry.overlapping[row] = None
