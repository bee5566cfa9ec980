"""The largest input of one client, of each kind: packets at the limits that a broker sets.

Each has a name, whether its client is connected when it sends it, and the bytes of the packet, or
of a few that belong together. Each must take bounded time. `floods` are the smallest packets of
each kind, as many as one read of a socket brings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from shoal.attributes.json_texts import MAX_MENDED_BYTES
from shoal.matching.topics.filters import MAX_TOPIC_LEVELS
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.fields import write_string, write_variable
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import (
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
    WillFields,
)
from shoal.mqtt.codec.properties import MAX_USER_PROPERTIES, Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.limits import DEFAULT_LIMITS

# Room for the rest of a large packet.
PACKET_BYTES = DEFAULT_LIMITS.maximum_packet_size - 200
STRING_BYTES = 65_000
FILTER_BYTES = DEFAULT_LIMITS.maximum_filter_bytes
TOPIC_FILTERS = 500
TESTS = DEFAULT_LIMITS.maximum_filter_tests


# The bytes of one read.
READ_BYTES = 65_536


ODD = "a packet of type"


class Hostile(NamedTuple):
    name: str
    is_connected: bool
    said: tuple[Packet | bytes, ...]
    # The longest time of work after the last answer.
    lasts_s: float = 0.05
    # Whether it takes seconds in all, in slices.
    is_long: bool = False

    @property
    def is_read(self) -> bool:
        """Whether it passes the decoder, so that other brokers may be involved."""
        return not self.name.startswith(ODD)

    @property
    def packets(self) -> tuple[bytes, ...]:
        """The packets as sent; made on demand, since the collection of tests needs none."""
        return tuple(each if isinstance(each, bytes) else _encode(each) for each in self.said)


def hostile_inputs() -> Iterator[Hostile]:
    for name, connect in _connects():
        yield Hostile(f"CONNECT: {name}", False, (connect,))
    for name, packets in _requests():
        yield Hostile(name, True, packets)
    for name, properties, payload in _publications():
        publish = Publish("hostile", payload, 1, packet_id=1, properties=properties)
        yield Hostile(f"PUBLISH: {name}", True, (publish,))
    for packet in _every_kind():
        # Before CONNECT, and again from a connected client.
        yield Hostile(f"{type(packet).__name__}, by a stranger", False, (packet,))
    for name, data in _odd_bytes():
        yield Hostile(f"{name}, by a stranger", False, (data,))
        yield Hostile(name, True, (data,))
    for name, texts in _many_topic_filters():
        is_long = len(texts) > 30_000
        subscribe = b"\0\1\0" + b"".join(write_string(each) + b"\0" for each in texts)
        said = _raw(0x82, subscribe), _raw(0xA2, b"\0\1\0" + b"".join(map(write_string, texts)))
        yield Hostile(f"SUBSCRIBE and UNSUBSCRIBE: {name}", True, said, is_long=is_long)

    kept = [
        b"".join(_encode(_retained(number)) for number in range(first, first + 100))
        for first in range(0, 1_000, 100)
    ]
    subscribe = _encode(_subscribe(["kept/#"], dict(filters())["tests"]))
    yield Hostile("tests of retained messages", True, (*kept, subscribe), lasts_s=2)


def _many_topic_filters() -> Iterator[tuple[str, list[str]]]:
    """More than one slice handles, and the most expensive to read and to index."""
    yield "as many as there can be", ["a"] * (PACKET_BYTES // 5)
    yield "the same again and again", ["a"] * 10_000
    yield "another each", [f"{number:x}" for number in range(3_000)]
    yield "groups", [f"$share/g/{number:x}" for number in range(2_000)]
    yield "long ones", ["a" * STRING_BYTES] * (PACKET_BYTES // STRING_BYTES)
    for name, level in (("deep", "a/"), ("deep, with wildcards", "+/")):
        deep = level * (MAX_TOPIC_LEVELS - 2)
        yield name, [f"{number}/{deep}{number}" for number in range(300)]
    yield "the last is malformed", ["a"] * 10_000 + ["#/a"]


def _every_kind() -> Iterator[Packet]:
    """All packets of a client or a server, as long as possible, except CONNECT."""
    long = Properties(reason_string="x" * STRING_BYTES)
    yield Publish("a" * STRING_BYTES, bytes(PACKET_BYTES - STRING_BYTES), 2, packet_id=1)
    yield Subscribe(1, (SubscriptionRequest("a" * STRING_BYTES),))
    yield Unsubscribe(1, ("a" * STRING_BYTES,))
    yield Connack(ReasonCode.SUCCESS, properties=long)
    yield Suback(1, (ReasonCode.SUCCESS,) * (PACKET_BYTES - 10))
    yield Unsuback(1, (ReasonCode.SUCCESS,) * (PACKET_BYTES - 10))
    for kind in (Puback, Pubrec, Pubrel, Pubcomp):
        yield kind(1, ReasonCode.SUCCESS, long)
    yield Disconnect(ReasonCode.SUCCESS, long)
    method = Properties(authentication_method="x", authentication_data=bytes(STRING_BYTES))
    yield Auth(ReasonCode.CONTINUE_AUTHENTICATION, method)
    yield Pingreq()
    yield Pingresp()


def _odd_bytes() -> Iterator[tuple[str, bytes]]:
    """Bytes that are no packet, or none of this version."""
    yield f"{ODD} 0", _raw(0x00, bytes(PACKET_BYTES))
    for kind in range(1, 16):
        yield f"{ODD} {kind} full of zeroes", _raw(kind << 4, bytes(PACKET_BYTES))
        yield f"{ODD} {kind} with wrong flags", _raw(kind << 4 | 0x0F, b"\0\1\0")
        yield (
            f"{ODD} {kind} that claims 256 MB",
            bytes((kind << 4,)) + b"\xff\xff\xff\x7f",
        )
        yield f"{ODD} {kind}, its length without end", bytes((kind << 4,)) + b"\xff" * 8


def floods() -> Iterator[tuple[str, bytes]]:
    """The smallest packets of each kind, and the most expensive ones, by name."""
    one = Subscribe(1, (SubscriptionRequest("a"),))
    numbered = range(READ_BYTES // 8)
    kinds: dict[str, Iterable[Packet]] = {
        "PINGREQ": [Pingreq()],
        "PUBACK of nothing": [Puback(1)],
        "PUBREC of nothing": [Pubrec(1)],
        "PUBREL of nothing": [Pubrel(1)],
        "PUBCOMP of nothing": [Pubcomp(1)],
        "PUBLISH": [Publish("a", b"")],
        "PUBLISH, QoS 1": [Publish("a", b"", 1, packet_id=1)],
        "PUBLISH, retained": [Publish("a", b"x", 1, True, packet_id=1)],
        "PUBLISH, topics": [Publish(f"{number:x}", b"") for number in numbered],
        "SUBSCRIBE": [one],
        "SUBSCRIBE, topic filters": [
            Subscribe(1, (SubscriptionRequest(f"{number:x}/#"),)) for number in numbered
        ],
        "SUBSCRIBE, groups": [
            Subscribe(1, (SubscriptionRequest(f"$share/g/{number:x}"),)) for number in numbered
        ],
        "UNSUBSCRIBE": [Unsubscribe(1, ("a",))],
        "SUBSCRIBE and UNSUBSCRIBE": [one, Unsubscribe(1, ("a",))],
    }
    for name, packets in kinds.items():
        data = b"".join(map(_encode, packets))
        yield name, (data * (READ_BYTES // len(data) + 1))[:READ_BYTES]


def _retained(number: int) -> Publish:
    # The last tested attribute is missing.
    names = ((f"a{each}", "2") for each in range(FILTER_BYTES // 14 - 1))
    properties = Properties(user_properties=tuple(names) if number < 100 else ())
    return Publish(f"kept/{number}", b"x", 1, True, packet_id=number + 1, properties=properties)


def filters() -> Iterator[tuple[str, str]]:
    """Content filters at their limits, or beyond, by name."""
    size = FILTER_BYTES
    either = " AND ".join(f"(a{number} OR b{number})" for number in range(6))
    alike = "(" + " OR ".join(f"d{number}" for number in range(40)) + ")"
    yield "tests", " AND ".join(f"a{number}>1" for number in range(size // 14))
    yield "values", f"n IN ({','.join(['1'] * (size // 2 - 5))})"
    yield "texts", f"n IN ({','.join(['1'] * (size // 4 - 5))})"
    yield "parentheses", " AND ".join(["(" * 99 + "a" + ")" * 99] * (size // 204))
    yield "open parentheses", "(" * size
    yield "an error behind open parentheses", "(" * (size - 1) + "?"
    yield "NOT", " AND ".join(["NOT " * 98 + "a"] * (size // 400))
    yield "alternatives", either
    yield "alternatives and tests", either + "".join(f" AND c{n}" for n in range(size // 12))
    yield "alternatives alike", " AND ".join([alike] * (size // len(alike) - 1))
    yield "a normal form too large", " AND ".join([alike, alike.replace("d", "e")])
    yield "a string without end", "a = '" + "''" * (size // 2 - 3)
    yield "a pattern", "a LIKE '" + "%a" * (size // 2 - 10) + "'"
    yield "digits", "a = " + "1" * (size - 4)
    yield "more than may be", "a = 1 AND " * (STRING_BYTES // 10) + "b = 2"


def _queries() -> Iterator[tuple[str, str]]:
    size = FILTER_BYTES - 10
    yield "tests", "&".join(f"x{number}=1" for number in range(size // 8))
    yield "values", "x=" + ",".join("1" * (size // 2 - 2))
    yield "escapes", "x=" + "%41" * (size // 3 - 2)
    yield "a string without end", "x='" + "%41" * (size // 3 - 2)
    yield "more than may be", "x=" + "1," * (STRING_BYTES // 2) + "1"


def _connects() -> Iterator[tuple[str, Connect]]:
    long = "x" * STRING_BYTES
    yield "long names", Connect(long, username=long, password=long.encode())
    yield "a long will", Connect("w", will=WillFields("a/" * 100 + "a", long.encode(), 1, True))
    pairs = (("", ""),) * (PACKET_BYTES // 5)
    for name, few in (("user properties", pairs[:MAX_USER_PROPERTIES]), ("far too many", pairs)):
        yield name, Connect("u", properties=Properties(user_properties=few))
    for name, text in filters():
        advertised = (("$advertise", text),) * max(1, min(12, PACKET_BYTES // (len(text) + 20)))
        properties = Properties(user_properties=advertised)
        yield f"$advertise, {name}, again and again", Connect("a", properties=properties)
        properties = Properties(user_properties=advertised[:1])
        yield f"$advertise, {name}", Connect("a", properties=properties)


def _requests() -> Iterator[tuple[str, tuple[Packet, ...]]]:
    names = [f"a/{number}/+/{number}" for number in range(TOPIC_FILTERS)]
    for kind, texts in {
        "topic filters": names,
        "groups": [f"$share/g/{name}" for name in names],
        "deep topic filters": [f"{'+/' * 60}{number}" for number in range(TOPIC_FILTERS)],
    }.items():
        yield kind, (_subscribe(texts), Unsubscribe(2, tuple(texts)))
    for name, text in filters():
        yield f"SUBSCRIBE: $where, {name}", (_subscribe(["a"], text),)
        yield f"SUBSCRIBE: $where, {name}, 20 topic filters", (_subscribe(names[:20], text),)
        yield (
            f"SUBSCRIBE: $where, {name}, queries",
            (_subscribe([f"{each}?x={number}" for number, each in enumerate(names[:200])], text),),
        )
    for name, text in _queries():
        yield f"SUBSCRIBE: query, {name}", (_subscribe([f"a?{text}"]),)
        yield f"SUBSCRIBE: query in front, {name}", (_subscribe([f"$where/{text}/a"]),)
    each = f"x={'1,' * (FILTER_BYTES // TOPIC_FILTERS // 2)}1"
    yield "SUBSCRIBE: a query each", (_subscribe([f"{name}?{each}" for name in names]),)


def _publications() -> Iterator[tuple[str, Properties, bytes]]:
    json = Properties(content_type="application/json")
    yield "bytes", Properties(), bytes(PACKET_BYTES)
    named = tuple((f"{number}", "'1'") for number in range(MAX_USER_PROPERTIES))
    yield "user properties", Properties(user_properties=named), b""
    tiny = (("", ""),) * (PACKET_BYTES // 5)
    yield "more user properties than may be", Properties(user_properties=tiny), b""
    yield "JSON, nested", json, b"[" * PACKET_BYTES
    yield "JSON, objects", json, b'{"a":' * (PACKET_BYTES // 5)
    fields = ",".join(f'"{number:x}":{number}' for number in range(PACKET_BYTES // 16))
    yield "JSON, fields", json, f"{{{fields}}}".encode()
    yield "JSON, a number", json, b'{"a":' + b"9" * (PACKET_BYTES - 10) + b"}"
    numbers = ",".join(f'"{number:x}":{"9" * 300}' for number in range(PACKET_BYTES // 320))
    yield "JSON, large numbers", json, f"{{{numbers}}}".encode()
    inner = b"[" + b'{"":{}},' * (PACKET_BYTES // 8 - 10) + b"NaN]"
    yield "JSON, objects and what is no number", json, b'{"a":' + inner + b"}"
    yield "JSON, tokens", json, b'{"a":[' + b"n," * (MAX_MENDED_BYTES // 2 - 10) + b"n]}"
    wide = ",".join(f'"{number}":{{"a":{{"b":null}}}}' for number in range(PACKET_BYTES // 30))
    yield "JSON, inner fields", json, f"{{{wide}}}".encode()
    yield "JSON, escapes", json, b'{"a":"' + b"\\u00e9" * (PACKET_BYTES // 6 - 5) + b'"}'


def _subscribe(texts: list[str], where: str | None = None) -> Subscribe:
    properties = Properties(user_properties=(("$where", where),)) if where else Properties()
    return Subscribe(1, tuple(map(SubscriptionRequest, texts)), properties)


def _encode(packet: Packet) -> bytes:
    return encode(packet, MQTT_5)


def _raw(first: int, body: bytes) -> bytes:
    return bytes((first,)) + write_variable(len(body)) + body
