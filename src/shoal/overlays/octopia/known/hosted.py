"""The advertisements of clients here, and the clusters that want them (V, IV-C).

A bit of an advertisement is on if the entry broker of that cluster, by which this one enters it,
has announced so. While a cluster has no entry broker that has sent all its bits, they count as on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from shoal.groups import Groups
from shoal.matching import Outcomes
from shoal.model import Advertisement, AdvertisementId, Attributes, BrokerId, ClientId, Filter
from shoal.overlays.octopia.parameters import MOST_FILTERS
from shoal.overlays.requests import check_filter

# A broker's announcement of a row that its cluster wants: filters, or None: everything.
Said = dict[Filter, None] | None


class HostedRow:
    """An advertisement of a local client; hashed by identity, as it is its own key in an index."""

    __slots__ = ("advertisement",)

    def __init__(self, advertisement: Advertisement) -> None:
        self.advertisement = advertisement


class _WantedFilter(NamedTuple):
    """A filter with which a cluster wants some of a row."""

    row: HostedRow
    cluster: int
    filter: Filter


class _Vector(NamedTuple):
    """A row's cluster index vector: `plain` bits, and `sharp` ones, with filters."""

    plain: int
    sharp: int


class Hosted:
    """The rows of this broker's own clients, for `others`, the clusters that it is not in."""

    def __init__(self, others: Iterable[int]) -> None:
        self.rows: dict[AdvertisementId, HostedRow] = {}
        self._owned: Groups[ClientId, AdvertisementId] = Groups()
        self._promising: Outcomes[Mapping[ClientId, tuple[HostedRow, ...]]] = Outcomes(
            _by_client, lambda found: sum(map(len, found.values()))
        )
        self._others = list(others)
        # By cluster: the broker that has sent its bits, and the rows that each broker wants.
        self._entries: dict[int, BrokerId] = {}
        self._wanted: dict[BrokerId, dict[AdvertisementId, Said]] = {}
        # Announcements of brokers since their link has come up.
        self._said_again: dict[BrokerId, dict[AdvertisementId, Said]] = {}
        # Of requested rows: their vectors, and their entries in the index.
        self._vectors: dict[HostedRow, _Vector] = {}
        self.asking: dict[HostedRow, dict[_WantedFilter, None]] = {}
        self._index: Outcomes[Mapping[HostedRow, int]] = Outcomes(_bits_by_row, len)

    def add_cluster(self, cluster: int) -> None:
        """There is another cluster from now on."""
        self._others.append(cluster)
        self._vectors.clear()

    def remove_cluster(self, cluster: int) -> None:
        """A cluster's last broker has left."""
        self._others.remove(cluster)
        self.enter(cluster, None)

    def add(self, advertisement: Advertisement) -> None:
        """Add a client's advertisement, or replace the one with its id."""
        self.remove(advertisement.id)
        row = HostedRow(advertisement)
        self.rows[advertisement.id] = row
        self._owned.add(advertisement.publisher, advertisement.id)
        self._promising.add(row, advertisement.filter)

    def remove(self, id: AdvertisementId) -> None:
        """Remove an advertisement, if it is there."""
        row = self.rows.pop(id, None)
        if row is not None:
            self._owned.remove(row.advertisement.publisher, id)
            self._promising.remove(row)
            self._vectors.pop(row, None)
            self._file(row, {})
            for said in (*self._wanted.values(), *self._said_again.values()):
                said.pop(id, None)

    def of(self, client: ClientId) -> list[Advertisement]:
        """The advertisements of a client."""
        return [self.rows[id].advertisement for id in self._owned.of(client)]

    def owed(self, client: ClientId, attributes: Attributes) -> int:
        """The bits of the clusters that want a client's publication."""
        rows = self._promising.of(attributes).get(client, ())
        found = sharp = 0
        for row in rows:
            vector = self._vectors.get(row) or self._look_up_clusters(row)
            found |= vector.plain
            sharp |= vector.sharp
        if sharp & ~found:
            matched = self._index.of(attributes)
            for row in rows:
                found |= matched.get(row, 0)
        return found

    def bits(self, row: HostedRow) -> int:
        """The row's cluster index vector, own cluster apart, whatever filters come with it."""
        vector = self._vectors.get(row) or self._look_up_clusters(row)
        return vector.plain | vector.sharp

    def wanted(self, cluster: int, row: HostedRow) -> Collection[Filter] | None:
        """The filters with which a cluster wants a row, none: not at all; None: everything."""
        entry = self._entries.get(cluster)
        return None if entry is None else self._wanted.get(entry, {}).get(row.advertisement.id, ())

    def _look_up_clusters(self, row: HostedRow) -> _Vector:
        plain = sharp = 0
        asked: dict[_WantedFilter, None] = {}
        for cluster in self._others:
            filters = self.wanted(cluster, row)
            if filters is None:
                plain |= 1 << cluster
            elif filters:
                sharp |= 1 << cluster
                asked.update((_WantedFilter(row, cluster, each), None) for each in filters)
        self._file(row, asked)
        vector = self._vectors[row] = _Vector(plain, sharp)
        return vector

    def _file(self, row: HostedRow, asked: dict[_WantedFilter, None]) -> None:
        """Have these in the index for a row, and no others."""
        before = self.asking.pop(row, {})
        for each in before.keys() - asked.keys():
            self._index.remove(each)
        for each in asked:
            if each not in before:
                self._index.add(each, each.filter)
        if asked:
            self.asking[row] = asked

    # --- announcements of other clusters ------------------------------------------------------

    def begins(self, broker: BrokerId) -> None:
        """A broker gets all rows, and will send its bits."""
        self._said_again[broker] = {}

    def set(
        self,
        broker: BrokerId,
        id: AdvertisementId,
        filters: tuple[Filter, ...] | None,
        *,
        is_more: bool,
    ) -> None:
        """A broker's cluster wants a row; an unknown row is ignored.

        All of it, or publications that match filters, as a new set or in addition.
        """
        for each in filters or ():
            check_filter(each, "bit", id)
        if id not in self.rows:
            return
        for said in (self._wanted.setdefault(broker, {}), self._said_again.get(broker, {})):
            before: Said = said.get(id, {}) if is_more else {}
            now: Said = None
            if filters is not None and before is not None:
                now = dict.fromkeys((*before, *filters))
            said[id] = None if now is None or len(now) > MOST_FILTERS else now
        self._vectors.pop(self.rows[id], None)

    def clear(self, broker: BrokerId, id: AdvertisementId) -> None:
        """A broker's cluster does not want a row any more."""
        if id not in self.rows:
            return
        for said in (self._wanted.get(broker, {}), self._said_again.get(broker, {})):
            said.pop(id, None)
        self._vectors.pop(self.rows[id], None)

    def all_said(self, broker: BrokerId) -> None:
        """A broker has sent all its bits; missing ones are off."""
        if broker in self._said_again:
            self._wanted[broker] = self._said_again.pop(broker)
            self._vectors.clear()

    def enter(self, cluster: int, broker: BrokerId | None) -> None:
        """The broker whose bits count for a cluster from now on; None: there is none."""
        if broker is None:
            self._entries.pop(cluster, None)
        else:
            self._entries[cluster] = broker
        self._vectors.clear()

    def doubt(self, broker: BrokerId) -> None:
        """A broker's link has changed, so that messages may be missing: its bits are plain."""
        for said in (self._wanted.get(broker, {}), self._said_again.get(broker, {})):
            said.update(dict.fromkeys(said))
        self._vectors.clear()

    def forget(self, broker: BrokerId) -> None:
        """A broker gets no announcements any more."""
        self._wanted.pop(broker, None)
        self._said_again.pop(broker, None)
        self._vectors.clear()


def _by_client(rows: Collection[HostedRow]) -> Mapping[ClientId, tuple[HostedRow, ...]]:
    found: dict[ClientId, list[HostedRow]] = {}
    for row in rows:
        found.setdefault(row.advertisement.publisher, []).append(row)
    return {client: tuple(mine) for client, mine in found.items()}


def _bits_by_row(asked: Collection[_WantedFilter]) -> Mapping[HostedRow, int]:
    found: dict[HostedRow, int] = {}
    for each in asked:
        found[each.row] = found.get(each.row, 0) | 1 << each.cluster
    return found
