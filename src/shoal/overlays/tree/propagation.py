"""How advertisements and subscriptions spread in a tree of brokers (relocation paper, 2.1).

Advertisements flood the tree and leave their last hops in every SRT.  Subscriptions follow the
advertisements they overlap back to the publishers and leave their last hops in the PRTs on the
way.

One invariant says it all, and every operation restores it: a broker has forwarded a
subscription to neighbour n exactly when the subscription did not come from n and overlaps an
advertisement that did.  The receiver's table mirrors what the sender forwarded, because links
keep order and every change is said explicitly.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Container, Iterable

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import Advertise, Message, Subscribe, Unadvertise, Unsubscribe
from shoal.model import (
    Advertisement,
    AdvertisementId,
    BrokerId,
    ClientId,
    Subscription,
    SubscriptionId,
)
from shoal.overlays.tree.routing_table import AdvertisementEntry, RoutingTable, SubscriptionEntry


class Propagation:
    """One broker's tables, and what it tells its neighbours as they change."""

    def __init__(self, neighbours: Iterable[BrokerId]) -> None:
        self.tables = RoutingTable()
        self.neighbours = sorted(neighbours)

    # --- advertisements -----------------------------------------------------------------------

    def add_advertisement(
        self,
        advertisement: Advertisement,
        hop: BrokerId | None,
        out: list[Effect],
        moves: int = 0,
    ) -> None:
        """Store, flood, and let overlapping subscriptions follow it back.

        On a tree an advertisement changes sides only when its publisher moves: one from another
        side holds if it counts more moves, and is an old copy if it does not.
        """
        known = self.tables.advertisements.get(advertisement.id)
        if known is not None:
            same = known.advertisement == advertisement
            if moves <= known.rank and (same or known.last_hop != hop):
                return
            if same:
                self.turn(known, hop, moves, out)
                return
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
        before, row.last_hop = row.last_hop, hop
        row.moves, row.adopted, row.turned_us = moves, False, None
        self._flood(Advertise(row.advertisement, moves), (hop,), out)
        if before == hop:
            return
        row.has_turned = True
        if hop is not None:
            self.follow(hop, [row], out)
        if before is not None:
            out.extend(Send(before, Unsubscribe(entry.id)) for entry in self.release(before, [row]))

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
        """Undo `add_advertisement`: flood, and take back subscriptions only it asked for."""
        row = self.tables.advertisements.get(advertisement_id)
        if row is None or row.last_hop != hop:
            return
        self.withdraw(row, out)
        if hop is not None:
            if row.has_turned:
                # The neighbour was told while the row was on this side, and may have believed
                # that after it removed its own.
                out.append(Send(hop, Unadvertise(advertisement_id)))
            out.extend(Send(hop, Unsubscribe(entry.id)) for entry in self.release(hop, [row]))

    def withdraw(self, row: AdvertisementEntry, out: list[Effect]) -> None:
        """Drop a row and flood that it is gone; what it asked for is still to be released."""
        self.tables.remove_advertisement(row)
        self._flood(Unadvertise(row.advertisement.id), (row.last_hop,), out)

    def follow(self, hop: BrokerId, rows: Iterable[AdvertisementEntry], out: list[Effect]) -> None:
        """Forward to neighbour `hop` what overlaps these advertisements, which now are there."""
        for row in rows:
            for entry in row.overlapping:
                if entry.last_hop != hop and hop not in entry.forwarded_to:
                    entry.forwarded_to.add(hop)
                    out.append(Send(hop, Subscribe(entry.subscription)))

    def release(self, hop: BrokerId, rows: Iterable[AdvertisementEntry]) -> list[SubscriptionEntry]:
        """What neighbour `hop` need not have any more, as these advertisements left it.

        The entries are marked as not forwarded to it.
        """
        released = []
        for row in rows:
            for entry in row.overlapping:
                if hop in entry.forwarded_to and not entry.is_wanted_by(hop):
                    entry.forwarded_to.discard(hop)
                    released.append(entry)
        return released

    def unadvertise_all(
        self, publisher: ClientId, out: list[Effect], but: Container[AdvertisementId] = ()
    ) -> None:
        """Undo all that a publisher advertised here, with exceptions."""
        for row in list(self.tables.advertisements.values()):
            advertisement = row.advertisement
            if advertisement.publisher == publisher and advertisement.id not in but:
                self.remove_advertisement(advertisement.id, None, out)

    def _flood(self, message: Message, but: tuple[BrokerId | None, ...], out: list[Effect]) -> None:
        out.extend(
            Send(neighbour, message) for neighbour in self.neighbours if neighbour not in but
        )

    # --- subscriptions ------------------------------------------------------------------------

    def add_subscription(
        self, subscription: Subscription, hop: BrokerId | None, out: list[Effect]
    ) -> None:
        """Store, and forward along overlapping advertisements.  A known id is replaced."""
        known = self.tables.subscriptions.get(subscription.id)
        if known is not None:
            if known.subscription == subscription and known.last_hop == hop:
                return
            self.remove_subscription(subscription.id, known.last_hop, out)
        entry = self.tables.add_subscription(subscription, hop)
        for neighbour in self.neighbours:
            if neighbour != hop and entry.is_wanted_by(neighbour):
                entry.forwarded_to.add(neighbour)
                out.append(Send(neighbour, Subscribe(subscription)))

    def remove_subscription(
        self, subscription_id: SubscriptionId, hop: BrokerId | None, out: list[Effect]
    ) -> None:
        """Undo `add_subscription`, at exactly the neighbours it was forwarded to."""
        entry = self.tables.subscriptions.get(subscription_id)
        if entry is None or entry.last_hop != hop:
            return
        self.tables.remove_subscription(entry)
        message = Unsubscribe(subscription_id)
        out.extend(Send(neighbour, message) for neighbour in sorted(entry.forwarded_to))

    def unsubscribe_all(self, client: ClientId, out: list[Effect]) -> None:
        """Undo all that a client subscribed to here."""
        for entry in list(self.tables.subscriptions.values()):
            if entry.client == client:
                self.remove_subscription(entry.id, None, out)

    # --- links --------------------------------------------------------------------------------

    def has_link(self, broker: BrokerId) -> bool:
        return broker in self.neighbours

    def relink(self, old: BrokerId | None, new: Iterable[BrokerId]) -> None:
        """These neighbours have taken the place of one, if any; the tables have turned."""
        if old is not None:
            self.neighbours.remove(old)
        for neighbour in new:
            insort(self.neighbours, neighbour)

    def unlink(self, neighbour: BrokerId) -> None:
        """The neighbour has been told nothing: what was forwarded to it no longer counts."""
        if neighbour in self.neighbours:
            self.neighbours.remove(neighbour)
        for entry in self.tables.subscriptions.values():
            entry.forwarded_to.discard(neighbour)

    def forget(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """Undo all that the neighbour has said."""
        for subscription_id in self._subscriptions_from(neighbour):
            self.remove_subscription(subscription_id, neighbour, out)
        for advertisement_id in self._advertisements_from(neighbour):
            self.remove_advertisement(advertisement_id, neighbour, out)

    def link(
        self, neighbour: BrokerId, out: list[Effect]
    ) -> tuple[list[AdvertisementId], list[SubscriptionId]]:
        """Tell a found neighbour all advertisements from elsewhere; returns what it said before.

        Its subscriptions come by themselves: they follow the advertisements.
        """
        insort(self.neighbours, neighbour)
        rows = self.tables.advertisements.values()
        said = [row for row in rows if row.last_hop != neighbour]
        out.extend(Send(neighbour, Advertise(row.advertisement, row.rank)) for row in said)
        return self._advertisements_from(neighbour), self._subscriptions_from(neighbour)

    def _advertisements_from(self, neighbour: BrokerId) -> list[AdvertisementId]:
        rows = self.tables.advertisements.items()
        return [id for id, row in rows if row.last_hop == neighbour]

    def _subscriptions_from(self, neighbour: BrokerId) -> list[SubscriptionId]:
        entries = self.tables.subscriptions.items()
        return [id for id, entry in entries if entry.last_hop == neighbour]
