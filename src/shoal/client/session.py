"""A client's side of MQTT, sans-IO: what is under way, what is subscribed, what to say next.

It outlives its connections: what was published and not acknowledged is sent again, what was
subscribed is subscribed again when the broker has forgotten it, and nothing that QoS 1 or 2
promises is lost or, at QoS 2, doubled.  It speaks 5 or 3.1.1, which has no words for filters on
content, nor for why something is refused.

| connection | what is published | what comes |
| --- | --- | --- |
| down | waits | - |
| connecting (CONNECT is out) | waits | CONNACK → up, or refused |
| up | is sent as the broker's receive maximum allows | is handed out and acknowledged |

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
    Elsewhere,
    Event,
    RefusedError,
    SessionError,
    TakenOverError,
)
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
from shoal.mqtt.content import WHERE

# Packet identifiers are numbers of two bytes, 0 is none.
_LAST_ID = 65_535
_FAILED = 0x80
# Whoever is refused so may be let in a while later.
_PASSING = (
    ReasonCode.SERVER_UNAVAILABLE,
    ReasonCode.SERVER_BUSY,
    ReasonCode.QUOTA_EXCEEDED,
    ReasonCode.CONNECTION_RATE_EXCEEDED,
)
# How an answer of 3.1.1 to a CONNECT begins: one of 5 is longer.
_OLD_CONNACK = b"\x20\x02"
_GO_ELSEWHERE = (ReasonCode.USE_ANOTHER_SERVER, ReasonCode.SERVER_MOVED)


class State(enum.Enum):
    DOWN = "down"
    CONNECTING = "connecting"
    UP = "up"


class _Request(msgspec.Struct):
    """A PUBLISH above QoS 0, a SUBSCRIBE or an UNSUBSCRIBE on its way; `number` is ours."""

    number: int
    packet: Publish | Subscribe | Unsubscribe
    is_released: bool = False


class ClientSession:
    """One client; `connect` is what it says of itself, with its session expiry."""

    def __init__(
        self,
        connect: Connect,
        *,
        is_held: bool = False,
        maximum_packet_size: int = MAX_PACKET_BYTES,
    ) -> None:
        """`is_held`: what arrives at QoS 1 and 2 is acknowledged by `acknowledge`, else at once.

        ValueError for a CONNECT that cannot be written.
        """
        encode(connect, connect.version)
        self.state = State.DOWN
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
        # The largest packet that the broker takes.
        self._most_bytes = MAX_PACKET_BYTES
        self._too_large: list[Done] = []
        self._waiting: deque[_Request] = deque()
        self._under_way: dict[int, _Request] = {}  # by packet identifier, oldest first
        self._again: deque[int] = deque()  # of these to be sent again, when there is room
        self._received: set[int] = set()  # identifiers at QoS 2 that are not released
        # The QoS of messages that were handed out and wait for `acknowledge`, by identifier.
        self._unacknowledged: dict[int, int] = {}
        self._subscriptions: dict[int, Subscribe] = {}
        # What brokers call subscriptions, to which these are.
        self._by_identifier: dict[int, int] = {}

    # --- the application's side ---------------------------------------------------------------

    def publish(self, packet: Publish) -> int | None:
        """Publish; the number that `Done` will name, None at QoS 0: then it is sent or never.

        ValueError for what cannot be written; what is too large for the broker fails, at QoS 0 too.
        """
        if packet.qos:
            return self._ask(packet)
        data = encode(packet, self.version)
        if self.state is State.UP:
            if len(data) > self._most_bytes:
                return self._ask(packet)
            self._out.append(data)
        return None

    def subscribe(
        self, request: SubscriptionRequest, where: str | None, identifier: int | None = None
    ) -> int:
        """Subscribe; the number that `Done` and `Arrived` will name.

        `identifier` is what the broker is to call it, in a session that outlives this one.
        ValueError for what cannot be written.
        """
        number = self._numbers + 1
        named = number if identifier is None else identifier
        self._by_identifier[named] = number
        properties = Properties(
            subscription_identifiers=(named,) if self._knows_numbers else (),
            user_properties=() if where is None else ((WHERE, where),),
        )
        packet = Subscribe(0, (request,), properties)
        encode(packet, self.version)
        self._subscriptions[number] = packet
        return self._ask(packet)

    def unsubscribe(self, subscription: int) -> int | None:
        """Take a subscription back; the number that `Done` will name, None when it is not there."""
        packet = self._subscriptions.pop(subscription, None)
        if packet is None:
            return None
        return self._ask(Unsubscribe(0, (packet.requests[0].topic_filter,)))

    def take_too_large(self) -> list[Done]:
        """Requests that this broker takes none of; their senders are to be told."""
        done, self._too_large = self._too_large, []
        return done

    def acknowledge(self, packet_id: int) -> None:
        """What has arrived by this identifier need not come again.

        At QoS 1 it must have come over the present connection, at QoS 2 since the broker last
        knew nothing of the session.
        """
        qos = self._unacknowledged.pop(packet_id, 0)
        if qos == 2:
            self._received.add(packet_id)
        if qos and self.state is State.UP:
            self._send(Puback(packet_id) if qos == 1 else Pubrec(packet_id))

    def disconnect(self, *, is_kept: bool = False) -> None:
        """Say goodbye: the broker forgets the session, unless it is kept."""
        if self.state is State.UP:
            forget = Properties(session_expiry_interval_s=0)
            self._send(Disconnect() if is_kept else Disconnect(properties=forget))

    def ping(self) -> None:
        if self.state is State.UP:
            self._send(Pingreq())

    def stay(self) -> bool:
        """From the next connection on do not follow; whether that is news."""
        properties = self._connect.properties
        kept = tuple(each for each in properties.user_properties if each[0] != FOLLOW)
        if kept == properties.user_properties:
            return False
        properties = msgspec.structs.replace(properties, user_properties=kept)
        self._connect = msgspec.structs.replace(self._connect, properties=properties)
        return True

    # --- the connection's side ----------------------------------------------------------------

    def opened(self) -> None:
        """A connection is there: say hello."""
        self._decoder = Decoder(self.version, self._maximum_packet_size)
        self._out = [encode(self._connect, self.version)]
        self.state = State.CONNECTING

    def lost(self) -> None:
        """The connection is gone."""
        self.state = State.DOWN
        self._out = []
        # What came at QoS 1 comes again as another message.
        self._unacknowledged = {each: qos for each, qos in self._unacknowledged.items() if qos == 2}

    def to_write(self) -> bytes:
        """Bytes for the connection."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def receive(self, data: bytes) -> list[Event]:
        """Bytes of the connection; SessionError when it must end."""
        if self.state is State.CONNECTING:
            self._check_greeting(data)
        events: list[Event] = []
        for packet in self._decoder.feed(data):
            self._handle(packet, events)
        if self._decoder.failure is not None:
            raise SessionError(f"the broker breaks the protocol: {self._decoder.failure}")
        return events

    def _check_greeting(self, data: bytes) -> None:
        """Whether what answers a CONNECT is a broker of this version at all."""
        if data.startswith(b"HTTP/"):
            raise RefusedError("answers as a web server; use ws:// or wss://")
        if self.version == MQTT_5 and data.startswith(_OLD_CONNACK):
            raise RefusedError("speaks MQTT 3.1.1 only")

    # --- what goes out ------------------------------------------------------------------------

    def _send(self, packet: Packet) -> None:
        self._out.append(encode(packet, self.version))

    def _ask(self, packet: Publish | Subscribe | Unsubscribe) -> int:
        # What cannot be written must not wait to be: nothing behind it would be, either.
        size = len(encode(packet, self.version))
        self._numbers += 1
        request = _Request(self._numbers, packet)
        if self.state is State.UP and size > self._most_bytes:
            self._refuse(request, size)
        else:
            self._waiting.append(request)
            self._pump()
        return self._numbers

    def _refuse(self, request: _Request, size: int) -> None:
        """Do not send what the broker would hang up for, again and again."""
        if isinstance(request.packet, Subscribe):
            self._subscriptions.pop(request.number, None)
        reason = f"{size:,} bytes; the broker takes {self._most_bytes:,} at most"
        self._too_large.append(Done(request.number, ReasonCode.PACKET_TOO_LARGE, reason))

    def _refuse_too_large(self) -> None:
        """This broker may take less than the one before, or was not known yet."""
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            size = len(encode(request.packet, self.version))
            if size > self._most_bytes:
                self._refuse(request, size)
            else:
                self._waiting.append(request)
        for packet_id, request in tuple(self._under_way.items()):
            size = len(encode(request.packet, self.version))
            if size > self._most_bytes and not request.is_released:
                del self._under_way[packet_id]
                self._refuse(request, size)

    def _pump(self) -> None:
        while self.state is State.UP and len(self._under_way) - len(self._again) < self._window:
            if self._again:
                packet = self._under_way[self._again.popleft()].packet
                if isinstance(packet, Publish):
                    packet = msgspec.structs.replace(packet, duplicate=True)
                self._send(packet)
            elif self._waiting:
                request = self._waiting.popleft()
                packet_id = self._new_id()
                request.packet = msgspec.structs.replace(request.packet, packet_id=packet_id)
                self._under_way[packet_id] = request
                self._send(request.packet)
            else:
                break

    def _new_id(self) -> int:
        while True:
            self._last_id = self._last_id % _LAST_ID + 1
            if self._last_id not in self._under_way:
                return self._last_id

    # --- what comes in ------------------------------------------------------------------------

    def _handle(self, packet: Packet, events: list[Event]) -> None:
        if (self.state is State.CONNECTING) != isinstance(packet, Connack):
            raise SessionError(f"{type(packet).__name__} comes at the wrong time")
        match packet:
            case Connack():
                self._connected(packet, events)
            case Publish():
                self._arrived(packet, events)
            case Pubrel(packet_id):
                self._received.discard(packet_id)
                self._send(Pubcomp(packet_id))
            case Pubrec(packet_id, code) if code < _FAILED and packet_id in self._under_way:
                self._under_way[packet_id].is_released = True
                self._send(Pubrel(packet_id))
            case Pubcomp(packet_id, _, properties):  # the broker may have forgotten it by now
                self._done(packet_id, ReasonCode.SUCCESS, properties, events)
            case Puback() | Pubrec():
                self._done(packet.packet_id, packet.reason_code, packet.properties, events)
            case Suback() | Unsuback():
                codes = packet.reason_codes or (ReasonCode.SUCCESS,)
                self._done(packet.packet_id, codes[0], packet.properties, events)
            case Disconnect(code, properties):
                if code is ReasonCode.SESSION_TAKEN_OVER:
                    raise TakenOverError(f"another client connects as {self._connect.client_id!r}")
                if code not in _GO_ELSEWHERE:
                    raise SessionError(_said(code, properties))
                events.append(Elsewhere(properties.server_reference or ""))
            case Pingresp():
                pass
            case _:
                raise SessionError(f"{type(packet).__name__} is not for a client")

    def _connected(self, packet: Connack, events: list[Event]) -> None:
        properties, code = packet.properties, packet.reason_code
        if code in _GO_ELSEWHERE:
            events.append(Elsewhere(properties.server_reference or ""))
            return
        if code in _PASSING and not self._connect.clean_start:
            # It has been let in before, and what it has there is not given up for a while.
            raise SessionError(_said(code, properties))
        if code >= _FAILED:
            raise RefusedError(_said(code, properties))
        self.state = State.UP
        if properties.subscription_identifier_available == 0:
            self._knows_numbers = False
        client_id = properties.assigned_client_identifier or self._connect.client_id
        keep_alive_s = properties.server_keep_alive_s
        if keep_alive_s is None:
            keep_alive_s = self._connect.keep_alive_s
        self._connect = msgspec.structs.replace(
            self._connect,
            client_id=client_id,
            # In 3.1.1 a session that outlives its connection is one that nothing ends.
            clean_start=self.version == MQTT_3_1_1 and self._connect.clean_start,
        )
        self._window = properties.receive_maximum or _LAST_ID
        self._most_bytes = properties.maximum_packet_size or MAX_PACKET_BYTES
        self._refuse_too_large()
        events.extend(self.take_too_large())
        self._go_on(packet.session_present)
        events.append(Connected(client_id, keep_alive_s, packet.session_present))
        self._pump()

    def _go_on(self, session_present: bool) -> None:
        """Send again what was under way; with a broker that has forgotten, from the beginning."""
        requests = list(self._under_way.values())
        self._again.clear()
        if session_present:
            for packet_id, request in self._under_way.items():
                if request.is_released:
                    self._send(Pubrel(packet_id))
                else:
                    self._again.append(packet_id)
            return
        self._received.clear()
        self._unacknowledged.clear()
        self._under_way.clear()
        # What was released has arrived before the broker forgot it; the rest may have, at QoS 1.
        again = [request for request in requests if not request.is_released]
        asked = {request.number for request in (*again, *self._waiting)}
        missing = (row for row in self._subscriptions.items() if row[0] not in asked)
        self._waiting.extendleft(reversed(again))
        self._waiting.extendleft(_Request(number, packet) for number, packet in missing)

    def _arrived(self, packet: Publish, events: list[Event]) -> None:
        if packet.qos and not self._is_new(packet):
            return
        named = packet.properties.subscription_identifiers
        known = (self._by_identifier.get(each) for each in named)
        numbers = tuple(each for each in known if each in self._subscriptions and each is not None)
        events.append(Arrived(packet, numbers if named else self._matching(packet.topic)))

    def _is_new(self, packet: Publish) -> bool:
        """Acknowledge a message, or note that `acknowledge` will; whether it is no repeat."""
        packet_id, known = packet.packet_id, self._unacknowledged.get(packet.packet_id)
        if packet.qos == 2:
            if packet_id in self._received:
                self._send(Pubrec(packet_id))
                return False
            if packet.duplicate and known == 2:
                return False  # it was handed out, and its acknowledgement answers this one
        if self._is_held:
            self._unacknowledged[packet_id] = packet.qos
        elif packet.qos == 1:
            self._send(Puback(packet_id))
        else:
            self._send(Pubrec(packet_id))
            self._received.add(packet_id)
        return True

    def _matching(self, topic: str) -> tuple[int, ...]:
        """The subscriptions that ask for a topic; all, if it is more than topics they ask for."""
        numbers = tuple(
            number
            for number, subscribe in self._subscriptions.items()
            if topic_matches(subscribe.requests[0].topic_filter, topic)
        )
        return numbers or tuple(self._subscriptions)

    def _done(
        self, packet_id: int, code: ReasonCode, properties: Properties, events: list[Event]
    ) -> None:
        if packet_id not in self._under_way or packet_id in self._again:
            return  # acknowledged before the connection was lost
        request = self._under_way.pop(packet_id)
        if code >= _FAILED and isinstance(request.packet, Subscribe):
            self._subscriptions.pop(request.number, None)
        events.append(Done(request.number, code, properties.reason_string or ""))
        self._pump()


def _said(code: ReasonCode, properties: Properties) -> str:
    words = code.name.lower().replace("_", " ")
    return f"{words}: {properties.reason_string}" if properties.reason_string else words
