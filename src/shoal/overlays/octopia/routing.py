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
from shoal.overlays.octopia.order.gate import Gate
from shoal.overlays.octopia.order.giving_back import GivingBack
from shoal.overlays.octopia.order.handing_over import HandingOver
from shoal.overlays.octopia.order.ordering import Numbering, shifts_of
from shoal.overlays.octopia.parameters import Dynamic, Parameters
from shoal.overlays.octopia.places.labels import Product
from shoal.overlays.octopia.ways.copies import clusters_of, copies, shortest
from shoal.overlays.octopia.ways.keeping import Keeping, Publications, in_order
from shoal.overlays.octopia.ways.outputs import Outputs
from shoal.overlays.octopia.ways.reaching import Reach, Reaching
from shoal.overlays.octopia.ways.spreading import Spreading

RETRY: TimerKey = ("retry",)
NOT_NUMBERED: Mapping[int, int] = {}


class Routing:
    """The routing of the broker of `region` in `cluster`.

    `entry_of` says by whom a cluster is entered now, `former_of` by whom it was, while that changes
    (`links/sweeps.py`).  `is_usable` says whether a neighbour is linked and has said what must be
    known before it is sent anything, `is_silent` whether it is linked and has yet to say that;
    `linked` are linked at the start, and who is `still` is sent nothing for a while.
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
        self.spreading = Spreading(
            product,
            broker,
            tables,
            self.reaching,
            outputs,
            parameters.threshold,
            is_usable,
            self._go_on,
        )
        self.kept = Keeping(product, self._cluster, tables, parameters, linked, still)
        self._handing_over = HandingOver(product, broker, outputs, is_usable, self.kept.is_linked)
        self.diverted = 0
        self.numbering = Numbering(outputs, parameters)
        # The others of this region: gates of this broker's publishers, who carry for each other.
        self._secondary = set(product.near(broker))
        self.giving_back = GivingBack(
            broker,
            self._cluster,
            self._secondary,
            entry_of,
            former_of,
            is_usable,
            self.kept.is_linked,
            is_silent,
        )
        self.gate = Gate(
            parameters,
            self._enter,
            self.giving_back.from_gate,
            self._secondary,
            self.kept.is_linked,
        )
        self.clearing = Clearing(
            self._secondary, self.kept.is_linked, self.kept, self.giving_back, self.numbering
        )

    # --- publications -------------------------------------------------------------------------

    def publish(
        self, client: ClientId, publications: Publications, now_us: int, out: list[Effect]
    ) -> None:
        """What a local client publishes."""
        self.giving_back.published(publications)
        owed_of = self._hosted.owed
        for owed, run in groupby(
            publications, lambda routed: owed_of(client, routed.publication.attributes)
        ):
            of = tuple(run)
            if not self._spread(of, owed, now_us, out):
                self._go(of, 0, None, owed, None, now_us, out)
        self.clearing.go_on(now_us, out)

    def _spread(
        self, publications: Publications, owed: int, now_us: int, out: list[Effect]
    ) -> bool:
        """Spread these, if that is to be done; see `Spreading.begin`."""
        if self._parameters.dynamic is not Dynamic.SPREAD:
            return False
        match = self._tables.matches.of(publications[0].publication.attributes)
        reach = self.reaching.reach(match.regions, None, None)
        is_begun = self.spreading.begin(publications, owed, reach, now_us, out)
        self.diverted += is_begun * len(publications)
        return is_begun

    def _go_on(
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
        """What a neighbour passes on."""
        message = self.giving_back.of_this_life(message)
        if not message.publications:
            return
        only = None if message.only is None else frozenset(message.only)
        owed = message.owed & ~(1 << self._cluster)
        publications, hops, shifts = message.publications, message.hops, message.shifts
        if message.owed >> self._product.position(neighbour).cluster & 1:
            if publications := self.giving_back.pass_back(message, out):
                self._go_on(publications, message.hops, message.owed, frozenset(), now_us, out)
            return
        if only is None and self._is_gate_for(neighbour, shifts):
            if owed:
                nobody = frozenset[int]()
                self._go(publications, hops, neighbour, owed, nobody, now_us, out, None, shifts)
            self.gate.arrive(neighbour, publications, hops, shifts.get(self._cluster), now_us, out)
            return
        self._go(publications, hops, neighbour, owed, only, now_us, out, None, shifts)
        self.clearing.go_on(now_us, out)

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
        """Route publications; what has no way is kept, under `key` if it was before.

        They go on in runs, so that none overtakes another.
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
        """The copies, and the bits that each carries; where order is kept, of what has no number.

        There only the host's go round, by others of its region.
        """
        cost, threshold = self._outputs.cost, self._parameters.threshold
        if self._parameters.dynamic is Dynamic.STATIC:
            return shortest(tuple(reach.inner), entries)
        if not self._is_ordered:
            return copies(tuple(reach.inner), entries, cost, threshold, missing)
        open = {
            cluster: entry
            for cluster, entry in entries.items()
            if is_host and entry in self._secondary
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
        """The copies, the bits of clusters for which to wait now, and what is numbered.

        Who carries a bit is in this region, so that the cluster is entered at its gate; where that
        is lost nothing is carried.  To some clusters this is behind what is kept.
        """
        _, client, number = publications[0].message_id
        is_host = publications[0].message_id.broker == self._broker
        if is_host and shifts:
            # What came back may have been numbered for a gate that was lost since.
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
            # At its host only what goes once more has a number already, and may not go round.
            if is_host != is_numbered and entry in self._secondary:
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
        """Send what is numbered to the gate that knows the number; the bits that are left.

        What comes behind it may wait for it there, and the sweep, for which what has none yet waits
        here, behind that.
        """
        host, client, _ = publications[0].message_id
        for cluster in clusters_of(missing) if shifts else ():
            gate = self._former_of(cluster)
            if gate is None or cluster not in shifts or gate not in self._secondary:
                continue
            is_known = host != self._broker or self.numbering.gate_of((client, cluster)) == gate
            if is_known and self._is_usable(gate):
                entries[cluster] = gate
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
        """A publication enters this cluster; whether it is kept under its key."""
        self._go((routed,), hops, None, 0, None, now_us, out, key)
        return key is not None and key in self.kept

    def _is_gate_for(self, neighbour: BrokerId, shifts: Mapping[int, int]) -> bool:
        """Whether what comes from there may have to wait for its turn here."""
        if self._product.position(neighbour).cluster == self._cluster:
            return False
        return self._cluster in shifts or self.gate.lines.has_of(neighbour)

    # --- what has no way ----------------------------------------------------------------------

    def linked(self, broker: BrokerId, is_up: bool, now_us: int, out: list[Effect]) -> None:
        """A broker's link came up, or is gone."""
        self.kept.linked(broker, is_up, now_us, out)
        if is_up and broker in self._secondary and self._is_ordered:
            self.clearing.linked(broker, out)
        if not is_up:
            # What was unsettled there comes back first.
            self.kept.is_returning = True
            out.append(SetTimer(RETRY, now_us))

    def lost(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A broker that was linked is gone, or has come back at once and knows nothing."""
        self.reaching.clear()
        self.numbering.forget(broker, now_us)
        self.gate.lost(broker, now_us, out)
        for key, message in self.giving_back.waiting_for(broker):
            out.append(Continue(key))
            if publications := self.giving_back.without_host(message):
                self._go_on(publications, message.hops, message.owed, frozenset(), now_us, out)
            out += [Settled(key), Continue(None)]
        if broker in self._secondary and self._is_ordered:
            self.gate.doubt(now_us)
            self.clearing.lost(broker, self._product.position(broker).cluster)
            others = [each for each in self._secondary if self._is_usable(each)]
            out += [Send(each, WayLost()) for each in sorted(others)]

    def changed(self, now_us: int, out: list[Effect], *, is_retried: bool = True) -> None:
        """Links, tables or places have changed: what is kept may have a way now."""
        self.reaching.clear()
        near = set(self._product.near(self._broker))
        if near != self._secondary:
            self._secondary.clear()
            self._secondary.update(near)
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
        self.clearing.go_on(now_us, out)

    def returned(self, now_us: int, out: list[Effect]) -> None:
        """What those whose links are lost had not settled is back."""
        self.kept.is_returning = False
        self.changed(now_us, out)
        self.clearing.returned(out)
        self.clearing.go_on(now_us, out)

    def waited(self, now_us: int, out: list[Effect]) -> None:
        """The timer fired: what has waited for too long is dropped."""
        self.kept.count()
        self.changed(now_us, out)
        self.kept.go_on(now_us, out)
