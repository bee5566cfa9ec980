"""Kept publications: those without a path at one broker, until there is one.

A publication for a broken path is kept, unsettled, until there is another, and goes there marked as
a retransmission, since its earlier copy may have arrived. It is dropped after the timeout: its
receivers count as dead. A timer counts quarters of the timeout, not the clock: so a pause of this
broker, after which others' messages are yet to be read, counts as one quarter at most.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from shoal.broker.ack_tracker import marked
from shoal.broker.effects import Effect, Key, SetTimer, TimerKey, Unsettled
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId
from shoal.overlays.octopia.known.tables import Tables
from shoal.overlays.octopia.parameters import OctopiaParameters
from shoal.overlays.octopia.places.labels import Position, Product
from shoal.overlays.octopia.ways.copies import bits_of, clusters_of

TIMER: TimerKey = ("patience",)
# Of the timeout; a broker missed for these and a started one counts as dead.
QUARTERS = 4

Publications = tuple[RoutedPublication, ...]


class KeptPublications(NamedTuple):
    """Publications without a path: to these clusters, and these regions of this cluster."""

    publications: Publications
    hops: int
    owed: int
    regions: tuple[int, ...]
    shifts: Mapping[int, int]


class Keeping:
    """Publications that wait for a path at a broker of `cluster`.

    Neighbours in `still` are connected, and sent nothing for a while: publications for them are
    kept.
    """

    def __init__(
        self,
        product: Product,
        cluster: int,
        tables: Tables,
        parameters: OctopiaParameters,
        linked: Iterable[BrokerId],
        still: Container[BrokerId],
    ) -> None:
        self._product = product
        self._cluster = cluster
        self._tables = tables
        self._parameters = parameters
        self._still = still
        self._kept: dict[Key, list[KeptPublications]] = {}
        # Publishers and clusters of kept publications: of all, and of unnumbered ones; and the
        # hosts of numbered ones, with their clusters.
        self._owed: set[tuple[ClientId, int]] = set()
        self._streams: set[tuple[ClientId, int]] = set()
        self._numbered: set[tuple[BrokerId, int]] = set()
        self._number = 0
        # Whether unsettled publications of a lost neighbour may yet be returned, to be kept.
        self.is_returning = False
        # Quarters so far: of kept publications, by key; of missed brokers and clusters, and of
        # reconnected ones.
        self._waited: dict[Key, int] = {}
        self._missed: dict[BrokerId | int, int] = {}
        self._linked = set(linked)
        self._is_timer_set = False

    def __len__(self) -> int:
        """Number of kept publications."""
        return sum(len(each.publications) for parts in self._kept.values() for each in parts)

    def __contains__(self, key: Key) -> bool:
        """Whether anything is kept under this key."""
        return key in self._kept

    @property
    def owed(self) -> set[int]:
        """The clusters with publications that wait for a path."""
        return {
            cluster
            for part in chain.from_iterable(self._kept.values())
            for cluster in clusters_of(part.owed)
        }

    def is_inner(self, source: int | None) -> bool:
        """Whether a publication waits for a path in this cluster that may have come from a region.

        Publications towards that region did not; None: from none of this cluster.
        """
        return any(
            source is None or self._tables.next_region(region) != source
            for part in chain.from_iterable(self._kept.values())
            for region in part.regions
        )

    def has_for(self, client: ClientId, cluster: int) -> bool:
        """Whether any of a publisher's publications to a cluster wait, numbered or not."""
        return (client, cluster) in self._owed

    def has_of(self, host: BrokerId, cluster: int) -> bool:
        """Whether a publication of a host waits that is numbered for a cluster."""
        return (host, cluster) in self._numbered

    def holds_up(self, client: ClientId, cluster: int) -> bool:
        """Whether a publisher's unnumbered publications to a cluster wait."""
        return (client, cluster) in self._streams

    def keep(
        self,
        publications: Publications,
        hops: int,
        owed: int,
        regions: tuple[int, ...],
        now_us: int,
        out: list[Effect],
        key: Key | None,
        shifts: Mapping[int, int],
    ) -> None:
        """Keep these for destinations that may be reached yet, under `key` if they were kept
        before; drop them for all others.
        """
        waited = 0 if key is None else self._waited.get(key, 0)
        owed &= ~bits_of(each for each in clusters_of(owed) if self._is_hopeless(each, waited))
        regions = tuple(each for each in regions if not self._is_hopeless(self._on(each), waited))
        if not owed and not regions:
            return
        if key is None:
            self._number += 1
            key = ("kept", str(self._number))
            out.append(Unsettled(key))
        if any(self._on(each) not in self._still for each in regions):
            publications = tuple(again(routed) for routed in publications)
        self._kept.setdefault(key, []).append(
            KeptPublications(publications, hops, owed, regions, shifts)
        )
        publishers = {routed.publication.publisher for routed in publications}
        for cluster in clusters_of(owed):
            streams = {(publisher, cluster) for publisher in publishers}
            self._owed |= streams
            if cluster in shifts:
                self._numbered.add((publications[0].message_id.broker, cluster))
            else:
                self._streams |= streams
        self._set_patience_timer(now_us, out)

    def take(self) -> Mapping[Key, list[KeptPublications]]:
        """Take all of them out, by key."""
        kept, self._kept = self._kept, {}
        self._owed.clear()
        self._streams.clear()
        self._numbered.clear()
        return kept

    # --- how long -----------------------------------------------------------------------------

    def linked(self, broker: BrokerId, is_up: bool, now_us: int, out: list[Effect]) -> None:
        """A broker's link came up, and its announcements are incomplete; or it is lost.

        A broker that was asked for a link in vain is missed as before.
        """
        if not is_up and broker not in self._linked:
            return
        (self._linked.add if is_up else self._linked.discard)(broker)
        self._missed[broker] = 0
        self._set_patience_timer(now_us, out)

    def is_linked(self, broker: BrokerId) -> bool:
        """Whether a broker's link is up, with or without its announcements."""
        return broker in self._linked

    def look_for(
        self, entries: Mapping[int, BrokerId | None], now_us: int, out: list[Effect]
    ) -> None:
        """Note the entry brokers of clusters; None: there is none.

        The brokers of clusters that are not in `entries` have left.
        """
        for cluster in (*entries, *self.owed):
            if entries.get(cluster) is not None:
                self._missed.pop(cluster, None)
            elif cluster not in self._missed:
                self._missed[cluster] = 0
                self._set_patience_timer(now_us, out)

    def count(self) -> None:
        """`TIMER` has fired: one more quarter has passed for all."""
        self._is_timer_set = False
        self._waited = {key: self._waited.get(key, 0) + 1 for key in self._kept}
        self._missed = {
            each: min(quarters, QUARTERS) + 1
            for each, quarters in self._missed.items()
            if quarters <= QUARTERS or each not in self._linked
        }

    def continue_count(self, now_us: int, out: list[Effect]) -> None:
        """Count on, while there is something to count."""
        if self._kept or any(quarters <= QUARTERS for quarters in self._missed.values()):
            self._set_patience_timer(now_us, out)

    def _set_patience_timer(self, now_us: int, out: list[Effect]) -> None:
        if not self._is_timer_set:
            self._is_timer_set = True
            out.append(SetTimer(TIMER, now_us + -(-self._parameters.patience_us // QUARTERS)))

    def _on(self, region: int) -> BrokerId:
        """The missed broker for an unreachable region: the next hop on the path."""
        next_region = self._tables.next_region(region)
        if next_region is None:
            return ""
        return self._product.at(Position(next_region, self._cluster)) or ""

    def _is_hopeless(self, missed: BrokerId | int, waited: int) -> bool:
        """Whether a publication that has waited so long for a broker, or for a cluster's entry, is
        dropped.
        """
        if isinstance(missed, int):
            return self._missed.get(missed, 0) > QUARTERS
        if missed in self._still:
            return False
        if missed in self._linked:
            return min(waited, self._missed.get(missed, waited)) > QUARTERS
        return self._missed.setdefault(missed, 0) > QUARTERS


def in_order(kept: Mapping[Key, list[KeptPublications]]) -> list[tuple[Key, KeptPublications]]:
    """Kept publications in the order of their publishers' counts.

    Returned ones were sent before kept ones.
    """
    parts = [(key, part) for key, parts in kept.items() for part in parts]
    return sorted(parts, key=lambda entry: entry[1].publications[0].publication.sequence)


def again(routed: RoutedPublication) -> RoutedPublication:
    """The publication marked as a retransmission, if it is assured."""
    if not routed.publication.assured or routed.publication.again:
        return routed
    return RoutedPublication(marked(routed.publication), routed.message_id)
