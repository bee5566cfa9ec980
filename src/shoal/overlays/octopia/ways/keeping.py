"""Publications that have no way at one broker of OctopiA, until there is one.

What should go over a broken way is kept, unsettled, and goes when there is another, marked as sent
before, since nobody knows what of it has arrived.  What has had none for too long is dropped: who
is there counts as gone.  How long is counted by a timer, in quarters, not by the clock: so a pause
of this broker, after which what others have said is yet to be read, counts for one at most.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from shoal.broker.custody import marked
from shoal.broker.effects import Effect, Key, SetTimer, TimerKey, Unsettled
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId
from shoal.overlays.octopia.known.tables import Tables
from shoal.overlays.octopia.parameters import Parameters
from shoal.overlays.octopia.places.labels import Position, Product
from shoal.overlays.octopia.ways.copies import bits_of, clusters_of

TIMER: TimerKey = ("patience",)
# Of the patience; who is missed when these and a started one have passed counts as gone.
QUARTERS = 4

Publications = tuple[RoutedPublication, ...]


class Kept(NamedTuple):
    """Publications without a way: to these clusters, and these regions of this cluster."""

    publications: Publications
    hops: int
    owed: int
    regions: tuple[int, ...]
    shifts: Mapping[int, int]


class Keeping:
    """What waits for a way at a broker of `cluster`.

    Neighbours that are `still` are there, and sent nothing for a while: for them all waits.
    """

    def __init__(
        self,
        product: Product,
        cluster: int,
        tables: Tables,
        parameters: Parameters,
        linked: Iterable[BrokerId],
        still: Container[BrokerId],
    ) -> None:
        self._product = product
        self._cluster = cluster
        self._tables = tables
        self._parameters = parameters
        self._still = still
        self._kept: dict[Key, list[Kept]] = {}
        # Of it, the publishers and clusters: of all, and of what is not numbered for them; and the
        # hosts, with clusters for which it is.
        self._owed: set[tuple[ClientId, int]] = set()
        self._streams: set[tuple[ClientId, int]] = set()
        self._numbered: set[tuple[BrokerId, int]] = set()
        self._number = 0
        # Whether what was unsettled at a neighbour that is lost may yet come back, to be kept.
        self.is_returning = False
        # For how many quarters: what is kept, by key; who is missed, and who came back just now.
        self._waited: dict[Key, int] = {}
        self._missed: dict[BrokerId | int, int] = {}
        self._linked = set(linked)
        self._is_timer_set = False

    def __len__(self) -> int:
        """How many publications wait."""
        return sum(len(each.publications) for parts in self._kept.values() for each in parts)

    def __contains__(self, key: Key) -> bool:
        """Whether anything is kept under this key."""
        return key in self._kept

    @property
    def owed(self) -> set[int]:
        """The clusters to which anything waits for a way."""
        return {
            cluster
            for part in chain.from_iterable(self._kept.values())
            for cluster in clusters_of(part.owed)
        }

    def is_inner(self, source: int | None) -> bool:
        """Whether anything waits for a way in this cluster that may have come from a region.

        What goes there did not; None: from none of this cluster.
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
        """Whether anything of a host waits that is numbered for a cluster."""
        return (host, cluster) in self._numbered

    def holds_up(self, client: ClientId, cluster: int) -> bool:
        """Whether a publisher's publications to a cluster wait that are not numbered for it."""
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
        """Keep these for what may be reached yet, under `key` if they were kept before."""
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
        self._kept.setdefault(key, []).append(Kept(publications, hops, owed, regions, shifts))
        publishers = {routed.publication.publisher for routed in publications}
        for cluster in clusters_of(owed):
            streams = {(publisher, cluster) for publisher in publishers}
            self._owed |= streams
            if cluster in shifts:
                self._numbered.add((publications[0].message_id.broker, cluster))
            else:
                self._streams |= streams
        self._set_timer(now_us, out)

    def take(self) -> Mapping[Key, list[Kept]]:
        """Take all of it out, by key."""
        kept, self._kept = self._kept, {}
        self._owed.clear()
        self._streams.clear()
        self._numbered.clear()
        return kept

    # --- how long -----------------------------------------------------------------------------

    def linked(self, broker: BrokerId, is_up: bool, now_us: int, out: list[Effect]) -> None:
        """A broker's link came up, and it has yet to say what it knows; or it is gone.

        Who was asked for one in vain is missed as before.
        """
        if not is_up and broker not in self._linked:
            return
        (self._linked.add if is_up else self._linked.discard)(broker)
        self._missed[broker] = 0
        self._set_timer(now_us, out)

    def is_linked(self, broker: BrokerId) -> bool:
        """Whether a broker's link is up, whatever it has yet to say."""
        return broker in self._linked

    def look_for(
        self, entries: Mapping[int, BrokerId | None], now_us: int, out: list[Effect]
    ) -> None:
        """By whom clusters are entered now, None: by nobody; all brokers of others have left."""
        for cluster in (*entries, *self.owed):
            if entries.get(cluster) is not None:
                self._missed.pop(cluster, None)
            elif cluster not in self._missed:
                self._missed[cluster] = 0
                self._set_timer(now_us, out)

    def count(self) -> None:
        """`TIMER` has fired: one more quarter has passed for all."""
        self._is_timer_set = False
        self._waited = {key: self._waited.get(key, 0) + 1 for key in self._kept}
        self._missed = {
            each: min(quarters, QUARTERS) + 1
            for each, quarters in self._missed.items()
            if quarters <= QUARTERS or each not in self._linked
        }

    def go_on(self, now_us: int, out: list[Effect]) -> None:
        """Count on, while there is something to count."""
        if self._kept or any(quarters <= QUARTERS for quarters in self._missed.values()):
            self._set_timer(now_us, out)

    def _set_timer(self, now_us: int, out: list[Effect]) -> None:
        if not self._is_timer_set:
            self._is_timer_set = True
            out.append(SetTimer(TIMER, now_us + -(-self._parameters.patience_us // QUARTERS)))

    def _on(self, region: int) -> BrokerId:
        """Who is missed where a region is out of reach: the next broker on the way."""
        next_region = self._tables.next_region(region)
        if next_region is None:
            return ""
        return self._product.at(Position(next_region, self._cluster)) or ""

    def _is_hopeless(self, missed: BrokerId | int, waited: int) -> bool:
        """Whether what has waited so long for a broker, or for a cluster's entry, waits in vain."""
        if isinstance(missed, int):
            return self._missed.get(missed, 0) > QUARTERS
        if missed in self._still:
            return False
        if missed in self._linked:
            return min(waited, self._missed.get(missed, waited)) > QUARTERS
        return self._missed.setdefault(missed, 0) > QUARTERS


def in_order(kept: Mapping[Key, list[Kept]]) -> list[tuple[Key, Kept]]:
    """What is kept in its publishers' order, as they count their publications up.

    What came back was sent before what was kept.
    """
    parts = [(key, part) for key, parts in kept.items() for part in parts]
    return sorted(parts, key=lambda entry: entry[1].publications[0].publication.sequence)


def again(routed: RoutedPublication) -> RoutedPublication:
    """It marked as sent before, if anybody waits for it."""
    if not routed.publication.assured or routed.publication.again:
        return routed
    return RoutedPublication(marked(routed.publication), routed.message_id)
