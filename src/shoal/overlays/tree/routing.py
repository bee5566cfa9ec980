"""Content-based routing on a tree of brokers: the PADRES scheme (relocation paper, 2.1).

Advertisements flood the tree, subscriptions follow those they overlap back to the publishers
(`propagation.py` keeps the tables that way), and publications follow matching subscriptions down.
`TreeRouting` validates inputs of neighbours and clients first. Brokers synchronise their tables
over a link that has come up (`exchange.py`), and take the place of a leaving broker
(`contraction.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sized

import msgspec

from shoal.broker.effects import (
    DropLink,
    Effect,
    EndLink,
    LinkChanged,
    LinkState,
    OpenLink,
    Remember,
    Send,
    Started,
    TimerFired,
    TimerKey,
)
from shoal.broker.messages import (
    Advertise,
    Carrier,
    Goodbye,
    Message,
    PublicationBatch,
    Publish,
    RoutedPublication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.routing_decision import Hop, RoutingDecision, RoutingQuery
from shoal.broker.strategy import (
    BrokerContext,
    ProtocolError,
    ReceiveBatch,
    unexpected,
)
from shoal.model import (
    Advertisement,
    AdvertisementId,
    Attributes,
    BrokerId,
    ClientId,
    Subscription,
)
from shoal.overlays.coordination.coordinator import Coordinator
from shoal.overlays.coordination.host import CHANGE_TIMERS, CHANGES, Deferred
from shoal.overlays.coordination.messages import ChangeMessage, Facts, LinkChange
from shoal.overlays.coordination.strategy import CoordinatedStrategy
from shoal.overlays.merging import OwnMerging
from shoal.overlays.publishers import LocalPublishers
from shoal.overlays.requests import check_advertisement, check_filter, check_subscription
from shoal.overlays.tree.contraction import Around, Contraction, PlainLinks
from shoal.overlays.tree.exchange import TIMER as EXCHANGE_TIMER
from shoal.overlays.tree.exchange import TableExchange
from shoal.overlays.tree.forwarding import TreeForwarding
from shoal.overlays.tree.link_conflation import TIMER as CONFLATION_TIMER
from shoal.overlays.tree.messages import AdvertisementsSaid, SubscriptionsSaid
from shoal.overlays.tree.propagation import Propagation
from shoal.overlays.tree.routing_rows import SubscriptionEntry
from shoal.overlays.tree.turning import TableTurn, turn_tables


class TreeRouting(PlainLinks, CoordinatedStrategy):
    """The baseline system: publishers and subscribers stay where they connected.

    Returned publications follow turned tables, if the tables have turned. Otherwise they are
    dropped: no other path leads to the brokers behind a dead neighbour.
    """

    def __init__(
        self, context: BrokerContext, *, covering: bool = False, merging: bool = False
    ) -> None:
        self.broker = context.broker
        merged = OwnMerging(context.broker) if merging else None
        self.propagation = Propagation(
            context.neighbours, covering=covering, merging=merged, outcomes=context.outcomes
        )
        self._neighbours = self.propagation.neighbours
        self.publishers = LocalPublishers(context.broker)
        self.tables = self.propagation.tables
        self.forwarding = TreeForwarding(self.broker, self._neighbours, self.tables.routes)
        self._exchange = TableExchange(context.expected)
        self.around: Around = self
        self._contraction = Contraction(self.propagation, self._exchange)
        self.changes = Coordinator(self.broker, context.random, self)
        self._up = set(context.neighbours)
        # Disconnected neighbours.
        self._away = dict.fromkeys(context.expected)

    # --- the strategy's inputs ----------------------------------------------------------------

    @property
    def description(self) -> Mapping[str, int]:
        return self.tables.sizes

    @property
    def searched(self) -> Sized:
        return self.tables.subscriptions

    @property
    def most_candidates(self) -> int:
        return self.tables.routes.most_candidates

    def work_of(self, attributes: Attributes) -> int:
        return self.tables.routes.work_of(attributes)

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        return self.tables.routes.prepare(attributes, work_us)

    @property
    def is_ready(self) -> bool:
        return self._exchange.is_ready

    @property
    def awaited(self) -> Collection[BrokerId]:
        return self._exchange.awaited

    @property
    def keeps_order(self) -> bool:
        """There is one path between two brokers, and links keep their order."""
        return True

    def routing_decision(self, asked: RoutingQuery) -> RoutingDecision:
        route = self.tables.routes.of(asked.attributes)
        hops = (Hop(each) for each in route.neighbours if each != asked.source)
        return RoutingDecision(tuple(hops), is_local=bool(route.clients))

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        self._exchange.start(started, now_us, out)
        self.changes.start(started.facts.get(CHANGES, {}), now_us, out)

    @property
    def receive_batch(self) -> ReceiveBatch:
        return self.forwarding.forward

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        if type(message) is PublicationBatch:
            self.forwarding.forward(neighbour, message, now_us, out)
            return
        if neighbour not in self._neighbours:
            self.check_sender(neighbour, message)
        if isinstance(message, ChangeMessage):
            self.changes.receive(neighbour, message, now_us, out)
            return
        if self.is_cut_off(neighbour):
            return  # the neighbour synchronises again over the link that replaces this one
        match message:
            case Advertise(advertisement, moves):
                check_filter(advertisement.filter, "advertisement", advertisement.id)
                was_stale = self._exchange.received_advertisement(neighbour, advertisement.id)
                is_new = self._exchange.lacks_advertisements(neighbour)
                self.propagation.add_advertisement(
                    advertisement, neighbour, out, moves, is_new_link=is_new
                )
                if was_stale:
                    self.propagation.follow_again(neighbour, advertisement.id, out)
            case Unadvertise(advertisement_id):
                self.propagation.remove_advertisement(advertisement_id, neighbour, out)
            case Subscribe(subscription):
                check_filter(subscription.filter, "subscription", subscription.id)
                self._exchange.received_subscription(neighbour, subscription.id)
                is_new = self._exchange.lacks_subscriptions(neighbour)
                self.propagation.add_subscription(subscription, neighbour, out, is_new_link=is_new)
            case Unsubscribe(subscription_id):
                self.propagation.remove_subscription(subscription_id, neighbour, out)
            case AdvertisementsSaid():
                for advertisement_id in self._exchange.all_advertised(neighbour):
                    self.propagation.remove_advertisement(advertisement_id, neighbour, out)
                self._exchange.send_markers(out)
            case SubscriptionsSaid():
                stale = self._exchange.all_subscribed(neighbour, out)
                self.propagation.remove_subscriptions(stale, neighbour, out)
                self._exchange.send_markers(out)
            case _:
                raise unexpected(message, f"neighbour {neighbour}")

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        if type(request) is Publish:
            accepted = self.publishers.accept(client, request.publications, out)
            self.publish(client, accepted, now_us, out)
            return
        match request:
            case Advertise(advertisement, moves):
                self.check_advertisement(client, advertisement)
                self._check_not_elsewhere(advertisement.id, moves)
                self.publishers.attach(client, [advertisement])
                self.propagation.add_advertisement(advertisement, None, out, moves)
            case Unadvertise(advertisement_id):
                self.publishers.take_back(client, advertisement_id)
                self.propagation.remove_advertisement(advertisement_id, None, out)
            case Subscribe(subscription):
                self._check_subscription(client, subscription)
                if self.tables.wanted is not None and subscription.pace is not None:
                    # A covering subscription with a pace would hold back what another wants.
                    subscription = msgspec.structs.replace(subscription, pace=None)
                self.propagation.add_subscription(subscription, None, out)
            case Unsubscribe(subscription_id):
                entry = self.tables.subscriptions.get(subscription_id)
                if entry is None or entry.client != client or not self._is_here(entry):
                    raise ProtocolError(f"{client} has no subscription {subscription_id} here")
                self.propagation.remove_subscription(subscription_id, None, out)
            case Goodbye():
                self.publishers.detach(client)
                self.propagation.unadvertise_all(client, out)
                self.propagation.unsubscribe_all(client, out)
            case _:
                raise unexpected(request, f"client {client}")

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        if key in CHANGE_TIMERS:
            self.changes.timer(key, now_us, out)
        elif key == CONFLATION_TIMER:
            self.forwarding.conflation.timer(now_us, out, self._neighbours)
        elif key == EXCHANGE_TIMER and not self.defers(TimerFired(key)):
            self._exchange.waited(now_us, out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        if self.forwarding.conflation.is_on:
            self.forwarding.conflation.flush(out, self._up)
        if not self.takes_link(neighbour, state, now_us, out):
            self.relink(neighbour, state, now_us, out)

    def passing_link(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> None:
        """Only a change of links can make it one of the tree's."""
        if state is LinkState.UP:
            self._up.add(neighbour)
            self.changes.opened(neighbour, now_us, out)
        else:
            self._up.discard(neighbour)
            self.forwarding.draining.pop(neighbour, None)
            self.changes.failed(neighbour, now_us, out)

    def returned(
        self, neighbour: BrokerId, carrier: Carrier, now_us: int, out: list[Effect]
    ) -> None:
        ways = self.propagation.turned.get(neighbour)
        if ways is not None and isinstance(carrier, PublicationBatch):
            sent: list[Effect] = []
            self.forwarding.forward_all(neighbour, carrier, sent)
            out += [each for each in sent if isinstance(each, Send) and each.neighbour in ways]

    # --- links --------------------------------------------------------------------------------

    def surround(self, around: Around) -> None:
        """Another system routes over this tree, and looks after its links."""
        self.around = around

    def takes_link(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> bool:
        """Whether the tree must ignore, or defer, a link event."""
        if state is LinkState.UP:
            self._up.add(neighbour)
        else:
            self._up.discard(neighbour)
            self.forwarding.draining.pop(neighbour, None)
        return self.changes.link(neighbour, state, now_us, out)

    def is_cut_off(self, neighbour: BrokerId) -> bool:
        """Whether table messages over this link are to be ignored."""
        return self.changes.is_out or self.changes.has_left(neighbour)

    def parts(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> bool:
        """A link leaves the tree before it ends; True if that is deferred."""
        return self.defers(LinkChanged(neighbour, LinkState.ENDED))

    def defers(self, what: Deferred) -> bool:
        """Whether tables must not change now; the event is handled later."""
        return self.changes.defers(what)

    def departed(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A broker has left: neither a change nor the start of this broker waits for it."""
        self.dismiss(broker, out)
        self.changes.departed(broker, out)

    def succeeded(
        self, broker: BrokerId, successor: BrokerId, now_us: int, out: list[Effect]
    ) -> None:
        """If it was a neighbour, link to the broker that has its place."""
        is_lost = self.is_neighbour(broker) or broker in self.away
        if is_lost and successor not in (self.broker, *self._neighbours):
            self.go_elsewhere(broker, successor, now_us, out)
        self.around.departed(broker, now_us, out)

    def relink(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        """Forget a lost neighbour's rows; send a new neighbour the tables.

        Rows of a neighbour that has reconnected are stale until it has sent its tables.
        """
        up = state is LinkState.UP
        if state is not LinkState.FAILED:
            self._away.pop(neighbour, None)
        else:
            self._away[neighbour] = None
        is_back = up and self.is_neighbour(neighbour)
        if self._exchange.confirm(neighbour) and up:
            self.propagation.retract_forwarded(neighbour, out)
        self.propagation.unlink(neighbour)
        if not is_back:
            self._exchange.unlinked(neighbour)
            self.propagation.forget(neighbour, out)
        if up:
            advertisements, subscriptions = self.propagation.link(neighbour, out)
            self._exchange.linked(neighbour, advertisements, subscriptions, out)
        else:
            self._exchange.send_markers(out)

    def restarted(self, neighbour: BrokerId) -> None:
        """A neighbour's link is up again, and it is not certain yet that it stays a neighbour.

        Announcements to it are provisional until then.
        """
        self._exchange.restarted(neighbour)
        self.tables.forget_forwarded(neighbour)

    @property
    def is_yielding(self) -> bool:
        """Whether links are about to change because a broker leaves."""
        return not self.changes.is_free

    def opens(self, neighbour: BrokerId) -> bool:
        """Whether a link to this broker is to replace one to a leaving broker."""
        return self.changes.opens(neighbour)

    def expect(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """There is a link to this broker, too, of which nothing was known as this one started."""
        if not self.is_neighbour(neighbour):
            self._away[neighbour] = None
        self._exchange.expect(neighbour, now_us, out)

    def dismiss(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """Stop waiting for an expected broker that is no neighbour after all."""
        self._away.pop(neighbour, None)
        self._exchange.dismiss(neighbour, out)

    # --- changes of links (`host.Host`) ------------------------------------------------

    @property
    def neighbours(self) -> Collection[BrokerId]:
        """Those that there are links to."""
        return self._neighbours

    def is_up(self, neighbour: BrokerId) -> bool:
        return neighbour in self._up

    def is_connected(self, broker: BrokerId) -> bool:
        return self.around.is_up(broker)

    @property
    def away(self) -> Collection[BrokerId]:
        """Disconnected neighbours."""
        return self.around.missing

    @property
    def missing(self) -> Collection[BrokerId]:
        return self._away

    def obstacle_to(self, leaving_broker: BrokerId, *, is_dead: bool = False) -> str:
        """Why its tables cannot turn now for a leave; "" if they can."""
        if self.around.is_moving:
            return "a publisher is moving through it"
        if is_dead:
            return ""
        return self._contraction.obstacle(leaving_broker, is_own=leaving_broker == self.broker)

    def obstacle_to_link(self, broker: BrokerId) -> str:
        """A second path between two brokers would be a cycle."""
        return f"it is linked to {broker} already" if broker in self._neighbours else ""

    @property
    def stops(self) -> bool:
        """Tables must not change while they turn."""
        return True

    def send_held(self, out: list[Effect]) -> None:
        """Send what conflation holds: the tables may turn before its periods end."""
        self.forwarding.conflation.flush(out, self._up)

    def is_drained(self, out: list[Effect]) -> bool:
        """The leaving broker is a leaf, or nothing, to all others."""
        return True

    def facts(self, change: LinkChange) -> Facts:
        if change.is_dead:
            return self._contraction.own_side(self.broker, change.leaving_broker)
        return self._contraction.facts(change)

    def succeed(
        self, change: LinkChange, facts: Facts, at_us: int, now_us: int, out: list[Effect]
    ) -> None:
        self._contraction.succeed(change, facts, out)
        self.dismiss(change.leaving_broker, out)
        self.forwarding.draining[change.leaving_broker] = change.others
        self.around.disown(change.leaving_broker, at_us, now_us, out)
        for each in change.others:
            self.around.adopt(each, at_us, now_us, out)

    def follow(self, change: LinkChange, at_us: int, now_us: int, out: list[Effect]) -> None:
        self._contraction.follow(change, out)
        self.dismiss(change.leaving_broker, out)
        self.forwarding.draining[change.leaving_broker] = (change.decider,)
        self.around.disown(change.leaving_broker, at_us, now_us, out)
        self.around.adopt(change.decider, at_us, now_us, out)

    def part(self, change: LinkChange, at_us: int, now_us: int, out: list[Effect]) -> None:
        for each in change.participants:
            if each != self.broker:
                self.around.disown(each, at_us, now_us, out)

    def restore(self, change: LinkChange, at_us: int, now_us: int, out: list[Effect]) -> None:
        self.around.disown(change.leaving_broker, at_us, now_us, out)
        self.dismiss(change.leaving_broker, out)
        if change.is_dead:
            out.append(DropLink(change.leaving_broker))
        for each in change.new_links(self.broker):
            self.expect(each, now_us, out)
            self.around.adopt(each, at_us, now_us, out)

    def go_elsewhere(
        self, leaving_broker: BrokerId, successor: BrokerId, now_us: int, out: list[Effect]
    ) -> None:
        self.around.disown(leaving_broker, now_us, now_us, out)
        self.around.expect(successor, now_us, out)
        out += [OpenLink(successor, is_lasting=True), EndLink(leaving_broker)]

    def resume(self, what: Deferred, now_us: int, out: list[Effect]) -> None:
        if isinstance(what, TimerFired):
            self.around.timer(what.key, now_us, out)
        else:
            self.around.relink(what.neighbour, what.state, now_us, out)

    def record(self, out: list[Effect]) -> None:
        self.around.remember(out)

    def remember(self, out: list[Effect]) -> None:
        out.append(Remember({CHANGES: self.changes.facts}))

    def adopt(self, neighbour: BrokerId, at_us: int, now_us: int, out: list[Effect]) -> None:
        """The link belongs to the tree: its ends synchronise their tables."""
        out.append(OpenLink(neighbour, is_lasting=True))
        if self.is_up(neighbour):
            self.relink(neighbour, LinkState.UP, now_us, out)
        else:
            self._away[neighbour] = None

    def disown(self, neighbour: BrokerId, at_us: int, now_us: int, out: list[Effect]) -> None:
        """Nothing to do: the rows have turned."""

    # --- exchanging links ---------------------------------------------------------------------

    @property
    def is_at_rest(self) -> bool:
        """Whether all neighbours have synchronised their tables, and none is about to leave."""
        is_settled = all(map(self._exchange.is_settled, self._neighbours))
        return (
            self.is_ready
            and is_settled
            and not (self.is_yielding or self.propagation.alternate_routes)
        )

    def turn(
        self,
        turn: TableTurn,
        before: BrokerId,
        behind: BrokerId,
        out: list[Effect],
        *,
        opens: bool,
        ends: bool,
    ) -> None:
        """Turn the tables (`turning.py`) silently; only changes of covering are sent.

        The link to `behind` is new if it `opens`, and `before` is no neighbour after that if it
        `ends`.
        """
        old, new = before if ends else None, (behind,) if opens else ()
        turned = turn_tables(self.propagation, turn, before, behind)
        for id in (*turn.known, *(each.id for each in turn.far)):
            # Announcements of the two have turned with the rows, and are not retracted.
            self.propagation.alternate_routes.drop(id, before)
            self.propagation.alternate_routes.drop(id, behind)
        self.propagation.relink(old, new)
        self.propagation.turned = {before: (behind,)}
        late = self.propagation.resume_covering()
        self.propagation.restate(self._neighbours, dict.fromkeys((*turned, *late)), out)
        self._exchange.replaced(old, new)

    def keep_tables(self, out: list[Effect]) -> None:
        """The tables do not turn after all: cover again what was forwarded meanwhile."""
        self.propagation.restate(self._neighbours, self.propagation.resume_covering(), out)

    # --- validation ---------------------------------------------------------------------------

    def is_neighbour(self, broker: BrokerId) -> bool:
        """Whether there is a link to this broker."""
        return broker in self.propagation.neighbours

    def check_neighbour(self, neighbour: BrokerId) -> None:
        """ProtocolError unless there is a link to this broker."""
        self.forwarding.check_neighbour(neighbour)

    def check_sender(self, neighbour: BrokerId, message: Message) -> None:
        """ProtocolError unless the message may come over this link.

        A former neighbour may forward what it held; over a new link only link changes are allowed.
        """
        if isinstance(message, ChangeMessage) and self.is_connected(neighbour):
            return
        if not self.changes.has_left(neighbour):
            self.check_neighbour(neighbour)

    def check_advertisement(self, publisher: ClientId, advertisement: Advertisement) -> None:
        """ProtocolError unless the advertisement, and one known by its id, are the publisher's."""
        row = self.tables.advertisements.get(advertisement.id)
        check_advertisement(publisher, advertisement, None if row is None else row.advertisement)

    def _check_not_elsewhere(self, advertisement_id: AdvertisementId, moves: int) -> None:
        """ProtocolError if a copy elsewhere is current: subscriptions would follow that copy."""
        known = self.tables.advertisements.get(advertisement_id)
        if known is not None and known.last_hop is not None and known.rank >= moves:
            hop = known.last_hop
            raise ProtocolError(f"advertisement {advertisement_id} is known from {hop} already")

    def _is_here(self, entry: SubscriptionEntry) -> bool:
        """Whether a subscription is a local client's, even if it has another last hop."""
        return entry.last_hop is None or self.propagation.alternate_routes.has(entry.id, None)

    def _check_subscription(self, client: ClientId, subscription: Subscription) -> None:
        entry = self.tables.subscriptions.get(subscription.id)
        check_subscription(client, subscription, None if entry is None else entry.subscription)

    # --- publications -------------------------------------------------------------------------

    def publish(
        self,
        client: ClientId,
        accepted: tuple[RoutedPublication, ...],
        now_us: int,
        out: list[Effect],
    ) -> None:
        """Forward the accepted publications of a local client."""
        forwarding = self.forwarding
        may_hold = self.tables.paced or forwarding.conflation.is_on
        if len(accepted) > 1 and may_hold and forwarding.is_conflated(accepted):
            for routed in accepted:
                forwarding.forward(None, PublicationBatch((routed,), 0), now_us, out)
            return
        forwarding.forward(None, PublicationBatch(accepted, 0), now_us, out)
