"""The MQTT clients of a live broker: sockets on one side, the pure MQTT broker on the other.

`BrokerClients` decides; this class moves bytes in and out. Publications of clients go to the broker
machine at once. Deliveries and writes are gathered until the loop is through with the sockets that
are ready: so acknowledgements go to clients once the acknowledged state is safe. While the node
holds requests back, connections queue input.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from functools import partial

from shoal.attributes import Json
from shoal.broker.ack_tracker import AckTracker, is_assured
from shoal.broker.effects import Deliver, Requested
from shoal.broker.messages import Advertise, Message, Publish
from shoal.ledger import Ledger
from shoal.log.publication_log import PublicationLog
from shoal.model import BrokerId, ClientId
from shoal.mqtt.access import ClientCredentials, Permissions
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.connection.connection import Connection
from shoal.mqtt.connection.effects import Ask, ClientEffect, Close, HalfClose, Write
from shoal.mqtt.federation.moving import Servers
from shoal.mqtt.front_end.network import TO_ATTRIBUTE
from shoal.mqtt.limits import MqttLimits
from shoal.mqtt.notices import Notice, Party
from shoal.mqtt.replaying.reading import ReadLog
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.runtime.addresses import Address
from shoal.runtime.binding import BoundAddress
from shoal.runtime.driving.cost_estimator import ConsumerLimits
from shoal.runtime.driving.flushing import Phase
from shoal.runtime.driving.timing.pauses import Alarm
from shoal.runtime.front_ends.asking import SubscriptionAsking, subscribed
from shoal.runtime.front_ends.entry.audit import Audit
from shoal.runtime.front_ends.log_reading import LogReading
from shoal.runtime.front_ends.publishers import LivePublishers
from shoal.runtime.front_ends.reading import PIECE_BYTES, ReadRounds
from shoal.runtime.front_ends.sending_on import SendingOn
from shoal.runtime.front_ends.slow_readers import SlowReaders
from shoal.runtime.front_ends.sockets.sockets import LateAccess, Socket
from shoal.runtime.front_ends.waiting import PendingConnections
from shoal.runtime.node import Node
from shoal.runtime.storage.journal_files import JournalFiles, Sync
from shoal.runtime.storage.journal_writer import JournalWriter
from shoal.runtime.storage.log_writer import LogPolicy, LogWriter
from shoal.runtime.tls.contexts import certified_names
from shoal.runtime.tls.listener import Listener, listen
from shoal.runtime.traffic.watch import TrafficWatch

_MICROSECONDS = 1_000_000
# Number of deliveries before the loop is through with ready sockets: slow readers are known before
# a socket has brought megabytes.
MOST_DELIVERED = 1_000
# Time of a unit of work (see `TURN` in `mqtt.connection.serving`).
WORK_US = 15
# A client's permissions, None if it is to be closed.
Permitted = Callable[[ClientCredentials], Permissions | None]

_log = logging.getLogger(__name__)


class MqttFrontEnd:
    """All MQTT clients of one node."""

    def __init__(
        self,
        node: Node,
        limits: MqttLimits,
        access: LateAccess | None = None,
        *,
        networked: bool = True,
        publishers: LivePublishers | None = None,
        servers: Servers | None = None,
        files: JournalFiles | None = None,
        sync: Sync = "never",
        log: tuple[PublicationLog, LogPolicy] | None = None,
        json: Json = "auto",
        moves_subscribers: bool = False,
        has_cycles: bool = False,
    ) -> None:
        """With `files` the state of the files is restored; JournalError if they cannot be read.

        `moves_subscribers`: its system asks which subscribers match a publication; `has_cycles`:
        there are several routes.
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
        self.traffic = TrafficWatch(self.clients, json, node.clock.now_us)
        self._publishers = publishers
        self._delivered: list[Deliver] = []
        self.journal = JournalWriter(node, self.clients, files, sync) if files else None
        # A broker without neighbours and disk need not wait; else writes and closes happen once the
        # state is safe.
        self.log = None if log is None else LogWriter(node, self.clients, *log)
        self._reading = (
            None
            if self.log is None
            else LogReading(node, self.clients, self.log, json, self.carry_out)
        )
        self._writes_at_once = not networked and files is None and log is None
        # Flushes whose state and log are on disk.
        self.recorded = 0
        self._gathered: dict[Socket, list[bytes]] = {}
        self._closing: list[Callable[[], None]] = []
        heard = self.journal.heard if self.journal is not None else {}
        if self.clients.arrivals is not None:
            self.clients.arrivals.begin_deduplication(
                heard,
                node.machine.ordered_by,
                keeps_order=node.machine.keeps_order,
                has_detours=has_cycles,
            )
        self._sockets: dict[ClientConnection, Socket] = {}
        # Connections of redirected clients, which may still acknowledge.
        self._half_closed: dict[ClientConnection, Socket] = {}
        self._waiting = PendingConnections(node, self._sockets, access, publishers, self.carry_out)
        self.rounds = ReadRounds()
        self._slow_readers = SlowReaders()
        # True if the machine takes nothing of clients for now.
        self._is_held = False
        # True if the log knows that the queues are full.
        self._is_full = False
        self._servers: list[Listener] = []
        self._asking = SubscriptionAsking(node.clock, self._carry_request, self._hold_clients)
        self._timer: Alarm | None = None
        self._timer_us: int | None = None
        if self.clients.front_end is not None:
            node.attach(self.clients.front_end.client, self)
        listeners = servers if servers is not None else {}
        self._moves_subscribers = moves_subscribers and networked
        self._sending_on = SendingOn(node, self.clients, listeners, publishers, self.carry_out)
        if publishers is not None:
            publishers.at_wait = self._slow_down
            publishers.owes = self._owes
            publishers.settled = partial(self._answer_at_flush, self.clients.settled)
            if self.clients.front_end is not None:
                publishers.heard = partial(
                    self._answer_at_flush, self.clients.front_end.promising.heard
                )
        subscriptions = self.clients.subscriptions
        node.cost_estimator.takers.append(
            ConsumerLimits(
                lambda: subscriptions.most_candidates,
                lambda what: WORK_US * subscriptions.work_on(what),
                subscriptions.prepare,
                TO_ATTRIBUTE,
            )
        )
        node.at_flush(Phase.DELIVER, self._pass_deliveries)
        if self.journal is not None or self.log is not None:
            node.at_flush(Phase.RECORD, self._record)
        node.at_flush(Phase.CLIENTS, self._write)
        node.at_hold.append(self._hold_while_full)
        node.at_link.append(self._linked)

    def start(self) -> None:
        """Subscribe the front end itself at the machine."""
        if self.journal is not None:
            self.journal.start()
        if self.log is not None:
            self.log.start()
        self.carry_out(self.clients.take_effects())
        if self._moves_subscribers:
            self._sending_on.stand_for_clients()
        self.node.schedule_flush()

    def joined(self) -> None:
        """Clients will come: this broker has joined its network."""
        if self.clients.federation is not None:
            self.clients.federation.joined(self.node.clock.now_us())

    def come_back(self) -> None:
        """Say it again: the machine has been told goodbye."""
        if self.clients.front_end is not None:
            self.clients.front_end.ask_again()
        if self.clients.federation is not None:
            self.clients.federation.rejoin(self.node.clock.now_us())
        self.carry_out(self.clients.take_effects())
        if self._moves_subscribers:
            self._sending_on.stand_for_clients()
        self._look_after(self.node.clock.now_us())
        self.node.schedule_flush()

    @property
    def is_told(self) -> bool:
        """Return whether it knows the retained messages, as far as another broker has sent them."""
        federation = self.clients.federation
        return federation is None or federation.joining.is_told

    async def listen(
        self,
        where: Address | BoundAddress,
        protocol: Callable[[MqttFrontEnd], asyncio.Protocol],
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
        self.traffic.samples.register(ledger)
        if self.log is not None:
            self.log.register(ledger)

    def at_notice(self, call: Callable[[Notice], None]) -> None:
        """Call this with each notice about a client that is written to the audit log."""
        self._audit.at_notice = call

    def _patience(self) -> float:
        """Return how long a client may take for its handshake, in seconds."""
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
        limits: MqttLimits,
        access: LateAccess,
        permissions: Permitted,
    ) -> None:
        """From now on these hold (see `BrokerClients.renew`)."""
        self._waiting.access = access
        self.carry_out(self.clients.renew(limits, access, permissions, self.node.clock.now_us()))
        self.node.schedule_flush()

    def certified(self, is_trusted: Callable[[bytes], bool], permissions: Permitted) -> Permitted:
        """Return `permissions` without clients that have certificates that are not trusted any
        more.
        """

        def permitted(credentials: ClientCredentials) -> Permissions | None:
            connection = self.clients.connection(credentials.client_id)
            if credentials.certificate is not None and connection is not None:
                socket = self._sockets.get(connection)
                shown = None if socket is None else socket.certificate()
                if shown is not None and not is_trusted(shown):
                    return None
            return permissions(credentials)

        return permitted

    def stop_listening(self) -> None:
        """Stop accepting connections."""
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
        if self._reading is not None:
            self._reading.stop()
        self.carry_out(self.clients.shut_down(self.node.clock.now_us()))
        self.node.suspend_input(False)
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
            self._pass_deliveries()
        self._waiting.see_to(connection)
        if at_once:
            self._look_after(now_us)
        if not at_once or self._waiting.holds:  # held requests have a slice of their own
            self.node.schedule_flush()

    def lost(self, connection: Connection) -> None:
        """A client's connection is gone."""
        if self._forget_socket(connection) is not None:
            self.carry_out(connection.lost(self.node.clock.now_us()))
            self.node.schedule_flush()

    def resumed(self, connection: Connection) -> None:
        """A client takes more again."""
        self.carry_out(connection.resume(self.node.clock.now_us()))
        self.node.schedule_flush()

    @property
    def _writes_now(self) -> bool:
        """Return whether nothing need be gathered: a client that sends much has more at once."""
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
            elif type(effect) is ReadLog:
                assert self._reading is not None
                self._reading.read(effect.asked)
            elif type(effect) is HalfClose:
                socket = self._sockets.pop(effect.connection, None)
                if socket is not None:
                    self._half_closed[effect.connection] = socket
                    self._close(socket.half_close)
            elif type(effect) is Close:
                socket = self._forget_socket(effect.connection)
                if socket is not None:
                    self._close(socket.close)
        if asked:
            self._asking.put_all(asked)
        return at_once

    def _forget_socket(self, connection: ClientConnection) -> Socket | None:
        return self._sockets.pop(connection, None) or self._half_closed.pop(connection, None)

    def _close(self, close: Callable[[], None]) -> None:
        """At once, or behind pending output."""
        if self._writes_now:
            close()
        else:
            self._closing.append(close)

    def _write(self) -> None:
        """Write gathered output, and acknowledgements since."""
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

    def _carry_request(self, requested: Requested) -> None:
        client, request, front_end = requested.client, requested.request, self.clients.front_end
        if self._publishers is not None and front_end is not None and client != front_end.client:
            self._publishers.request(requested)
            return
        done: Callable[[], None] | None = None
        if type(request) is Publish and is_assured(request):
            done = partial(self._answer_at_flush, self.clients.settled, request.publications)
        elif type(request) is Advertise and front_end is not None:
            done = partial(
                self._answer_at_flush, front_end.promising.heard, client, request.advertisement
            )
        elif ids := subscribed(request):
            done = partial(self._answer_at_flush, self.clients.stored, *ids)
        self.node.request(
            client, request, ack_tracker=AckTracker(done) if done is not None else None
        )

    def _answer_at_flush(self, tell: Callable[..., None], *about: object) -> None:
        """The machine is done with requests that clients await: the next flush answers them."""
        tell(*about)
        self.node.schedule_flush()

    def _hold_while_full(self, full: bool) -> None:
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
        """Ignore notices for a client's library; the front end's own clients do not need them."""
        self._sending_on.asked(message)
        _log.debug("notice to the front end", extra={"notice": type(message).__name__})

    def _pass_deliveries(self) -> None:
        """Pass the machine's deliveries on: sessions have them before neighbours get
        acknowledgements.
        """
        if self._delivered:
            delivered, self._delivered = self._delivered, []
            self.carry_out(self.clients.deliver(delivered, self.node.clock.now_us()))
            assert self.clients.arrivals is not None
            self.node.counts["repeats"] = self.clients.arrivals.repeated
            self.node.suspend_input(self.clients.spreading.is_on)
        self._sending_on.answer()

    def _record(self) -> None:
        """Write state and log to disk before any peer learns of it."""
        is_written = self.journal is None or self.journal.write()
        is_logged = self.log is None or self.log.write()
        if is_written and is_logged:
            self.recorded += 1
        else:
            # A client without an answer asks again, and is refused.
            gathered, self._gathered = self._gathered, {}
            for socket in gathered:
                socket.close()

    def _look_after(self, now_us: int) -> None:
        """Resume waiting connections, and run timers and pending notices."""
        if self.clients.problems:
            for problem in self.clients.problems:
                _log.error("not kept", extra={"problem": problem})
            self.clients.problems.clear()
        if self.clients.statistics.notices.waiting:
            self._audit.write(self.clients.statistics.notices)
        if self.clients.backlog.is_full != self._is_full:
            self._report_queues()
        if now_us >= self.traffic.due_us:
            self.traffic.look(now_us)
        if now_us >= self._slow_readers.due_us:
            self._slow_readers.see(self.clients.patience.behind, self._sockets, now_us)
        self._waiting.read_on()
        deadline_us = self.clients.deadline_us
        if deadline_us is not None and (self._timer_us is None or deadline_us < self._timer_us):
            self._set_clients_timer(deadline_us)

    def _report_queues(self) -> None:
        backlog = self.clients.backlog
        self._is_full = backlog.is_full
        extra = {"bytes": backlog.bytes, "dropped": self.clients.sessions.dropped}
        full = "queues are full; publications above QoS 0 are refused"
        _log.warning(full if self._is_full else "queues have room again", extra=extra)

    def _set_clients_timer(self, deadline_us: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_us = deadline_us
        self._timer = Alarm(self.node.loop, self.node.clock, deadline_us, self._advance)

    def _advance(self) -> None:
        self._timer = self._timer_us = None
        self.carry_out(self.clients.advance(self.node.clock.now_us()))
        self.node.suspend_input(self.clients.spreading.is_on)
        self.node.schedule_flush()


def _address(transport: asyncio.BaseTransport) -> str | None:
    peer = transport.get_extra_info("peername")
    return str(Address(*peer[:2])) if isinstance(peer, tuple) else None
