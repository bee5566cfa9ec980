"""The MQTT clients of a live broker: sockets on one side, the pure MQTT broker on the other.

`BrokerClients` decides; this carries bytes in and out.  What a client publishes goes to the broker
machine at once; what the machine delivers is gathered until the loop is through with the sockets
that are ready, so that every client is written to once.  While the node holds requests back,
nothing is read from clients.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from typing import Protocol, cast

from shoal.broker.effects import Deliver, Requested
from shoal.broker.messages import Message
from shoal.model import BrokerId, ClientId
from shoal.mqtt.access import Access, Admission, Credentials
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.connection import Connection
from shoal.mqtt.effects import Ask, ClientEffect, Close, Write
from shoal.mqtt.limits import Limits
from shoal.mqtt.publishers import Repeats
from shoal.runtime.addresses import Address
from shoal.runtime.journal_files import JournalFiles, Sync
from shoal.runtime.journal_writer import JournalWriter
from shoal.runtime.node import Node
from shoal.runtime.publishers import LivePublishers
from shoal.runtime.tls import certified_names

_MICROSECONDS = 1_000_000
# How much may wait to be written to a client before its session keeps the rest; a client that
# reads at all empties this in a moment.
WRITE_BUFFER_BYTES = 256 * 1_024

_log = logging.getLogger(__name__)


class LateAccess(Access, Protocol):
    """An `Access` whose answers may come later."""

    def take_owed(self) -> Credentials | None:
        """Whom `admit` has just left without an answer."""

    async def answer(self, credentials: Credentials) -> Admission:
        """The answer that `admit` owes."""


class Socket(Protocol):
    """A client's network connection, whatever it is wrapped in."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class MqttDoor:
    """All MQTT clients of one node."""

    def __init__(
        self,
        node: Node,
        limits: Limits,
        access: LateAccess | None = None,
        *,
        networked: bool = True,
        publishers: LivePublishers | None = None,
        servers: Mapping[BrokerId, str] | None = None,
        files: JournalFiles | None = None,
        sync: Sync = "never",
    ) -> None:
        """With `files` it is again what they say; JournalError if they cannot be read."""
        self.node = node
        self.clients = BrokerClients(
            node.id, node.clock.now_us(), limits=limits, access=access, networked=networked
        )
        self._access = access
        self._publishers = publishers
        # Where clients that follow are sent: the other brokers' listeners.
        self._elsewhere = servers if servers is not None else {}
        self._delivered: list[Deliver] = []
        self.journal = JournalWriter(node, self.clients, files, sync) if files else None
        # What is written, and closed, once the journal is.
        self._gathered: dict[Socket, list[bytes]] = {}
        self._closing: list[Socket] = []
        self._repeats = Repeats()
        self._sockets: dict[Connection, Socket] = {}
        # Clients from which nothing is read until they are let in, or not.
        self._waiting: dict[Connection, None] = {}
        self._admissions: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us: int | None = None
        if self.clients.door is not None:
            node.attach(self.clients.door.client, self)
        if publishers is not None:
            publishers.at_wait = self._slow_down
            publishers.follows = self._follows
            publishers.send_on = self._send_on
        node.before_flush.append(self.settle)
        node.at_flush.append(self.flush)
        node.at_hold.append(self._hold)

    def start(self) -> None:
        """Say to the machine what the door itself wants."""
        if self.journal is not None:
            self.journal.start()
        self.carry_out(self.clients.take_effects())
        self.node.schedule_flush()

    async def listen(
        self,
        address: Address,
        protocol: Callable[[MqttDoor], asyncio.Protocol],
        tls: ssl.SSLContext | None = None,
    ) -> Address:
        """Take clients in at this address; where that is."""
        server = await asyncio.get_running_loop().create_server(
            lambda: protocol(self), address.host, address.port, ssl=tls, backlog=1_024
        )
        self._servers.append(server)
        return Address(address.host, server.sockets[0].getsockname()[1])

    def stop_listening(self) -> None:
        """Take nobody in any more."""
        for server in self._servers:
            server.close()

    def shut_down(self) -> None:
        """Say goodbye to every client."""
        self.stop_listening()
        self.carry_out(self.clients.shut_down(self.node.clock.now_us()))
        if self._timer is not None:
            self._timer.cancel()

    # --- sockets ------------------------------------------------------------------------------

    def opened(self, socket: Socket, transport: asyncio.BaseTransport) -> Connection:
        """A client connected."""
        names = certified_names(transport.get_extra_info("peercert"))
        peer = transport.get_extra_info("peername")
        connection = self.clients.open(
            self.node.clock.now_us(),
            certificate=min(names, default=None),
            address=str(Address(*peer[:2])) if isinstance(peer, tuple) else None,
        )
        self._sockets[connection] = socket
        if self.node.is_holding:
            socket.pause_reading()
        self.node.schedule_flush()
        return connection

    def received(self, connection: Connection, data: bytes) -> None:
        """Bytes of a client."""
        self.carry_out(connection.receive(data, self.node.clock.now_us()))
        if not connection.wants_reading:
            self._wait(connection)
        self.node.schedule_flush()

    def lost(self, connection: Connection) -> None:
        """A client's connection is gone."""
        if self._sockets.pop(connection, None) is not None:
            self.carry_out(connection.lost(self.node.clock.now_us()))
            self.node.schedule_flush()

    def resumed(self, connection: Connection) -> None:
        """A client takes more again."""
        self.carry_out(connection.resume(self.node.clock.now_us()))
        self.node.schedule_flush()

    def carry_out(self, effects: list[ClientEffect]) -> None:
        """Ask, write and close; with a journal the latter two wait until it is written."""
        for effect in effects:
            match effect:
                case Write(connection, data):
                    socket = self._sockets.get(connection)
                    if socket is None:
                        continue
                    if self.journal is None:
                        socket.write(data)
                    else:
                        self._gathered.setdefault(socket, []).append(data)
                case Ask(requested):
                    self._ask(requested)
                case Close(connection):
                    socket = self._sockets.pop(connection, None)
                    if socket is None:
                        continue
                    if self.journal is None:
                        socket.close()
                    else:
                        self._closing.append(socket)

    def _write_gathered(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for socket, chunks in gathered.items():
            socket.write(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        closing, self._closing = self._closing, []
        for socket in closing:
            socket.close()

    def _ask(self, requested: Requested) -> None:
        door = self.clients.door
        if self._publishers is None or door is None or requested.client == door.client:
            self.node.request(requested.client, requested.request)
        else:
            self._publishers.request(requested)

    def _hold(self, full: bool) -> None:
        for connection, socket in self._sockets.items():
            if full:
                socket.pause_reading()
            elif self._may_read(connection):
                socket.resume_reading()

    def _may_read(self, connection: Connection) -> bool:
        if self.node.is_holding or not connection.wants_reading:
            return False
        client = connection.client_id
        return self._publishers is None or not self._publishers.is_waiting(client)

    def _slow_down(self, client: ClientId, wait: bool) -> None:
        """A client's publisher cannot go on for now, or can again."""
        for connection, socket in self._sockets.items():
            if connection.client_id == client and wait:
                socket.pause_reading()
            elif connection.client_id == client and self._may_read(connection):
                socket.resume_reading()

    def _follows(self, client: ClientId, broker: BrokerId) -> bool:
        return broker in self._elsewhere and any(
            connection.client_id == client and connection.terms and connection.terms.follows
            for connection in self._sockets
        )

    def _send_on(self, client: ClientId, broker: BrokerId) -> None:
        for connection in list(self._sockets):
            if connection.client_id == client:
                self.node.counts["sent_on"] += 1
                now_us = self.node.clock.now_us()
                self.carry_out(connection.redirect(self._elsewhere[broker], now_us))

    # --- admission ----------------------------------------------------------------------------

    def _wait(self, connection: Connection) -> None:
        """Read nothing more until the connection wants it; answer what is owed to it."""
        socket = self._sockets.get(connection)
        if socket is None or connection in self._waiting:
            return
        self._waiting[connection] = None
        socket.pause_reading()
        credentials = self._access.take_owed() if self._access is not None else None
        if self._access is not None and credentials is not None:
            task = asyncio.create_task(self._admit(connection, credentials, self._access))
            self._admissions.add(task)
            task.add_done_callback(self._admissions.discard)

    async def _admit(
        self, connection: Connection, credentials: Credentials, access: LateAccess
    ) -> None:
        admission = await access.answer(credentials)
        self.carry_out(connection.admitted(admission, self.node.clock.now_us()))
        self.node.schedule_flush()

    def _go_on(self) -> None:
        """Read on from those that want it."""
        for connection in [each for each in self._waiting if each.wants_reading]:
            del self._waiting[connection]
            socket = self._sockets.get(connection)
            if socket is not None and self._may_read(connection):
                socket.resume_reading()

    # --- the machine's side -------------------------------------------------------------------

    def deliver(self, delivery: Deliver) -> None:
        if self._repeats.take(delivery.routed.publication):
            self._delivered.append(delivery)
        else:
            self.node.counts["repeats"] += 1

    def notify(self, message: Message) -> None:
        """What a broker tells a client's library; the door's own clients need not know."""
        _log.debug("notice to the door", extra={"notice": type(message).__name__})

    def settle(self) -> None:
        """What the machine has delivered is in the sessions, and on disk, before anyone hears."""
        if self._delivered:
            delivered, self._delivered = self._delivered, []
            self.carry_out(self.clients.deliver(delivered, self.node.clock.now_us()))
        if self.journal is not None and not self.journal.write():
            # Who hears nothing asks again, and is refused.
            gathered, self._gathered = self._gathered, {}
            for socket in gathered:
                socket.close()

    def flush(self) -> None:
        """Write to clients, read on from those that wait, and see to the time."""
        if self._gathered or self._closing:
            self._write_gathered()
        if self._waiting:
            self._go_on()
        deadline_us = self.clients.deadline_us
        if deadline_us is not None and (self._timer_us is None or deadline_us < self._timer_us):
            self._set_timer(deadline_us)

    def _set_timer(self, deadline_us: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_us = deadline_us
        delay_s = max(0, deadline_us - self.node.clock.now_us()) / _MICROSECONDS
        self._timer = self.node.loop.call_later(delay_s, self._advance)

    def _advance(self) -> None:
        self._timer = self._timer_us = None
        self.carry_out(self.clients.advance(self.node.clock.now_us()))
        self.node.schedule_flush()


class MqttSocket(asyncio.Protocol):
    """One client over TCP or TLS."""

    def __init__(self, door: MqttDoor) -> None:
        self._door = door

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop has types of its own
        transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        self.write = transport.write
        self.close = transport.close
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self._connection = self._door.opened(self, transport)

    def data_received(self, data: bytes) -> None:
        self._door.received(self._connection, data)

    def connection_lost(self, error: Exception | None) -> None:
        self._door.lost(self._connection)

    def pause_writing(self) -> None:
        self._connection.pause()

    def resume_writing(self) -> None:
        self._door.resumed(self._connection)
