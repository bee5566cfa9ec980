"""Decodes MQTT packets from a stream of bytes, with one code for both versions.

A decoder without a version waits for a CONNECT and takes the version from it. The first violation
of the standard ends the decoding: `feed` returns the packets before it, and `failure` describes it.
PUBLISH, which is nearly all traffic, is read straight from the bytes; the topics seen last are
cached by their bytes, so that they are not checked again.

>>> decoder = Decoder()
>>> hello = bytes.fromhex("100e 0004 4d515454 05 02 003c 00 0001 61")
>>> decoder.feed(hello[:5])
[]
>>> connect, publication = decoder.feed(hello[5:] + bytes.fromhex("3006 0003 612f62 00"))
>>> connect.client_id, publication.topic, decoder.version, decoder.failure
('a', 'a/b', 5, None)

Source: MQTT Version 5.0, sections 1.5, 2.1 and 3.3.
"""

from __future__ import annotations

from shoal.ledger import remembered
from shoal.matching import TopicError, check_topic
from shoal.matching.topics.filters import TopicDepthError
from shoal.mqtt.codec.errors import MqttError, malformed, protocol_error
from shoal.mqtt.codec.fields import (
    MAX_VARIABLE,
    REMEMBERED_TOPIC_BYTES,
    REMEMBERED_TOPICS,
    FieldReader,
    read_name,
)
from shoal.mqtt.codec.packet_readers import (
    READERS,
    UnsupportedVersionError,
    is_3_1,
    read_connect,
    read_connect_version,
)
from shoal.mqtt.codec.packet_types import MQTT_5, RESERVED_FLAGS, PacketType
from shoal.mqtt.codec.packets import Packet, Puback, Publish
from shoal.mqtt.codec.properties import NO_PROPERTIES, read_publish_properties
from shoal.mqtt.codec.reason_codes import ReasonCode

# The largest packet that a remaining length of four bytes can state, with its fixed header.
MAX_PACKET_BYTES = MAX_VARIABLE + 5

# The bytes of a payload that do not count towards `most`: copying them takes no time. A larger
# payload counts, since it is written to hundreds of subscribers.
FREE_BYTES = 256
# The cost of one packet beside its bytes: a PINGREQ has two bytes, and thousands come at once.
SMALL_BYTES = 14

# The bytes of a larger PUBLISH are not kept beside its fields.
MAX_WRITTEN_BYTES = 4_096

_PUBLISH = int(PacketType.PUBLISH) << 4
_PUBACK = int(PacketType.PUBACK) << 4
# QoS, retain and DUP, by the flags of a PUBLISH.
_FLAGS = tuple((flags >> 1 & 3, flags & 1 == 1, flags & 8 == 8) for flags in range(16))
# The packets of clients; without AUTH, as the broker offers no extended authentication.
_FROM_CLIENTS = frozenset(
    (
        PacketType.CONNECT, PacketType.PUBLISH, PacketType.PUBACK, PacketType.PUBREC,
        PacketType.PUBREL, PacketType.PUBCOMP, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE,
        PacketType.PINGREQ, PacketType.DISCONNECT,
    )
)  # fmt: skip


