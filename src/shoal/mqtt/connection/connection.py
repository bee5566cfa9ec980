"""One network connection of one client: the order of its packets, and what it is answered.

Bytes go in by `receive`, and the effects of all that they caused come out, on other connections
too.  The connection waits for a CONNECT, then for the answer whether its client may connect, and
then handles what the client sends until one of the two has had enough.  What breaks the standard
ends this connection with the reason code that says why, and no other.

| state | CONNECT | what a client may send | what only a server sends |
| --- | --- | --- | --- |
| waiting | checked → admission | refused → closed | refused → closed |
| admission | held, then refused → closed | held | held, then refused → closed |
| connected | refused → closed | handled, or held | refused → closed |
| redirected | dropped | dropped, but for acknowledgements | dropped |
| closed | dropped | dropped | dropped |

While a client is owed too many answers, or publications must wait for some other reason, what it
sends is held, in its order; so is the rest when it has sent more at once than others should wait
for.  But PINGREQ is answered, and what it says of publications that it got, or that were
acknowledged to it, is heard.

A client that is sent to another broker gets nothing more here, but what it says about publications
it got before counts, until it closes: so its next broker does not send them again.

Source: MQTT Version 5.0, sections 3 and 4; what 3.1.1 does differently is said where it is done.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from shoal.model import Filter
from shoal.mqtt.access import ALL_PERMISSIONS, ANOTHER_USERS, Admission, Credentials, Permissions
from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.errors import MqttError, protocol_error
from shoal.mqtt.codec.packet_types import MQTT_5, PacketType
from shoal.mqtt.codec.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Unsubscribe,
)
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties
from shoal.mqtt.codec.reason_codes import (
    ALLOWED_REASON_CODES,
    CONNECT_RETURN_CODES,
    FIRST_ERROR,
    ReasonCode,
)
from shoal.mqtt.connection.connecting import (
    Terms,
    agree,
    check_connect,
    connack_properties,
    read_promises,
)
from shoal.mqtt.connection.effects import ClientEffect
from shoal.mqtt.connection.house import Guest, House
from shoal.mqtt.connection.incoming import BROKER_TOPICS, Incoming
from shoal.mqtt.connection.outlet import Outlet
from shoal.mqtt.sessions.session import ClientSubscription, Session
from shoal.mqtt.sessions.subscribing import Granting, TakingBack

# Packets that wait for the answer to a CONNECT; a driver that minds `wants_reading` brings fewer.
MAX_HELD = 10_000
# Bytes that wait while nothing may be taken, of one client and of all; then no more is read.
MAX_HELD_BYTES = 262_144
MAX_ALL_HELD_BYTES = 64 * 1_048_576

# What one client has handled before others have their turn, in publications: some 30 ms.  A
# SUBSCRIBE or UNSUBSCRIBE is as much work as so many, and what it asks for comes to it; its topic
# filters may be done in several turns.
TURN = 2_000
REQUEST_WORK = 20

_PINGRESP = bytes((0xD0, 0))


class State(enum.Enum):
    """Where a connection stands; see the table above."""

    WAITING = "waiting"
    ADMISSION = "admission"
    CONNECTED = "connected"
    REDIRECTED = "redirected"
    CLOSED = "closed"


class Connection:
    """One network connection.  `owner` is the driver's own.

    `touched` collects the connections that have something to take.
    """

    __slots__ = (
        "_asked",
        "_connect",
        "_decoder",
        "_held",
        "_held_bytes",
        "_house",
        "_incoming",
        "_is_lost",
        "address",
        "certificate",
        "credentials",
        "is_held",
        "is_waiting",
        "last_received_us",
        "outlet",
        "owner",
        "permissions",
        "promises",
        "session",
        "state",
        "terms",
        "user",
    )

    def __init__(
        self,
        house: House,
        touched: list[Connection],
        now_us: int,
        certificate: str | None,
        address: str | None,
    ) -> None:
        self.owner: Any = None
        self.certificate = certificate
        self.address = address
        self.state = State.WAITING
        self.outlet = Outlet(self, partial(touched.append, self))
        # What is agreed once a CONNECT has come, and the client's session once it is let in.
        self.terms: Terms | None = None
        self.session: Session | None = None
        # What the client has said about itself; without its password once it is let in.
        self.credentials = Credentials(client_id="")
        self.permissions: Permissions = ALL_PERMISSIONS
        # What it advertises, once it is admitted.
        self.promises: tuple[Filter, ...] = ()
        # Who the client is (see `Admission`).
        self.user = ""
        self.last_received_us = now_us
        self._house = house
        limits = house.limits
        self._decoder = Decoder(None, limits.maximum_packet_size, limits.maximum_topic_filters)
        self._connect: Connect | None = None
        # Whether the driver wants nothing taken for now.
        self.is_held = False
        # Whether it waits for clients that read more slowly than it sends (see `patience`).
        self.is_waiting = False
        self._held: list[Packet] = []
        self._held_bytes = 0
        # What is answered in part: it is the first that is held.
        self._asked: Granting | TakingBack | None = None
        self._is_lost = False
        self._incoming: Incoming | None = None

    @property
    def client_id(self) -> str | None:
        """The client's, once it is connected."""
        return None if self.session is None else self.session.client_id

    @property
    def is_closed(self) -> bool:
        """Whether no more is said on it; what was said last is still to be written."""
        return self.state is State.CLOSED or self.state is State.REDIRECTED

    @property
    def is_redirected(self) -> bool:
        """Whether it is read until its client closes, though nothing more is written."""
        return self.state is State.REDIRECTED

    @property
    def wants_reading(self) -> bool:
        """False while nothing more should be read.

        The answer to the CONNECT is still out, or too much is held.
        """
        if self.state is State.CONNECTED:
            total = self._house.held_bytes
            return self._held_bytes < MAX_HELD_BYTES and total < MAX_ALL_HELD_BYTES
        return self.state is not State.ADMISSION

    @property
    def must_wait(self) -> bool:
        """Whether what the client sends is not taken now, since it is owed too many answers or the
        driver says so.
        """
        if self.is_held or self.is_waiting or self._house.is_held:
            return True
        return self._incoming is not None and self._incoming.is_full

    @property
    def holds(self) -> bool:
        """Whether something waits for `take_held`."""
        return self.state is State.CONNECTED and bool(self._held)

    @property
    def owes(self) -> bool:
        """Whether the client waits for the answer to a publication."""
        return self._incoming is not None and self._incoming.owes

    # --- the driver's side --------------------------------------------------------------------

    def receive(self, data: bytes, now_us: int) -> list[ClientEffect]:
        """Bytes came from the client."""
        if self.state is State.CLOSED:
            return []
        self.last_received_us = now_us
        packets = self._decoder.feed(data)
        statistics = self._house.statistics
        statistics.bytes_received += len(data)
        statistics.packets_received += len(packets)
        if self.state is State.ADMISSION:
            self._held += packets
            if len(self._held) > MAX_HELD:
                reason = "too many packets before the answer to CONNECT"
                self.disconnect(ReasonCode.QUOTA_EXCEEDED, reason, now_us)
        elif self.state is State.REDIRECTED:
            self._take_acknowledgements(packets, now_us)
        elif self.state is State.CONNECTED and (self._held or self.must_wait):
            self._hold(packets, len(data), now_us)
        else:
            self._handle_all(packets, now_us, len(data))
        return self._house.take_effects()

    def take_held(self, now_us: int) -> list[ClientEffect]:
        """Take what was held, now that nothing must wait any more."""
        if self.state is State.CONNECTED:
            size = self._held_bytes
            self._handle_all(self._let_go(), now_us, size)
            if self._is_lost and not self._held:
                self.leave(now_us, with_will=True)
        return self._house.take_effects()

    def lost(self, now_us: int) -> list[ClientEffect]:
        """The network connection is gone, or the driver gave it up."""
        if self.state is State.REDIRECTED:
            self.hang_up(now_us)
        if self.holds:
            self._is_lost = True  # what it said before still counts
        else:
            self.leave(now_us, with_will=True)
        return self._house.take_effects()

    def admitted(self, admission: Admission, now_us: int) -> list[ClientEffect]:
        """The answer that `Access.admit` still owed; dropped if the client is gone."""
        if self.state is State.ADMISSION:
            self._answer_connect(admission, now_us)
            self._go_on(now_us)
        return self._house.take_effects()

    def pause(self) -> None:
        """The client reads more slowly than it is written to; what can wait waits."""
        self.outlet.pause(True)

    def resume(self, now_us: int) -> list[ClientEffect]:
        """What was to be written is nearly all written."""
        self.outlet.pause(False)
        if self.session is not None:
            self.session.pump(now_us)
        return self._house.take_effects()

    def took(self, now_us: int) -> None:
        """Some of what was written has gone out to the client."""
        if self.session is not None:
            self.session.took_us = now_us

    def redirect(self, server_reference: str, now_us: int) -> list[ClientEffect]:
        """Send the client to another broker, for now; what it had here is kept as agreed."""
        if self.state is State.CONNECTED:
            reason = "another broker is nearer to the subscribers"
            self.disconnect(ReasonCode.USE_ANOTHER_SERVER, reason, now_us, server_reference)
            if self.session is not None and self._house.redirected(self, self.session, now_us):
                self.state = State.REDIRECTED
        return self._house.take_effects()

    # --- ends ---------------------------------------------------------------------------------

    def disconnect(
        self, reason_code: ReasonCode, reason: str, now_us: int, server_reference: str | None = None
    ) -> None:
        """End the connection from this side, with a word to the client if it has one to hear.

        `server_reference` says where to go, with USE_ANOTHER_SERVER or SERVER_MOVED (section 4.11).
        """
        if self.state is State.CONNECTED:
            # 3.1.1 has no DISCONNECT from a server.
            if self.outlet.version == MQTT_5:
                properties = Properties(reason_string=reason, server_reference=server_reference)
                self.outlet.send_answer(Disconnect(reason_code, properties))
        elif self.state is not State.CLOSED:
            self._refuse(reason_code, reason)
        self.leave(now_us, with_will=True)

    def leave(self, now_us: int, *, with_will: bool) -> None:
        """Let the session go, and have the network connection closed."""
        if self.state is State.CLOSED:
            return
        self._let_go()
        self._asked = None
        self.state = State.CLOSED
        self.outlet.touch()
        self._house.left(self, self.session, now_us, with_will)

    def hang_up(self, now_us: int) -> None:
        """No more is taken from a client that was sent away."""
        self.state = State.CLOSED
        self.outlet.touch()
        if self.session is not None:
            self._house.hung_up(self.session, now_us)

    def _refuse(self, reason_code: ReasonCode, reason: str) -> None:
        """The CONNACK that ends a connection which was never made [MQTT-3.1.4-1, MQTT-3.1.4-2]."""
        version = self._decoder.version
        if version is None:
            return
        self.outlet.version = version
        if version == MQTT_5:
            if reason_code not in ALLOWED_REASON_CODES[PacketType.CONNACK]:
                reason_code = ReasonCode.SERVER_UNAVAILABLE
            self.outlet.send_answer(
                Connack(reason_code, properties=Properties(reason_string=reason))
            )
        elif reason_code in CONNECT_RETURN_CODES:
            self.outlet.send_answer(Connack(reason_code))

    def check_silence(self, now_us: int) -> int | None:
        """Ends the connection if its client was silent for too long; else when to look again."""
        if self.state is not State.CONNECTED:
            self.disconnect(ReasonCode.SERVER_UNAVAILABLE, "connecting took too long", now_us)
            return None
        assert self.terms is not None
        deadline_us = self.last_received_us + self.terms.keep_alive_us
        if now_us < deadline_us:
            return deadline_us
        if self._held or self._house.is_held or not self.wants_reading:
            # What it said may be waiting to be read, or to be taken.
            return now_us + self.terms.keep_alive_us
        reason = f"silent for one and a half times {self.terms.keep_alive_s} s"
        self.disconnect(ReasonCode.KEEP_ALIVE_TIMEOUT, reason, now_us)
        return None

    # --- what comes in ------------------------------------------------------------------------

    def _handle_all(self, packets: list[Packet], now_us: int, size: int = 0) -> None:
        """Handle these, of so many bytes; what is too much for one turn is held."""
        has_published = False
        work = 0
        try:
            for number, packet in enumerate(packets, start=1):
                if work >= TURN and type(packet) not in _PASSING:
                    self._hold_from(number - 1, packets, size, now_us)
                    return
                work += 1
                if type(packet) is Publish:
                    assert self._incoming is not None
                    self._incoming.on_publish(packet, now_us)
                    has_published = True
                else:
                    if has_published:
                        self._house.settle()
                        has_published = False
                    if type(packet) is Subscribe or type(packet) is Unsubscribe:
                        work += REQUEST_WORK + self._ask(packet, TURN - work, now_us)
                        if self._asked is not None:
                            self._hold_from(number - 1, packets, size, now_us)
                            return
                    else:
                        self._handle(packet, now_us)
                    if type(packet) is Connect and self.state is State.CONNECTED and self.must_wait:
                        self._hold(packets[number:], 0, now_us)
                        return
                if self.state is not State.CONNECTED:
                    if self.state is State.ADMISSION:
                        self._held = packets[number:]
                    return
            failure = self._decoder.failure
            if failure is not None and not self._held and self.state is not State.CLOSED:
                raise failure
        except MqttError as error:
            self._house.settle()
            self._house.statistics.protocol_errors += 1
            self.disconnect(error.reason_code, str(error), now_us)

    def _handle(self, packet: Packet, now_us: int) -> None:
        handler = _HANDLERS.get(type(packet))
        if handler is None:
            raise protocol_error(f"only a server sends {type(packet).__name__}")
        handler(self, packet, now_us)

    def _hold_from(self, first: int, packets: list[Packet], size: int, now_us: int) -> None:
        """From this one on packets of so many bytes wait for the next turn."""
        rest = packets[first:]
        self._hold(rest, size * len(rest) // len(packets), now_us)

    def _hold(self, packets: list[Packet], size: int, now_us: int) -> None:
        """Nothing may be taken now but what nobody has to wait for."""
        passing = [each for each in packets if type(each) in _PASSING]
        if len(passing) < len(packets):
            self._held += (each for each in packets if type(each) not in _PASSING)
        if self._held:
            self._held_bytes += size
            self._house.held_bytes += size
        self._handle_all(passing, now_us)

    def _let_go(self) -> list[Packet]:
        """What was held, which is not any more."""
        held, self._held = self._held, []
        self._house.held_bytes -= self._held_bytes
        self._held_bytes = 0
        return held

    def _take_acknowledgements(self, packets: list[Packet], now_us: int) -> None:
        try:
            for packet in packets:
                if isinstance(packet, Puback | Pubrec | Pubcomp):
                    _HANDLERS[type(packet)](self, packet, now_us)
            if self._decoder.failure is not None:
                raise self._decoder.failure
        except MqttError:
            self._house.statistics.protocol_errors += 1
            self.hang_up(now_us)

    def _on_connect(self, connect: Connect, now_us: int) -> None:
        self.state = State.ADMISSION
        self._connect = connect
        # Before anything is answered: a refusal too keeps to what the client can take.
        self.terms = agree(connect, self._house.limits)
        self.outlet.agree(connect.version, self.terms)
        check_connect(connect)
        self.credentials = Credentials(
            client_id=connect.client_id,
            username=connect.username,
            password=connect.password,
            certificate=self.certificate,
            address=self.address,
        )
        admission = self._house.admit(self.credentials)
        if admission is not None:
            self._answer_connect(admission, now_us)

    def go_on(self, admission: Admission, now_us: int) -> None:
        """The client's session has come, or will not: let the client in."""
        self._enter(admission, now_us)
        self._go_on(now_us)

    def _go_on(self, now_us: int) -> None:
        """Handle what came while the client was not let in yet."""
        if self.state is not State.ADMISSION:
            held = self._let_go()
            if self.must_wait:
                self._hold(held, 0, now_us)
            else:
                self._handle_all(held, now_us)

    def _answer_connect(self, admission: Admission, now_us: int) -> None:
        connect = self._connect
        assert connect is not None
        code, reason = admission.reason_code, admission.reason or ""
        if code is ReasonCode.SUCCESS:
            try:
                self.promises = read_promises(connect, self._house.limits)
            except MqttError as error:
                code, reason = error.reason_code, str(error)
        if code is ReasonCode.SUCCESS and connect.will is not None:
            topic = connect.will.topic
            if topic.startswith(BROKER_TOPICS) or not admission.permissions.may_publish(topic):
                code, reason = ReasonCode.NOT_AUTHORIZED, f"no permission for the will on {topic!r}"
        if code is ReasonCode.SUCCESS and self._house.sessions.is_anothers(
            connect.client_id, admission.user
        ):
            code, reason = ReasonCode.NOT_AUTHORIZED, ANOTHER_USERS
        if code >= FIRST_ERROR:
            self.disconnect(code, reason, now_us)
        elif not self._house.must_wait(self, connect, admission, now_us):
            self._enter(admission, now_us)

    def _enter(self, admission: Admission, now_us: int) -> None:
        connect = self._connect
        assert connect is not None
        self.permissions, self.user = admission.permissions, admission.user
        self.credentials = msgspec.structs.replace(self.credentials, password=None)
        terms = self.terms
        assert terms is not None
        client_id = connect.client_id or self._house.new_client_id()
        guest = Guest(connect, client_id, self.user, terms, self.promises, self.outlet)
        self.session, present = self._house.enter(guest, now_us)
        self.state = State.CONNECTED
        properties = NO_PROPERTIES
        if connect.version == MQTT_5:
            properties = connack_properties(connect, client_id, terms, self._house.limits)
        if not self.outlet.send_answer(Connack(ReasonCode.SUCCESS, present, properties)):
            # It cannot even be told that it is let in.
            self.leave(now_us, with_will=False)
            return
        self._incoming = Incoming(self._house, self.session, self.permissions, self.outlet)
        self.session.attach(self.outlet, now_us)
        self._connect = None

    # --- publications, and what the client says about those it gets ---------------------------

    def _on_pubrel(self, packet: Pubrel, now_us: int) -> None:
        assert self._incoming is not None
        self._incoming.on_pubrel(packet)

    def _on_puback(self, packet: Puback, now_us: int) -> None:
        assert self.session is not None
        self.session.on_puback(packet.packet_id, now_us)

    def _on_pubrec(self, packet: Pubrec, now_us: int) -> None:
        assert self.session is not None
        self.session.on_pubrec(packet.packet_id, packet.reason_code, now_us)

    def _on_pubcomp(self, packet: Pubcomp, now_us: int) -> None:
        assert self.session is not None
        self.session.on_pubcomp(packet.packet_id, now_us)

    # --- subscriptions, and the rest ----------------------------------------------------------

    def _ask(self, packet: Subscribe | Unsubscribe, most: int, now_us: int) -> int:
        """Do what it asks for, until it is answered or that was `most` work; how much it was."""
        assert self.session is not None
        subscribing = self._house.subscribing
        asked = self._asked
        if asked is None:
            if isinstance(packet, Subscribe):
                asked = Granting(subscribing, self.session, self.permissions, packet)
            elif packet.beyond and self.outlet.version != MQTT_5:  # whose UNSUBACK refuses nothing
                raise MqttError(ReasonCode.QUOTA_EXCEEDED, "too many topic filters in one packet")
            else:
                asked = TakingBack(subscribing, self.session, packet)
        work = asked.go_on(most)
        self._asked = None if asked.is_done else asked
        if not asked.is_done:
            return work
        if isinstance(asked, TakingBack):
            self.outlet.send_answer(asked.answer())
        else:
            self._answer_subscribe(*asked.answer(), now_us)
        return work

    def _answer_subscribe(
        self, suback: Suback, wanting: list[ClientSubscription], now_us: int
    ) -> None:
        def answer(now_us: int) -> None:
            if self.is_closed:
                return
            self.outlet.send_answer(suback)
            for subscription in wanting:
                self._house.subscribing.send_retained(subscription, now_us)

        if any(code < FIRST_ERROR for code in suback.reason_codes):
            self._house.when_known(answer, now_us)
        else:
            answer(now_us)

    def _on_pingreq(self, packet: Pingreq, now_us: int) -> None:
        self.outlet.send(_PINGRESP)

    def _on_disconnect(self, packet: Disconnect, now_us: int) -> None:
        session = self.session
        assert session is not None
        expiry_s = packet.properties.session_expiry_interval_s
        if expiry_s is not None:
            if expiry_s and not session.expiry_interval_s:
                raise protocol_error("a session that ends here cannot be kept [MQTT-3.14.2-2]")
            longest_s = self._house.limits.maximum_session_expiry_s
            session.expiry_interval_s = min(expiry_s, longest_s)
        self.leave(now_us, with_will=packet.reason_code is not ReasonCode.SUCCESS)

    def _on_auth(self, packet: Auth, now_us: int) -> None:
        raise protocol_error("AUTH, but CONNECT named no authentication method [MQTT-4.12.0-6]")


# What is handled though publications must wait.
_PASSING = frozenset((Pingreq, Puback, Pubrec, Pubrel, Pubcomp))

_HANDLERS: dict[type[Packet], Callable[[Connection, Any, int], None]] = {
    Connect: Connection._on_connect,
    Puback: Connection._on_puback,
    Pubrec: Connection._on_pubrec,
    Pubrel: Connection._on_pubrel,
    Pubcomp: Connection._on_pubcomp,
    Pingreq: Connection._on_pingreq,
    Disconnect: Connection._on_disconnect,
    Auth: Connection._on_auth,
}
