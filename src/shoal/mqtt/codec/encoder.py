"""Encodes MQTT packets, with one code for both versions.

`encode` writes any packet. A publication with many receivers is written in two halves, once for all
receivers with the same form; the packet identifier of each receiver stands between them.

>>> encode(Publish("a/b", b"hi"), MQTT_3_1_1).hex(" ")
'30 07 00 03 61 2f 62 68 69'
>>> before, after = encode_publish_halves("a/b", b"hi", MQTT_5, qos=1)
>>> packet = Publish("a/b", b"hi", 1, packet_id=7)
>>> before + (7).to_bytes(2, "big") + after == encode(packet, MQTT_5)
True

Source: MQTT Version 5.0 and 3.1.1, section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from shoal.ledger import remembered
from shoal.mqtt.codec.fields import (
    REMEMBERED_TOPIC_BYTES,
    REMEMBERED_TOPICS,
    write_binary,
    write_string,
    write_variable,
)
from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5, RESERVED_FLAGS, WILL, PacketType
from shoal.mqtt.codec.packets import (
    Acknowledgement,
    Auth,
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
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties, write_properties
from shoal.mqtt.codec.reason_codes import CONNECT_RETURN_CODES, FIRST_ERROR, ReasonCode

_PUBLISH = int(PacketType.PUBLISH) << 4
_DUPLICATE = 8


def encode(packet: Packet, version: int) -> bytes:
    """The packet's bytes; properties are left out in 3.1.1, which has none.

    ValueError for a packet that cannot be written: strings above 65,535 bytes or with U+0000, a
    packet above 256 MB, a packet or code that 3.1.1 does not have.
    """
    if type(packet) is Publish:
        before, after = encode_publish_halves(
            packet.topic,
            packet.payload,
            version,
            packet.qos,
            packet.retain,
            packet.duplicate,
            packet.properties,
        )
        if packet.qos:
            return before + packet.packet_id.to_bytes(2, "big") + after
        return before + after
    packet_type, write = _WRITERS[type(packet)]
    body = write(packet, version)
    return (
        bytes((packet_type << 4 | RESERVED_FLAGS[packet_type],)) + write_variable(len(body)) + body
    )


def encode_publish_halves(
    topic: str,
    payload: bytes,
    version: int,
    qos: int = 0,
    retain: bool = False,
    duplicate: bool = False,
    properties: Properties = NO_PROPERTIES,
    written: bytes | None = None,
) -> tuple[bytes, bytes]:
    """The bytes before and after the packet identifier, which exists above QoS 0.

    `written` are properties and payload as MQTT 5 writes them, if they are encoded already.
    """
    # The same few topics are written again and again; caching the longest takes too much memory.
    short = len(topic) <= REMEMBERED_TOPIC_BYTES
    name = _short_topic_bytes(topic) if short else write_string(topic)
    rest = payload
    if version == MQTT_5:
        if written:
            rest = written
        elif properties is NO_PROPERTIES:
            rest = b"\x00" + payload
        else:
            rest = write_properties(properties, PacketType.PUBLISH) + payload
    length = len(name) + len(rest) + (2 if qos else 0)
    first = _PUBLISH | qos << 1 | retain | (_DUPLICATE if duplicate else 0)
    return _head(first, length) + name, rest


def encode_publish_at_0(
    topic: str, payload: bytes, version: int, properties: Properties, written: bytes | None
) -> bytes:
    """A publication of QoS 0, not retained, in one piece (see `encode_publish_halves`)."""
    short = len(topic) <= REMEMBERED_TOPIC_BYTES
    name = _short_topic_bytes(topic) if short else write_string(topic)
    if version != MQTT_5:
        return _head(_PUBLISH, len(name) + len(payload)) + name + payload
    if written:
        return _head(_PUBLISH, len(name) + len(written)) + name + written
    said = write_properties(properties, PacketType.PUBLISH)
    return b"".join((_head(_PUBLISH, len(name) + len(said) + len(payload)), name, said, payload))


# Most publications have one of few lengths.
@lru_cache(1_024)
def _head(first: int, length: int) -> bytes:
    """The fixed header."""
    return bytes((first,)) + write_variable(length)


@remembered("topics written", most=REMEMBERED_TOPICS, bytes_each=400)
def _short_topic_bytes(topic: str) -> bytes:
    return write_string(topic)


def with_duplicate_flag(before: bytes) -> bytes:
    """The first half of a retransmitted publication."""
    return bytes((before[0] | _DUPLICATE,)) + before[1:]


def encode_acknowledgement(first: int, packet_id: int) -> bytes:
    """A PUBACK, PUBREC, PUBREL or PUBCOMP of success; `first` is its first byte."""
    return bytes((first, 2, packet_id >> 8, packet_id & 255))


def _connect(packet: Connect, version: int) -> bytes:
    will = packet.will
    flags = packet.clean_start << 1
    if will is not None:
        flags |= 4 | will.qos << 3 | will.retain << 5
    flags |= (packet.password is not None) << 6 | (packet.username is not None) << 7
    parts = [
        write_string("MQTT"),
        bytes((version | packet.is_bridge << 7, flags)),
        packet.keep_alive_s.to_bytes(2, "big"),
        _properties(packet.properties, version, PacketType.CONNECT),
        write_string(packet.client_id),
    ]
    if will is not None:
        parts += (
            _properties(will.properties, version, WILL),
            write_string(will.topic),
            write_binary(will.payload),
        )
    if packet.username is not None:
        parts.append(write_string(packet.username))
    if packet.password is not None:
        parts.append(write_binary(packet.password))
    return b"".join(parts)


def _connack(packet: Connack, version: int) -> bytes:
    code = packet.reason_code
    number = int(code) if version == MQTT_5 else CONNECT_RETURN_CODES.get(code)
    if number is None:
        raise ValueError(f"MQTT 3.1.1 has no CONNACK that says {code.name}")
    properties = _properties(packet.properties, version, PacketType.CONNACK)
    return bytes((packet.session_present, number)) + properties


def _acknowledgement(packet: Acknowledgement, version: int) -> bytes:
    packet_id = packet.packet_id.to_bytes(2, "big")
    if version == MQTT_3_1_1:
        return packet_id
    return packet_id + _code_and_properties(
        packet.reason_code, packet.properties, _WRITERS[type(packet)][0]
    )


def _subscribe(packet: Subscribe, version: int) -> bytes:
    parts = [
        packet.packet_id.to_bytes(2, "big"),
        _properties(packet.properties, version, PacketType.SUBSCRIBE),
    ]
    for request in packet.requests:
        parts += (write_string(request.topic_filter), bytes((_options(request, version),)))
    return b"".join(parts) + packet.unread


def _options(request: SubscriptionRequest, version: int) -> int:
    if version == MQTT_3_1_1:
        return request.qos
    return (
        request.qos
        | request.no_local << 2
        | request.retain_as_published << 3
        | request.retain_handling << 4
    )


def _suback(packet: Suback, version: int) -> bytes:
    codes = packet.reason_codes
    if version == MQTT_3_1_1:
        # 3.1.1 has one code for every failure [MQTT-3.9.3-2 of 3.1.1].
        codes = tuple(
            ReasonCode.UNSPECIFIED_ERROR if code >= FIRST_ERROR else code for code in codes
        )
    return (
        packet.packet_id.to_bytes(2, "big")
        + _properties(packet.properties, version, PacketType.SUBACK)
        + bytes(codes)
    )


def _unsubscribe(packet: Unsubscribe, version: int) -> bytes:
    return (
        packet.packet_id.to_bytes(2, "big")
        + _properties(packet.properties, version, PacketType.UNSUBSCRIBE)
        + b"".join(map(write_string, packet.topic_filters))
        + packet.unread
    )


def _unsuback(packet: Unsuback, version: int) -> bytes:
    packet_id = packet.packet_id.to_bytes(2, "big")
    if version == MQTT_3_1_1:
        return packet_id
    properties = write_properties(packet.properties, PacketType.UNSUBACK)
    return packet_id + properties + bytes(packet.reason_codes)


def _nothing(packet: Packet, version: int) -> bytes:
    return b""


def _disconnect(packet: Disconnect, version: int) -> bytes:
    if version == MQTT_3_1_1:
        return b""
    return _code_and_properties(packet.reason_code, packet.properties, PacketType.DISCONNECT)


def _auth(packet: Auth, version: int) -> bytes:
    if version == MQTT_3_1_1:
        raise ValueError("MQTT 3.1.1 has no AUTH")
    return _code_and_properties(packet.reason_code, packet.properties, PacketType.AUTH)


def _code_and_properties(
    code: ReasonCode, properties: Properties, packet_type: PacketType
) -> bytes:
    if properties != NO_PROPERTIES:
        return bytes((code,)) + write_properties(properties, packet_type)
    return bytes((code,)) if code else b""


def _properties(properties: Properties, version: int, place: int) -> bytes:
    return write_properties(properties, place) if version == MQTT_5 else b""


_WRITERS: dict[type, tuple[PacketType, Callable[[Any, int], bytes]]] = {
    Connect: (PacketType.CONNECT, _connect),
    Connack: (PacketType.CONNACK, _connack),
    Puback: (PacketType.PUBACK, _acknowledgement),
    Pubrec: (PacketType.PUBREC, _acknowledgement),
    Pubrel: (PacketType.PUBREL, _acknowledgement),
    Pubcomp: (PacketType.PUBCOMP, _acknowledgement),
    Subscribe: (PacketType.SUBSCRIBE, _subscribe),
    Suback: (PacketType.SUBACK, _suback),
    Unsubscribe: (PacketType.UNSUBSCRIBE, _unsubscribe),
    Unsuback: (PacketType.UNSUBACK, _unsuback),
    Pingreq: (PacketType.PINGREQ, _nothing),
    Pingresp: (PacketType.PINGRESP, _nothing),
    Disconnect: (PacketType.DISCONNECT, _disconnect),
    Auth: (PacketType.AUTH, _auth),
}
