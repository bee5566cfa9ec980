"""How advertisements and subscriptions spread in a tree of brokers (relocation paper, 2.1).

Advertisements flood the tree and leave their last hops in every SRT.  Subscriptions follow the
advertisements they overlap back to the publishers and leave their last hops in the PRTs on the
way.

One invariant says it all, and every operation restores it: a broker has forwarded a
subscription to neighbour n exactly when the subscription did not come from n and overlaps an
advertisement that did; with covering, unless it has others that cover it (`telling.py`).  The
receiver's table mirrors what the sender forwarded, because links keep order and every change is
said explicitly.
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
from shoal.overlays.tree.hearsay import Hearsay
from shoal.overlays.tree.neighbours import Neighbours
from shoal.overlays.tree.routing_table import AdvertisementEntry, RoutingTable, SubscriptionEntry
from shoal.overlays.tree.telling import Telling


class Propagation:
    """One broker's tables, and what it tells its neighbours as they change."""

    def __init__(
        self,
        neighbours: Iterable[BrokerId],
        *,
        covering: bool = False,
        merging: OwnMerging | None = None,
        outcomes: OutcomesFactory = Outcomes,
    ) -> None:
        self.tables = RoutingTable(covering=covering, merging=merging, outcomes=outcomes)
        self._telling = Telling(self.tables)
        self.neighbours = Neighbours(neighbours)
        # By neighbour, in whose direction what was beyond it is since tables have turned silently.
        self.turned: dict[BrokerId, tuple[BrokerId, ...]] = {}
        self.hearsay = Hearsay()
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

        On a tree an advertisement changes sides only when its publisher moves: one from another
        side holds if it counts more moves, and is an old copy if it does not.  But one that comes
        with the tables of a new link may be true before the last hop, cut off from the publisher,
        takes back its own: until then it is remembered.
        """
        known = self.tables.advertisements.get(advertisement.id)
        if known is not None:
            same = known.advertisement == advertisement
            if moves <= known.rank and (same or known.last_hop != hop):
                if is_new_link and same and hop is not None and hop != known.last_hop:
                    known.others[hop] = moves
                    self._repeated[known] = None
                return
            if same:
                self.turn(known, hop, moves, out)
                return
            known.others.clear()
            self.remove_advertisement(advertisement.id, known.last_hop, out)
        row = self.tables.add_advertisement(advertisement, hop, moves)
        self._flood(Advertise(advertisement, moves), (hop,), out)
        if hop is not None:
            self.follow(hop, [row], out)

    def follow_again(
        self, neighbour: BrokerId, advertisement_id: AdvertisementId, out: list[Effect]
    ) -> None:
        """A neighbour that knew nothing has said what was known: it needs the subscriptions."""
        row = self.tables.advertisements.get(advertisement_id)
        if row is not None and row.last_hop == neighbour:
            self.follow(neighbour, [row], out)

    def turn(
        self, row: AdvertisementEntry, hop: BrokerId | None, moves: int, out: list[Effect]
    ) -> None:
        """The advertisement is in another direction now: tell everybody there is."""
        before = row.last_hop
        self.tables.turn_advertisement(row, hop)
        row.moves, row.adopted, row.turned_us = moves, False, None
        if hop is not None:
            row.others.pop(hop, None)
        self._flood(Advertise(row.advertisement, moves), (hop,), out)
        if before == hop:
            return
        row.has_turned = True
        if hop is not None:
            self.follow(hop, [row], out)
        if before is not None and before in self.neighbours:
            self._take_back(before, row, out)

    def place(
        self,
        advertisement: Advertisement,
        hop: BrokerId | None,
        moves: int,
        told: BrokerId | None,
        out: list[Effect],
    ) -> AdvertisementEntry:
        """Store an advertisement and flood it past a neighbour who is told in another way."""
        row = self.tables.add_advertisement(advertisement, hop, moves)
        self._flood(Advertise(advertisement, moves), (hop, told), out)
        return row

    def remove_advertisement(
        self, advertisement_id: AdvertisementId, hop: BrokerId | None, out: list[Effect]
    ) -> None:
        """Undo `add_advertisement`: flood, and take back subscriptions only it asked for.

        Unless another neighbour says the same: then it is in that direction.
        """
        row = self.tables.advertisements.get(advertisement_id)
        if row is None:
            return
        if row.last_hop != hop:
            if hop is not None:
                row.others.pop(hop, None)
            return
        other = self._other(row)
        if other is not None:
            self.turn(row, other, row.moves, out)
            # It was told when the row was on this side, and would believe that if it lost its own.
            out.append(Send(other, Unadvertise(advertisement_id)))
            return
        self.withdraw(row, out)
        if hop is not None and hop in self.neighbours:
            if row.has_turned:
                # The neighbour was told while the row was on this side, and may have believed
                # that after it removed its own.
                out.append(Send(hop, Unadvertise(advertisement_id)))
            self._take_back(hop, row, out)

    def _other(self, row: AdvertisementEntry) -> BrokerId | None:
        """Who says the same as a row's last hop, which does not any more.

        Of a publisher that is here, or that an old word is about, nobody knows better.
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
        """Drop a row and flood that it is gone; what it asked for is still to be released."""
        self.tables.remove_advertisement(row)
        self._repeated.pop(row, None)
        self._flood(Unadvertise(row.advertisement.id), (row.last_hop,), out)

    def follow(self, hop: BrokerId, rows: Iterable[AdvertisementEntry], out: list[Effect]) -> None:
        """Forward to neighbour `hop` what overlaps these advertisements, which now are there."""
        wanted = {entry: None for row in rows for entry in row.overlapping if entry.last_hop != hop}
        self._telling.offer((hop,), wanted, out)

    def release(
        self, hop: BrokerId, rows: Iterable[AdvertisementEntry], out: list[Effect]
    ) -> list[SubscriptionEntry]:
        """What neighbour `hop` need not have any more, as these advertisements left it.

        The entries are marked as not forwarded to it.  What it needs in their place is said.
        """
        left = {
            entry: None for row in rows for entry in row.overlapping if not entry.is_wanted_by(hop)
        }
        return self._telling.release(hop, left, out)

    def _take_back(self, hop: BrokerId, row: AdvertisementEntry, out: list[Effect]) -> None:
        """The advertisement has left this neighbour: so does what only it asked for."""
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
        """Store, and forward along overlapping advertisements.  A known id is replaced.

        Unless it comes with the tables of a new link, which may be what was said before the old
        one went: then its last hop holds until it takes the subscription back.
        """
        known = self.tables.subscriptions.get(subscription.id)
        if known is not None:
            is_same, before = known.subscription == subscription, known.last_hop
            if is_same and before == hop:
                return
            if is_same and is_new_link:
                self.hearsay.add(subscription, hop)
                return
            others = self.hearsay.take_all(subscription.id)
            self.remove_subscription(subscription.id, before, out)
            if is_same:
                others[before] = subscription
            others.pop(hop, None)
            self.hearsay.put(subscription.id, others)
        self._place(subscription, hop, out)

    def _place(self, subscription: Subscription, hop: BrokerId | None, out: list[Effect]) -> None:
        """Store what is not in the table, and what follows from that."""
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
        self._telling.offer(wanting, (entry,), out)

    def remove_subscription(
        self, subscription_id: SubscriptionId, hop: BrokerId | None, out: list[Effect]
    ) -> None:
        """Undo `add_subscription`, at exactly the neighbours it was forwarded to."""
        self.remove_subscriptions((subscription_id,), hop, out)

    def remove_subscriptions(
        self, ids: Iterable[SubscriptionId], hop: BrokerId | None, out: list[Effect]
    ) -> None:
        """The same for several, of which none is told in the place of another."""
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
        given = list(ids) if self.hearsay else ids
        found = (self.tables.subscriptions.get(id) for id in given)
        known = [entry for entry in found if entry is not None and entry.last_hop == hop]
        self._telling.remove(known, out)
        if not self.hearsay:
            return
        for id in given:
            self.hearsay.drop(id, hop)
        for entry in known:
            other = self.hearsay.take(entry.id)
            if other is not None:
                self._place(*other, out)

    def unsubscribe_all(self, client: ClientId, out: list[Effect]) -> None:
        """Undo all that a client subscribed to here."""
        self.remove_subscriptions(self.tables.local.of(client), None, out)

    def restate(
        self, hops: Iterable[BrokerId], ids: Iterable[SubscriptionId], out: list[Effect]
    ) -> None:
        """These rows have turned silently: tell neighbours what they must have now."""
        self._telling.restate(hops, ids, out)

    # --- links --------------------------------------------------------------------------------

    def has_link(self, broker: BrokerId) -> bool:
        return broker in self.neighbours

    def relink(self, old: BrokerId | None, new: Iterable[BrokerId]) -> None:
        """These neighbours have taken the place of one, if any; the tables have turned."""
        if old is not None:
            self.neighbours.discard(old)
            self.hearsay.drop_all(old)
            if self.tables.wanted is not None:
                self.tables.wanted.pop(old, None)
        for neighbour in new:
            self.neighbours.add(neighbour)

    def unlink(self, neighbour: BrokerId) -> None:
        """The neighbour has been told nothing: what was forwarded to it no longer counts."""
        self.neighbours.discard(neighbour)
        self.tables.forget_told(neighbour)
        self.hearsay.drop_all(neighbour)
        for row in list(self._repeated):
            row.others.pop(neighbour, None)
            if not row.others:
                del self._repeated[row]

    def take_back_told(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """It was told these before it was linked, and may have to hear them again."""
        told = self.tables.told_to(neighbour)
        out.extend(Send(neighbour, Unsubscribe(entry.id)) for entry in told)

    def forget(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """Undo all that the neighbour has said."""
        self.remove_subscriptions(self._subscriptions_from(neighbour), neighbour, out)
        for advertisement_id in self._advertisements_from(neighbour):
            self.remove_advertisement(advertisement_id, neighbour, out)

    def link(
        self, neighbour: BrokerId, out: list[Effect]
    ) -> tuple[list[AdvertisementId], list[SubscriptionId]]:
        """Tell a found neighbour all advertisements from elsewhere; returns what it said before.

        Its subscriptions come by themselves: they follow the advertisements.
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
