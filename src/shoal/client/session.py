"""A client's side of MQTT, sans-IO: requests under way, subscriptions, and packets to send.

It outlives its connections: unacknowledged publications are retransmitted, subscriptions are made
again when the broker has forgotten the session, and no message of QoS 1 or 2 is lost or, at QoS 2,
duplicated. It uses 5 or 3.1.1, which has neither content filters nor reasons of refusals.

| connection | publications | received packets |
| --- | --- | --- |
| down | queued | - |
| connecting (CONNECT is sent) | queued | CONNACK → up, or refused |
| up | sent as the broker's receive maximum allows | delivered and acknowledged |

Source: MQTT Version 5.0, sections 4.3, 4.4 and 4.9.
"""

from __future__ import annotations

import enum
from collections import deque

import msgspec

from shoal.client.events import (
    Arrived,
    Connected,
    Done,
    Event,
    RefusedError,
    ServerMoved,
    SessionError,
    TakenOverError,
)
from shoal.language.query import CHANGED, EVERY
from shoal.matching.topics.filters import topic_matches
from shoal.mqtt.codec.decoder import MAX_PACKET_BYTES, Decoder
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.connection.connecting import FOLLOW
from shoal.mqtt.content import FROM, WHERE

# Packet identifiers have two bytes, 0 is none.
_LAST_ID = 65_535
_FAILED = 0x80
# Refusals after which the client tries again.
_PASSING = (
    ReasonCode.SERVER_UNAVAILABLE,
    ReasonCode.SERVER_BUSY,
    ReasonCode.QUOTA_EXCEEDED,
    ReasonCode.CONNECTION_RATE_EXCEEDED,
)
# The first bytes of a CONNACK of 3.1.1: one of 5 is longer.
_OLD_CONNACK = b"\x20\x02"
_GO_ELSEWHERE = (ReasonCode.USE_ANOTHER_SERVER, ReasonCode.SERVER_MOVED)


class ClientState(enum.Enum):
    DOWN = "down"
    CONNECTING = "connecting"
    UP = "up"


class _ClientRequest(msgspec.Struct):
    """A PUBLISH above QoS 0, a SUBSCRIBE or an UNSUBSCRIBE under way; `number` is the client's."""

    number: int
    packet: Publish | Subscribe | Unsubscribe
    is_released: bool = False


