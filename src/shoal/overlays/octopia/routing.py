"""Routing of publications at one OctopiA broker (VII).

In its cluster a publication goes to the edge brokers with subscribers, over the tree as it is: a
copy from above is for those below, one from below for all that the sender does not lead to, one
from another cluster for all. Owed clusters are entered or carried (`ways`).

Publications for a broken path are kept until there is another (`keeping`). Both ends of a broken
link decide alike, so nothing loops: up a tree, down a tree, or, if marked so (`Notification.only`),
for edge brokers that a copy has missed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from itertools import groupby

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
from shoal.overlays.octopia.known.hosted import Hosted
from shoal.overlays.octopia.known.tables import Tables
from shoal.overlays.octopia.messages import Notification, WayLost
from shoal.overlays.octopia.order.clearing import Clearing
from shoal.overlays.octopia.order.giving_back import GivingBack
from shoal.overlays.octopia.order.handing_over import HandingOver
from shoal.overlays.octopia.order.ordering import Numbering, shifts_of
from shoal.overlays.octopia.order.sequencer import ClusterSequencer
from shoal.overlays.octopia.parameters import Dynamic, OctopiaParameters
from shoal.overlays.octopia.places.labels import Product
from shoal.overlays.octopia.ways.copies import clusters_of, copies, shortest
from shoal.overlays.octopia.ways.keeping import Keeping, Publications, in_order
from shoal.overlays.octopia.ways.outputs import OutputLoads
from shoal.overlays.octopia.ways.reaching import Reach, Reaching
from shoal.overlays.octopia.ways.spreading import ClusterSpreading

RETRY: TimerKey = ("retry",)
NOT_NUMBERED: Mapping[int, int] = {}


class OctopiaRouting:
    """The routing of the broker of `region` in `cluster`.

    `entry_of` gives the entry broker of a cluster, `former_of` the former one, while that changes
    (`links/sweeps.py`). `is_usable` tests whether a neighbour is linked and has completed its
    announcements, `is_silent` whether it is linked and has yet to; `linked` are linked at the
    start, and brokers in `still` are sent nothing for a while.
    """

    def __init__(
        self,
        product: Product,
        broker: BrokerId,
        tables: Tables,
        hosted: Hosted,
        outputs: OutputLoads,
        parameters: OctopiaParameters,
        entry_of: Callable[[int], BrokerId | None],
        former_of: Callable[[int], BrokerId | None],
        is_usable: Callable[[BrokerId], bool],
        is_silent: Callable[[BrokerId], bool],
        linked: Iterable[BrokerId],
        still: Container[BrokerId],
    ) -> None:
        self._product = product
        self._broker = broker
        self._region, self._cluster = product.position(broker)
        self._tables = tables
        self._hosted = hosted
        self._outputs = outputs
        self._parameters = parameters
        self._is_ordered = parameters.dynamic is Dynamic.ORDERED
        self._former_of = former_of
        self._is_usable = is_usable
        self.reaching = Reaching(product, broker, tables, entry_of, is_usable)
        self.spreading = ClusterSpreading(
            product,
            broker,
            tables,
            self.reaching,
            outputs,
            parameters.threshold,
            is_usable,
            self._deliver_inside,
        )
        self.kept = Keeping(product, self._cluster, tables, parameters, linked, still)
        self._handing_over = HandingOver(product, broker, outputs, is_usable, self.kept.is_linked)
        self.diverted = 0
        self.numbering = Numbering(outputs, parameters)
        # The others of this region: sequencers of this broker's publishers, which carry for each
        # other.
        self._region_peers = set(product.near(broker))
        self.giving_back = GivingBack(
            broker,
            self._cluster,
            self._region_peers,
            entry_of,
            former_of,
            is_usable,
            self.kept.is_linked,
            is_silent,
        )
        self.sequencer = ClusterSequencer(
            parameters,
            self._enter,
            self.giving_back.from_sequencer,
            self._region_peers,
            self.kept.is_linked,
        )
        self.clearing = Clearing(
            self._region_peers, self.kept.is_linked, self.kept, self.giving_back, self.numbering
        )

    # --- publications -------------------------------------------------------------------------

    def publish(
        self, client: ClientId, publications: Publications, now_us: int, out: list[Effect]
    ) -> None:
        """Route the publications of a local client."""
        self.giving_back.published(publications)
        owed_of = self._hosted.owed
        for owed, run in groupby(
            publications, lambda routed: owed_of(client, routed.publication.attributes)
        ):
            of = tuple(run)
            if not self._spread(of, owed, now_us, out):
                self._go(of, 0, None, owed, None, now_us, out)
        self.clearing.update(now_us, out)

    def _spread(
        self, publications: Publications, owed: int, now_us: int, out: list[Effect]
    ) -> bool:
        """Spread these, if that is to be done; see `ClusterSpreading.begin`."""
        if self._parameters.dynamic is not Dynamic.SPREAD:
            return False
        match = self._tables.matches.of(publications[0].publication.attributes)
        reach = self.reaching.reach(match.regions, None, None)
        is_begun = self.spreading.begin(publications, owed, reach, now_us, out)
        self.diverted += is_begun * len(publications)
        return is_begun

    def _deliver_inside(
        self,
        publications: Publications,
        hops: int,
        owed: int,
        regions: frozenset[int],
        now_us: int,
        out: list[Effect],
    ) -> None:
        self._go(publications, hops, None, owed, regions, now_us, out)

    def receive(
        self, neighbour: BrokerId, message: Notification, now_us: int, out: list[Effect]
    ) -> None:
        """Route publications from a neighbour."""
        message = self.giving_back.of_this_life(message)
        if not message.publications:
            return
        only = None if message.only is None else frozenset(message.only)
        owed = message.owed & ~(1 << self._cluster)
        publications, hops, shifts = message.publications, message.hops, message.shifts
        if message.owed >> self._product.position(neighbour).cluster & 1:
            if publications := self.giving_back.pass_back(message, out):
                self._deliver_inside(
                    publications, message.hops, message.owed, frozenset(), now_us, out
                )
            return
        if only is None and self._is_sequencer_for(neighbour, shifts):
            if owed:
                nobody = frozenset[int]()
                self._go(publications, hops, neighbour, owed, nobody, now_us, out, None, shifts)
            self.sequencer.arrive(
                neighbour, publications, hops, shifts.get(self._cluster), now_us, out
            )
            return
        self._go(publications, hops, neighbour, owed, only, now_us, out, None, shifts)
        self.clearing.update(now_us, out)

    def take_back(
        self,
        neighbour: BrokerId,
        message: Notification,
        led_to: Iterable[int],
        now_us: int,
        out: list[Effect],
    ) -> None:
        """Route unsettled publications of a lost neighbour that led to these regions of this
        cluster.
        """
        only = message.only
        owed, regions = message.owed, frozenset(led_to if only is None else only)
        position = self._product.position(neighbour)
        if position.cluster != self._cluster:
            owed, regions = owed | 1 << position.cluster, frozenset()
        owed &= ~(1 << self._cluster)
        hops, shifts = message.hops - 1, message.shifts
        self._go(message.publications, hops, None, owed, regions, now_us, out, None, shifts)

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
        shifts: Mapping[int, int] = NOT_NUMBERED,
    ) -> None:
        """Route publications; those without a path are kept, under `key` if they were before.

        They go in runs, so that none overtakes another.
        """
        run: list[RoutedPublication] = []
        of: Reach | None = None
        for routed in publications:
            match = self._tables.matches.of(routed.publication.attributes)
            reach = self.reaching.reach(match.regions, source, regions)
            if reach.is_local:
                for client, subscriptions in match.clients:
                    out.append(Deliver(client, routed, subscriptions, hops))
            if not (owed or reach.inner or reach.unreached):
                continue
            if run and not (reach is of and (not owed or self._is_next(run[-1], routed))):
                assert of is not None
                self._pass_on(tuple(run), hops, of, owed, regions, now_us, out, key, shifts)
                run = []
            of = reach
            run.append(routed)
        if of is not None:
            self._pass_on(tuple(run), hops, of, owed, regions, now_us, out, key, shifts)

    def _is_next(self, before: RoutedPublication, routed: RoutedPublication) -> bool:
        """Whether a publication may go in one message with the one before, numbered or not."""
        if not self._is_ordered:
            return True
        last, here = before.message_id, routed.message_id
        return last.publisher == here.publisher and last.number + 1 == here.number

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
        shifts: Mapping[int, int],
    ) -> None:
        if shifts:
            owed = self.giving_back.from_carrier(publications, hops, owed, shifts, out)
        entries, missing = self.reaching.entries(owed)
        if not self._is_ordered:
            found = self.copies_to(reach, entries, missing, is_host=False)
        else:
            missing = self._by_former(publications, entries, missing, shifts)
            found, missing, shifts = self._ordered(
                publications, reach, entries, missing, shifts, key, now_us, out
            )
        self.diverted += any(found.values()) * len(publications)
        entered = set(entries.values())
        for neighbour, bits in found.items():
            missing &= ~bits
            only = None
            if neighbour not in entered and (regions is not None or neighbour not in reach.inner):
                only = reach.inner.get(neighbour, ())
            to = self._product.position(neighbour).cluster
            its = shifts_of(bits | 1 << to, shifts) if to != self._cluster else NOT_NUMBERED
            self._outputs.sent(neighbour, len(publications))
            out.append(Send(neighbour, Notification(publications, hops + 1, bits, only, its)))
        unreached = reach.unreached
        if not (missing or unreached):
            return
        over = self._handing_over
        if shifts or not over.hand_over(publications, hops, missing, unreached, out):
            self.kept.keep(publications, hops, missing, unreached, now_us, out, key, shifts)

    def copies_to(
        self, reach: Reach, entries: Mapping[int, BrokerId], missing: int, *, is_host: bool
    ) -> dict[BrokerId, int]:
        """The copies, and the bits that each carries; with ordering, for unnumbered publications.

        With ordering only the host's copies are carried, by others of its region.
        """
        cost, threshold = self._outputs.cost, self._parameters.threshold
        if self._parameters.dynamic is Dynamic.STATIC:
            return shortest(tuple(reach.inner), entries)
        if not self._is_ordered:
            return copies(tuple(reach.inner), entries, cost, threshold, missing)
        open = {
            cluster: entry
            for cluster, entry in entries.items()
            if is_host and entry in self._region_peers
        }
        found = shortest(tuple(reach.inner), entries)
        return found | copies((), open, cost, threshold) if open else found

    # --- order --------------------------------------------------------------------------------

    def _ordered(
        self,
        publications: Publications,
        reach: Reach,
        entries: Mapping[int, BrokerId],
        missing: int,
        shifts: Mapping[int, int],
        key: Key | None,
        now_us: int,
        out: list[Effect],
    ) -> tuple[dict[BrokerId, int], int, Mapping[int, int]]:
        """The copies, the bits of clusters for which to wait now, and the shifts of numbered
        clusters.

        A carrier is in this region, so that the cluster is entered at its sequencer; if that is
        lost nothing is carried. To some clusters this is behind kept publications.
        """
        _, client, number = publications[0].message_id
        is_host = publications[0].message_id.broker == self._broker
        if is_host and shifts:
            # A returned publication may have been numbered for a sequencer that was lost since.
            shifts = self.numbering.known(client, number, shifts, entries)
        found = dict.fromkeys(reach.inner, 0)
        open: dict[int, BrokerId] = {}
        ways: dict[int, BrokerId] = {}
        for cluster, entry in entries.items():
            is_numbered = cluster in shifts
            if not is_numbered and key is None and self.kept.holds_up(client, cluster):
                missing |= 1 << cluster
                continue
            ways[cluster] = entry
            # At its host only a retransmission has a number already, and may not be carried.
            if is_host != is_numbered and entry in self._region_peers:
                open[cluster] = entry
            else:
                found[entry] = 0
        if open:
            found |= copies((), open, self._outputs.cost, self._parameters.threshold)
        if is_host and open:
            self.clearing.carried(found)
        if is_host and ways:
            shifts = self.numbering.number(publications, ways, found, shifts, now_us, out)
        return found, missing, shifts

    def _by_former(
        self,
        publications: Publications,
        entries: dict[int, BrokerId],
        missing: int,
        shifts: Mapping[int, int],
    ) -> int:
        """Send numbered publications to the sequencer that knows the number.

        Returns the bits that are left.

        Later ones may wait for them there, and so does the sweep, for which unnumbered ones wait
        here.
        """
        host, client, _ = publications[0].message_id
        for cluster in clusters_of(missing) if shifts else ():
            sequencer = self._former_of(cluster)
            if sequencer is None or cluster not in shifts or sequencer not in self._region_peers:
                continue
            is_known = (
                host != self._broker or self.numbering.sequencer_of((client, cluster)) == sequencer
            )
            if is_known and self._is_usable(sequencer):
                entries[cluster] = sequencer
                missing &= ~(1 << cluster)
        return missing

    def _enter(
        self,
        routed: RoutedPublication,
        hops: int,
        now_us: int,
        out: list[Effect],
        key: Key | None,
    ) -> bool:
        """A publication enters this cluster; returns whether it is kept under its key."""
        self._go((routed,), hops, None, 0, None, now_us, out, key)
        return key is not None and key in self.kept

    def _is_sequencer_for(self, neighbour: BrokerId, shifts: Mapping[int, int]) -> bool:
        """Whether publications from there may have to wait for their order here."""
        if self._product.position(neighbour).cluster == self._cluster:
            return False
        return self._cluster in shifts or self.sequencer.lines.has_of(neighbour)

    # --- publications without a path ----------------------------------------------------------

    def linked(self, broker: BrokerId, is_up: bool, now_us: int, out: list[Effect]) -> None:
        """A broker's link came up, or is lost."""
        self.kept.linked(broker, is_up, now_us, out)
        if is_up and broker in self._region_peers and self._is_ordered:
            self.clearing.linked(broker, out)
        if not is_up:
            # Its unsettled publications are returned first.
            self.kept.is_returning = True
            out.append(SetTimer(RETRY, now_us))

    def lost(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A linked broker is lost, or has restarted."""
        self.reaching.clear()
        self.numbering.forget(broker, now_us)
        self.sequencer.lost(broker, now_us, out)
        for key, message in self.giving_back.waiting_for(broker):
            out.append(Continue(key))
            if publications := self.giving_back.without_host(message):
                self._deliver_inside(
                    publications, message.hops, message.owed, frozenset(), now_us, out
                )
            out += [Settled(key), Continue(None)]
        if broker in self._region_peers and self._is_ordered:
            self.sequencer.doubt(now_us)
            self.clearing.lost(broker, self._product.position(broker).cluster)
            others = [each for each in self._region_peers if self._is_usable(each)]
            out += [Send(each, WayLost()) for each in sorted(others)]

    def changed(self, now_us: int, out: list[Effect], *, is_retried: bool = True) -> None:
        """Links, tables or places have changed: kept publications may have a path."""
        self.reaching.clear()
        near = set(self._product.near(self._broker))
        if near != self._region_peers:
            self._region_peers.clear()
            self._region_peers.update(near)
            self.clearing.changed()
        if not is_retried:
            return
        kept = self.kept.take()
        for key, part in in_order(kept):
            out.append(Continue(key))
            publications, hops, owed, regions, shifts = part
            self._go(publications, hops, None, owed, frozenset(regions), now_us, out, key, shifts)
        out += [Settled(key) for key in kept if key not in self.kept]
        if kept:
            out.append(Continue(None))
            self.clearing.changed()
        self.clearing.update(now_us, out)

    def returned(self, now_us: int, out: list[Effect]) -> None:
        """The unsettled publications of lost links are back."""
        self.kept.is_returning = False
        self.changed(now_us, out)
        self.clearing.returned(out)
        self.clearing.update(now_us, out)

    def waited(self, now_us: int, out: list[Effect]) -> None:
        """The timer fired: count a quarter, and route again; `Keeping` drops what is overdue."""
        self.kept.count()
        self.changed(now_us, out)
        self.kept.continue_count(now_us, out)