class Decoder:
    """Decodes one direction of one connection.

    `version` is None until a CONNECT states it; a reader of a server's packets passes it. A packet
    larger than `maximum_packet_size` fails as soon as its length is known, a packet that only a
    server sends as soon as it begins. Of the topic filters of a request only the first are read
    (see `requests`).
    """

    __slots__ = (
        "_begun",
        "_is_server",
        "_needed",
        "failure",
        "maximum_packet_size",
        "unread",
        "version",
    )

    def __init__(
        self,
        version: int | None = None,
        maximum_packet_size: int = MAX_PACKET_BYTES,
    ) -> None:
        self.version = version
        self._is_server = version is None
        self.maximum_packet_size = maximum_packet_size
        self.failure: MqttError | None = None
        self.unread = 0
        # The beginning of an incomplete packet, and its full length.
        self._begun: bytes | bytearray = b""
        self._needed = 0

    @property
    def unfinished(self) -> int:
        """The number of bytes of an incomplete packet."""
        return len(self._begun)

    def drop_unfinished(self) -> None:
        """Drop the incomplete packet and the unread bytes."""
        self._begun, self.unread = b"", 0

    def feed(self, data: bytes, most: int = MAX_PACKET_BYTES) -> list[Packet]:
        """The packets that are complete.

        No packet begins behind `most` bytes of them; FREE_BYTES of each payload do not count, and
        each other packet counts SMALL_BYTES more. The caller feeds the last `unread` bytes again.
        """
        packets: list[Packet] = []
        self.unread = 0
        if self.failure is not None:
            return packets
        if self._begun:
            self._begun += data
            if len(self._begun) < self._needed:
                return packets
            most += len(self._begun) - len(data)
            data, self._begun = bytes(self._begun), b""
        try:
            self._read_all(data, packets, most)
        except MqttError as error:
            self.failure = error
        return packets

    def _read_all(self, data: bytes, packets: list[Packet], most: int) -> None:
        position, body, end, version = 0, 2, len(data), self.version
        maximum, append = self.maximum_packet_size, packets.append
        while body <= end:
            if position >= most:
                self.unread = end - position
                return
            first, length = data[position], data[position + 1]
            if length > 127:
                if body < end and 0 < data[body] < 128:  # two bytes: most that are not one
                    length = length & 127 | data[body] << 7
                    body += 1
                else:
                    self._check_kind(first)
                    length, body = _long_length(data, position + 1, end, version)
                    if not body:
                        break
            stop = body + length
            if stop - position > maximum:
                self._check_kind(first)
                raise MqttError(
                    ReasonCode.PACKET_TOO_LARGE,
                    f"a packet of {stop - position} bytes; at most {maximum} are accepted",
                )
            if stop > end:
                self._keep_begun(data[position:], stop - position)
                return
            if first & 0xF0 == _PUBLISH and version is not None:
                packet = _read_publish(first & 15, data, body, stop, version)
                most += min(len(packet.payload), FREE_BYTES)
                append(packet)
            elif (
                first == _PUBACK
                and length == 2
                and version is not None
                and (packet_id := data[body] << 8 | data[body + 1])
            ):
                append(Puback(packet_id))
            else:
                append(self._read_packet(first, data, position, body, stop))
                most -= SMALL_BYTES
                version = self.version
            position, body = stop, stop + 2
        if position < end:
            self._keep_begun(data[position:], 0)

    def _check_kind(self, first: int) -> PacketType:
        """The type of a packet by its first byte; MqttError if such a packet is not allowed."""
        kind = first >> 4
        if kind == 0:
            raise protocol_error("packet type 0 is forbidden")
        packet_type = PacketType(kind)
        if not self._is_server:
            return packet_type
        if self.version is None and packet_type is not PacketType.CONNECT:
            raise protocol_error(f"{packet_type.name} before CONNECT [MQTT-3.1.0-1]")
        if packet_type is PacketType.AUTH:
            raise protocol_error("AUTH, but CONNECT named no authentication method [MQTT-4.12.0-6]")
        if packet_type not in _FROM_CLIENTS:
            raise protocol_error(f"only a server sends {packet_type.name}")
        return packet_type

    def _keep_begun(self, rest: bytes, needed: int) -> None:
        self._check_kind(rest[0])
        self._begun = bytearray(rest)
        self._needed = needed

    def _read_packet(self, first: int, data: bytes, start: int, body: int, stop: int) -> Packet:
        """Read any packet outside the fast path, also a PUBLISH before the version is known."""
        packet_type = self._check_kind(first)
        # 3.1 gives these flags of a CONNECT no meaning, and its clients set them.
        is_old = packet_type is PacketType.CONNECT and is_3_1(data, body)
        if first & 15 != RESERVED_FLAGS[packet_type] and not is_old:
            raise malformed(f"{packet_type.name}: the reserved flags are wrong [MQTT-2.1.3-1]")
        reader = FieldReader(data, packet_type.name, body, stop)
        if packet_type is PacketType.CONNECT:
            if self.version is not None:
                raise protocol_error("a second CONNECT [MQTT-3.1.0-2]")
            try:
                self.version, is_bridge = read_connect_version(reader)
            except UnsupportedVersionError as error:
                self.version = error.version
                raise
            if self.version == MQTT_5 and body - start > 2:
                _check_shortest(data[body - 1])
            packet: Packet = read_connect(
                reader, self.version, is_lenient=is_old, is_bridge=is_bridge
            )
        else:
            assert self.version is not None
            packet = READERS[packet_type](reader, self.version)
        return packet


