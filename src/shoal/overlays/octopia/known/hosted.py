"""The advertisements of clients here, and which clusters want what they promise (V, IV-C).

A bit of an advertisement is on while its entry, the broker by which this one enters that cluster,
has said so.  While a cluster has no entry that has said all its bits, they count as on: nobody
knows that they are not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from shoal.matching import Outcomes
from shoal.model import Advertisement, AdvertisementId, Attributes, BrokerId, ClientId
from shoal.overlays.octopia.ways.copies import bits_of


class HostedRow:
    """An advertisement of a local client; hashed by identity, as it is its own key in an index."""

    __slots__ = ("advertisement",)

    def __init__(self, advertisement: Advertisement) -> None:
        self.advertisement = advertisement


class Hosted:
    """The rows of this broker's own clients, for `others`, the clusters that it is not in."""

    def __init__(self, others: Iterable[int]) -> None:
        self.rows: dict[AdvertisementId, HostedRow] = {}
        self._promising: Outcomes[Mapping[ClientId, tuple[HostedRow, ...]]] = Outcomes(_by_client)
        self._others = list(others)
        # By cluster: the broker that has said its bits, and what each broker wants.
        self._entries: dict[int, BrokerId] = {}
        self._wanted: dict[BrokerId, dict[AdvertisementId, None]] = {}
        # What brokers whose link has come up have said since.
        self._said_again: dict[BrokerId, dict[AdvertisementId, None]] = {}
        self._bits: dict[HostedRow, int] = {}

    def add_cluster(self, cluster: int) -> None:
        """There is another cluster from now on."""
        self._others.append(cluster)
        self._bits.clear()

    def remove_cluster(self, cluster: int) -> None:
        """A cluster's last broker has left."""
        self._others.remove(cluster)
        self.enter(cluster, None)

    def add(self, advertisement: Advertisement) -> None:
        """A client promises this, in place of what it promised under its id."""
        self.remove(advertisement.id)
        row = HostedRow(advertisement)
        self.rows[advertisement.id] = row
        self._promising.add(row, advertisement.filter)

    def remove(self, id: AdvertisementId) -> None:
        """Forget a promise, if it is there."""
        row = self.rows.pop(id, None)
        if row is not None:
            self._promising.remove(row)
            self._bits.pop(row, None)
            for said in (*self._wanted.values(), *self._said_again.values()):
                said.pop(id, None)

    def of(self, client: ClientId) -> list[Advertisement]:
        """What a client promises."""
        rows = [row.advertisement for row in self.rows.values()]
        return [each for each in rows if each.publisher == client]

    def owed(self, client: ClientId, attributes: Attributes) -> int:
        """The bits of the clusters that want a client's publication."""
        found = 0
        for row in self._promising.of(attributes).get(client, ()):
            found |= self.bits(row)
        return found

    def bits(self, row: HostedRow) -> int:
        """The row's cluster index vector, own cluster apart."""
        bits = self._bits.get(row)
        if bits is None:
            bits = bits_of(each for each in self._others if self._is_wanted(each, row))
            self._bits[row] = bits
        return bits

    def _is_wanted(self, cluster: int, row: HostedRow) -> bool:
        entry = self._entries.get(cluster)
        return entry is None or row.advertisement.id in self._wanted.get(entry, ())

    # --- what other clusters say --------------------------------------------------------------

    def begins(self, broker: BrokerId) -> None:
        """A broker is told all rows, and will say its bits."""
        self._said_again[broker] = {}

    def set(self, broker: BrokerId, id: AdvertisementId, *, is_on: bool) -> None:
        """A broker has said whether its cluster wants a row; a row that is gone does not matter."""
        if id not in self.rows:
            return
        for said in (self._wanted.setdefault(broker, {}), self._said_again.get(broker, {})):
            if is_on:
                said[id] = None
            else:
                said.pop(id, None)
        self._bits.pop(self.rows[id], None)

    def all_said(self, broker: BrokerId) -> None:
        """A broker has said all its bits; what it did not say is off."""
        if broker in self._said_again:
            self._wanted[broker] = self._said_again.pop(broker)
            self._bits.clear()

    def enter(self, cluster: int, broker: BrokerId | None) -> None:
        """Who says a cluster's bits from now on, None: nobody."""
        if broker is None:
            self._entries.pop(cluster, None)
        else:
            self._entries[cluster] = broker
        self._bits.clear()

    def forget(self, broker: BrokerId) -> None:
        """A broker is told nothing any more."""
        self._wanted.pop(broker, None)
        self._said_again.pop(broker, None)
        self._bits.clear()


def _by_client(rows: Collection[HostedRow]) -> Mapping[ClientId, tuple[HostedRow, ...]]:
    found: dict[ClientId, list[HostedRow]] = {}
    for row in rows:
        found.setdefault(row.advertisement.publisher, []).append(row)
    return {client: tuple(mine) for client, mine in found.items()}
