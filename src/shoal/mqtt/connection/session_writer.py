"""The session writer: packets to one client as bytes, gathered until the driver takes them.

It keeps the client's limits: its maximum packet size, its topic aliases, and reason strings only if
the client wants them. Receivers with the same form of a publication share its bytes, unless a topic
alias makes them this client's own.

Source: MQTT Version 5.0, sections 3.1.2.11 and 3.3.2.3.4.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.mqtt.codec.decoder import MAX_PACKET_BYTES
from shoal.mqtt.codec.encoder import (
    encode,
    encode_acknowledgement,
    encode_publish_halves,
    with_duplicate_flag,
)
from shoal.mqtt.codec.packet_types import MQTT_5, PacketType
from shoal.mqtt.codec.packets import (
    Acknowledgement,
    Connack,
    Disconnect,
    Pubrel,
    Suback,
    Unsuback,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import (
    ALLOWED_REASON_CODES,
    CONNECT_RETURN_CODES,
    ReasonCode,
)
from shoal.mqtt.connection.connecting import ConnectionTerms
from shoal.mqtt.messages import Halves, PublishedMessage
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection, Outgoing

# The bytes gathered for one client until the driver takes them: the rest waits in the session, so
# that a subscription to a million retained messages is not written in one piece.
MAX_GATHERED_BYTES = 1_048_576
# Longer topics get no alias: 64 of them would take 4 MB per client.
MOST_ALIASED = 4_096

_PUBREL = 0x62
# The longest reason string; MQTT strings end at 65,535 bytes.
MAX_REASON_CHARACTERS = 1_024
# Packets with a reason string that can be left out.
Answer = Connack | Acknowledgement | Suback | Unsuback | Disconnect


class SessionWriter:
    """The session writer of one connection.

    It adds its connection to `touched` when there is something to take, once. `writable` is False
    while the driver has too much to write (`is_paused`), or has not taken the gathered bytes: new
    publications then wait in the session.
    """

    __slots__ = (
        "_alias_maximum",
        "_aliases",
        "_gathered_bytes",
        "_is_touched",
        "_maximum_packet_size",
        "_touched",
        "_wants_more",
        "_with_reasons",
        "chunks",
        "connection",
        "is_paused",
        "version",
        "window",
        "writable",
    )

    def __init__(self, connection: ClientConnection, touched: list[Any]) -> None:
        self.version = MQTT_5
        self.window = 1
        self.writable = True
        self.is_paused = False
        self.chunks: list[bytes] = []
        self.connection = connection
        self._touched = touched
        self._is_touched = False
        self._gathered_bytes = 0
        self._wants_more = False
        self._maximum_packet_size = MAX_PACKET_BYTES
        self._with_reasons = True
        # None until the first alias.
        self._aliases: dict[str, int] | None = None
        self._alias_maximum = 0

    def agree(self, version: int, terms: ConnectionTerms) -> None:
        """Install the terms of the connection."""
        self.version = version
        self.window = terms.window
        self._maximum_packet_size = terms.maximum_packet_size
        self._alias_maximum = terms.topic_aliases
        self._with_reasons = terms.with_reasons

    def touch(self) -> None:
        """Mark this connection for the driver."""
        if not self._is_touched:
            self._is_touched = True
            self._touched.append(self.connection)

    def pause(self, is_paused: bool) -> None:
        """Suspend or resume: the driver has too much to write, or not any more."""
        self.is_paused = is_paused
        self.writable = not is_paused

    @property
    def has_more(self) -> bool:
        """Whether the session is to be pumped again after the driver takes the gathered bytes."""
        return self._wants_more or self._gathered_bytes > MAX_GATHERED_BYTES

    def pump_again(self) -> None:
        """Have the session pumped again after a time slice of other inputs."""
        self._wants_more = True
        self.touch()

    def take(self) -> bytes:
        """All gathered bytes, in one piece."""
        self._is_touched = self._wants_more = False
        self._gathered_bytes = 0
        self.writable = not self.is_paused
        chunks = self.chunks
        if not chunks:
            return b""
        self.chunks = []
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def send(self, data: bytes) -> None:
        """Send bytes of packets that are within every client's limits."""
        if not self._is_touched:
            self._is_touched = True
            self._touched.append(self.connection)
        self.chunks.append(data)
        self._gathered_bytes += len(data)
        if self._gathered_bytes > MAX_GATHERED_BYTES:
            self.writable = False

    def send_answer(self, packet: Answer) -> bool:
        """Send a packet, without its reason string if the client does not accept it.

        False if it is too large for the client even so, and is not sent.
        """
        always = type(packet) is Connack or type(packet) is Disconnect
        if not (self._with_reasons or always):
            packet = _unexplained(packet)
        data = encode(_shortened(packet), self.version)
        if len(data) > self._maximum_packet_size:
            data = encode(_unexplained(packet), self.version)
        if len(data) > self._maximum_packet_size:
            return False
        self.send(data)
        return True

    def send_disconnect(
        self, reason_code: ReasonCode, reason: str, server_reference: str | None
    ) -> None:
        """Send the DISCONNECT that ends a connection; a server of 3.1.1 sends none."""
        if self.version == MQTT_5:
            properties = Properties(reason_string=reason, server_reference=server_reference)
            self.send_answer(Disconnect(reason_code, properties))

    def refuse(
        self, version: int, reason_code: ReasonCode, reason: str, server_reference: str | None
    ) -> None:
        """Send the CONNACK that refuses a connection [MQTT-3.1.4-1, MQTT-3.1.4-2]."""
        self.version = version
        if version == MQTT_5:
            if reason_code not in ALLOWED_REASON_CODES[PacketType.CONNACK]:
                reason_code = ReasonCode.SERVER_UNAVAILABLE
            properties = Properties(reason_string=reason, server_reference=server_reference)
            self.send_answer(Connack(reason_code, properties=properties))
        elif reason_code in CONNECT_RETURN_CODES:
            self.send_answer(Connack(reason_code))

    # --- publications -------------------------------------------------------------------------

    def send_now(
        self, message: PublishedMessage, retain: bool, identifiers: tuple[int, ...], now_us: int
    ) -> None:
        """Send at QoS 0; a message too large for the client counts as sent [MQTT-3.1.2-25]."""
        if self._alias_maximum:
            before, after = self._with_alias(message, 0, retain, identifiers, now_us)
            before += after
        else:
            before, _ = message.halves(self.version, 0, retain, identifiers, now_us)
        if len(before) <= self._maximum_packet_size:
            self.send(before)

    def send_many(self, written: list[bytes], numbers: list[int]) -> bool:
        """Send publications of QoS 0 by their positions in a list.

        False, and nothing is sent, if each must be checked: with aliases, above the client's
        maximum packet size, or too many for now.
        """
        chunks = [written[number] for number in numbers]
        gathered_bytes = self._gathered_bytes + sum(map(len, chunks))
        if self._alias_maximum or gathered_bytes > MAX_GATHERED_BYTES:
            return False
        # Most clients accept packets of any size.
        most = self._maximum_packet_size
        if most < MAX_GATHERED_BYTES and max(map(len, chunks)) > most:
            return False
        self.touch()
        self.chunks += chunks
        self._gathered_bytes = gathered_bytes
        return True

    def send_outgoing(self, outgoing: Outgoing, now_us: int, duplicate: bool) -> bool:
        """Send above QoS 0; False if it is too large for the client, and so counts as done."""
        message, qos = outgoing.message, outgoing.qos
        if self._alias_maximum:
            before, after = self._with_alias(
                message, qos, outgoing.retain, outgoing.identifiers, now_us
            )
        else:
            before, after = message.halves(
                self.version, qos, outgoing.retain, outgoing.identifiers, now_us
            )
        if len(before) + len(after) + 2 > self._maximum_packet_size:
            return False
        if duplicate:
            before = with_duplicate_flag(before)
        self.send(before + outgoing.packet_id.to_bytes(2, "big") + after)
        return True

    def send_release(self, packet_id: int, reason_code: ReasonCode) -> None:
        """Send a PUBREL."""
        if reason_code is ReasonCode.SUCCESS:
            self.send(encode_acknowledgement(_PUBREL, packet_id))
        else:
            self.send_answer(Pubrel(packet_id, reason_code))

    def _with_alias(
        self,
        message: PublishedMessage,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        now_us: int,
    ) -> Halves:
        """The bytes with a topic alias, which replaces a topic that the client knows.

        The first topics of a connection get an alias each and keep it; later topics get none.
        """
        if self._aliases is None:
            self._aliases = {}
        topic, alias = message.topic, self._aliases.get(message.topic)
        if alias is not None:
            topic = ""
        elif len(self._aliases) < self._alias_maximum and len(topic) <= MOST_ALIASED:
            alias = len(self._aliases) + 1
        else:
            return message.halves(self.version, qos, retain, identifiers, now_us)
        properties = message.properties_for(identifiers, now_us, alias)
        before, after = encode_publish_halves(
            topic, message.payload, self.version, qos, retain, properties=properties
        )
        if len(before) + len(after) + 2 > self._maximum_packet_size:
            return before, after
        self._aliases[message.topic] = alias
        return before, after


def _shortened(packet: Answer) -> Answer:
    reason = packet.properties.reason_string
    if reason is None or (len(reason) <= MAX_REASON_CHARACTERS and reason.isprintable()):
        return packet
    # One line: some clients take a line break for a malformed packet.
    reason = "".join(each if each.isprintable() else " " for each in reason[:MAX_REASON_CHARACTERS])
    if len(reason) == MAX_REASON_CHARACTERS:
        reason = reason[:-1] + "…"
    properties = msgspec.structs.replace(packet.properties, reason_string=reason)
    return msgspec.structs.replace(packet, properties=properties)


def _unexplained(packet: Answer) -> Answer:
    properties = msgspec.structs.replace(packet.properties, reason_string=None, user_properties=())
    return msgspec.structs.replace(packet, properties=properties)
