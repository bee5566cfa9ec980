"""A tree whose publishers can be moved: what POP and GRAPE share (relocation paper, section 3.3).

Routing is the tree's, moving is `Migrations`.  A system adds how it traces publications and how
it decides where a publisher belongs: it derives from `Relocation`, fills in its abstract methods,
and calls `self._send_away` when it has decided.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sized

from shoal.broker.effects import Effect, LinkState, Measured, Started, TimerKey
from shoal.broker.messages import (
    Advertise,
    AdvertisementsSaid,
    Goodbye,
    Message,
    MigrationAdvertisement,
    Paused,
    PublicationBatch,
    Publish,
    RoutedPublication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.strategy import BaseStrategy, BrokerContext
from shoal.model import BrokerId, ClientId
from shoal.overlays.publisher_relocation.messages import MigrationComplete, MigrationUpdate
from shoal.overlays.publisher_relocation.migration import TIMER, Migrations
from shoal.overlays.tree.exchange import TIMER as EXCHANGE_TIMER
from shoal.overlays.tree.routing import TreeRouting
from shoal.overlays.tree.routing_table import RoutingTable


class Relocation(BaseStrategy, ABC):
    """One broker of such a tree."""

    def __init__(self, context: BrokerContext) -> None:
        self._broker = context.broker
        self._tree = TreeRouting(context)
        self._migrations = Migrations(self._tree)

    # --- the strategy's inputs ----------------------------------------------------------------

    @property
    def tables(self) -> RoutingTable:
        return self._tree.tables

    @property
    def description(self) -> Mapping[str, int]:
        return self._tree.description

    @property
    def searched(self) -> Sized:
        return self._tree.searched

    @property
    def is_ready(self) -> bool:
        return self._tree.is_ready

    @property
    def keeps_order(self) -> bool:
        return self._tree.keeps_order

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        self._tree.start(started, now_us, out)

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        self._tree.check_neighbour(neighbour)
        if type(message) is PublicationBatch:
            self._forward(message.publications, message.hops, neighbour, now_us, out)
            return
        if self._told(neighbour, message, now_us, out):
            return
        match message:
            case MigrationUpdate():
                self._migrations.update(neighbour, message, now_us, out)
                self._moved(message.publisher, out)
            case MigrationComplete():
                self._migrations.complete(neighbour, message, out)
            case Unadvertise(advertisement_id):
                row = self.tables.advertisements.get(advertisement_id)
                self._tree.receive(neighbour, message, now_us, out)
                if row is not None:
                    self._withdrawn(row.advertisement.publisher, out)
            case AdvertisementsSaid():
                before = self._advertised()
                self._tree.receive(neighbour, message, now_us, out)
                for publisher in sorted(before - self._advertised()):
                    self._withdrawn(publisher, out)
            case Subscribe(subscription):
                self._migrations.subscribed(neighbour, subscription.id)
                self._tree.receive(neighbour, message, now_us, out)
            case Unsubscribe(subscription_id):
                if not self._migrations.unsubscribed(neighbour, subscription_id):
                    self._tree.receive(neighbour, message, now_us, out)
            case _:
                self._tree.receive(neighbour, message, now_us, out)

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        if type(request) is Publish:
            accepted = self._tree.publishers.accept(client, request.publications, out)
            if accepted:
                self._publish(client, accepted, now_us, out)
            return
        match request:
            case Paused():
                self._migrations.paused(client, request, now_us, out)
                self._forget(client, out)
            case MigrationAdvertisement():
                self._migrations.announce(client, request, now_us, out)
                self._moved(client, out)
            case Goodbye():
                self._migrations.left(client, now_us, out)
                self._forget(client, out)
            case Advertise():
                self._advertise(client, request, now_us, out)
            case _:
                if not self._asked(client, request, now_us, out):
                    self._tree.request(client, request, now_us, out)
                if type(request) is Unadvertise and client not in self._tree.publishers:
                    self._give_up(client, out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        self._migrations.link(neighbour, state, now_us, out)
        self._relinked(neighbour, state is LinkState.UP, now_us, out)

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        if key == EXCHANGE_TIMER:
            self._tree.timer(key, now_us, out)
        elif key[0] != TIMER:
            self._fired(key, now_us, out)
        elif self._migrations.timer(key[1], out):
            self._forget(key[1], out)  # it was told to go and stays: it is like any other

    # --- what a system adds -------------------------------------------------------------------

    @abstractmethod
    def _fired(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        """A timer that the system set has fired; the first part of its key is not `TIMER`."""

    @abstractmethod
    def measured(self, measured: Measured) -> None:
        """The monitor reports the broker's recent delays."""

    @property
    @abstractmethod
    def tracing_bytes(self) -> int:
        """What the tracing structures hold, in bytes as a wire would carry them (5, figure 5e)."""

    @abstractmethod
    def _publish(
        self,
        client: ClientId,
        publications: tuple[RoutedPublication, ...],
        now_us: int,
        out: list[Effect],
    ) -> None:
        """Trace and forward what a local publisher has published."""

    @abstractmethod
    def _note(
        self,
        publications: tuple[RoutedPublication, ...],
        effects: list[Effect],
        upstream: BrokerId | None,
        now_us: int,
        out: list[Effect],
    ) -> None:
        """Publications came from upstream, and these are the effects that forwarded them."""

    @abstractmethod
    def _told(self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]) -> bool:
        """Take a neighbour's message if it is one of the system's own."""

    @abstractmethod
    def _asked(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> bool:
        """Take a client's request if it is one of the system's own."""

    @abstractmethod
    def _forget(self, publisher: ClientId, out: list[Effect]) -> None:
        """Drop all that is held about a publisher: it is no longer here."""

    @abstractmethod
    def _give_up(self, publisher: ClientId, out: list[Effect]) -> None:
        """A local publisher changed what it advertises: what was traced is void."""

    @abstractmethod
    def _withdrawn(self, publisher: ClientId, out: list[Effect]) -> None:
        """An advertisement of a publisher elsewhere is gone."""

    @abstractmethod
    def _moved(self, publisher: ClientId, out: list[Effect]) -> None:
        """The publisher has turned up in another direction: here, or elsewhere."""

    @abstractmethod
    def _relinked(self, neighbour: BrokerId, up: bool, now_us: int, out: list[Effect]) -> None:
        """The link to a neighbour came up or went down; the tree knows already."""

    # --- steps --------------------------------------------------------------------------------

    def _forward(
        self,
        publications: tuple[RoutedPublication, ...],
        hops: int,
        upstream: BrokerId | None,
        now_us: int,
        out: list[Effect],
    ) -> None:
        before = len(out)
        self._tree.forward(publications, hops, upstream, out)
        for routed in publications:
            if routed.trace_session is not None:
                self._note(publications, out[before:], upstream, now_us, out)
                return

    def _advertise(
        self, client: ClientId, request: Advertise, now_us: int, out: list[Effect]
    ) -> None:
        advertisement = request.advertisement
        known = self.tables.advertisements.get(advertisement.id)
        if known is not None and known.last_hop is not None and self._migrations.is_leaving(client):
            # Said before the pause; what the publisher said at the target was faster.
            self._tree.check_advertisement(client, advertisement)
            self._tree.publishers.attach(client, [advertisement])
            return
        self._tree.request(client, request, now_us, out)
        self._migrations.arrived(client, request.moves)
        if known is not None and known.advertisement != advertisement:
            self._give_up(client, out)  # the brokers downstream have forgotten, too

    def _send_away(
        self, publisher: ClientId, path: tuple[BrokerId, ...], now_us: int, out: list[Effect]
    ) -> None:
        """Tell a local publisher to go to the end of the path; `_forget` follows in any case."""
        self._migrations.send_away(publisher, path, now_us, out)

    def _advertised(self) -> set[ClientId]:
        """The publishers that the network has."""
        return {row.advertisement.publisher for row in self.tables.advertisements.values()}
