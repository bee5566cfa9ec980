"""MQTT 5 packets of the chaos clients, to bytes and back; independent of shoal's codec on purpose.

>>> stream = Stream()
>>> stream.feed(publish("a", b"1", qos=1, packet_id=7) + pingreq()[:1])[0].topic
'a'
>>> stream.feed(b"\\x00")
[Packet(kind=12, flags=0, packet_id=0, reason=0, topic='', payload=b'', properties={})]

Source: MQTT Version 5.0, sections 2 and 3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK = range(1, 10)
PINGREQ, PINGRESP, DISCONNECT = 12, 13, 14

REFUSED = 0x80
USE_ANOTHER_SERVER = 0x9C

CONTENT_TYPE, SESSION_EXPIRY, SERVER_REFERENCE, USER = 0x03, 0x11, 0x1C, 0x26
# How many bytes a property has (2.2.2.2); S, B, P, V: a string, bytes, two strings, a varint.
_TYPES: dict[int, int | str] = {
    **dict.fromkeys((0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A), 1),
    **dict.fromkeys((0x13, 0x21, 0x22, 0x23), 2),
    **dict.fromkeys((0x02, SESSION_EXPIRY, 0x18, 0x27), 4),
    **dict.fromkeys((CONTENT_TYPE, 0x08, 0x12, 0x15, 0x1A, SERVER_REFERENCE, 0x1F), "S"),
    **dict.fromkeys((0x09, 0x16), "B"),
    USER: "P",
    0x0B: "V",
}

Value = int | str | bytes | tuple[str, str]


class Packet(NamedTuple):
    """A packet from a broker; `flags` are those of the first byte, in a CONNACK those of its second
    byte.

    Of several reason codes and of repeated properties the last is kept.
    """

    kind: int
    flags: int
    packet_id: int = 0
    reason: int = 0
    topic: str = ""
    payload: bytes = b""
    properties: dict[int, Value] = {}

    @property
    def qos(self) -> int:
        return self.flags >> 1 & 3


class Stream:
    """Splits a stream of bytes into packets; ValueError for malformed ones."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[Packet]:
        self._data += data
        found = []
        while (packet := self._next()) is not None:
            found.append(packet)
        return found

    def _next(self) -> Packet | None:
        length = 0
        for place, byte in enumerate(self._data[1:5]):
            length |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                start = 2 + place
                break
        else:
            return None
        if len(self._data) < start + length:
            return None
        head, body = self._data[0], bytes(self._data[start : start + length])
        del self._data[: start + length]
        return _read(head >> 4, head & 15, body)


def _read(kind: int, flags: int, body: bytes) -> Packet:
    match kind:
        case 3:
            topic, at = _string(body, 0)
            packet_id = 0
            if flags & 6:
                packet_id, at = int.from_bytes(body[at : at + 2], "big"), at + 2
            properties, at = _properties(body, at)
            return Packet(kind, flags, packet_id, 0, topic, body[at:], properties)
        case 2:
            properties, _ = _properties(body, 2)
            return Packet(kind, body[0], 0, body[1], properties=properties)
        case 14:
            properties = _properties(body, 1)[0] if len(body) > 1 else {}
            return Packet(kind, flags, 0, body[0] if body else 0, properties=properties)
        case 9:
            return Packet(kind, flags, int.from_bytes(body[:2], "big"), body[-1])
        case 4 | 5 | 6 | 7:
            reason = body[2] if len(body) > 2 else 0
            return Packet(kind, flags, int.from_bytes(body[:2], "big"), reason)
        case 13 | 12:
            return Packet(kind, flags)
    raise ValueError(f"a broker sends no packet of kind {kind}")


def _properties(body: bytes, at: int) -> tuple[dict[int, Value], int]:
    length, at = _varint(body, at)
    end, found = at + length, {}
    while at < end:
        name = body[at]
        found[name], at = _value(_TYPES[name], body, at + 1)
    return found, end


def _value(kind: int | str, body: bytes, at: int) -> tuple[Value, int]:
    match kind:
        case "S":
            return _string(body, at)
        case "P":
            name, at = _string(body, at)
            value, at = _string(body, at)
            return (name, value), at
        case "V":
            return _varint(body, at)
        case "B":
            size = int.from_bytes(body[at : at + 2], "big")
            return body[at + 2 : at + 2 + size], at + 2 + size
    assert isinstance(kind, int)
    return int.from_bytes(body[at : at + kind], "big"), at + kind


def _string(body: bytes, at: int) -> tuple[str, int]:
    end = at + 2 + int.from_bytes(body[at : at + 2], "big")
    return body[at + 2 : end].decode(), end


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return value, at


# --- packets of clients -----------------------------------------------------------------------


def connect(
    client: str, *, clean_start: bool, expiry_s: int, user: Iterable[tuple[str, str]] = ()
) -> bytes:
    properties = bytes([SESSION_EXPIRY]) + expiry_s.to_bytes(4, "big") + _user(user)
    body = _text("MQTT") + bytes([5, 2 * clean_start, 0, 0]) + _counted(properties)
    return _packet(CONNECT, 0, body + _text(client))


def publish(
    topic: str, payload: bytes, *, qos: int, packet_id: int = 0, again: bool = False
) -> bytes:
    """A PUBLISH with a property that declares JSON, so that filters see the payload's fields."""
    number = packet_id.to_bytes(2, "big") if qos else b""
    properties = _counted(bytes([CONTENT_TYPE]) + _text("application/json"))
    return _packet(PUBLISH, 8 * again | 2 * qos, _text(topic) + number + properties + payload)


def answer(kind: int, packet_id: int) -> bytes:
    """A PUBACK, PUBREC, PUBREL or PUBCOMP."""
    return _packet(kind, 2 if kind == PUBREL else 0, packet_id.to_bytes(2, "big"))


def subscribe(
    packet_id: int, topic_filter: str, qos: int, user: Iterable[tuple[str, str]] = ()
) -> bytes:
    body = packet_id.to_bytes(2, "big") + _counted(_user(user)) + _text(topic_filter) + bytes([qos])
    return _packet(SUBSCRIBE, 2, body)


def pingreq() -> bytes:
    return _packet(PINGREQ, 0, b"")


def disconnect() -> bytes:
    return _packet(DISCONNECT, 0, b"")


def _packet(kind: int, flags: int, body: bytes) -> bytes:
    return bytes([kind << 4 | flags]) + _counted(body)


def _counted(body: bytes) -> bytes:
    """Prefix the length as a variable byte integer."""
    size, head = len(body), bytearray()
    while True:
        size, low = size >> 7, size & 0x7F
        head.append(low | 0x80 * bool(size))
        if not size:
            return bytes(head) + body


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def _user(pairs: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(bytes([USER]) + _text(name) + _text(value) for name, value in pairs)
