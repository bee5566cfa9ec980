"""Propagation of advertisements and subscriptions in a tree of brokers (relocation paper, 2.1).

Advertisements flood the tree and leave their last hops in every SRT. Subscriptions follow the
advertisements they overlap back to the publishers and leave their last hops in the PRTs on the way.

Every operation restores one invariant: a broker has forwarded a subscription to neighbour n exactly
when the subscription did not come from n and overlaps an advertisement that did; with covering,
unless n has others that cover it (`subscription_forwarding.py`). The receiver's table mirrors what
the sender forwarded, because links keep order and every change is sent explicitly.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import Advertise, Message, Unadvertise, Unsubscribe
from shoal.matching import Outcomes, OutcomesFactory
from shoal.model import (
    Advertisement,
    AdvertisementId,
    BrokerId,
    ClientId,
    Subscription,
    SubscriptionId,
)
from shoal.overlays.merging import OwnMerging
from shoal.overlays.tree.alternate_routes import AlternateRoutes
from shoal.overlays.tree.routing_rows import NO_OTHERS, AdvertisementEntry, SubscriptionEntry
from shoal.overlays.tree.routing_table import RoutingTable
from shoal.overlays.tree.subscription_forwarding import SubscriptionForwarding


class Neighbours(dict[BrokerId, None]):
    """A set with sorted iteration, which links change far less often than it is iterated.

    Each publication looks up its sender: in constant time, however many links a hub has.

    >>> neighbours = Neighbours(["B3", "B1"])
    >>> neighbours.add("B2")
    >>> list(neighbours), "B2" in neighbours
    (['B1', 'B2', 'B3'], True)
    """

    def __init__(self, brokers: Iterable[BrokerId]) -> None:
        super().__init__(dict.fromkeys(sorted(brokers)))

    def add(self, broker: BrokerId) -> None:
        brokers = sorted([*self, broker])
        self.clear()
        self.update(dict.fromkeys(brokers))

    def discard(self, broker: BrokerId) -> None:
        self.pop(broker, None)


class Propagation:
    """One broker's tables, and the announcements to its neighbours as they change."""

    def __init__(
        self,
        neighbours: Iterable[BrokerId],
        *,
        covering: bool = False,
        merging: OwnMerging | None = None,
        outcomes: OutcomesFactory = Outcomes,
    ) -> None:
        self.tables = RoutingTable(covering=covering, merging=merging, outcomes=outcomes)
        self._forwarding = SubscriptionForwarding(self.tables)
        self.neighbours = Neighbours(neighbours)
        # Former neighbour to the neighbours that its rows turned to when tables turned silently.
        self.turned: dict[BrokerId, tuple[BrokerId, ...]] = {}
        self.alternate_routes = AlternateRoutes()
        # Rows that have `others`, or had.
        self._repeated: dict[AdvertisementEntry, None] = {}

    # --- advertisements -----------------------------------------------------------------------

    def add_advertisement(
        self,
        advertisement: Advertisement,
        hop: BrokerId | None,
        out: list[Effect],
        moves: int = 0,
        *,
        is_new_link: bool = False,
    ) -> None:
        """Store, flood, and let overlapping subscriptions follow it back.

        On a tree an advertisement changes sides only when its publisher moves: a copy from another
        side is valid if it counts more moves, and outdated if not. But a copy from the
        synchronisation of a new link may be right while the last hop, cut off from the publisher,
        has yet to retract its own: the copy is kept in `others` until then.
        """
        known = self.tables.advertisements.get(advertisement.id)
        if known is not None:
            same = known.advertisement == advertisement
            if moves <= known.rank and (same or known.last_hop != hop):
                if is_new_link and same and hop is not None and hop != known.last_hop:
                    known.also_from(hop, moves)
                    self._repeated[known] = None
                return
            if same:
                self.turn(known, hop, moves, out)
                return
            known.others = NO_OTHERS
            self.remove_advertisement(advertisement.id, known.last_hop, out)
        row = self.tables.add_advertisement(advertisement, hop, moves)
        self._flood(Advertise(advertisement, moves), (hop,), out)
        if hop is not None:
            self.follow(hop, [row], out)

    def follow_again(
        self, neighbour: BrokerId, advertisement_id: AdvertisementId, out: list[Effect]
    ) -> None:
        """A restarted neighbour has sent a known advertisement again: send it the subscriptions."""
        row = self.tables.advertisements.get(advertisement_id)
        if row is not None and row.last_hop == neighbour:
            self.follow(neighbour, [row], out)

    def turn(
        self, row: AdvertisementEntry, hop: BrokerId | None, moves: int, out: list[Effect]
    ) -> None:
        """Change the last hop of an advertisement, and announce that to the neighbours."""
        before = row.last_hop
        self.tables.turn_advertisement(row, hop)
        row.moves, row.adopted, row.turned_us = moves, False, None
        row.not_from(hop)
        self._flood(Advertise(row.advertisement, moves), (hop,), out)
        if before == hop:
            return
        row.has_turned = True
        if hop is not None:
            self.follow(hop, [row], out)
        if before is not None and before in self.neighbours:
            self._retract(before, row, out)

    def place(
        self,
        advertisement: Advertisement,
        hop: BrokerId | None,
        moves: int,
        told: BrokerId | None,
        out: list[Effect],
    ) -> AdvertisementEntry:
        """Store an advertisement, and flood it to all neighbours but `told`."""
        row = self.tables.add_advertisement(advertisement, hop, moves)
        self._flood(Advertise(advertisement, moves), (hop, told), out)
        return row

    def remove_advertisement(
        self, advertisement_id: AdvertisementId, hop: BrokerId | None, out: list[Effect]
    ) -> None:
        """Undo `add_advertisement`: flood, and take back subscriptions that only it attracted.

        If another neighbour has announced the same, the row turns to that one instead.
        """
        row = self.tables.advertisements.get(advertisement_id)
        if row is None:
            return
        if row.last_hop != hop:
            row.not_from(hop)
            return
        other = self._other(row)
        if other is not None:
            self.turn(row, other, row.moves, out)
            # The neighbour got the row while it was on this side, and would use it if it lost its
            # own.
            out.append(Send(other, Unadvertise(advertisement_id)))
            return
        self.withdraw(row, out)
        if hop is not None and hop in self.neighbours:
            if row.has_turned:
                # The neighbour got it while the row was on this side, and may have used it since it
                # removed its own.
                out.append(Send(hop, Unadvertise(advertisement_id)))
            self._retract(hop, row, out)

    def _other(self, row: AdvertisementEntry) -> BrokerId | None:
        """The neighbour that announced the same as a row's last hop, which has retracted it.

        None for a publisher that is attached here, and for copies that count fewer moves.
        """
        if row.last_hop is None:
            return None
        return next(
            (
                other
                for other, moves in row.others.items()
                if moves >= row.rank and other != row.last_hop and other in self.neighbours
            ),
            None,
        )

    def withdraw(self, row: AdvertisementEntry, out: list[Effect]) -> None:
        """Drop a row and flood that; the caller releases the subscriptions that it attracted."""
        self.tables.remove_advertisement(row)
        self._repeated.pop(row, None)
        self._flood(Unadvertise(row.advertisement.id), (row.last_hop,), out)

    def follow(self, hop: BrokerId, rows: Iterable[AdvertisementEntry], out: list[Effect]) -> None:
        """Forward to neighbour `hop` the subscriptions that overlap these advertisements from
        it.
        """
        wanted = {entry: None for row in rows for entry in row.overlapping if entry.last_hop != hop}
        self._forwarding.offer((hop,), wanted, out)

    def release(
        self, hop: BrokerId, rows: Iterable[AdvertisementEntry], out: list[Effect]
    ) -> list[SubscriptionEntry]:
        """Subscriptions to retract from neighbour `hop`, after these advertisements left it.

        The entries are marked as not forwarded to it. Subscriptions that they covered are sent.
        """
        left = {
            entry: None for row in rows for entry in row.overlapping if not entry.is_wanted_by(hop)
        }
        return self._forwarding.release(hop, left, out)

    def _retract(self, hop: BrokerId, row: AdvertisementEntry, out: list[Effect]) -> None:
        """Retract from this neighbour the subscriptions that only this advertisement attracted."""
        released = self.release(hop, [row], out)
        out.extend(Send(hop, Unsubscribe(entry.id)) for entry in released)

    def unadvertise_all(
        self, publisher: ClientId, out: list[Effect], but: Container[AdvertisementId] = ()
    ) -> None:
        """Undo all that a publisher advertised here, with exceptions."""
        for id in self.tables.published.of(publisher):
            if id not in but:
                self.remove_advertisement(id, None, out)

    def _flood(self, message: Message, but: tuple[BrokerId | None, ...], out: list[Effect]) -> None:
        out.extend(
            Send(neighbour, message) for neighbour in self.neighbours if neighbour not in but
        )

    # --- subscriptions ------------------------------------------------------------------------

    def add_subscription(
        self,
        subscription: Subscription,
        hop: BrokerId | None,
        out: list[Effect],
        *,
        is_new_link: bool = False,
    ) -> None:
        """Store, and forward along overlapping advertisements. A known id is replaced.

        A copy from the synchronisation of a new link may be outdated: the last hop stays until it
        retracts the subscription, and the copy is an alternate route.
        """
        known = self.tables.subscriptions.get(subscription.id)
        if known is not None:
            is_same, before = known.subscription == subscription, known.last_hop
            if is_same and before == hop:
                return
            if is_same and is_new_link:
                self.alternate_routes.add(subscription, hop)
                return
            others = self.alternate_routes.take_all(subscription.id)
            self.remove_subscription(subscription.id, before, out)
            if is_same:
                others[before] = subscription
            others.pop(hop, None)
            self.alternate_routes.put(subscription.id, others)
        self._place(subscription, hop, out)

    def _place(self, subscription: Subscription, hop: BrokerId | None, out: list[Effect]) -> None:
        """Store a new subscription, and the unions that change with it."""
        merging = self.tables.merging
        if hop is not None or merging is None:
            self._store(subscription, hop, out)
            return
        merged = merging.add(subscription)
        for each in (*merged.new, subscription):
            self._store(each, None, out)
        self._remove(merged.gone, None, out)

    def _store(self, subscription: Subscription, hop: BrokerId | None, out: list[Effect]) -> None:
        entry = self.tables.add_subscription(subscription, hop)
        asking = entry.wanting
        wanting = [each for each in self.neighbours if each != hop and each in asking]
        self._forwarding.offer(wanting, (entry,), out)

    def remove_subscription(
        self, subscription_id: SubscriptionId, hop: BrokerId | None, out: list[Effect]
    ) -> None:
        """Undo `add_subscription`, at exactly the neighbours it was forwarded to."""
        self.remove_subscriptions((subscription_id,), hop, out)

    def remove_subscriptions(
        self, ids: Iterable[SubscriptionId], hop: BrokerId | None, out: list[Effect]
    ) -> None:
        """The same for several, none of which is sent as a substitute for another."""
        merging = self.tables.merging
        if hop is not None or merging is None:
            self._remove(ids, hop, out)
            return
        left = tuple(ids)
        merged = merging.remove(left)
        for each in merged.new:
            self._store(each, None, out)
        self._remove((*left, *merged.gone), None, out)

    def _remove(
        self, ids: Iterable[SubscriptionId], hop: BrokerId | None, out: list[Effect]
    ) -> None:
        given = list(ids) if self.alternate_routes else ids
        found = (self.tables.subscriptions.get(id) for id in given)
        known = [entry for entry in found if entry is not None and entry.last_hop == hop]
        self._forwarding.remove(known, out)
        if not self.alternate_routes:
            return
        for id in given:
            self.alternate_routes.drop(id, hop)
        for entry in known:
            other = self.alternate_routes.take(entry.id)
            if other is not None:
                self._place(*other, out)

    def unsubscribe_all(self, client: ClientId, out: list[Effect]) -> None:
        """Undo all that a client subscribed to here."""
        self.remove_subscriptions(self.tables.local.of(client), None, out)

    def suspend_covering(self, hop: BrokerId) -> None:
        """Forward all subscriptions to this neighbour until `resume_covering`."""
        self._forwarding.suspend_covering(hop)

    def resume_covering(self) -> list[SubscriptionId]:
        """Return the subscriptions to `restate`."""
        return self._forwarding.resume_covering()

    def restate(
        self, hops: Iterable[BrokerId], ids: Iterable[SubscriptionId], out: list[Effect]
    ) -> None:
        """Rows have turned silently: send neighbours the rows that they must have."""
        self._forwarding.restate(hops, ids, out)

    # --- links --------------------------------------------------------------------------------

    def has_link(self, broker: BrokerId) -> bool:
        return broker in self.neighbours

    def relink(self, old: BrokerId | None, new: Iterable[BrokerId]) -> None:
        """The neighbours `new` have taken the place of `old`, if any; the tables have turned."""
        if old is not None:
            self.neighbours.discard(old)
            self.alternate_routes.drop_all(old)
            if self.tables.wanted is not None:
                self.tables.wanted.pop(old, None)
        for neighbour in new:
            self.neighbours.add(neighbour)

    def unlink(self, neighbour: BrokerId) -> None:
        """The link is lost: rows forwarded to the neighbour count as not forwarded."""
        self.neighbours.discard(neighbour)
        self.tables.forget_forwarded(neighbour)
        self.alternate_routes.drop_all(neighbour)
        for row in list(self._repeated):
            row.not_from(neighbour)
            if not row.others:
                del self._repeated[row]

    def retract_forwarded(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """Retract rows that were sent provisionally; the synchronisation sends them again."""
        told = self.tables.forwarded_to(neighbour)
        out.extend(Send(neighbour, Unsubscribe(entry.id)) for entry in told)

    def forget(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """Undo all announcements of a neighbour."""
        self.remove_subscriptions(self._subscriptions_from(neighbour), neighbour, out)
        for advertisement_id in self._advertisements_from(neighbour):
            self.remove_advertisement(advertisement_id, neighbour, out)

    def link(
        self, neighbour: BrokerId, out: list[Effect]
    ) -> tuple[list[AdvertisementId], list[SubscriptionId]]:
        """Send a new neighbour all advertisements from elsewhere; returns its former rows.

        The subscriptions follow the neighbour's advertisements.
        """
        self.turned.pop(neighbour, None)
        self.neighbours.add(neighbour)
        rows = self.tables.advertisements.values()
        said = [row for row in rows if row.last_hop != neighbour]
        out.extend(Send(neighbour, Advertise(row.advertisement, row.rank)) for row in said)
        return self._advertisements_from(neighbour), self._subscriptions_from(neighbour)

    def _advertisements_from(self, neighbour: BrokerId) -> list[AdvertisementId]:
        return [row.advertisement.id for row in self.tables.advertised_from(neighbour)]

    def _subscriptions_from(self, neighbour: BrokerId) -> list[SubscriptionId]:
        return [entry.id for entry in self.tables.subscribed_from(neighbour)]
