"""Where publications go at one broker of OctopiA (VII), and what waits for a way.

In its cluster a publication goes to the homes that want it, over the tree as it is: a copy that
comes from above is for those below, one from below for all that the sender does not lead to, one
from another cluster for all.  Clusters that are owed are entered or carried (`ways`).

Where a way is broken what should go over it is kept, and goes when there is another, marked as sent
before, since nobody knows what of it has arrived.  What has had none for too long is dropped: who
is there counts as gone.  Both ends of a broken link see alike, so nothing goes round: up a tree,
down a tree, or, said so (`Notification.only`), for homes that a copy has missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from shoal.broker.custody import marked
from shoal.broker.effects import (
    Continue,
    Deliver,
    Effect,
    Key,
    Send,
    SetTimer,
    Settled,
    TimerKey,
    Unsettled,
)
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId
from shoal.overlays.octopia.hosted import Hosted
from shoal.overlays.octopia.labels import Product
from shoal.overlays.octopia.messages import Notification
from shoal.overlays.octopia.outputs import Outputs
from shoal.overlays.octopia.parameters import Dynamic, Parameters
from shoal.overlays.octopia.tables import Tables
from shoal.overlays.octopia.ways import clusters_of, copies, shortest

TIMER: TimerKey = ("patience",)
# What is missed where nobody is linked up to; the others are clusters.
UP = -1
# Sets of homes that are remembered with their ways: some MB.
MAX_REACHES = 10_000

Publications = tuple[RoutedPublication, ...]


class Reach(NamedTuple):
    """How some homes are reached from here.

    inner       the regions of each neighbour that leads to some of them
    unreached   those to which no link leads now
    is_local    this broker is one of them
    """

    inner: Mapping[BrokerId, tuple[int, ...]]
    unreached: tuple[int, ...]
    is_local: bool


class Kept(NamedTuple):
    """Publications without a way: to these clusters, and these regions of this cluster."""

    publications: Publications
    hops: int
    owed: int
    regions: tuple[int, ...]


class Routing:
    """The routing of the broker of `region` in `cluster`.

    `entry_of` says by whom a cluster is entered now, and `is_usable` whether a neighbour is linked
    and has said what must be known before it is sent anything.
    """

    def __init__(
        self,
        product: Product,
        broker: BrokerId,
        tables: Tables,
        hosted: Hosted,
        outputs: Outputs,
        parameters: Parameters,
        entry_of: Callable[[int], BrokerId | None],
        is_usable: Callable[[BrokerId], bool],
    ) -> None:
        self._product = product
        self._region, self._cluster = product.position(broker)
        self._tables = tables
        self._hosted = hosted
        self._outputs = outputs
        self._parameters = parameters
        self._is_static = parameters.dynamic is Dynamic.STATIC
        self._entry_of = entry_of
        self._is_usable = is_usable
        self._reaches: dict[tuple[object, ...], Reach] = {}
        self._kept: dict[Key, list[Kept]] = {}
        self._number = 0
        # When brokers' links last changed; since when nobody is used for a purpose.
        self._gone_us: dict[BrokerId, int] = {}
        self._missed_us: dict[int, int] = {}
        self._started_us = 0
        self._is_timer_set = False
        self.diverted = 0

    @property
    def kept(self) -> int:
        """How many publications wait for a way."""
        return sum(len(each.publications) for parts in self._kept.values() for each in parts)

    def start(self, now_us: int) -> None:
        """The broker starts: who is not there now is missed from now on."""
        self._started_us = now_us

    # --- publications -------------------------------------------------------------------------

    def publish(
        self, client: ClientId, publications: Publications, now_us: int, out: list[Effect]
    ) -> None:
        """What a local client publishes."""
        groups: dict[int, list[RoutedPublication]] = {}
        for routed in publications:
            owed = self._hosted.owed(client, routed.publication.attributes)
            groups.setdefault(owed, []).append(routed)
        for owed, group in groups.items():
            self._go(tuple(group), 0, None, owed, None, now_us, out)

    def receive(
        self, neighbour: BrokerId, message: Notification, now_us: int, out: list[Effect]
    ) -> None:
        """What a neighbour passes on."""
        only = frozenset(message.only) if message.only else None
        owed = message.owed & ~(1 << self._cluster)
        self._go(message.publications, message.hops, neighbour, owed, only, now_us, out)

    def take_back(
        self,
        neighbour: BrokerId,
        message: Notification,
        led_to: Iterable[int],
        now_us: int,
        out: list[Effect],
    ) -> None:
        """What a lost neighbour, who led to these regions of this cluster, has not settled."""
        owed, regions = message.owed, frozenset(message.only or led_to)
        position = self._product.position(neighbour)
        if position.cluster != self._cluster:
            owed, regions = owed | 1 << position.cluster, frozenset()
        self._go(message.publications, message.hops - 1, None, owed, regions, now_us, out)

    def led_to(self, neighbour: BrokerId) -> list[int]:
        """The regions of this cluster whose way begins at a neighbour."""
        region, cluster = self._product.position(neighbour)
        if cluster != self._cluster:
            return []
        return [each for each in self._tables.homes if self._tables.next_region(each) == region]

    def _go(
        self,
        publications: Publications,
        hops: int,
        source: BrokerId | None,
        owed: int,
        regions: frozenset[int] | None,
        now_us: int,
        out: list[Effect],
        key: Key | None = None,
    ) -> None:
        """Route publications; what has no way is kept, under `key` if it was before."""
        groups: dict[int, tuple[Reach, list[RoutedPublication]]] = {}
        for routed in publications:
            match = self._tables.matches.of(routed.publication.attributes)
            reach = self._reach(match.regions, source, regions)
            if reach.is_local:
                for client, subscriptions in match.clients:
                    out.append(Deliver(client, routed, subscriptions, hops))
            groups.setdefault(id(reach), (reach, []))[1].append(routed)
        for reach, group in groups.values():
            if owed or reach.inner or reach.unreached:
                self._pass_on(tuple(group), hops, reach, owed, regions, now_us, out, key)

    def _reach(
        self, wanted: tuple[int, ...], source: BrokerId | None, regions: frozenset[int] | None
    ) -> Reach:
        found = self._reaches.get((wanted, source, regions))
        if found is None:
            if len(self._reaches) > MAX_REACHES:
                self._reaches.clear()
            found = self._reaches[wanted, source, regions] = self._look(wanted, source, regions)
        return found

    def _look(
        self, wanted: tuple[int, ...], source: BrokerId | None, regions: frozenset[int] | None
    ) -> Reach:
        tables, product = self._tables, self._product
        sender: int | None = None
        if source is not None:
            position = product.position(source)
            sender = position.region if position.cluster == self._cluster else None
        is_from_above = sender is not None and sender < self._region
        inner: dict[BrokerId, list[int]] = {}
        unreached = []
        for region in wanted if regions is None else [each for each in wanted if each in regions]:
            if region == self._region:
                continue
            next_region = tables.next_region(region)
            if regions is None and sender is not None:
                if is_from_above and not tables.is_below(region):
                    continue
                if not is_from_above and next_region == sender:
                    continue
            if next_region is not None and next_region != sender:
                neighbour = product.broker(next_region, self._cluster)
                if self._is_usable(neighbour):
                    inner.setdefault(neighbour, []).append(region)
                    continue
            unreached.append(region)
        is_local = self._region in wanted and (regions is None or self._region in regions)
        ways = {neighbour: tuple(found) for neighbour, found in inner.items()}
        return Reach(ways, tuple(unreached), is_local)

    def _pass_on(
        self,
        publications: Publications,
        hops: int,
        reach: Reach,
        owed: int,
        regions: frozenset[int] | None,
        now_us: int,
        out: list[Effect],
        key: Key | None,
    ) -> None:
        entries: dict[int, BrokerId] = {}
        missing = 0
        for cluster in clusters_of(owed) if owed else ():
            entry = self._entry_of(cluster)
            if entry is None or not self._is_usable(entry):
                missing |= 1 << cluster
            else:
                entries[cluster] = entry
        if self._is_static:
            found = shortest(tuple(reach.inner), entries)
        else:
            found = self._copies(reach, entries, missing)
        for neighbour, bits in found.items():
            only = reach.inner.get(neighbour, ()) if regions is not None else ()
            missing &= ~bits
            self._outputs.sent(neighbour, len(publications))
            out.append(Send(neighbour, Notification(publications, hops + 1, bits, only)))
        if missing or reach.unreached:
            self._keep(publications, hops, missing, reach.unreached, now_us, out, key)

    def _copies(
        self, reach: Reach, entries: Mapping[int, BrokerId], missing: int
    ) -> dict[BrokerId, int]:
        cost, threshold = self._outputs.cost, self._parameters.threshold
        found = copies(tuple(reach.inner), entries, cost, threshold, missing)
        self.diverted += sum(found.values()) != 0
        return found

    # --- what has no way ----------------------------------------------------------------------

    def _keep(
        self,
        publications: Publications,
        hops: int,
        owed: int,
        regions: tuple[int, ...],
        now_us: int,
        out: list[Effect],
        key: Key | None,
    ) -> None:
        owed &= ~sum(1 << each for each in clusters_of(owed) if self._is_hopeless(each, now_us))
        regions = tuple(each for each in regions if not self._is_hopeless(self._on(each), now_us))
        if not owed and not regions:
            return
        if key is None:
            self._number += 1
            key = ("kept", str(self._number))
            out.append(Unsettled(key))
        again = tuple(_again(routed) for routed in publications)
        self._kept.setdefault(key, []).append(Kept(again, hops, owed, regions))
        if not self._is_timer_set:
            self._is_timer_set = True
            out.append(SetTimer(TIMER, now_us + self._parameters.patience_us + 1))

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

    def gone(self, broker: BrokerId, now_us: int) -> None:
        """A broker's link came up, or is gone."""
        self._gone_us[broker] = now_us

    def missed(self, what: int, now_us: int) -> None:
        """Nobody is used to enter a cluster, or to link up (`UP`), maybe since earlier."""
        self._missed_us.setdefault(what, now_us)

    def found(self, what: int) -> None:
        """Somebody is."""
        self._missed_us.pop(what, None)

    def changed(self, now_us: int, out: list[Effect]) -> None:
        """Links or tables have changed: what is kept may have a way now."""
        self._reaches.clear()
        kept, self._kept = self._kept, {}
        for key, parts in kept.items():
            out.append(Continue(key))
            for part in parts:
                regions = frozenset(part.regions)
                self._go(part.publications, part.hops, None, part.owed, regions, now_us, out, key)
            if key not in self._kept:
                out.append(Settled(key))
        if kept:
            out.append(Continue(None))

    def waited(self, now_us: int, out: list[Effect]) -> None:
        """The timer fired: what has waited for too long is dropped."""
        self._is_timer_set = False
        self.changed(now_us, out)
        if self._kept and not self._is_timer_set:
            self._is_timer_set = True
            out.append(SetTimer(TIMER, now_us + self._parameters.retry_us))


def _again(routed: RoutedPublication) -> RoutedPublication:
    if not routed.publication.assured or routed.publication.again:
        return routed
    return RoutedPublication(marked(routed.publication), routed.message_id)
