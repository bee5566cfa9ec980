"""Couriers of a live broker: direct channels between a door and the brokers its clients publish at.

A door dials the other broker's peer port, says that it is no link, and passes its clients'
requests on; the other broker keeps a port for each of these clients and sends back what its
machine tells them.  Each direction has a channel of its own; the machines know of none.

Requests are not taken while the broker's links are full: then the channel fills, and the door
stops reading from those clients.  A door that is gone for good takes its clients with it.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from itertools import count
from random import Random
from typing import Any, Protocol

from shoal.broker.custody import Custody, is_assured
from shoal.broker.effects import Deliver
from shoal.broker.links.controls import Hello, Purpose
from shoal.broker.links.inbox import Debt
from shoal.broker.links.session import LinkSession
from shoal.broker.links.states import State
from shoal.broker.messages import Advertise, Goodbye, Message, Ping, Pong
from shoal.broker.wire import Codec, WireError
from shoal.clients.courier import Courier, CourierEvent, CourierLimits
from shoal.clients.courier_messages import COURIERS, ClientNotice, ClientRequest
from shoal.clients.messages import MigrationAdvertisement
from shoal.model import BrokerId, ClientId
from shoal.runtime.driving.flushing import Phase
from shoal.runtime.driving.timing.pauses import Rounds
from shoal.runtime.driving.weighing import TURN_US
from shoal.runtime.links.dialling import FIRST_PAUSE_S, LONGEST_PAUSE_S
from shoal.runtime.links.peer_connections import PeerConnection, dial
from shoal.runtime.links.peer_settings import PeerSettings, check_peer
from shoal.runtime.links.quarantine import Quarantine
from shoal.runtime.node import Node

TICK_S = 0.5

_CODEC = Codec(COURIERS)
_log = logging.getLogger(__name__)


class Owner(Protocol):
    """Whose clients publish elsewhere."""

    def noticed(self, broker: BrokerId, client: ClientId, message: Message) -> None:
        """A distant broker tells a client something."""

    def happened(self, event: CourierEvent) -> None:
        """A distant broker does not answer, or has forgotten."""

    def found(self, broker: BrokerId) -> None:
        """A distant broker answers."""

    def filled(self, broker: BrokerId, full: bool) -> None:
        """The way to a distant broker is full, or is not any more."""

    def uses(self, broker: BrokerId) -> bool:
        """Whether clients publish there."""


class _Channel:
    """One end of a channel and, when there is one, its connection."""

    def __init__(self, session: LinkSession) -> None:
        self.session = session
        self.connection: PeerConnection | None = None
        self.quarantine = Quarantine()
        self.since_us: int | None = None  # when the oldest of what it holds back came
        self.is_handing_on = False
        self.is_going_on = False  # soon: others have their turn before

    def flush(self) -> None:
        data = self.session.to_write()
        if data and self.connection is not None:
            self.connection.write(data)


class _Outgoing(_Channel):
    """The door's end."""

    def __init__(self, courier: Courier) -> None:
        super().__init__(courier.session)
        self.courier = courier
        self.dialling: asyncio.Task[None] | None = None
        self.was_full = False


class _Incoming(_Channel):
    """The end of a broker where clients of the door publish, and their ports."""

    def __init__(self, session: LinkSession, node: Node) -> None:
        super().__init__(session)
        self.ports: dict[ClientId, _Port] = {}
        self._node = node

    def tell(self, client: ClientId, message: Message) -> None:
        self.session.send(ClientNotice(client, message))  # type: ignore[arg-type]

    def ask(
        self, message: ClientRequest, since_us: int | None, custody: Custody | None = None
    ) -> None:
        """A client of the door asks, unless somebody else speaks for it by now."""
        client, request, node = message.client, message.request, self._node
        if type(request) is Ping:
            # Whoever asks how far this broker is need not be its client; another door may be.
            self.tell(client, Pong(request.session))
            return
        holder, port = node.client(client), self.ports.get(client)
        if holder is None or isinstance(request, Advertise | MigrationAdvertisement):
            port = self.ports[client] = port or _Port(self, client)
            node.attach(client, port)
        elif holder is not port:
            if custody is not None:
                custody.settle()  # who waited for it is gone
            return
        node.request(client, request, since_us, custody)
        if isinstance(request, Goodbye):
            self._forget(client)

    def end(self) -> None:
        """The door is gone: so are its clients."""
        for client in list(self.ports):
            self.ask(ClientRequest(client, Goodbye()), None)
            self._forget(client)

    def _forget(self, client: ClientId) -> None:
        port = self.ports.pop(client, None)
        if port is not None and self._node.client(client) is port:
            self._node.detach(client)


