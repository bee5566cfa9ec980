"""All MQTT clients of one broker: connections, sessions, subscriptions, retained messages.

Pure like the broker machine beside it: drivers pass in bytes and the time, and carry out effects.
Alone it is a whole MQTT broker. In a network it passes the requests of its clients to the broker
machine (`Ask`), and the machine returns the publications to deliver (`deliver`).

>>> from shoal.mqtt.codec.encoder import encode
>>> from shoal.mqtt.codec.packets import Connect, Publish, Subscribe
>>> from shoal.mqtt.codec.packets import SubscriptionRequest
>>> clients = BrokerClients("B1", now_us=0)
>>> connection = clients.open(now_us=0)
>>> hello = encode(Connect("me", version=4), 4)
>>> [effect.data.hex() for effect in connection.receive(hello, now_us=1)]
['20020000']
>>> subscribe = encode(Subscribe(1, (SubscriptionRequest("a/#"),)), 4)
>>> [effect.data.hex() for effect in connection.receive(subscribe, now_us=2)]
['9003000100']
>>> publish = encode(Publish("a/b", b"hi"), 4)
>>> [effect.data for effect in connection.receive(publish, now_us=3)]
[b'0\\x07\\x00\\x03a/bhi']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from shoal.attributes import Json
from shoal.broker.effects import Deliver
from shoal.ledger import Ledger
from shoal.model import BrokerId, Publication, SubscriptionId
from shoal.mqtt.access import Access, ClientAdmission, ClientCredentials, Everyone, Permissions
from shoal.mqtt.admission import AdmissionPolicy
from shoal.mqtt.arrivals import MqttArrivals
from shoal.mqtt.codec.packets import Connect, WillFields
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.connection.broker_api import AdmittedClient
from shoal.mqtt.connection.connection import Connection
from shoal.mqtt.connection.effects import Ask, ClientEffect, Close, HalfClose, Write
from shoal.mqtt.connection.rates import RateLimits
from shoal.mqtt.connection.unfinished import MOST_OF_CLIENTS, MOST_OF_STRANGERS, Unfinished
from shoal.mqtt.content import AttributeReader
from shoal.mqtt.federation.federation import Federation
from shoal.mqtt.federation.session_transfer.directory.session_directory import SessionDirectory
from shoal.mqtt.front_end.network import FrontEnd
from shoal.mqtt.limits import DEFAULT_LIMITS, MICROSECONDS, MqttLimits
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.renewing import Renewing
from shoal.mqtt.replaying.log_replays import LogReplays
from shoal.mqtt.sessions.audience import Audience
from shoal.mqtt.sessions.conflating import Conflation
from shoal.mqtt.sessions.delivering.backlog import Backlog
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.mqtt.sessions.delivering.slow_consumers import SlowConsumerPolicy
from shoal.mqtt.sessions.fan_out import FanOut
from shoal.mqtt.sessions.message_tracer import MessageTracer
from shoal.mqtt.sessions.retained import RetainedStore
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.sliced_fan_out import SlicedFanOut
from shoal.mqtt.sessions.subscribed.leaving import GroupLeaving
from shoal.mqtt.sessions.subscribed.presence import Presence
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions
from shoal.mqtt.sessions.subscribing import Subscribing
from shoal.mqtt.sessions.system_topics import SystemTopics
from shoal.mqtt.statistics import Statistics
from shoal.mqtt.timer_dispatch import MORE_TIMER, TimerDispatch
from shoal.mqtt.timers import EXPIRY_TIMER, SILENCE_TIMER, MqttTimers


class BrokerClients:
    """The MQTT side of the broker `broker_id`.

    A driver carries out the effects of every call, and calls `advance` at `deadline_us`.
    `touched` are the connections that have data to write.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        now_us: int,
        *,
        limits: MqttLimits = DEFAULT_LIMITS,
        access: Access | None = None,
        networked: bool = False,
        json: Json = "auto",
    ) -> None:
        self.broker_id = broker_id
        self.limits = limits
        self.statistics = Statistics(now_us)
        self.touched: list[Connection] = []
        # Descriptions of data that was lost for a session; the driver takes them out and logs them.
        self.problems: list[str] = []
        # Whether the driver suspends input of all clients, and the bytes that wait meanwhile.
        self.is_held = False
        self.held_bytes = 0
        self.unfinished = Unfinished(MOST_OF_CLIENTS)
        self.unfinished_strangers = Unfinished(MOST_OF_STRANGERS)
        # Bytes queued for all clients.
        self.backlog = Backlog(limits.maximum_all_queued_bytes)
        self.retained = RetainedStore(
            limits.maximum_retained_messages, limits.maximum_retained_bytes
        )
        reader = AttributeReader(json, self.statistics)
        self.front_end = FrontEnd(broker_id, now_us, reader) if networked else None
        self.subscriptions = SessionSubscriptions(self.front_end, reader)
        self.subscribing = Subscribing(limits, self.subscriptions, self.retained, json)
        self._timers = MqttTimers()
        self.rates = RateLimits(limits, self.statistics, self._timers)
        # Fan-out to many sessions runs in time slices.
        self.spreading = SlicedFanOut(self._timers)
        self._fan_out = FanOut(self.subscriptions, self.statistics, self.spreading)
        self.conflation = Conflation(self._timers, reader, self.statistics)
        self.subscriptions.conflation = self.subscribing.conflation = self.conflation
        leaving = GroupLeaving(self.subscriptions, self._timers)
        self._presence = Presence(self.subscriptions, self._timers)
        self.sessions = Sessions(limits, self.backlog, self._timers, self._publish_will, leaving)
        self._reception = AdmissionPolicy(
            broker_id, limits, access or Everyone(), self.statistics, self.sessions, now_us
        )
        # The reason to refuse publications above QoS 0; read for each of them.
        self.reason_to_refuse = self._reception.reason_to_refuse
        self.sessions.may_leave = self._reception.may_leave
        self._renewing = Renewing(
            self.sessions, self.subscribing, self.permissions, self.problems, self._timers
        )
        self.federation: Federation | None = None
        self._tracer: MessageTracer | None = None
        # Which session gets which message, for systems that ask for it.
        self.audience: Audience | None = None
        # Deliveries of the machine.
        self.arrivals: MqttArrivals | None = None
        if self.front_end is not None:
            self.audience = Audience(self.sessions, self.subscriptions, self.front_end)
            self.federation = Federation(
                broker_id,
                self.sessions,
                self.subscriptions,
                self.retained,
                self.problems,
                self.front_end,
                self._timers,
                self._fan_out.hand,
                self.permissions,
                self._reception.full,
                self.audience,
                lambda: self.is_held,
                now_us,
            )
            self.arrivals = MqttArrivals(
                self.front_end,
                self.federation,
                self._fan_out,
                self.retained,
                self.audience,
                self.sessions.lacking,
            )
            self._reception.moving = self.federation.moving
            self._reception.crowding = self.federation.crowding
            self._reception.homes = self.federation.session_transfer.homes
        self.replays = LogReplays(
            broker_id,
            lambda: self.limits,
            self._timers,
            self.statistics.notices,
            self.front_end,
            self.federation,
            now_us,
        )
        self.subscribing.pasts = self.replays
        self.subscriptions.at_gate = self.replays.attach
        # The journal, if a driver writes one (see `restoring`).
        self.journal: SessionJournal | None = None
        # Is told every publication of a client once it has entered, if a driver keeps a log.
        self.at_publication: Callable[[PublishedMessage], None] | None = None
        self._system_topics = SystemTopics(
            limits,
            self.statistics,
            self.sessions,
            self.subscriptions,
            self.retained,
            self._fan_out,
            self._timers,
            now_us,
        )
        self._due = TimerDispatch(
            self._timers,
            self.spreading,
            self.rates,
            self.sessions,
            leaving,
            self._presence,
            self._renewing,
            self.federation,
            self.replays,
            self.conflation,
            self._system_topics,
        )

    def register(self, ledger: Ledger) -> None:
        """Enter all tables in the memory ledger."""
        for each in (self.backlog, self.retained, self.sessions):
            each.register(ledger)
        self.replays.register(ledger)
        self.conflation.register(ledger)
        self.subscriptions.register(ledger, lambda: self.limits.maximum_all_subscription_bytes)
        if self.front_end is not None:
            self.front_end.register(ledger)
        if self.federation is not None:
            self.federation.sharing.taking.register(ledger)
            self.federation.session_transfer.homes.register(ledger)
        if self.arrivals is not None:
            self.arrivals.register(ledger)

    # --- the driver's side --------------------------------------------------------------------

    def open(
        self,
        now_us: int,
        *,
        certificate: str | None = None,
        address: str | None = None,
        listener: str = "mqtt",
    ) -> Connection:
        """Accept a network connection (see `ClientCredentials`)."""
        known = ClientCredentials(
            client_id="", certificate=certificate, address=address, listener=listener
        )
        connection = Connection(self, self.touched, now_us, known)
        deadline_us = now_us + self.limits.connect_timeout_s * MICROSECONDS
        self._timers.set((SILENCE_TIMER, connection), deadline_us)
        return connection

    def connection(self, client_id: str) -> Connection | None:
        """The connection of a client, if it is connected here."""
        session = self.sessions.get(client_id)
        connection = (
            session.session_writer.connection
            if session is not None and session.session_writer
            else None
        )
        return connection if isinstance(connection, Connection) else None

    def refuse(self, refusal: str, what: str = "spool") -> None:
        """Refuse publications above QoS 0, since a disk does not take `what` it keeps.

        An empty text accepts them again, as far as this disk is concerned.
        """
        if refusal:
            self._reception.refusals[what] = refusal
        else:
            self._reception.refusals.pop(what, None)

    @property
    def refusal(self) -> str:
        """The reason of a disk to refuse publications above QoS 0; empty while there is none."""
        return next(iter(self._reception.refusals.values()), "")

    @property
    def patience(self) -> SlowConsumerPolicy:
        """The slow-consumer policy: which publishers wait for slow readers."""
        return self.sessions.patience

    @property
    def deadline_us(self) -> int | None:
        """The next time at which `advance` is due."""
        return self._timers.next_us

    def advance(self, now_us: int) -> list[ClientEffect]:
        """Handle timers: silent clients, sessions that end, wills, statistics."""
        self._due.handle(now_us)
        return self.take_effects()

    def renew(
        self,
        limits: MqttLimits,
        access: Access,
        permissions: Callable[[ClientCredentials], Permissions | None],
        now_us: int,
    ) -> list[ClientEffect]:
        """Install new limits and rules; `permissions` returns the new ones of a connected client.

        A client for which it returns None has lost a right: the broker closes its connection, and
        the client may connect again. Limits that a CONNACK announced hold as long as that
        connection.
        """
        self.limits = self.subscribing.limits = self.sessions.limits = limits
        self._reception.limits, self._reception.access = limits, access
        self.backlog.maximum_bytes = limits.maximum_all_queued_bytes
        self.retained.maximum = limits.maximum_retained_messages
        self.retained.maximum_bytes = limits.maximum_retained_bytes
        self.rates.renew(limits)
        self._renewing.begin(limits, permissions, now_us)
        self._system_topics.renew(limits, now_us)
        return self.take_effects()

    def shut_down(self, now_us: int) -> list[ClientEffect]:
        """Disconnect every client; publish the wills, keep the sessions."""
        self.spreading.finish(now_us)
        if self.federation is not None:
            self.federation.sharing.finish(now_us)
        for session in list(self.sessions):
            if session.session_writer is not None:
                connection = session.session_writer.connection
                reason = "the broker shuts down"
                connection.disconnect(ReasonCode.SERVER_SHUTTING_DOWN, reason, now_us)
        return self.take_effects()

    def take_effects(self) -> list[ClientEffect]:
        """The effects since the last call: requests first, then writes."""
        self.settle()
        effects: list[ClientEffect] = []
        if self.front_end is not None:
            effects += map(Ask, self.front_end.take())
        if self.replays.effects:
            effects += self.replays.take()
        statistics = self.statistics
        for connection in self.touched:
            session_writer = connection.session_writer
            if session_writer.has_more:
                # Pump the session again after this write, unless the driver pauses the connection.
                self._timers.set((MORE_TIMER, connection), 0)
            statistics.packets_sent += len(session_writer.chunks)
            data = session_writer.take()
            if data:
                statistics.bytes_sent += len(data)
                effects.append(Write(connection, data))
            if connection.is_closed:
                end = HalfClose if connection.is_redirected else Close
                effects.append(end(connection))
        self.touched.clear()
        return effects

    # --- connections come and go --------------------------------------------------------------

    def new_client_id(self) -> str:
        """An assigned client identifier, unique in the network [MQTT-3.1.3-6]."""
        return self._reception.new_client_id()

    def admit(self, credentials: ClientCredentials) -> ClientAdmission | None:
        """Whether a client may connect; None if the answer comes later."""
        return self._reception.admit(credentials)

    def enter(self, guest: AdmittedClient, now_us: int) -> tuple[Session, bool]:
        """Admit a client; returns its session, and whether the session was present."""
        connection, terms = guest.session_writer.connection, guest.terms
        session, present = self.sessions.enter(
            guest.connect, guest.client_id, terms.session_expiry_s, now_us
        )
        session.give_to(guest.user)
        if self.front_end is not None:
            self.front_end.advertise(guest.client_id, guest.promises)
        if self.federation is not None:
            if guest.promises:
                self.federation.spread(connection, now_us)
            self.federation.moving.entered(session)
            self.federation.session_transfer.entered(
                session, connection.connect_us, now_us, is_connected=True
            )
        if self.journal is not None:
            self.journal.entered(session)
        session.session_writer = guest.session_writer
        self._presence.changed(session)
        if session.pasts:
            self.replays.entered(session, now_us)
        if terms.keep_alive_us:
            self._timers.set((SILENCE_TIMER, connection), now_us + terms.keep_alive_us)
        else:
            self._timers.cancel((SILENCE_TIMER, connection))
        self.statistics.entered()
        return session, present

    def set_expiry(self, connection: ClientConnection, at_us: int) -> None:
        """Schedule the end of a connection."""
        self._timers.set((EXPIRY_TIMER, connection), at_us)

    def check_subscriptions(self, session: Session, permissions: Permissions, now_us: int) -> None:
        """Remove the subscriptions that the permissions of a returning client do not allow."""
        self._renewing.check(session, permissions, now_us)

    def left(
        self,
        connection: ClientConnection,
        session: Session | None,
        now_us: int,
        *,
        with_will: bool,
        is_moving: bool,
    ) -> None:
        """Handle the end of a connection; it has a session if its client was admitted."""
        self._timers.cancel((SILENCE_TIMER, connection))
        self.patience.left(connection, now_us)
        self.rates.resume(connection)
        self._timers.cancel((EXPIRY_TIMER, connection))
        if session is None and self.federation is not None:
            self.federation.session_transfer.starting.forget(connection)
        if session is not None:
            self.statistics.connected -= 1
            if self.front_end is not None:
                self.front_end.promising.end(session.client_id)
            if self.federation is not None:
                self.federation.session_transfer.telling.leaves(session.client_id, now_us)
            self.sessions.left(session, now_us, with_will=with_will, is_moving=is_moving)
            self._presence.changed(session)

    # --- sessions move between brokers --------------------------------------------------------

    def no_room_for(self, client_id: str, user: str, will: WillFields | None) -> str:
        """The reason to refuse a client a session or a will; empty if there is room."""
        return self._reception.no_room_for(client_id, user, will)

    def must_wait(
        self,
        connection: ClientConnection,
        connect: Connect,
        admission: ClientAdmission,
        now_us: int,
    ) -> bool:
        """Whether the client must wait until its session comes from another broker."""
        return self.federation is not None and self.federation.session_transfer.must_wait(
            connection, connect, admission, now_us
        )

    def redirected(self, connection: ClientConnection, session: Session, now_us: int) -> bool:
        """Handle a redirect of a client; returns whether its last packets are to be read."""
        if self.federation is None or self.sessions.get(session.client_id) is not session:
            return False
        self.federation.session_transfer.redirecting.add(session, connection, now_us)
        return True

    def on_hang_up(self, session: Session, now_us: int) -> None:
        """Handle the end of a redirected connection, or its timeout."""
        if self.federation is not None:
            self.federation.session_transfer.redirecting.ended(session.client_id, now_us)

    def begin_journal(self, journal: SessionJournal) -> None:
        """Begin to record changes in this journal."""
        self.journal = self.sessions.journal = self.retained.journal = journal
        self._reception.journal = self._fan_out.journal = journal
        if self.federation is not None:
            self.federation.begin_journal(journal)
        if self.arrivals is not None:
            self.arrivals.journal = journal

    def may_retransmit(self, key: tuple[str, int]) -> bool:
        """Whether a publication can be sent again: only the front end's own may have been sent."""
        return self.front_end is not None and key[0] == self.front_end.client

    def restate(self) -> Iterator[int]:
        """Write the whole state to the journal, a part at each step (see
        `SessionJournal.restate`)."""
        assert self.journal is not None
        federation = self.federation
        homes = (
            federation.session_transfer.homes.puts
            if federation is not None
            else SessionDirectory().puts
        )
        groups = federation.sharing.puts if federation is not None else partial(iter, ())
        return self.journal.restate(self.sessions, self.retained, homes, groups)

    def resume(self) -> None:
        """Resume the sessions after the journal can write again."""
        for session in self.sessions:
            session.resume()

    def resume_fan_out(self, message: PublishedMessage, had: set[str], groups: set[str]) -> None:
        """Resume a sliced fan-out that a restart interrupted."""
        self._fan_out.resume(message, had, groups)

    def permissions(self, user: str, client_id: str) -> Permissions:
        """The present permissions of a user."""
        return self._reception.permissions(user, client_id)

    # --- publications -------------------------------------------------------------------------

    @property
    def tracer(self) -> MessageTracer | None:
        """Decides which messages are traced, and keeps their spans; None traces nothing."""
        return self._tracer

    @tracer.setter
    def tracer(self, tracer: MessageTracer) -> None:
        self._tracer = self._fan_out.tracer = tracer
        self.backlog.at_done = tracer.acknowledged

    def _publish_will(self, message: PublishedMessage, now_us: int) -> None:
        """Publish a will; a network settles it as it settles QoS 1 (see `takeovers`)."""
        self.publish(message, now_us, assured=True)

    def publish(self, message: PublishedMessage, now_us: int, *, assured: bool = False) -> int:
        """Publish a message of a client of this broker; returns the number of matching
        subscriptions.

        In a network that number is unknown, and 1 is returned. With `assured` the network settles
        the message at QoS 0, too.
        """
        self.statistics.publications_received += 1
        self.statistics.published = message
        tracer = self._tracer
        if tracer is not None and (tracer.sample is not None or message.properties.user_properties):
            tracer.consider(message)
        if message.retain:
            self.retained.date(message)
        if self.front_end is not None and self.federation is not None:
            self.front_end.publish(message, assured=assured)
            if message.traced and tracer is not None:
                tracer.entered(message)
            self.federation.sharing.share(message, now_us)
            if self.at_publication is not None:
                self.at_publication(message)
            return 1
        if self.at_publication is not None:
            self.at_publication(message)
        if message.traced and tracer is not None:
            tracer.entered(message)
        if message.retain:
            self.retained.keep(message, now_us)
        return self._fan_out.route(message, now_us)

    def publish_soon(self, message: PublishedMessage, now_us: int) -> None:
        """Publish at QoS 0, in a batch with later messages, until `settle`."""
        if self.front_end is not None or message.retain:
            self.publish(message, now_us)
        else:
            self.statistics.publications_received += 1
            self.statistics.published = message
            tracer = self._tracer
            if tracer is not None and (
                tracer.sample is not None or message.properties.user_properties
            ):
                tracer.consider(message)
            if self.at_publication is not None:
                self.at_publication(message)
            if message.traced and tracer is not None:
                tracer.entered(message)
            self._fan_out.gather(message, now_us)

    def settle(self) -> None:
        """Flush the batch: deliver gathered messages before any other input is handled."""
        self._fan_out.settle()

    @property
    def is_sharing(self) -> bool:
        """Whether members of shared groups are still being chosen for a message."""
        return self.federation is not None and self.federation.sharing.handing.is_on

    def settled(self, publications: Iterable[Publication]) -> None:
        """Handle settled publications; their publishers get acknowledgements with the next
        effects."""
        assert self.front_end is not None
        if self.tracer is not None:
            self.tracer.settled(publications)
        self.front_end.settled(publications)

    def stored(self, *subscription_ids: SubscriptionId) -> None:
        """Handle subscriptions of the front end that are installed in the whole network."""
        assert self.front_end is not None
        assert self.federation is not None
        for id in subscription_ids:
            if self.front_end.stored(id):
                self.federation.stored(id)

    def deliver(self, deliveries: Iterable[Deliver], now_us: int) -> list[ClientEffect]:
        """Handle deliveries of the machine to this broker's front end."""
        assert self.arrivals is not None
        self.arrivals.take(deliveries, now_us)
        return self.take_effects()

    def linked(self, neighbour: BrokerId, is_ready: bool, now_us: int) -> None:
        """Handle a link that is ready, or one that was given up and has split the network."""
        if is_ready and self.journal is not None:
            self.journal.linked(neighbour)
        if self.federation is not None:
            self.federation.linked(neighbour, is_ready, now_us)

    def when_known(self, answer: Callable[[int], None], now_us: int) -> None:
        """Call `answer` when every broker knows the subscriptions made so far."""
        if self.federation is None:
            answer(now_us)
        else:
            self.federation.when_known(answer, now_us)