class ClientSession:
    """The session of one client; `connect` is its CONNECT, with the session expiry interval."""

    def __init__(
        self,
        connect: Connect,
        *,
        is_held: bool = False,
        maximum_packet_size: int = MAX_PACKET_BYTES,
    ) -> None:
        """`is_held`: messages of QoS 1 and 2 are acknowledged by `acknowledge`, otherwise at once.

        ValueError for a CONNECT that cannot be encoded.
        """
        encode(connect, connect.version)
        self.state = ClientState.DOWN
        self.version = connect.version
        self._connect = connect
        self._is_held = is_held
        self._knows_numbers = connect.version == MQTT_5
        self._maximum_packet_size = maximum_packet_size
        self._decoder = Decoder(self.version, maximum_packet_size)
        self._out: list[bytes] = []
        self._numbers = 0
        self._last_id = 0
        self._window = 0
        # The broker's maximum packet size.
        self._most_bytes = MAX_PACKET_BYTES
        self._too_large: list[Done] = []
        self._waiting: deque[_ClientRequest] = deque()
        self._under_way: dict[int, _ClientRequest] = {}  # by packet identifier, oldest first
        self._again: deque[int] = deque()  # those to retransmit, when the window allows
        self._received: set[int] = set()  # identifiers at QoS 2 that are not released
        # The QoS of delivered messages that wait for `acknowledge`, by identifier.
        self._unacknowledged: dict[int, int] = {}
        self._subscriptions: dict[int, Subscribe] = {}
        # Subscription numbers by subscription identifier.
        self._by_identifier: dict[int, int] = {}

    # --- for the application ------------------------------------------------------------------

    def publish(self, packet: Publish) -> int | None:
        """Publish; returns the number for `Done`, None at QoS 0, which is sent at once or never.

        ValueError if it cannot be encoded; one too large for the broker fails, at QoS 0 too.
        """
        if packet.qos:
            return self._queue_request(packet)
        data = encode(packet, self.version)
        if self.state is ClientState.UP:
            if len(data) > self._most_bytes:
                return self._queue_request(packet)
            self._out.append(data)
        return None

    def subscribe(
        self,
        request: SubscriptionRequest,
        where: str | None,
        identifier: int | None = None,
        since: str | None = None,
        *,
        every: str | None = None,
        changed: str | None = None,
    ) -> int:
        """Subscribe; returns the number for `Done` and `Arrived`.

        `identifier` is the subscription identifier, for a session that outlives this one.
        ValueError if it cannot be encoded.
        """
        number = self._numbers + 1
        named = number if identifier is None else identifier
        self._by_identifier[named] = number
        asked = ((WHERE, where), (FROM, since), (EVERY, every), (CHANGED, changed))
        properties = Properties(
            subscription_identifiers=(named,) if self._knows_numbers else (),
            user_properties=tuple([(name, text) for name, text in asked if text is not None]),
        )
        packet = Subscribe(0, (request,), properties)
        encode(packet, self.version)
        self._subscriptions[number] = packet
        return self._queue_request(packet)

    def unsubscribe(self, subscription: int) -> int | None:
        """Unsubscribe; returns the number for `Done`, None without such a subscription."""
        packet = self._subscriptions.pop(subscription, None)
        if packet is None:
            return None
        return self._queue_request(Unsubscribe(0, (packet.requests[0].topic_filter,)))

    def take_too_large(self) -> list[Done]:
        """Take out the requests that are too large for this broker."""
        done, self._too_large = self._too_large, []
        return done

    def acknowledge(self, packet_id: int) -> None:
        """Acknowledge the message with this identifier, which then does not come again.

        At QoS 1 it must have come over the present connection, at QoS 2 since the broker last began
        the session.
        """
        qos = self._unacknowledged.pop(packet_id, 0)
        if qos == 2:
            self._received.add(packet_id)
        if qos and self.state is ClientState.UP:
            self._send_packet(Puback(packet_id) if qos == 1 else Pubrec(packet_id))

    def disconnect(self, *, is_kept: bool = False) -> None:
        """Send a DISCONNECT: the broker ends the session, unless it is kept."""
        if self.state is ClientState.UP:
            forget = Properties(session_expiry_interval_s=0)
            self._send_packet(Disconnect() if is_kept else Disconnect(properties=forget))

    def ping(self) -> None:
        if self.state is ClientState.UP:
            self._send_packet(Pingreq())

    def stay(self) -> bool:
        """Stop following redirects from the next connection on; returns whether that is a
        change."""
        properties = self._connect.properties
        kept = tuple(each for each in properties.user_properties if each[0] != FOLLOW)
        if kept == properties.user_properties:
            return False
        properties = msgspec.structs.replace(properties, user_properties=kept)
        self._connect = msgspec.structs.replace(self._connect, properties=properties)
        return True

    # --- for the connection -------------------------------------------------------------------

    def opened(self) -> None:
        """Begin a connection: send the CONNECT."""
        self._decoder = Decoder(self.version, self._maximum_packet_size)
        self._out = [encode(self._connect, self.version)]
        self.state = ClientState.CONNECTING

    def lost(self) -> None:
        """Handle the end of the connection."""
        self.state = ClientState.DOWN
        self._out = []
        # Messages of QoS 1 come again with other identifiers.
        self._unacknowledged = {each: qos for each, qos in self._unacknowledged.items() if qos == 2}

    def to_write(self) -> bytes:
        """The bytes to write."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def receive(self, data: bytes) -> list[Event]:
        """Handle bytes of the connection; SessionError when it must end."""
        if self.state is ClientState.CONNECTING:
            self._check_greeting(data)
        events: list[Event] = []
        for packet in self._decoder.feed(data):
            self._handle_packet(packet, events)
        if self._decoder.failure is not None:
            raise SessionError(f"the broker breaks the protocol: {self._decoder.failure}")
        return events

    def _check_greeting(self, data: bytes) -> None:
        """Raise RefusedError unless the answer to a CONNECT is of a broker of this version."""
        if data.startswith(b"HTTP/"):
            raise RefusedError("answers as a web server; use ws:// or wss://")
        if self.version == MQTT_5 and data.startswith(_OLD_CONNACK):
            raise RefusedError("speaks MQTT 3.1.1 only")

    # --- sending ------------------------------------------------------------------------------

    def _send_packet(self, packet: Packet) -> None:
        self._out.append(encode(packet, self.version))

    def _queue_request(self, packet: Publish | Subscribe | Unsubscribe) -> int:
        # Check before queueing: a packet that cannot be encoded would block all behind it.
        size = len(encode(packet, self.version))
        self._numbers += 1
        request = _ClientRequest(self._numbers, packet)
        if self.state is ClientState.UP and size > self._most_bytes:
            self._fail_request(request, size)
        else:
            self._waiting.append(request)
            self._pump()
        return self._numbers

    def _fail_request(self, request: _ClientRequest, size: int) -> None:
        """Fail a request for which the broker would close the connection, again and again."""
        if isinstance(request.packet, Subscribe):
            self._subscriptions.pop(request.number, None)
        reason = f"{size:,} bytes; the broker takes {self._most_bytes:,} at most"
        self._too_large.append(Done(request.number, ReasonCode.PACKET_TOO_LARGE, reason))

    def _refuse_too_large(self) -> None:
        """Fail queued requests that are too large for this broker."""
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            size = len(encode(request.packet, self.version))
            if size > self._most_bytes:
                self._fail_request(request, size)
            else:
                self._waiting.append(request)
        for packet_id, request in tuple(self._under_way.items()):
            size = len(encode(request.packet, self.version))
            if size > self._most_bytes and not request.is_released:
                del self._under_way[packet_id]
                self._fail_request(request, size)

    def _pump(self) -> None:
        while (
            self.state is ClientState.UP and len(self._under_way) - len(self._again) < self._window
        ):
            if self._again:
                packet = self._under_way[self._again.popleft()].packet
                if isinstance(packet, Publish):
                    packet = msgspec.structs.replace(packet, duplicate=True)
                self._send_packet(packet)
            elif self._waiting:
                request = self._waiting.popleft()
                packet_id = self._new_id()
                request.packet = msgspec.structs.replace(request.packet, packet_id=packet_id)
                self._under_way[packet_id] = request
                self._send_packet(request.packet)
            else:
                break

    def _new_id(self) -> int:
        while True:
            self._last_id = self._last_id % _LAST_ID + 1
            if self._last_id not in self._under_way:
                return self._last_id

    # --- receiving ----------------------------------------------------------------------------

    def _handle_packet(self, packet: Packet, events: list[Event]) -> None:
        if (self.state is ClientState.CONNECTING) != isinstance(packet, Connack):
            raise SessionError(f"{type(packet).__name__} comes at the wrong time")
        match packet:
            case Connack():
                self._connected(packet, events)
            case Publish():
                self._arrived(packet, events)
            case Pubrel(packet_id):
                self._received.discard(packet_id)
                self._send_packet(Pubcomp(packet_id))
            case Pubrec(packet_id, code) if code < _FAILED and packet_id in self._under_way:
                self._under_way[packet_id].is_released = True
                self._send_packet(Pubrel(packet_id))
            case Pubcomp(packet_id, _, properties):  # also if the broker has forgotten it
                self._complete_request(packet_id, ReasonCode.SUCCESS, properties, events)
            case Puback() | Pubrec():
                self._complete_request(
                    packet.packet_id, packet.reason_code, packet.properties, events
                )
            case Suback() | Unsuback():
                codes = packet.reason_codes or (ReasonCode.SUCCESS,)
                self._complete_request(packet.packet_id, codes[0], packet.properties, events)
            case Disconnect(code, properties):
                if code is ReasonCode.SESSION_TAKEN_OVER:
                    raise TakenOverError(f"another client connects as {self._connect.client_id!r}")
                if code not in _GO_ELSEWHERE:
                    raise SessionError(_said(code, properties))
                events.append(ServerMoved(properties.server_reference or ""))
            case Pingresp():
                pass
            case _:
                raise SessionError(f"{type(packet).__name__} is not for a client")

    def _connected(self, packet: Connack, events: list[Event]) -> None:
        properties, code = packet.properties, packet.reason_code
        if code in _GO_ELSEWHERE:
            events.append(ServerMoved(properties.server_reference or ""))
            return
        if code in _PASSING and not self._connect.clean_start:
            # The broker has accepted it before: keep its session there, and retry for a while.
            raise SessionError(_said(code, properties))
        if code >= _FAILED:
            raise RefusedError(_said(code, properties))
        self.state = ClientState.UP
        if properties.subscription_identifier_available == 0:
            self._knows_numbers = False
        client_id = properties.assigned_client_identifier or self._connect.client_id
        keep_alive_s = properties.server_keep_alive_s
        if keep_alive_s is None:
            keep_alive_s = self._connect.keep_alive_s
        self._connect = msgspec.structs.replace(
            self._connect,
            client_id=client_id,
            # A 3.1.1 session without clean start never ends by itself.
            clean_start=self.version == MQTT_3_1_1 and self._connect.clean_start,
        )
        self._window = properties.receive_maximum or _LAST_ID
        self._most_bytes = properties.maximum_packet_size or MAX_PACKET_BYTES
        self._refuse_too_large()
        events.extend(self.take_too_large())
        self._retransmit_requests(packet.session_present)
        events.append(Connected(client_id, keep_alive_s, packet.session_present))
        self._pump()

    def _retransmit_requests(self, session_present: bool) -> None:
        """Retransmit requests under way; if the broker has a new session, repeat them all."""
        requests = list(self._under_way.values())
        self._again.clear()
        if session_present:
            for packet_id, request in self._under_way.items():
                if request.is_released:
                    self._send_packet(Pubrel(packet_id))
                else:
                    self._again.append(packet_id)
            return
        self._received.clear()
        self._unacknowledged.clear()
        self._under_way.clear()
        # Released ones had arrived before the broker forgot them; others may have, at QoS 1.
        again = [request for request in requests if not request.is_released]
        asked = {request.number for request in (*again, *self._waiting)}
        missing = (row for row in self._subscriptions.items() if row[0] not in asked)
        self._waiting.extendleft(reversed(again))
        self._waiting.extendleft(_ClientRequest(number, packet) for number, packet in missing)

    def _arrived(self, packet: Publish, events: list[Event]) -> None:
        if packet.qos and not self._is_new(packet):
            return
        named = packet.properties.subscription_identifiers
        known = (self._by_identifier.get(each) for each in named)
        numbers = tuple(each for each in known if each in self._subscriptions and each is not None)
        events.append(Arrived(packet, numbers if named else self._matching(packet.topic)))

    def _is_new(self, packet: Publish) -> bool:
        """Acknowledge a message, or note it for `acknowledge`; returns False for a duplicate."""
        packet_id, known = packet.packet_id, self._unacknowledged.get(packet.packet_id)
        if packet.qos == 2:
            if packet_id in self._received:
                self._send_packet(Pubrec(packet_id))
                return False
            if packet.duplicate and known == 2:
                return False  # it was delivered, and its acknowledgement answers this one
        if self._is_held:
            self._unacknowledged[packet_id] = packet.qos
        elif packet.qos == 1:
            self._send_packet(Puback(packet_id))
        else:
            self._send_packet(Pubrec(packet_id))
            self._received.add(packet_id)
        return True

    def _matching(self, topic: str) -> tuple[int, ...]:
        """The subscriptions with a matching topic filter; all, if none matches by topic alone."""
        numbers = tuple(
            number
            for number, subscribe in self._subscriptions.items()
            if topic_matches(subscribe.requests[0].topic_filter, topic)
        )
        return numbers or tuple(self._subscriptions)

    def _complete_request(
        self, packet_id: int, code: ReasonCode, properties: Properties, events: list[Event]
    ) -> None:
        if packet_id not in self._under_way or packet_id in self._again:
            return  # an acknowledgement of the lost connection
        request = self._under_way.pop(packet_id)
        if code >= _FAILED and isinstance(request.packet, Subscribe):
            self._subscriptions.pop(request.number, None)
        events.append(Done(request.number, code, properties.reason_string or ""))
        self._pump()


def _said(code: ReasonCode, properties: Properties) -> str:
    words = code.name.lower().replace("_", " ")
    return f"{words}: {properties.reason_string}" if properties.reason_string else words
