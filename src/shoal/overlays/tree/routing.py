"""Content-based routing on a tree of brokers: the PADRES scheme (relocation paper, 2.1).

Advertisements flood the tree and leave their last hops in every SRT.  Subscriptions follow the
advertisements they overlap back to the publishers and leave their last hops in the PRTs on the
way.  Publications follow matching subscriptions down.

One invariant says it all, and every operation restores it: a broker has forwarded a
subscription to neighbour n exactly when the subscription did not come from n and overlaps an
advertisement that did.  The receiver's table mirrors what the sender forwarded, because links
keep order and every change is said explicitly.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from shoal.broker.effects import Deliver, Effect, Measured, Notify, Send, TimerKey
from shoal.broker.messages import (
    Advertise,
    AdvertisementsSaid,
    Goodbye,
    Message,
    PublicationBatch,
    Publish,
    Rejected,
    RoutedPublication,
    Subscribe,
    SubscriptionsSaid,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.routing_table import AdvertisementEntry, RoutingTable, SubscriptionEntry
from shoal.broker.strategy import BrokerContext, ProtocolError, unexpected
from shoal.matching import MatchIndex
from shoal.model import (
    Advertisement,
    AdvertisementId,
    BrokerId,
    ClientId,
    Filter,
    FilterError,
    MessageId,
    Publication,
    Subscription,
    SubscriptionId,
)
from shoal.overlays.tree.exchange import TIMER as EXCHANGE_TIMER
from shoal.overlays.tree.exchange import Exchange


class TreeRouting:
    """The baseline system: publishers and subscribers stay where they connected."""

    def __init__(self, context: BrokerContext) -> None:
        self.broker = context.broker
        self.tables = RoutingTable()
        self._match, self._match_each = self.tables.match, self.tables.match_each
        self._neighbours = sorted(context.neighbours)
        # What each local publisher may publish; outlives its SRT rows while it is being moved.
        self._publishers: dict[ClientId, MatchIndex] = {}
        # The number of each one's next message; those who come start above all who left, so that
        # no message ID comes twice.
        self._next_numbers: dict[ClientId, int] = {}
        self._unused_number = 0
        self._exchange = Exchange(context.expected)

    # --- the strategy's inputs ----------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        return self._exchange.is_ready

    def start(self, now_us: int, out: list[Effect]) -> None:
        self._exchange.start(now_us, out)

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        self.check_neighbour(neighbour)
        if type(message) is PublicationBatch:
            self.forward(message.publications, message.hops, neighbour, out)
            return
        match message:
            case Advertise(advertisement, moves):
                _check_filter(advertisement.filter, "advertisement", advertisement.id)
                was_stale = self._exchange.heard_advertisement(neighbour, advertisement.id)
                self.add_advertisement(advertisement, neighbour, out, moves)
                if was_stale:
                    self._follow_again(neighbour, advertisement.id, out)
            case Unadvertise(advertisement_id):
                self.remove_advertisement(advertisement_id, neighbour, out)
            case Subscribe(subscription):
                _check_filter(subscription.filter, "subscription", subscription.id)
                self._exchange.heard_subscription(neighbour, subscription.id)
                self.add_subscription(subscription, neighbour, out)
            case Unsubscribe(subscription_id):
                self.remove_subscription(subscription_id, neighbour, out)
            case AdvertisementsSaid():
                for advertisement_id in self._exchange.all_advertised(neighbour):
                    self.remove_advertisement(advertisement_id, neighbour, out)
                self._exchange.say(out)
            case SubscriptionsSaid():
                for subscription_id in self._exchange.all_subscribed(neighbour, out):
                    self.remove_subscription(subscription_id, neighbour, out)
                self._exchange.say(out)
            case _:
                raise unexpected(message, f"neighbour {neighbour}")

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        match request:
            case Publish(publications):
                self.forward(self.accept(client, publications, out), 0, None, out)
            case Advertise(advertisement, moves):
                self.check_advertisement(client, advertisement)
                self._check_not_elsewhere(advertisement.id, moves)
                self.attach_publisher(client, [advertisement])
                self.add_advertisement(advertisement, None, out, moves)
            case Unadvertise(advertisement_id):
                if advertisement_id not in self._publishers.get(client, ()):
                    raise ProtocolError(f"{client} has no advertisement {advertisement_id} here")
                self._detach(client, advertisement_id)
                self.remove_advertisement(advertisement_id, None, out)
            case Subscribe(subscription):
                self._check_subscription(client, subscription)
                self.add_subscription(subscription, None, out)
            case Unsubscribe(subscription_id):
                entry = self.tables.subscriptions.get(subscription_id)
                if entry is None or entry.last_hop is not None or entry.client != client:
                    raise ProtocolError(f"{client} has no subscription {subscription_id} here")
                self.remove_subscription(subscription_id, None, out)
            case Goodbye():
                self.leave(client, out)
            case _:
                raise unexpected(request, f"client {client}")

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        if key == EXCHANGE_TIMER:
            self._exchange.waited(out)

    def measured(self, measured: Measured) -> None:
        """The tree does not look at delays."""

    def link(self, neighbour: BrokerId, up: bool, now_us: int, out: list[Effect]) -> None:
        """Forget what a lost neighbour said; tell a found one all advertisements from elsewhere.

        Its subscriptions come back by themselves: they follow the advertisements.  What one that
        has come back had said is stale until it has said its tables again.
        """
        tables = self.tables
        is_back = up and neighbour in self._neighbours
        if neighbour in self._neighbours:
            self._neighbours.remove(neighbour)
        theirs = [entry for entry in tables.subscriptions.values() if entry.last_hop == neighbour]
        for entry in tables.subscriptions.values():
            entry.forwarded_to.discard(neighbour)
        if not is_back:
            self._exchange.unlinked(neighbour)
            for entry in theirs:
                self.remove_subscription(entry.id, neighbour, out)
            for advertisement_id in list(tables.advertisements):
                self.remove_advertisement(advertisement_id, neighbour, out)
        if up:
            self._neighbours = sorted([*self._neighbours, neighbour])
            rows = tables.advertisements.values()
            said = [row for row in rows if row.last_hop != neighbour]
            stale = [row.advertisement.id for row in rows if row.last_hop == neighbour]
            out.extend(Send(neighbour, Advertise(row.advertisement, row.rank)) for row in said)
            kept = [entry.id for entry in theirs] if is_back else []
            self._exchange.linked(neighbour, stale, kept, out)

    # --- what is refused ----------------------------------------------------------------------

    def is_neighbour(self, broker: BrokerId) -> bool:
        """Whether there is a link to this broker."""
        return broker in self._neighbours

    def check_neighbour(self, neighbour: BrokerId) -> None:
        """ProtocolError unless there is a link to this broker."""
        if neighbour not in self._neighbours:
            raise ProtocolError(f"{neighbour} is not a neighbour of {self.broker}")

    def check_advertisement(self, publisher: ClientId, advertisement: Advertisement) -> None:
        """ProtocolError unless the advertisement, and one known by its id, are the publisher's."""
        _check_owner(publisher, advertisement.publisher, "advertisement", advertisement.id)
        _check_filter(advertisement.filter, "advertisement", advertisement.id)
        known = self.tables.advertisements.get(advertisement.id)
        if known is not None:
            owner = known.advertisement.publisher
            _check_owner(publisher, owner, "advertisement", advertisement.id)

    def _check_not_elsewhere(self, advertisement_id: AdvertisementId, moves: int) -> None:
        """Subscriptions would go on following the copy elsewhere, and miss the one here.

        Unless the publisher has moved since, as this one says.
        """
        known = self.tables.advertisements.get(advertisement_id)
        if known is not None and known.last_hop is not None and known.rank >= moves:
            hop = known.last_hop
            raise ProtocolError(f"advertisement {advertisement_id} is known from {hop} already")

    def _check_subscription(self, client: ClientId, subscription: Subscription) -> None:
        _check_owner(client, subscription.client, "subscription", subscription.id)
        _check_filter(subscription.filter, "subscription", subscription.id)
        known = self.tables.subscriptions.get(subscription.id)
        if known is not None:
            _check_owner(client, known.client, "subscription", subscription.id)

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

    def _follow_again(
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

    def _flood(self, message: Message, but: tuple[BrokerId | None, ...], out: list[Effect]) -> None:
        out.extend(
            Send(neighbour, message) for neighbour in self._neighbours if neighbour not in but
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
        for neighbour in self._neighbours:
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

    # --- local publishers ---------------------------------------------------------------------

    def attach_publisher(self, client: ClientId, advertisements: Iterable[Advertisement]) -> None:
        """Let a client publish here what these advertisements promise."""
        promises = self._publishers.setdefault(client, MatchIndex())
        for advertisement in advertisements:
            promises.add(advertisement.id, advertisement.filter)

    def detach_publisher(self, client: ClientId) -> None:
        """Refuse the client's publications from now on."""
        self._publishers.pop(client, None)
        self._unused_number = max(self._unused_number, self._next_numbers.pop(client, 0))

    def leave(self, client: ClientId, out: list[Effect]) -> None:
        """Undo all that a client asked for here."""
        self.detach_publisher(client)
        self.unadvertise_all(client, out)
        self.unsubscribe_all(client, out)

    def unsubscribe_all(self, client: ClientId, out: list[Effect]) -> None:
        """Undo all that a client subscribed to here."""
        for entry in list(self.tables.subscriptions.values()):
            if entry.client == client:
                self.remove_subscription(entry.id, None, out)

    def unadvertise_all(
        self, publisher: ClientId, out: list[Effect], but: Container[AdvertisementId] = ()
    ) -> None:
        """Undo all that a publisher advertised here, with exceptions."""
        for row in list(self.tables.advertisements.values()):
            advertisement = row.advertisement
            if advertisement.publisher == publisher and advertisement.id not in but:
                self.remove_advertisement(advertisement.id, None, out)

    def is_publisher(self, client: ClientId) -> bool:
        """Whether the client has advertised here and not left."""
        return client in self._publishers

    def promises(self, client: ClientId) -> Container[AdvertisementId]:
        """The advertisements that the client has made here."""
        return self._publishers.get(client, ())

    def _detach(self, client: ClientId, advertisement_id: AdvertisementId) -> None:
        promises = self._publishers[client]
        promises.remove(advertisement_id)
        if not len(promises):
            self.detach_publisher(client)

    # --- publications -------------------------------------------------------------------------

    def accept(
        self, client: ClientId, publications: tuple[Publication, ...], out: list[Effect]
    ) -> tuple[RoutedPublication, ...]:
        """Number the publications that their publisher's advertisements promise.

        The others are refused one by one: they would reach only some of their subscribers.
        """
        promises = self._publishers.get(client)
        if not promises:
            raise ProtocolError(f"{client} has not advertised at {self.broker}")
        number = self._next_numbers.get(client, self._unused_number)
        accepted = []
        promises_all = promises.matches_everything
        for publication in publications:
            if publication.publisher != client:
                owner = publication.publisher
                reason = f"publication {publication.sequence} belongs to {owner}, not to {client}"
            elif promises_all or promises.matches_any(publication.attributes):
                message_id = MessageId(self.broker, client, number)
                accepted.append(RoutedPublication(publication, message_id))
                number += 1
                continue
            else:
                reason = f"publication {publication.sequence} matches no advertisement of {client}"
            out.append(Notify(client, Rejected(reason)))
        self._next_numbers[client] = number
        return tuple(accepted)

    def forward(
        self,
        publications: tuple[RoutedPublication, ...],
        hops: int,
        hop: BrokerId | None,
        out: list[Effect],
    ) -> None:
        """Send publications to each neighbour with a match but `hop`, deliver to local clients."""
        remote: dict[BrokerId, list[RoutedPublication]] = {}
        match, answers = self._match, None
        if len(publications) > 1:
            each = [routed.publication.attributes for routed in publications]
            answers = iter(self._match_each(each))
        for routed in publications:
            found = next(answers) if answers else match(routed.publication.attributes)
            if not found:
                continue
            local: dict[ClientId, list[SubscriptionId]] = {}
            reached = [hop]  # a handful of neighbours: a list beats a set
            for entry in found:
                neighbour = entry.last_hop
                if neighbour is None:
                    known = local.get(entry.client)
                    if known is None:
                        local[entry.client] = [entry.id]
                    else:
                        known.append(entry.id)
                elif neighbour not in reached:
                    reached.append(neighbour)
                    if neighbour in remote:
                        remote[neighbour].append(routed)
                    else:
                        remote[neighbour] = [routed]
            if local:
                for client, subscriptions in local.items():
                    out.append(Deliver(client, routed, tuple(subscriptions), hops))
        if remote:
            hops += 1
            whole = PublicationBatch(publications, hops)
            for neighbour, part in remote.items():
                is_whole = len(part) == len(publications)
                batch = whole if is_whole else PublicationBatch(tuple(part), hops)
                out.append(Send(neighbour, batch))


def _check_filter(filter: Filter, what: str, name: str) -> None:
    """ProtocolError when the filter is too large to route by."""
    try:
        filter.normal_form  # noqa: B018  # computed here so that its error is met here
    except FilterError as error:
        raise ProtocolError(f"{what} {name}: {error}") from None


def _check_owner(client: ClientId, owner: ClientId, what: str, name: str) -> None:
    if client != owner:
        raise ProtocolError(f"{what} {name} belongs to {owner}, not to {client}")
