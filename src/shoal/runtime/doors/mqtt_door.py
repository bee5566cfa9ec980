"""The MQTT clients of a live broker: sockets on one side, the pure MQTT broker on the other.

`BrokerClients` decides; this carries bytes in and out.  What a client publishes goes to the broker
machine at once.  What the machine delivers, and what is to be written, is gathered until the loop
is through with the sockets that are ready: so clients are written to when all that they are told
is as safe as it will be.  While the node holds requests back, connections keep what comes.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from functools import partial

from shoal.attributes import Json
from shoal.broker.custody import Custody, is_assured
from shoal.broker.effects import Deliver, Requested
from shoal.broker.messages import Advertise, Message, Publish
from shoal.ledger import Ledger
from shoal.model import BrokerId, ClientId
from shoal.mqtt.access import Credentials, Permissions
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.connection.connection import Connection
from shoal.mqtt.connection.effects import Ask, ClientEffect, Close, HalfClose, Write
from shoal.mqtt.door.network import TO_ATTRIBUTE
from shoal.mqtt.federation.moving import Servers
from shoal.mqtt.limits import Limits
from shoal.mqtt.notices import Party
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.runtime.addresses import Address
from shoal.runtime.binding import Bound
from shoal.runtime.doors.asking import Asking, subscribed
from shoal.runtime.doors.entry.audit import Audit
from shoal.runtime.doors.publishers import LivePublishers
from shoal.runtime.doors.reading import PIECE_BYTES, Rounds
from shoal.runtime.doors.sending_on import SendingOn
from shoal.runtime.doors.slow_readers import SlowReaders
from shoal.runtime.doors.sockets.sockets import LateAccess, Socket
from shoal.runtime.doors.waiting import Waiting
from shoal.runtime.driving.flushing import Phase
from shoal.runtime.driving.timing.pauses import Alarm
from shoal.runtime.driving.weighing import Taker
from shoal.runtime.node import Node
from shoal.runtime.storage.journal_files import JournalFiles, Sync
from shoal.runtime.storage.journal_writer import JournalWriter
from shoal.runtime.tls.contexts import certified_names
from shoal.runtime.tls.listener import Listener, listen
from shoal.runtime.traffic.watch import Traffic

_MICROSECONDS = 1_000_000
# What is delivered before the loop is through with what is ready: who must wait for readers is
# known before a socket has brought megabytes.
MOST_DELIVERED = 1_000
# How long a unit of work takes (see `TURN` in `mqtt.connection.serving`).
WORK_US = 15
# What a client may do, None if it is to be closed.
Permitted = Callable[[Credentials], Permissions | None]

_log = logging.getLogger(__name__)


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
        servers: Servers | None = None,
        files: JournalFiles | None = None,
        sync: Sync = "never",
        json: Json = "auto",
        moves_subscribers: bool = False,
        has_cycles: bool = False,
    ) -> None:
        """With `files` it is again what they say; JournalError if they cannot be read.

        `moves_subscribers`: its system asks who gets what; `has_cycles`: there are several ways.
        """
        self.node = node
        self.clients = BrokerClients(
            node.id,
            node.clock.now_us(),
            limits=limits,
            access=access,
            networked=networked,
            json=json,
        )
        self._audit = Audit(node.clock.now_us)
        self.traffic = Traffic(self.clients, json, node.clock.now_us)
        self._publishers = publishers
        self._delivered: list[Deliver] = []
        self.journal = JournalWriter(node, self.clients, files, sync) if files else None
        # A broker that has no neighbours and no disk has nothing to wait for; else this is
        # written, and these are closed, once nobody hears of what could still be lost.
        self._writes_at_once = not networked and files is None
        self._gathered: dict[Socket, list[bytes]] = {}
        self._closing: list[Callable[[], None]] = []
        heard = self.journal.heard if self.journal is not None else {}
        if self.clients.arrivals is not None:
            self.clients.arrivals.notice_repeats(
                heard,
                node.machine.ordered_by,
                keeps_order=node.machine.keeps_order,
                has_detours=has_cycles,
            )
        self._sockets: dict[ClientConnection, Socket] = {}
        # Those of clients that were sent away, which may still say what they got.
        self._half_closed: dict[ClientConnection, Socket] = {}
        self._waiting = Waiting(node, self._sockets, access, publishers, self.carry_out)
        self.rounds = Rounds()
        self._slow_readers = SlowReaders()
        # Whether the machine takes nothing of clients for now.
        self._is_held = False
        # Whether the log knows that the queues are full.
        self._is_full = False
        self._servers: list[Listener] = []
        self._asking = Asking(node.clock, self._ask, self._hold_clients)
        self._timer: Alarm | None = None
        self._timer_us: int | None = None
        if self.clients.door is not None:
            node.attach(self.clients.door.client, self)
        listeners = servers if servers is not None else {}
        self._moves_subscribers = moves_subscribers and networked
        self._sending_on = SendingOn(node, self.clients, listeners, publishers, self.carry_out)
        if publishers is not None:
            publishers.at_wait = self._slow_down
            publishers.owes = self._owes
            publishers.settled = partial(self._done, self.clients.settled)
            if self.clients.door is not None:
                publishers.heard = partial(self._done, self.clients.door.promising.heard)
        subscriptions = self.clients.subscriptions
        node.weighing.takers.append(
            Taker(
                lambda: subscriptions.most_candidates,
                lambda what: WORK_US * subscriptions.work_on(what),
                subscriptions.prepare,
                TO_ATTRIBUTE,
            )
        )
        node.at_flush(Phase.DELIVER, self._hand_on)
        if self.journal is not None:
            node.at_flush(Phase.RECORD, self._record)
        node.at_flush(Phase.CLIENTS, self._write)
        node.at_hold.append(self._hold)
        node.at_link.append(self._linked)

    def start(self) -> None:
        """Say to the machine what the door itself wants."""
        if self.journal is not None:
            self.journal.start()
        self.carry_out(self.clients.take_effects())
        if self._moves_subscribers:
            self._sending_on.stand_for_clients()
        self.node.schedule_flush()

    def come_back(self) -> None:
        """Say it again: the machine has been told goodbye."""
        if self.clients.door is not None:
            self.clients.door.ask_again()
        if self.clients.federation is not None:
            self.clients.federation.come_back(self.node.clock.now_us())
        self.carry_out(self.clients.take_effects())
        if self._moves_subscribers:
            self._sending_on.stand_for_clients()
        self._look_after(self.node.clock.now_us())
        self.node.schedule_flush()

    @property
    def is_told(self) -> bool:
        """Whether it knows what is retained, as far as another broker has told it."""
        federation = self.clients.federation
        return federation is None or federation.joining.is_told

    async def listen(
        self,
        where: Address | Bound,
        protocol: Callable[[MqttDoor], asyncio.Protocol],
        tls: ssl.SSLContext | None = None,
        listener: str = "mqtt",
    ) -> Address:
        """Take clients in at this address, by this kind of listener; where that is."""
        no_tls = partial(self._no_tls, listener)
        server = await listen(where, lambda: protocol(self), tls, no_tls, self._patience)
        self._servers.append(server)
        return server.address

    def register(self, ledger: Ledger) -> None:
        """Enter all tables in the memory ledger."""
        self.clients.register(ledger)
        self._audit.register(ledger)

    def _patience(self) -> float:
        """How long a client may take for its handshake, in seconds."""
        return float(self.clients.limits.connect_timeout_s)

    def _no_tls(self, listener: str, address: str, why: str) -> None:
        """TLS did not begin with a client."""
        self.clients.statistics.notices.no_tls(Party("", None, address), listener, why)
        self.node.schedule_flush()

    def refused(self, transport: asyncio.BaseTransport, listener: str, why: str) -> None:
        """A client may not come by that listener."""
        who, code = Party("", None, _address(transport)), ReasonCode.NOT_AUTHORIZED
        self.clients.statistics.notices.refuse("connect refused", code, who, listener, why)
        self.node.schedule_flush()

    def renew(
        self,
        limits: Limits,
        access: LateAccess,
        permissions: Permitted,
    ) -> None:
        """From now on these hold (see `BrokerClients.renew`)."""
        self._waiting.access = access
        self.carry_out(self.clients.renew(limits, access, permissions, self.node.clock.now_us()))
        self.node.schedule_flush()

    def certified(self, is_trusted: Callable[[bytes], bool], permissions: Permitted) -> Permitted:
        """As `permissions`, but for clients whose certificates are not trusted any more."""

        def permitted(credentials: Credentials) -> Permissions | None:
            connection = self.clients.connection(credentials.client_id)
            if credentials.certificate is not None and connection is not None:
                socket = self._sockets.get(connection)
                shown = None if socket is None else socket.certificate()
                if shown is not None and not is_trusted(shown):
                    return None
            return permissions(credentials)

        return permitted

    def stop_listening(self) -> None:
        """Take nobody in any more."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    @property
    def connections(self) -> list[ClientConnection]:
        """Those of all clients, let in or not."""
        return list(self._sockets)

    def shut_down(self) -> None:
        """Say goodbye to every client."""
        self.stop_listening()
        self.carry_out(self.clients.shut_down(self.node.clock.now_us()))
        self.node.hand_on(False)
        self._asking.finish()
        self.node.schedule_flush()
        if self._timer is not None:
            self._timer.cancel()

    # --- sockets ------------------------------------------------------------------------------

    def opened(self, socket: Socket, transport: asyncio.BaseTransport, listener: str) -> Connection:
        """A client connected, by this kind of listener."""
        names = certified_names(transport.get_extra_info("peercert"))
        connection = self.clients.open(
            self.node.clock.now_us(),
            certificate=min(names, default=None),
            address=_address(transport),
            listener=listener,
        )
        self._sockets[connection] = socket
        self.node.schedule_flush()
        return connection

    def received(self, connection: Connection, data: bytes) -> None:
        """Bytes of a client; some of the last may be `unread` where they are more than a piece."""
        now_us = self.node.clock.now_us()
        at_once = self.carry_out(connection.receive(data, now_us, PIECE_BYTES))
        if len(self._delivered) >= MOST_DELIVERED:
            self._hand_on()
        self._waiting.see_to(connection)
        if at_once:
            self._look_after(now_us)
        if not at_once or self._waiting.holds:  # what is held has a turn of its own
            self.node.schedule_flush()

    def lost(self, connection: Connection) -> None:
        """A client's connection is gone."""
        if self._forget(connection) is not None:
            self.carry_out(connection.lost(self.node.clock.now_us()))
            self.node.schedule_flush()

    def resumed(self, connection: Connection) -> None:
        """A client takes more again."""
        self.carry_out(connection.resume(self.node.clock.now_us()))
        self.node.schedule_flush()

    @property
    def _writes_now(self) -> bool:
        """Whether nothing need be gathered: more comes at once of who sends much."""
        if not self._writes_at_once or self.rounds.is_coming_round:
            return False
        return not (self._gathered or self._closing)

    def carry_out(self, effects: list[ClientEffect]) -> bool:
        """Ask at once, write and close with the next flush; whether it was done at once, too."""
        at_once = self._writes_now
        asked: list[Requested] = []
        for effect in effects:
            if type(effect) is Ask:
                asked.append(effect.input)
                continue
            if asked:
                self._asking.put_all(asked)
            if type(effect) is Write:
                socket = self._sockets.get(effect.connection)
                if socket is None:
                    continue
                if at_once:
                    socket.write(effect.data)
                else:
                    self._gathered.setdefault(socket, []).append(effect.data)
            elif type(effect) is HalfClose:
                socket = self._sockets.pop(effect.connection, None)
                if socket is not None:
                    self._half_closed[effect.connection] = socket
                    self._close(socket.half_close)
            elif type(effect) is Close:
                socket = self._forget(effect.connection)
                if socket is not None:
                    self._close(socket.close)
        if asked:
            self._asking.put_all(asked)
        return at_once

    def _forget(self, connection: ClientConnection) -> Socket | None:
        return self._sockets.pop(connection, None) or self._half_closed.pop(connection, None)

    def _close(self, close: Callable[[], None]) -> None:
        """At once, or behind what is still to be written."""
        if self._writes_now:
            close()
        else:
            self._closing.append(close)

    def _write(self) -> None:
        """Write what was gathered, and what is owed since."""
        self.carry_out(self.clients.take_effects())
        gathered, self._gathered = self._gathered, {}
        for socket, chunks in gathered.items():
            socket.write(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        closing, self._closing = self._closing, []
        for close in closing:
            close()
        self._look_after(self.node.clock.now_us())
        if not (self.clients.is_held or self.clients.spreading.is_on):
            self._waiting.take_held()

    def _ask(self, requested: Requested) -> None:
        client, request, door = requested.client, requested.request, self.clients.door
        if self._publishers is not None and door is not None and client != door.client:
            self._publishers.request(requested)
            return
        done: Callable[[], None] | None = None
        if type(request) is Publish and is_assured(request):
            done = partial(self._done, self.clients.settled, request.publications)
        elif type(request) is Advertise and door is not None:
            done = partial(self._done, door.promising.heard, client, request.advertisement)
        elif ids := subscribed(request):
            done = partial(self._done, self.clients.stored, *ids)
        self.node.request(client, request, custody=Custody(done) if done is not None else None)

    def _done(self, tell: Callable[..., None], *about: object) -> None:
        """The machine is done with what clients wait for: they hear it with the next flush."""
        tell(*about)
        self.node.schedule_flush()

    def _hold(self, full: bool) -> None:
        self._is_held = full
        self._hold_clients()

    def _hold_clients(self) -> None:
        self.clients.is_held = self._is_held or self._asking.is_behind
        self.node.schedule_flush()

    def _linked(self, neighbour: BrokerId, is_ready: bool) -> None:
        self.clients.linked(neighbour, is_ready, self.node.clock.now_us())
        self.node.schedule_flush()

    def _slow_down(self, client: ClientId, wait: bool) -> None:
        """A client's publisher cannot go on for now, or can again."""
        connection = self.clients.connection(client)
        if connection is not None:
            connection.is_held = wait
        self.node.schedule_flush()

    def _owes(self, client: ClientId) -> bool:
        connection = self.clients.connection(client)
        return connection is not None and connection.owes

    def move(
        self,
        client: ClientId,
        broker: BrokerId,
        done: Callable[[str], None],
        reason: str = "the operator wants it",
    ) -> None:
        """Send a client to another broker."""
        self._sending_on.move(client, broker, done, reason)

    # --- the machine's side -------------------------------------------------------------------

    def deliver(self, delivery: Deliver) -> None:
        self._delivered.append(delivery)

    def notify(self, message: Message) -> None:
        """What a broker tells a client's library; the door's own clients need not know."""
        self._sending_on.asked(message)
        _log.debug("notice to the door", extra={"notice": type(message).__name__})

    def _hand_on(self) -> None:
        """Hand on what the machine has delivered: it is in the sessions before neighbours hear."""
        if self._delivered:
            delivered, self._delivered = self._delivered, []
            self.carry_out(self.clients.deliver(delivered, self.node.clock.now_us()))
            assert self.clients.arrivals is not None
            self.node.counts["repeats"] = self.clients.arrivals.repeated
            self.node.hand_on(self.clients.spreading.is_on)
        self._sending_on.answer()

    def _record(self) -> None:
        """What happened is on disk before anyone hears."""
        assert self.journal is not None
        if not self.journal.write():
            # Who hears nothing asks again, and is refused.
            gathered, self._gathered = self._gathered, {}
            for socket in gathered:
                socket.close()

    def _look_after(self, now_us: int) -> None:
        """Read on from those that wait, and see to the time and to what must be said."""
        if self.clients.problems:
            for problem in self.clients.problems:
                _log.error("not kept", extra={"problem": problem})
            self.clients.problems.clear()
        if self.clients.statistics.notices.waiting:
            self._audit.write(self.clients.statistics.notices)
        if self.clients.backlog.is_full != self._is_full:
            self._tell_of_queues()
        if now_us >= self.traffic.due_us:
            self.traffic.look(now_us)
        if now_us >= self._slow_readers.due_us:
            self._slow_readers.see(self.clients.patience.behind, self._sockets, now_us)
        self._waiting.read_on()
        deadline_us = self.clients.deadline_us
        if deadline_us is not None and (self._timer_us is None or deadline_us < self._timer_us):
            self._set_timer(deadline_us)

    def _tell_of_queues(self) -> None:
        backlog = self.clients.backlog
        self._is_full = backlog.is_full
        extra = {"bytes": backlog.bytes, "dropped": self.clients.sessions.dropped}
        full = "queues are full; publications above QoS 0 are refused"
        _log.warning(full if self._is_full else "queues have room again", extra=extra)

    def _set_timer(self, deadline_us: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_us = deadline_us
        self._timer = Alarm(self.node.loop, self.node.clock, deadline_us, self._advance)

    def _advance(self) -> None:
        self._timer = self._timer_us = None
        self.carry_out(self.clients.advance(self.node.clock.now_us()))
        self.node.hand_on(self.clients.spreading.is_on)
        self.node.schedule_flush()


def _address(transport: asyncio.BaseTransport) -> str | None:
    peer = transport.get_extra_info("peername")
    return str(Address(*peer[:2])) if isinstance(peer, tuple) else None