def decode_publish(data: bytes, position: int, version: int) -> Publish:
    """The one PUBLISH from `position` to the end of these bytes; MqttError for anything else."""
    end = len(data)
    if position + 2 > end or data[position] & 0xF0 != _PUBLISH:
        raise malformed("no PUBLISH")
    length, body = data[position + 1], position + 2
    if length > 127:
        if body < end and 0 < data[body] < 128:
            length = length & 127 | data[body] << 7
            body += 1
        else:
            length, body = _long_length(data, position + 1, end, version)
    if not body or body + length != end:
        raise malformed("more or less than one PUBLISH")
    return _read_publish(data[position] & 15, data, body, end, version)


def _long_length(data: bytes, position: int, end: int, version: int | None) -> tuple[int, int]:
    """A remaining length of several bytes, and the start of the body; 0 if bytes are missing."""
    value = 0
    for shift in (0, 7, 14, 21):
        if position >= end:
            return 0, 0
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if version == MQTT_5:
                _check_shortest(byte)
            return value, position
    raise malformed("the remaining length is longer than four bytes")


def _check_shortest(last: int) -> None:
    """Refuse a longer form than needed in 5.0; 3.1.1 allows it, and small devices use it."""
    if not last:
        raise malformed("the remaining length is written longer than needed [MQTT-1.5.5-1]")


def _read_publish(flags: int, data: bytes, position: int, stop: int, version: int) -> Publish:
    size, start = stop - position, position + 2
    if start > stop:
        raise malformed("PUBLISH ends within its topic")
    position = start + (data[position] << 8 | data[position + 1])
    if position > stop:
        raise malformed("PUBLISH ends within its topic")
    read_topic = _known_topic if position - start <= REMEMBERED_TOPIC_BYTES else _read_topic
    topic = read_topic(data[start - 2 : position])
    qos, retain, duplicate = _FLAGS[flags]
    packet_id = 0
    if qos:
        if qos == 3:
            raise malformed("PUBLISH: the QoS is 3 [MQTT-3.3.1-4]")
        if position + 2 > stop:
            raise malformed("PUBLISH ends within its packet identifier")
        packet_id = data[position] << 8 | data[position + 1]
        if not packet_id:
            raise protocol_error("PUBLISH: the packet identifier is 0 [MQTT-2.2.1-3]")
        position += 2
    elif duplicate:
        raise malformed("PUBLISH: DUP is set at QoS 0 [MQTT-3.3.1-2]")
    properties, written = NO_PROPERTIES, None
    if version == MQTT_5:
        if position < stop and not data[position]:
            position += 1
        else:
            if stop - position <= MAX_WRITTEN_BYTES:
                written = data[position:stop]
            properties, position = read_publish_properties(data, position, stop)
    if not topic and properties.topic_alias is None:
        raise protocol_error("PUBLISH with neither topic nor topic alias")
    payload = data[position:stop]
    return Publish(topic, payload, qos, retain, duplicate, packet_id, properties, written, size)


def _read_topic(data: bytes) -> str:
    """Read a topic with its length; an empty one is allowed, as a topic alias may replace it."""
    topic, _ = read_name(data, 0, len(data), "topic")
    if topic:
        try:
            check_topic(topic)
        except TopicDepthError:
            pass  # a limit of the broker: `Incoming` refuses the publication alone
        except TopicError as error:
            raise malformed(f"PUBLISH: {error}") from None
    return topic


_known_topic = remembered("topics read", most=REMEMBERED_TOPICS, bytes_each=400)(_read_topic)
