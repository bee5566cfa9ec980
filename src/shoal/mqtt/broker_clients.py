"""All MQTT clients of one broker: connections, sessions, subscriptions, retained messages.

Pure like the broker machine beside it: drivers bring bytes and the time, and carry out effects.
By itself it is a whole MQTT broker.  In a network it hands what its clients publish and subscribe
to the broker machine (`Ask`), which says what to deliver (`deliver`), wherever it was published.

>>> from shoal.mqtt.codec.encoder import encode
>>> from shoal.mqtt.codec.packets import Connect, Publish, Subscribe, SubscriptionRequest
>>> clients = BrokerClients("B1", now_us=0)
>>> connection = clients.open(now_us=0)
>>> hello = encode(Connect("me", version=4), 4)
>>> [effect.data.hex() for effect in connection.receive(hello, now_us=1)]
['20020000']
>>> subscribe = encode(Subscribe(1, (SubscriptionRequest("a/#"),)), 4)
>>> [effect.data.hex() for effect in connection.receive(subscribe, now_us=2)]
['9003000100']
>>> [effect.data for effect in connection.receive(encode(Publish("a/b", b"hi"), 4), now_us=3)]
[b'0\\x07\\x00\\x03a/bhi']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from shoal.attributes import Json
from shoal.broker.effects import Deliver
from shoal.ledger import Ledger
from shoal.model import BrokerId, Publication, SubscriptionId
from shoal.mqtt.access import Access, Admission, Credentials, Everyone, Permissions
from shoal.mqtt.arrivals import Arrivals
from shoal.mqtt.codec.packets import Connect, Will
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.connection.connection import Connection
from shoal.mqtt.connection.effects import Ask, ClientEffect, Close, HalfClose, Write
from shoal.mqtt.connection.house import Guest
from shoal.mqtt.connection.rates import Rates
from shoal.mqtt.connection.unfinished import MOST_OF_CLIENTS, MOST_OF_STRANGERS, Unfinished
from shoal.mqtt.content import AttributeReader
from shoal.mqtt.door.network import Door
from shoal.mqtt.due import MORE_TIMER, Due
from shoal.mqtt.federation.federation import Federation
from shoal.mqtt.federation.roaming.whereabouts.homes import Homes
from shoal.mqtt.limits import DEFAULT_LIMITS, MICROSECONDS, Limits
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.messages import Message
from shoal.mqtt.reception import Reception
from shoal.mqtt.renewing import Renewing
from shoal.mqtt.sessions.audience import Audience
from shoal.mqtt.sessions.delivering.backlog import Backlog
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.mqtt.sessions.delivering.patience import Patience
from shoal.mqtt.sessions.fan_out import FanOut
from shoal.mqtt.sessions.retained import RetainedStore
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.spreading import Spreading
from shoal.mqtt.sessions.subscribed.leaving import Leaving
from shoal.mqtt.sessions.subscribed.presence import Presence
from shoal.mqtt.sessions.subscribed.subscriptions import Subscriptions
from shoal.mqtt.sessions.subscribing import Subscribing
from shoal.mqtt.sessions.system_topics import SystemTopics
from shoal.mqtt.statistics import Statistics
from shoal.mqtt.timers import EXPIRY_TIMER, SILENCE_TIMER, Timers


class BrokerClients:
    """The MQTT side of the broker `broker_id`.

    After every call a driver carries out the effects, and calls `advance` when `deadline_us` has
    come.  `touched` are the connections that have something to write.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        now_us: int,
        *,
        limits: Limits = DEFAULT_LIMITS,
        access: Access | None = None,
        networked: bool = False,
        json: Json = "auto",
    ) -> None:
        self.broker_id = broker_id
        self.limits = limits
        self.statistics = Statistics(now_us)
        self.touched: list[Connection] = []
        # What came for a session and cannot be kept, in words; whoever logs it takes it out.
        self.problems: list[str] = []
        # Whether the driver wants nothing taken from any client for now, and what waits meanwhile.
        self.is_held = False
        self.held_bytes = 0
        self.unfinished = Unfinished(MOST_OF_CLIENTS)
        self.unfinished_strangers = Unfinished(MOST_OF_STRANGERS)
        # What is on its way to all clients.
        self.backlog = Backlog(limits.maximum_all_queued_bytes)
        self.retained = RetainedStore(
            limits.maximum_retained_messages, limits.maximum_retained_bytes
        )
        reader = AttributeReader(json, self.statistics)
        self.door = Door(broker_id, now_us, reader) if networked else None
        self.subscriptions = Subscriptions(self.door, reader)
        self.subscribing = Subscribing(limits, self.subscriptions, self.retained, json)
        self._timers = Timers()
        self.rates = Rates(limits, self.statistics, self._timers)
        # What is for many is handed out in turns.
        self.spreading = Spreading(self._timers)
        self._fan_out = FanOut(self.subscriptions, self.statistics, self.spreading)
        self._leaving = Leaving(self.subscriptions, self._timers)
        self._presence = Presence(self.subscriptions, self._timers)
        self.sessions = Sessions(
            limits, self.backlog, self._timers, self._publish_will, self._leaving
        )
        self._reception = Reception(
            broker_id, limits, access or Everyone(), self.statistics, self.sessions, now_us
        )
        # Why publications above QoS 0 are refused; asked for each of them.
        self.reason_to_refuse = self._reception.reason_to_refuse
        self.sessions.may_leave = self._reception.may_leave
        self._renewing = Renewing(
            self.sessions, self.subscribing, self.permissions, self.problems, self._timers
        )
        self.federation: Federation | None = None
        # Who gets what, where the broker's system wants to know.
        self.audience: Audience | None = None
        # The way of what the machine delivers.
        self.arrivals: Arrivals | None = None
        if self.door is not None:
            self.audience = Audience(self.sessions, self.subscriptions, self.door)
            self.federation = Federation(
                broker_id,
                self.sessions,
                self.subscriptions,
                self.retained,
                self.problems,
                self.door,
                self._timers,
                self._fan_out.hand,
                self.permissions,
                self._reception.full,
                self.audience,
                lambda: self.is_held,
                now_us,
            )
            self.arrivals = Arrivals(
                self.door,
                self.federation,
                self._fan_out,
                self.retained,
                self.audience,
                self.sessions.lacking,
            )
            self._reception.moving = self.federation.moving
            self._reception.crowding = self.federation.crowding
            self._reception.homes = self.federation.roaming.homes
        # What must not be forgotten, if there is somebody to write it (see `restoring`).
        self.journal: Journal | None = None
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
        self._due = Due(
            self._timers,
            self.spreading,
            self.rates,
            self.sessions,
            self._leaving,
            self._presence,
            self._renewing,
            self.federation,
            self._system_topics,
        )

    def register(self, ledger: Ledger) -> None:
        """Enter all tables in the memory ledger."""
        for each in (self.backlog, self.retained, self.sessions):
            each.register(ledger)
        self.subscriptions.register(ledger, lambda: self.limits.maximum_all_subscription_bytes)
        if self.door is not None:
            self.door.register(ledger)
        if self.federation is not None:
            self.federation.sharing.taking.register(ledger)
            self.federation.roaming.homes.register(ledger)
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
        """A network connection was accepted (see `Credentials`)."""
        known = Credentials(
            client_id="", certificate=certificate, address=address, listener=listener
        )
        connection = Connection(self, self.touched, now_us, known)
        deadline_us = now_us + self.limits.connect_timeout_s * MICROSECONDS
        self._timers.set((SILENCE_TIMER, connection), deadline_us)
        return connection

    def connection(self, client_id: str) -> Connection | None:
        """The connection of a client that is here."""
        session = self.sessions.get(client_id)
        connection = session.outlet.connection if session is not None and session.outlet else None
        return connection if isinstance(connection, Connection) else None

    def refuse(self, refusal: str) -> None:
        """Refuse publications above QoS 0 for this reason, or with an empty text do not."""
        self._reception.refusal = refusal

    @property
    def refusal(self) -> str:
        """Why the disk has publications above QoS 0 refused; empty while it does not."""
        return self._reception.refusal

    @property
    def patience(self) -> Patience:
        """Who waits for clients that are behind."""
        return self.sessions.patience

    @property
    def deadline_us(self) -> int | None:
        """When `advance` is to be called next, whatever else happens until then."""
        return self._timers.next_us

    def advance(self, now_us: int) -> list[ClientEffect]:
        """Time has passed: silent clients, sessions that end, wills, statistics."""
        self._due.handle(now_us)
        return self.take_effects()

    def renew(
        self,
        limits: Limits,
        access: Access,
        permissions: Callable[[Credentials], Permissions | None],
        now_us: int,
    ) -> list[ClientEffect]:
        """From now on these hold; `permissions` says what a connected client may do now.

        A client for which it says None has lost something: it is closed, and comes back if it may.
        The limits that a client was told when it connected hold as long as it is connected.
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
        """Say goodbye to every client; wills are published, sessions stay."""
        self.spreading.finish(now_us)
        if self.federation is not None:
            self.federation.sharing.finish(now_us)
        for session in list(self.sessions):
            if session.outlet is not None:
                connection = session.outlet.connection
                reason = "the broker shuts down"
                connection.disconnect(ReasonCode.SERVER_SHUTTING_DOWN, reason, now_us)
        return self.take_effects()

    def take_effects(self) -> list[ClientEffect]:
        """What is to be done since this was last asked; requests first, then what is written."""
        self.settle()
        effects: list[ClientEffect] = []
        if self.door is not None:
            effects += map(Ask, self.door.take())
        statistics = self.statistics
        for connection in self.touched:
            outlet = connection.outlet
            if outlet.has_more:
                # Once this is written and unless the driver pauses: at once.
                self._timers.set((MORE_TIMER, connection), 0)
            statistics.packets_sent += len(outlet.chunks)
            data = outlet.take()
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
        """A client identifier for one that has none, unique in the network [MQTT-3.1.3-6]."""
        return self._reception.new_client_id()

    def admit(self, credentials: Credentials) -> Admission | None:
        """Whether a client may connect; None if that is known later."""
        return self._reception.admit(credentials)

    def enter(self, guest: Guest, now_us: int) -> tuple[Session, bool]:
        """Let a client in; its session, and whether it was there before."""
        connection, terms = guest.outlet.connection, guest.terms
        session, present = self.sessions.enter(
            guest.connect, guest.client_id, terms.session_expiry_s, now_us
        )
        session.give_to(guest.user)
        if self.door is not None:
            self.door.advertise(guest.client_id, guest.promises)
        if self.federation is not None:
            if guest.promises:
                self.federation.spread(connection, now_us)
            self.federation.moving.entered(session)
            self.federation.roaming.entered(session, now_us, is_connected=True)
        if self.journal is not None:
            self.journal.entered(session)
        session.outlet = guest.outlet
        self._presence.changed(session)
        if terms.keep_alive_us:
            self._timers.set((SILENCE_TIMER, connection), now_us + terms.keep_alive_us)
        else:
            self._timers.cancel((SILENCE_TIMER, connection))
        self.statistics.entered()
        return session, present

    def let_expire(self, connection: ClientConnection, at_us: int) -> None:
        """End a connection at this time."""
        self._timers.set((EXPIRY_TIMER, connection), at_us)

    def check_subscriptions(self, session: Session, permissions: Permissions, now_us: int) -> None:
        """Take back the subscriptions that a client that comes again may not have any more."""
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
        """A connection ended; it has a session if its client was let in."""
        self._timers.cancel((SILENCE_TIMER, connection))
        self.patience.left(connection, now_us)
        self.rates.go_on(connection)
        self._timers.cancel((EXPIRY_TIMER, connection))
        if session is not None:
            self.statistics.connected -= 1
            if self.door is not None:
                self.door.promising.end(session.client_id)
            if self.federation is not None:
                self.federation.roaming.telling.leaves(session.client_id, now_us)
            self.sessions.left(session, now_us, with_will=with_will, is_moving=is_moving)
            self._presence.changed(session)

    # --- sessions move between brokers --------------------------------------------------------

    def no_room_for(self, client_id: str, user: str, will: Will | None) -> str:
        """Why there can be no session for a client, or no will of it; empty if there can."""
        return self._reception.no_room_for(client_id, user, will)

    def must_wait(
        self, connection: ClientConnection, connect: Connect, admission: Admission, now_us: int
    ) -> bool:
        """Whether the client's session has to come from another broker first."""
        return self.federation is not None and self.federation.roaming.must_wait(
            connection, connect, admission, now_us
        )

    def redirected(self, connection: ClientConnection, session: Session, now_us: int) -> bool:
        """A client was sent to another broker; whether what it still says matters."""
        if self.federation is None or self.sessions.get(session.client_id) is not session:
            return False
        self.federation.roaming.redirecting.add(session, connection, now_us)
        return True

    def hung_up(self, session: Session, now_us: int) -> None:
        """It has said all, or takes too long."""
        if self.federation is not None:
            self.federation.roaming.redirecting.ended(session.client_id, now_us)

    def begin_journal(self, journal: Journal) -> None:
        """From now on say what changes."""
        self.journal = self.sessions.journal = self.retained.journal = journal
        self._reception.journal = self._fan_out.journal = journal
        if self.federation is not None:
            self.federation.begin_journal(journal)
        if self.arrivals is not None:
            self.arrivals.journal = journal

    def may_publish_again(self, key: tuple[str, int]) -> bool:
        """Whether a publication can go out a second time: nobody but the door may have sent it."""
        return self.door is not None and key[0] == self.door.client

    def restate(self) -> Iterator[int]:
        """Say all again to the journal, a bit at each step (see `Journal.restate`)."""
        assert self.journal is not None
        federation = self.federation
        homes = federation.roaming.homes.puts if federation is not None else Homes().puts
        groups = federation.sharing.puts if federation is not None else partial(iter, ())
        return self.journal.restate(self.sessions, self.retained, homes, groups)

    def resume(self) -> None:
        """The journal records again: sessions send what stood still."""
        for session in self.sessions:
            session.resume()

    def spread_on(self, message: Message, had: set[str], groups: set[str]) -> None:
        """Go on with what was being handed to many when the broker was killed."""
        self._fan_out.resume(message, had, groups)

    def permissions(self, user: str, client_id: str) -> Permissions:
        """What a user may do, by today's rules."""
        return self._reception.permissions(user, client_id)

    # --- publications -------------------------------------------------------------------------

    def _publish_will(self, message: Message, now_us: int) -> None:
        """Publish a will; in a network it is settled like what has QoS 1 (see `takeovers`)."""
        self.publish(message, now_us, assured=True)

    def publish(self, message: Message, now_us: int, *, assured: bool = False) -> int:
        """A client of this broker published; how many subscriptions it was for.

        In a network that is not known, and what it said counts as wanted.  What is `assured` is
        settled at QoS 0, too.
        """
        self.statistics.publications_received += 1
        self.statistics.published = message
        if message.retain:
            self.retained.date(message)
        if self.door is not None and self.federation is not None:
            self.door.publish(message, assured=assured)
            self.federation.sharing.share(message, now_us)
            return 1
        if message.retain:
            self.retained.keep(message, now_us)
        return self._fan_out.route(message, now_us)

    def publish_soon(self, message: Message, now_us: int) -> None:
        """As `publish`, for what nobody waits for; with what comes next, until `settle`."""
        if self.door is not None or message.retain:
            self.publish(message, now_us)
        else:
            self.statistics.publications_received += 1
            self.statistics.published = message
            self._fan_out.gather(message, now_us)

    def settle(self) -> None:
        """Deliver what was published, before anything else happens."""
        self._fan_out.settle()

    @property
    def is_sharing(self) -> bool:
        """Whether a message is still being handed to members of groups."""
        return self.federation is not None and self.federation.sharing.handing.is_on

    def settled(self, publications: Iterable[Publication]) -> None:
        """Nothing can take these any more: their publishers are told with the next effects."""
        assert self.door is not None
        self.door.settled(publications)

    def stored(self, *subscription_ids: SubscriptionId) -> None:
        """No publication misses these subscriptions of the door any more."""
        assert self.door is not None
        assert self.federation is not None
        for id in subscription_ids:
            if self.door.stored(id):
                self.federation.stored(id)

    def deliver(self, deliveries: Iterable[Deliver], now_us: int) -> list[ClientEffect]:
        """The machine delivers to this broker's door."""
        assert self.arrivals is not None
        self.arrivals.take(deliveries, now_us)
        return self.take_effects()

    def linked(self, neighbour: BrokerId, is_ready: bool, now_us: int) -> None:
        """A link can carry publications now, or was given up, and the network fell in two."""
        if is_ready and self.journal is not None:
            self.journal.linked(neighbour)
        if self.federation is not None:
            self.federation.linked(neighbour, is_ready, now_us)

    def when_known(self, answer: Callable[[int], None], now_us: int) -> None:
        """Answer when what clients have subscribed to so far is known to every broker."""
        if self.federation is None:
            answer(now_us)
        else:
            self.federation.when_known(answer, now_us)
