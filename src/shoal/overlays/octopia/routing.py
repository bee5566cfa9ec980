"""Where publications go at one broker of OctopiA (VII).

In its cluster a publication goes to the homes that want it, over the tree as it is: a copy that
comes from above is for those below, one from below for all that the sender does not lead to, one
from another cluster for all.  Clusters that are owed are entered or carried (`ways`).

Where a way is broken what should go over it is kept until there is another (`keeping`).  Both ends
of a broken link see alike, so nothing goes round: up a tree, down a tree, or, said so
(`Notification.only`), for homes that a copy has missed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import NamedTuple

from shoal.broker.effects import (
    Continue,
    Deliver,
    Effect,
    Key,
    Send,
    SetTimer,
    Settled,
    TimerKey,
)
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId
from shoal.overlays.octopia.hosted import Hosted
from shoal.overlays.octopia.keeping import Keeping, Publications, in_order
from shoal.overlays.octopia.labels import Product
from shoal.overlays.octopia.messages import Notification, Probe, ProbePassed
from shoal.overlays.octopia.ordering import Ordering, carried
from shoal.overlays.octopia.outputs import Outputs
from shoal.overlays.octopia.parameters import Dynamic, Parameters
from shoal.overlays.octopia.tables import Tables
from shoal.overlays.octopia.ways import clusters_of, copies, shortest

RETRY: TimerKey = ("retry",)
# Sets of homes that are remembered with their ways: some MB.
MAX_REACHES = 10_000


class Reach(NamedTuple):
    """How some homes are reached from here.

    inner       the regions of each neighbour that leads to some of them
    unreached   those to which no link leads now
    is_local    this broker is one of them
    """

    inner: Mapping[BrokerId, tuple[int, ...]]
    unreached: tuple[int, ...]
    is_local: bool


class Routing:
    """The routing of the broker of `region` in `cluster`.

    `entry_of` says by whom a cluster is entered now, and `is_usable` whether a neighbour is linked
    and has said what must be known before it is sent anything; `linked` are linked at the start.
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
        linked: Iterable[BrokerId],
    ) -> None:
        self._product = product
        self._region, self._cluster = product.position(broker)
        self._tables = tables
        self._hosted = hosted
        self._outputs = outputs
        self._parameters = parameters
        self._is_ordered = parameters.dynamic is Dynamic.ORDERED
        self._entry_of = entry_of
        self._is_usable = is_usable
        self._reaches: dict[tuple[object, ...], Reach] = {}
        self.kept = Keeping(product, self._cluster, tables, parameters, linked)
        self.diverted = 0
        self.ordering = Ordering(broker)
        # Probes that wait behind what is kept here, and whom they came from.
        self._probes: list[tuple[Probe, BrokerId]] = []

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
        only = None if message.only is None else frozenset(message.only)
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
        only = message.only
        owed, regions = message.owed, frozenset(led_to if only is None else only)
        position = self._product.position(neighbour)
        if position.cluster != self._cluster:
            owed, regions = owed | 1 << position.cluster, frozenset()
        owed &= ~(1 << self._cluster)
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
        groups: dict[tuple[int, ClientId], tuple[Reach, list[RoutedPublication]]] = {}
        for routed in publications:
            match = self._tables.matches.of(routed.publication.attributes)
            reach = self._reach(match.regions, source, regions)
            if reach.is_local:
                for client, subscriptions in match.clients:
                    out.append(Deliver(client, routed, subscriptions, hops))
            by = routed.publication.publisher if self._is_ordered else ""
            groups.setdefault((id(reach), by), (reach, []))[1].append(routed)
        for reach, group in groups.values():
            if owed or reach.inner or reach.unreached:
                self._pass_on(tuple(group), hops, source, reach, owed, regions, now_us, out, key)

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
        source: BrokerId | None,
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
        entered = set(entries.values())
        if self._parameters.dynamic is Dynamic.STATIC:
            found = shortest(tuple(reach.inner), entries)
        elif not self._is_ordered:
            found = self._copies(reach, entries, missing)
        else:
            client = publications[0].publication.publisher
            for cluster in entries:
                # Nothing of its stream can be before it any more: it came from there.
                if hops > self._product.regions or self.ordering.way(client, cluster) == source:
                    self.ordering.forget(client, cluster)
            behind = {each for each in entries if key is None and self.kept.holds_up(client, each)}
            found, held = self._ordered(client, hops == 0, behind, reach, entries, now_us, out)
            missing |= held
            entered = {
                entry
                for each, entry in entries.items()
                if not held >> each & 1 and self.ordering.way(client, each) is None
            }
        self.diverted += any(found.values()) * len(publications)
        for neighbour, bits in found.items():
            missing &= ~bits
            only = None
            if neighbour not in entered and (regions is not None or neighbour not in reach.inner):
                only = reach.inner.get(neighbour, ())
            self._outputs.sent(neighbour, len(publications))
            out.append(Send(neighbour, Notification(publications, hops + 1, bits, only)))
        if missing or reach.unreached:
            self.kept.keep(publications, hops, missing, reach.unreached, now_us, out, key)

    def _copies(
        self, reach: Reach, entries: Mapping[int, BrokerId], missing: int
    ) -> dict[BrokerId, int]:
        cost, threshold = self._outputs.cost, self._parameters.threshold
        return copies(tuple(reach.inner), entries, cost, threshold, missing)

    def _ordered(
        self,
        client: ClientId,
        is_host: bool,
        behind: Container[int],
        reach: Reach,
        entries: Mapping[int, BrokerId],
        now_us: int,
        out: list[Effect],
    ) -> tuple[dict[BrokerId, int], int]:
        """The copies by a publisher's ways, and the bits of clusters for which to wait now.

        To some clusters this is `behind` what is kept.
        """
        ordering = self.ordering
        open = {
            each: to
            for each, to in entries.items()
            if each not in behind and not ordering.is_probed(client, each)
        }
        changes = self._changes(client, is_host, reach, open, now_us) if open else {}
        if changes:
            along: dict[BrokerId, tuple[int, bool]] = {}
            for cluster in changes:
                self._lead(client, cluster, entries[cluster], along)
            ordering.change(client, changes, along, out)
        found = dict.fromkeys(reach.inner, 0)
        held = 0
        for cluster, entry in entries.items():
            if cluster in behind or ordering.is_probed(client, cluster):
                held |= 1 << cluster
                continue
            way = ordering.way(client, cluster)
            carrier, bits = (entry, 0) if way is None else (way, 1 << cluster)
            found[carrier] = found.get(carrier, 0) | bits
        return found, held

    def _changes(
        self,
        client: ClientId,
        is_host: bool,
        reach: Reach,
        entries: Mapping[int, BrokerId],
        now_us: int,
    ) -> dict[int, BrokerId | None]:
        """The ways to these clusters that should be others: by cluster, who is to carry its bit.

        A broker of another cluster carries from the host only, from there on those of its own:
        ways are kept, so only that keeps them from going round.
        """
        outputs, threshold = self._outputs, self._parameters.threshold
        ways = {each: self.ordering.way(client, each) for each in entries}
        now = {each: ways[each] or entry for each, entry in entries.items()}
        found: dict[int, BrokerId | None] = {}
        crowded = [each for each, neighbour in now.items() if outputs.cost(neighbour) > threshold]
        if crowded:
            better = carried(entries, self._copies(reach, entries, 0))
            for cluster in crowded:
                way = better[cluster]
                if not is_host and way not in (None, *reach.inner):
                    continue
                if 2 * outputs.cost(way or entries[cluster]) <= outputs.cost(now[cluster]):
                    found[cluster] = way
        for cluster, former in ways.items():
            is_free = outputs.is_free(entries[cluster], self._parameters.return_us, now_us)
            if former is not None and cluster not in found and is_free:
                found[cluster] = None
        return {each: way for each, way in found.items() if way != ways[each]}

    def _lead(
        self,
        client: ClientId,
        cluster: int,
        entry: BrokerId,
        along: dict[BrokerId, tuple[int, bool]],
    ) -> None:
        """Add the way that a publisher's publications take to a cluster."""
        way = self.ordering.way(client, cluster)
        if way is None:
            owed, _ = along.get(entry, (0, False))
            along[entry] = (owed, True)
        else:
            owed, spreads = along.get(way, (0, False))
            along[way] = (owed | 1 << cluster, spreads)

    # --- probes -------------------------------------------------------------------------------

    def probe(self, probe: Probe, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A neighbour's probe goes on behind the publications that it is about."""
        along: dict[BrokerId, tuple[int, bool]] = {}
        for cluster in clusters_of(probe.owed & ~(1 << self._cluster)):
            entry = self._entry_of(cluster)
            if entry is not None and self._is_usable(entry):
                self._lead(probe.publisher, cluster, entry, along)
        if self.kept.has_of(probe.publisher):
            self._probes.append((probe, neighbour))
            return
        for each in self._tree_neighbours(neighbour) if probe.spreads else ():
            owed, _ = along.get(each, (0, False))
            along[each] = (owed, True)
        self.ordering.pass_on(probe, neighbour, along, out)

    def _tree_neighbours(self, source: BrokerId) -> list[BrokerId]:
        """To whom of this cluster goes on what comes from a broker."""
        region, cluster = self._product.position(source)
        found = [each for each, home in self._tables.homes.items() if home.up == self._region]
        up = self._tables.own.up
        if up is not None and (cluster != self._cluster or region > self._region):
            found.append(up)
        brokers = [self._product.broker(each, self._cluster) for each in found]
        return [each for each in brokers if each != source and self._is_usable(each)]

    def passed(
        self, neighbour: BrokerId, message: ProbePassed, now_us: int, out: list[Effect]
    ) -> None:
        """A probe has been everywhere behind a neighbour."""
        if self.ordering.passed(neighbour, message, out):
            self.changed(now_us, out)

    # --- what has no way ----------------------------------------------------------------------

    def linked(self, broker: BrokerId, is_up: bool, now_us: int, out: list[Effect]) -> None:
        """A broker's link came up, or is gone."""
        self.kept.linked(broker, is_up, now_us, out)
        self._probes = [each for each in self._probes if each[1] != broker]
        if is_up:
            self.ordering.begun_anew(broker, out)
        else:
            # What was unsettled there comes back first.
            self.ordering.lost(broker, out)
            out.append(SetTimer(RETRY, now_us))

    def changed(self, now_us: int, out: list[Effect], *, is_retried: bool = True) -> None:
        """Links or tables have changed: what is kept may have a way now."""
        self._reaches.clear()
        if not is_retried:
            return
        kept = self.kept.take()
        for key, part in in_order(kept):
            out.append(Continue(key))
            regions = frozenset(part.regions)
            self._go(part.publications, part.hops, None, part.owed, regions, now_us, out, key)
        out += [Settled(key) for key in kept if key not in self.kept]
        if kept:
            out.append(Continue(None))
        probes, self._probes = self._probes, []
        for probe, neighbour in probes:
            self.probe(probe, neighbour, now_us, out)

    def waited(self, now_us: int, out: list[Effect]) -> None:
        """The timer fired: what has waited for too long is dropped."""
        self.kept.count()
        self.changed(now_us, out)
        self.kept.go_on(now_us, out)