class _Port:
    """A client of a distant door, as this broker's machine sees it."""

    def __init__(self, channel: _Incoming, client: ClientId) -> None:
        self._channel = channel
        self._client = client

    def deliver(self, delivery: Deliver) -> None:
        """Nothing is: what a client wants is asked for, and delivered, by its door."""

    def notify(self, message: Message) -> None:
        self._channel.tell(self._client, message)


class Couriers:
    """All couriers of one node, to other brokers and from them."""

    def __init__(
        self, node: Node, settings: PeerSettings, limits: CourierLimits | None = None
    ) -> None:
        self.owner: Owner | None = None
        self._is_leaving = False
        self._node = node
        self._settings = settings
        self._limits = limits or CourierLimits()
        self._outgoing: dict[BrokerId, _Outgoing] = {}
        self._incoming: dict[BrokerId, _Incoming] = {}
        self._by_connection: dict[PeerConnection, _Channel] = {}
        self._ticking: asyncio.TimerHandle | None = None
        self._rounds = Rounds(TICK_S)
        # Of sessions, whichever courier they are of: a broker's may end and come again.
        self._numbers = count(1)
        # Only the pauses between attempts: no two brokers come back in step.
        self._random = Random()
        node.at_flush(Phase.LINKS, self.flush)
        node.at_hold.append(self._hold)

    def start(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    async def stop(self) -> None:
        """Write what can be written, and close everything."""
        if self._ticking is not None:
            self._ticking.cancel()
        self.flush()
        tasks = [each.dialling for each in self._outgoing.values() if each.dialling is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(self._by_connection):
            connection.close()

    async def drained(self) -> None:
        """Return when every distant broker that is there has taken all that it was asked."""
        while any(
            each.session.state is State.UP and each.session.buffered_bytes
            for each in self._outgoing.values()
        ):
            await asyncio.sleep(0.01)

    def status(self) -> list[dict[str, Any]]:
        """One row per courier to another broker, for people and metrics."""
        return [
            {
                "broker": name,
                "state": each.session.state.value,
                "quarantined": each.quarantine.reason,
                "is_full": each.session.is_full,
                "buffered_bytes": each.session.buffered_bytes,
            }
            for name, each in sorted(self._outgoing.items())
        ]

    def leave(self) -> None:
        """Whoever publishes here from another door is let go, as if this broker had died."""
        self._is_leaving = True
        incoming, self._incoming = self._incoming, {}
        for each in incoming.values():
            if each.connection is not None:
                self._drop(each.connection)
            each.end()

    def stay(self) -> None:
        """Clients of other brokers may publish here again."""
        self._is_leaving = False

    # --- the door's side ----------------------------------------------------------------------

    def ask(
        self,
        broker: BrokerId,
        client: ClientId,
        request: Message,
        custody: Custody | None = None,
    ) -> None:
        """A client asks a distant broker, behind all it has asked it before."""
        now_us = self._node.clock.now_us()
        outgoing = self._outgoing.get(broker) or self._open(broker, now_us)
        message = ClientRequest(client, request)  # type: ignore[arg-type]
        try:
            self._tell(outgoing.courier.ask(message, now_us, custody))
        except WireError as error:
            self._node.counts["unwritable"] += 1
            _log.error("a request is lost", extra={"to": broker, "problem": str(error)})
        self._check_room(outgoing)
        self._node.schedule_flush()

    def is_empty(self, broker: BrokerId) -> bool:
        """Whether a distant broker has handled, and settled, all it was asked."""
        outgoing = self._outgoing.get(broker)
        return outgoing is None or not outgoing.session.buffered_bytes

    def _open(self, broker: BrokerId, now_us: int) -> _Outgoing:
        courier = Courier(self._session(broker), _CODEC, self._limits, now_us)
        outgoing = self._outgoing[broker] = _Outgoing(courier)
        outgoing.dialling = asyncio.create_task(self._keep_dialling(broker, outgoing))
        return outgoing

    def _session(self, broker: BrokerId) -> LinkSession:
        return self._settings.session(self._node.id, broker, _CODEC, self._numbers, Purpose.COURIER)

    async def _keep_dialling(self, broker: BrokerId, outgoing: _Outgoing) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            address = self._settings.addresses.get(broker)
            connection = await dial(self, address, self._settings.tls) if address else None
            if connection is not None:
                outgoing.connection = connection
                self._by_connection[connection] = outgoing
                connection.say(outgoing.session.hello())
                await connection.ended
                if connection.is_greeted:
                    pause_s = FIRST_PAUSE_S
            longer_s = max(pause_s, outgoing.quarantine.pause_s)
            await asyncio.sleep(longer_s * self._random.uniform(0.75, 1.25))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _tell(self, events: list[CourierEvent]) -> None:
        for event in events:
            _log.warning(
                "distant broker: %s", type(event).__name__.lower(), extra={"broker": event.broker}
            )
            if self.owner is not None:
                self.owner.happened(event)

    def _check_room(self, outgoing: _Outgoing) -> None:
        full = outgoing.courier.is_full
        if full != outgoing.was_full:
            outgoing.was_full = full
            if self.owner is not None:
                self.owner.filled(outgoing.courier.broker, full)

    # --- connections --------------------------------------------------------------------------

    def opened(self, connection: PeerConnection) -> None:
        """Those that come in are handed over when they have said hello."""

    def greeted(self, connection: PeerConnection, hello: Hello) -> None:
        now_us = self._node.clock.now_us()
        check_peer(connection, hello, self._node.id, self._settings)
        if hello.purpose is not Purpose.COURIER or hello.broker not in self._settings.addresses:
            raise WireError(f"{self._node.id} takes no couriers from broker {hello.broker!r}")
        channel = self._by_connection.get(connection)
        if isinstance(channel, _Outgoing):
            if hello.broker != channel.courier.broker:
                raise WireError(f"this is {hello.broker}, not {channel.courier.broker}")
            channel.quarantine.came_up(now_us)
            self._tell(channel.courier.connected(hello, now_us))
            if self.owner is not None:
                self.owner.found(hello.broker)
        elif self._is_leaving:
            raise WireError(f"{self._node.id} leaves the network")
        else:
            self._take_in(connection, hello, now_us)
        self._node.schedule_flush()

    def _take_in(self, connection: PeerConnection, hello: Hello, now_us: int) -> None:
        incoming = self._incoming.get(hello.broker)
        if incoming is None:
            incoming = _Incoming(self._session(hello.broker), self._node)
            self._incoming[hello.broker] = incoming
        elif incoming.quarantine.refuses(now_us):
            raise WireError(f"in quarantine: {incoming.quarantine.reason}")
        elif incoming.session.is_overtaken(hello):
            raise WireError("a later connection was made")
        elif incoming.connection is not None:
            self._drop(incoming.connection)
        self._by_connection[connection] = incoming
        incoming.connection = connection
        incoming.quarantine.came_up(now_us)
        connection.say(incoming.session.hello())
        if incoming.session.connected(hello, now_us):
            incoming.end()

    def received(self, connection: PeerConnection, data: bytes) -> None:
        channel = self._by_connection.get(connection)
        if channel is None:
            return  # replaced by a newer connection
        now_us = self._node.clock.now_us()
        try:
            channel.session.receive(data, now_us)
        finally:  # what came before something that makes no sense is handed on, too
            if channel.since_us is None:
                channel.since_us = now_us
            if isinstance(channel, _Outgoing):
                self._check_room(channel)
            self._hand_on(channel)
            self._node.schedule_flush()

    def _hand_on(self, channel: _Channel) -> None:
        """Have what came handled, for a turn; of what clients ask nothing while links are full."""
        if channel.is_handing_on:
            return  # what comes up meanwhile asks again; channels keep their order
        channel.is_handing_on = True
        try:
            self._hand_on_for_a_turn(channel)
        finally:
            channel.is_handing_on = False

    def _hand_on_for_a_turn(self, channel: _Channel) -> None:
        session, clock = channel.session, self._node.clock
        end_us = clock.now_us() + TURN_US
        while session.has_come:
            if isinstance(channel, _Incoming) and self._node.is_holding:
                return
            for message in session.take_run(1):
                self._handle(channel, message)
            if session.has_come and clock.now_us() >= end_us:
                self._go_on_soon(channel)
                return
        channel.since_us = None

    def _handle(self, channel: _Channel, message: Message) -> None:
        owner = self.owner
        if isinstance(channel, _Incoming) and isinstance(message, ClientRequest):
            session, custody = channel.session, None
            if is_assured(message.request):
                number = session.handled - 1
                custody = Custody(partial(self._settle, session, session.owe(number, number)))
            channel.ask(message, channel.since_us, custody)
        elif isinstance(channel, _Outgoing) and isinstance(message, ClientNotice) and owner:
            owner.noticed(channel.courier.broker, message.client, message.notice)

    def _go_on_soon(self, channel: _Channel) -> None:
        """Hand on the rest when others have had their turn."""
        if not channel.is_going_on:
            channel.is_going_on = True
            asyncio.get_running_loop().call_soon(self._go_on, channel)

    def _go_on(self, channel: _Channel) -> None:
        channel.is_going_on = False
        if channel.connection is not None:
            self._hand_on(channel)
            self._node.schedule_flush()

    def _settle(self, session: LinkSession, debt: Debt) -> None:
        self._node.recording.settle(partial(session.settle, debt))
        self._node.schedule_flush()

    def _hold(self, full: bool) -> None:
        if not full:
            for incoming in self._incoming.values():
                self._hand_on(incoming)

    def closed(self, connection: PeerConnection) -> None:
        self._drop(connection)

    def _drop(self, connection: PeerConnection) -> None:
        channel = self._by_connection.pop(connection, None)
        if channel is None:
            return
        channel.connection = None
        channel.since_us = None
        now_us = self._node.clock.now_us()
        refused = connection.refused if connection.is_greeted else ""
        if channel.quarantine.ended(now_us, refused):
            extra = {"broker": channel.session.neighbour, "why": refused}
            _log.error("distant broker in quarantine, refused again and again", extra=extra)
        if isinstance(channel, _Outgoing):
            channel.courier.is_quarantined = bool(channel.quarantine.reason)
            channel.courier.disconnected(now_us)
        else:
            channel.session.lost(now_us)
        connection.abort()

    # --- time ---------------------------------------------------------------------------------

    def flush(self) -> None:
        for channel in (*self._outgoing.values(), *self._incoming.values()):
            channel.flush()

    def _tick(self) -> None:
        now_us = self._node.clock.now_us()
        missed_us = self._rounds.missed_us(now_us)
        for outgoing in self._outgoing.values():
            outgoing.courier.excuse(missed_us)
        for incoming in self._incoming.values():
            incoming.session.excuse(missed_us)
        for channel in (*self._outgoing.values(), *self._incoming.values()):
            if channel.session.is_silent(now_us) and channel.connection is not None:
                channel.connection.abort()
            if channel.quarantine.is_over(now_us):
                extra = {"broker": channel.session.neighbour}
                _log.warning("quarantine of a distant broker over", extra=extra)
        for broker, outgoing in list(self._outgoing.items()):
            self._tell(outgoing.courier.tick(now_us))
            self._check_room(outgoing)
            is_used = self.owner is not None and self.owner.uses(broker)
            if outgoing.courier.is_idle(now_us) and not is_used:
                self._close(broker, outgoing)
        for broker, incoming in list(self._incoming.items()):
            if incoming.session.tick(now_us):
                incoming.end()
                del self._incoming[broker]
        self._node.schedule_flush()
        self.start()

    def _close(self, broker: BrokerId, outgoing: _Outgoing) -> None:
        del self._outgoing[broker]
        if outgoing.dialling is not None:
            outgoing.dialling.cancel()
        if outgoing.connection is not None:
            connection = outgoing.connection
            self._drop(connection)
