"""A tree with relocation of publishers (relocation paper, section 3.3).

It is composed: the tree routes, `Migrations` move, a `Tracer` decides on publishers' places. A
system with another routing over the same tree takes the same parts.
"""

from __future__ import annotations

from collections.abc import Collection

from shoal.broker.effects import (
    Effect,
    LinkState,
    MeasuredDelays,
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
from shoal.broker.strategy import ReceiveBatch
from shoal.clients.messages import CannotMove, MigrationAdvertisement, Paused
from shoal.model import BrokerId, ClientId
from shoal.overlays.coordination.host import CHANGE_TIMERS
from shoal.overlays.coordination.messages import ChangeMessage
from shoal.overlays.publisher_relocation.messages import MigrationComplete, MigrationUpdate
from shoal.overlays.publisher_relocation.migration import TIMER, Migrations
from shoal.overlays.publisher_relocation.tracer import Tracer
from shoal.overlays.tree.around import AroundTree
from shoal.overlays.tree.exchange import TIMER as EXCHANGE_TIMER
from shoal.overlays.tree.link_conflation import TIMER as CONFLATION_TIMER
from shoal.overlays.tree.messages import AdvertisementsSaid, SubscriptionsSaid
from shoal.overlays.tree.routing import TreeRouting

# Messages of neighbours for the tree and its migrations; all others are for tracers.
_OF_THE_TREE = frozenset(
    (
        Advertise,
        AdvertisementsSaid,
        MigrationComplete,
        MigrationUpdate,
        Subscribe,
        SubscriptionsSaid,
        Unadvertise,
        Unsubscribe,
    )
)
# By type: POP checks a result for each link and publication, and `isinstance` takes longer.
_CHANGES = frozenset(ChangeMessage.__subclasses__())


class Relocation(AroundTree):
    """One broker of such a tree: passes each part the events of the others.

    The migrations are that tree's, and the tracer sends publishers away through them.
    """

    def __init__(self, tree: TreeRouting, migrations: Migrations, tracer: Tracer) -> None:
        super().__init__(tree)
        self.migrations = migrations
        self.tracer = tracer
        self._neighbours = tree.propagation.neighbours
        tree.forwarding.note = tracer.note
        tree.surround(self)

    @property
    def tracing_bytes(self) -> int:
        """Size of the tracing structures, in bytes as a wire would carry them (5, figure 5e)."""
        return self.tracer.held_bytes

    @property
    def only_notes(self) -> bool:
        return self.tracer.only_notes

    # --- the strategy's inputs ----------------------------------------------------------------

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        self.tree.start(started, now_us, out)
        self.tracer.start(out)

    @property
    def receive_batch(self) -> ReceiveBatch:
        return self.tree.receive_batch

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        if type(message) is PublicationBatch:
            self.tree.receive_batch(neighbour, message, now_us, out)
            return
        if neighbour not in self._neighbours:
            self.tree.check_sender(neighbour, message)
        kind = type(message)
        if kind in _CHANGES:
            self.tree.receive(neighbour, message, now_us, out)
            return
        if self.tree.is_cut_off(neighbour):
            return
        if kind not in _OF_THE_TREE:
            self.tracer.receive(neighbour, message, now_us, out)
            return
        match message:
            case MigrationUpdate():
                self.migrations.update(neighbour, message, now_us, out)
                self.tracer.turned(message.publisher, out)
            case MigrationComplete():
                self.migrations.complete(neighbour, message, out)
            case Unadvertise(advertisement_id):
                row = self.tables.advertisements.get(advertisement_id)
                self.tree.receive(neighbour, message, now_us, out)
                if row is not None:
                    self._drop_gone({row.advertisement.publisher}, out)
            case AdvertisementsSaid():
                # No rows go but the neighbour's.
                rows = self.tables.advertised_from(neighbour)
                before = {row.advertisement.publisher for row in rows}
                self.tree.receive(neighbour, message, now_us, out)
                self._drop_gone(before, out)
            case Subscribe(subscription):
                self.migrations.subscribed(neighbour, subscription.id)
                self.tree.receive(neighbour, message, now_us, out)
            case Unsubscribe(subscription_id):
                if not self.migrations.unsubscribed(neighbour, subscription_id):
                    self.tree.receive(neighbour, message, now_us, out)
            case _:
                self.tree.receive(neighbour, message, now_us, out)

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        if type(request) is Publish:
            accepted = self.tree.publishers.accept(client, request.publications, out)
            self.publish(client, accepted, now_us, out)
            return
        match request:
            case Paused():
                self.migrations.paused(client, request, now_us, out)
                self.tracer.left(client, out)
            case MigrationAdvertisement():
                self.migrations.announce(client, request, now_us, out)
                self.tracer.turned(client, out)
            case CannotMove():
                self.migrations.declined(client, out)
                self.tracer.left(client, out)
            case Goodbye():
                self.migrations.left(client, now_us, out)
                self.tracer.left(client, out)
            case Advertise():
                self._advertise(client, request, now_us, out)
            case Unadvertise():
                self.tree.request(client, request, now_us, out)
                if client not in self.tree.publishers:
                    self.tracer.changed(client, out)
            case Subscribe() | Unsubscribe():
                self.tree.request(client, request, now_us, out)
                self.tracer.wants(client, out)
            case _:
                self.tracer.request(client, request, now_us, out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        if not self.tree.takes_link(neighbour, state, now_us, out):
            self.relink(neighbour, state, now_us, out)

    def passing_link(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> None:
        self.tree.passing_link(neighbour, state, now_us, out)

    def returned(
        self, neighbour: BrokerId, carrier: Carrier, now_us: int, out: list[Effect]
    ) -> None:
        self.tree.returned(neighbour, carrier, now_us, out)

    def measured(self, measured: MeasuredDelays) -> None:
        self.tracer.measured(measured)

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        if key in (EXCHANGE_TIMER, CONFLATION_TIMER, *CHANGE_TIMERS):
            self.tree.timer(key, now_us, out)
        elif self.tree.defers(TimerFired(key)):
            return
        elif key[0] != TIMER:
            self.tracer.timer(key, now_us, out)
        elif self.migrations.timer(key[1], out):
            self.tracer.left(key[1], out)  # it ignores its request to move, and stays

    def departed(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        self.tree.departed(broker, now_us, out)

    def publish(
        self,
        client: ClientId,
        accepted: tuple[RoutedPublication, ...],
        now_us: int,
        out: list[Effect],
    ) -> None:
        """Forward the accepted publications of a local client."""
        if accepted and client in self.migrations.fixed:
            self.tree.publish(client, accepted, now_us, out)
        elif accepted:
            marked = self.tracer.mark(client, accepted, now_us)
            self.tree.publish(client, marked, now_us, out)
            self.tracer.published(client, now_us, out)

    # --- links that change --------------------------------------------------------------------

    @property
    def is_moving(self) -> bool:
        return self.migrations.is_moving

    def relink(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        """A link came up, failed or ended, as links do."""
        self.migrations.link(neighbour, state, now_us, out)
        publishers = self.tables.published.keys
        self.tracer.link(neighbour, state is LinkState.UP, publishers, now_us, out)

    @property
    def missing(self) -> Collection[BrokerId]:
        return self.tree.missing

    def is_up(self, neighbour: BrokerId) -> bool:
        return self.tree.is_up(neighbour)

    def since_us(self, neighbour: BrokerId) -> int:
        return self.tree.since_us(neighbour)

    def expect(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        self.tree.expect(neighbour, now_us, out)

    def remember(self, out: list[Effect]) -> None:
        self.tree.remember(out)

    def adopt(self, neighbour: BrokerId, at_us: int, now_us: int, out: list[Effect]) -> None:
        self.tree.adopt(neighbour, at_us, now_us, out)
        self.replaced(None, (neighbour,), now_us, out)

    def disown(self, neighbour: BrokerId, at_us: int, now_us: int, out: list[Effect]) -> None:
        """The tracer waits for nothing from there."""
        self.replaced(neighbour, (), now_us, out)

    def replaced(
        self, old: BrokerId | None, new: tuple[BrokerId, ...], now_us: int, out: list[Effect]
    ) -> None:
        """The tables have turned: the tracer uses the present neighbours."""
        publishers = self.tables.published.keys
        if old is not None:
            self.tracer.link(old, False, publishers, now_us, out)
        for neighbour in new:
            self.tracer.link(neighbour, True, publishers, now_us, out)

    # --- steps --------------------------------------------------------------------------------

    def _advertise(
        self, client: ClientId, request: Advertise, now_us: int, out: list[Effect]
    ) -> None:
        advertisement = request.advertisement
        known = self.tables.advertisements.get(advertisement.id)
        if known is not None and known.last_hop is not None and self.migrations.is_leaving(client):
            # Sent before the pause; the publisher's announcement at the target was faster.
            self.tree.check_advertisement(client, advertisement)
            self.tree.publishers.attach(client, [advertisement])
            return
        self.tree.request(client, request, now_us, out)
        self.migrations.arrived(client, request.moves)
        if known is not None and known.advertisement != advertisement:
            self.tracer.changed(client, out)  # the brokers downstream have forgotten, too

    def _drop_gone(self, publishers: set[ClientId], out: list[Effect]) -> None:
        """Inform the tracer of the publishers that have left the network."""
        for publisher in sorted(publishers):
            if publisher not in self.tables.published.keys:
                self.tracer.gone(publisher, out)
