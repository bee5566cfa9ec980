"""Publications that have no way at one broker of OctopiA, until there is one.

What should go over a broken way is kept, unsettled, and goes when there is another, marked as sent
before, since nobody knows what of it has arrived.  What has had none for too long is dropped: who
is there counts as gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from shoal.broker.custody import marked
from shoal.broker.effects import Effect, Key, SetTimer, TimerKey, Unsettled
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId
from shoal.overlays.octopia.labels import Product
from shoal.overlays.octopia.parameters import Parameters
from shoal.overlays.octopia.tables import Tables
from shoal.overlays.octopia.ways import clusters_of

TIMER: TimerKey = ("patience",)
# What is missed where nobody is linked up to; the others are clusters.
UP = -1

Publications = tuple[RoutedPublication, ...]


class Kept(NamedTuple):
    """Publications without a way: to these clusters, and these regions of this cluster."""

    publications: Publications
    hops: int
    owed: int
    regions: tuple[int, ...]
    shifts: Mapping[int, int]


class Keeping:
    """What waits for a way at a broker of `cluster`."""

    def __init__(
        self, product: Product, cluster: int, tables: Tables, parameters: Parameters
    ) -> None:
        self._product = product
        self._cluster = cluster
        self._tables = tables
        self._parameters = parameters
        self._kept: dict[Key, list[Kept]] = {}
        self._streams: set[tuple[ClientId, int]] = set()
        self._number = 0
        # When brokers' links last changed; since when nobody is used for a purpose.
        self._gone_us: dict[BrokerId, int] = {}
        self._missed_us: dict[int, int] = {}
        self._started_us = 0
        self._is_timer_set = False

    def __len__(self) -> int:
        """How many publications wait."""
        return sum(len(each.publications) for parts in self._kept.values() for each in parts)

    def __contains__(self, key: Key) -> bool:
        """Whether anything is kept under this key."""
        return key in self._kept

    def holds_up(self, client: ClientId, cluster: int) -> bool:
        """Whether a publisher's publications to a cluster wait."""
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
        owed &= ~sum(1 << each for each in clusters_of(owed) if self._is_hopeless(each, now_us))
        regions = tuple(each for each in regions if not self._is_hopeless(self._on(each), now_us))
        if not owed and not regions:
            return
        if key is None:
            self._number += 1
            key = ("kept", str(self._number))
            out.append(Unsettled(key))
        if regions:
            publications = tuple(_again(routed) for routed in publications)
        self._kept.setdefault(key, []).append(Kept(publications, hops, owed, regions, shifts))
        for routed in publications:
            publisher = routed.publication.publisher
            waiting = [each for each in clusters_of(owed) if each not in shifts]
            self._streams |= {(publisher, cluster) for cluster in waiting}
        self._set_timer(now_us + self._parameters.patience_us + 1, out)

    def take(self) -> Mapping[Key, list[Kept]]:
        """Take all of it out, by key."""
        kept, self._kept = self._kept, {}
        self._streams.clear()
        return kept

    # --- how long -----------------------------------------------------------------------------

    def start(self, now_us: int) -> None:
        """The broker starts: who is not there now is missed from now on."""
        self._started_us = now_us

    def linked(self, broker: BrokerId, now_us: int) -> None:
        """A broker's link came up, or is gone."""
        self._gone_us[broker] = now_us

    def missed(self, what: int, now_us: int) -> None:
        """Nobody is used to enter a cluster, or to link up (`UP`), maybe since earlier."""
        self._missed_us.setdefault(what, now_us)

    def found(self, what: int) -> None:
        """Somebody is."""
        self._missed_us.pop(what, None)

    def timer_fired(self) -> None:
        """`TIMER` has fired."""
        self._is_timer_set = False

    def look_again(self, now_us: int, out: list[Effect]) -> None:
        """What still waits is looked at again a little later."""
        if self._kept:
            self._set_timer(now_us + self._parameters.retry_us, out)

    def _set_timer(self, at_us: int, out: list[Effect]) -> None:
        if not self._is_timer_set:
            self._is_timer_set = True
            out.append(SetTimer(TIMER, at_us))

    def _on(self, region: int) -> BrokerId | int:
        """What is missed where a region is out of reach: the next broker on the way, or the top."""
        next_region = self._tables.next_region(region)
        return UP if next_region is None else self._product.broker(next_region, self._cluster)

    def _is_hopeless(self, missed: BrokerId | int, now_us: int) -> bool:
        if isinstance(missed, str):
            since_us = self._gone_us.get(missed, self._started_us)
        else:
            since_us = self._missed_us.get(missed, now_us)
        return now_us - since_us > self._parameters.patience_us


def in_order(kept: Mapping[Key, list[Kept]]) -> list[tuple[Key, Kept]]:
    """What is kept in its publishers' order, as they count their publications up.

    What came back was sent before what was kept.
    """
    parts = [(key, part) for key, parts in kept.items() for part in parts]
    return sorted(parts, key=lambda entry: entry[1].publications[0].publication.sequence)


def _again(routed: RoutedPublication) -> RoutedPublication:
    if not routed.publication.assured or routed.publication.again:
        return routed
    return RoutedPublication(marked(routed.publication), routed.message_id)
