"""The decoder: every division of the bytes into reads, and every malformed packet.

The malformed packets are in hexadecimal, with spaces between fields, and with the number of the
MQTT 5.0 statement that each breaks, if there is one.
"""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.mqtt.codec.decoder import (
    FREE_BYTES,
    MAX_PACKET_BYTES,
    MAX_WRITTEN_BYTES,
    REMEMBERED_TOPIC_BYTES,
    SMALL_BYTES,
    Decoder,
    decode_publish,
)
from shoal.mqtt.codec.encoder import encode, encode_publish_halves
from shoal.mqtt.codec.errors import MqttError
from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import (
    Auth,
    Connack,
    Connect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Pubrec,
    Suback,
    Unsuback,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from tests.examples import examples
from tests.mqtt.random_packets import connects, packets, publishes

VERSIONS = (MQTT_3_1_1, MQTT_5)
FROM_SERVERS = (Connack, Suback, Unsuback, Pingresp, Auth)
MALFORMED, PROTOCOL = ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR


@cache
def from_clients(version: int) -> st.SearchStrategy[Packet]:
    """Packets of clients; a server's decoder reads no others."""
    return packets(version).filter(lambda packet: not isinstance(packet, FROM_SERVERS))


@cache
def a_few_from_clients(version: int) -> st.SearchStrategy[list[Packet]]:
    return st.lists(from_clients(version), max_size=3)


def decode(data: bytes, version: int | None) -> list[Packet]:
    decoder = Decoder(version)
    found = decoder.feed(data)
    if decoder.failure is not None:
        raise decoder.failure
    return found


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_written_packets_read_back_equal(version: int, data: st.DataObject) -> None:
    sent = data.draw(st.lists(packets(version), max_size=4))
    assert decode(b"".join(encode(packet, version) for packet in sent), version) == sent


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_a_connect_teaches_the_version(version: int, data: st.DataObject) -> None:
    first, second = data.draw(connects(version)), data.draw(from_clients(version))
    decoder = Decoder()
    assert decoder.feed(encode(first, version) + encode(second, version)) == [first, second]
    assert decoder.version == version


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_pieces_make_no_difference(version: int, data: st.DataObject) -> None:
    sent = [data.draw(connects(version)), *data.draw(a_few_from_clients(version))]
    stream = b"".join(encode(packet, version) for packet in sent)
    one_by_one = Decoder()
    assert [p for byte in stream for p in one_by_one.feed(bytes((byte,)))] == sent
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    in_pieces = Decoder()
    ends = zip([0, *cuts], [*cuts, len(stream)], strict=True)
    assert [p for start, end in ends for p in in_pieces.feed(stream[start:end])] == sent


@pytest.mark.parametrize("version", [None, *VERSIONS])
@settings(max_examples=examples(80))
@given(data=st.data())
def test_garbage_is_only_ever_a_failure(version: int | None, data: st.DataObject) -> None:
    """Also random bytes behind a valid beginning, whole and byte by byte."""
    rest = data.draw(st.binary(max_size=40))
    first = data.draw(st.integers(0, 255))
    stream = bytes((first, len(rest))) + rest if data.draw(st.booleans()) else rest
    whole, split = Decoder(version), Decoder(version)
    found = whole.feed(stream)
    assert [p for byte in stream for p in split.feed(bytes((byte,)))] == found
    assert str(whole.failure) == str(split.failure)
    assert whole.failure is None or type(whole.failure).__base__ in (ValueError, MqttError)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_a_damaged_packet_is_only_ever_a_failure(version: int, data: st.DataObject) -> None:
    stream = bytearray(encode(data.draw(packets(version) | connects(version)), version))
    for _ in range(data.draw(st.integers(1, 3))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    for given_version in (None, version):
        Decoder(given_version).feed(bytes(stream))


def test_packets_before_a_failure_are_returned_and_none_after() -> None:
    good = encode(Publish("a", b"1"), MQTT_5)
    decoder = Decoder(MQTT_5)
    assert decoder.feed(good + bytes.fromhex("3600") + good) == [Publish("a", b"1")]
    assert decoder.failure is not None
    assert decoder.feed(good) == []


def test_a_large_packet_in_small_pieces_is_joined_once() -> None:
    sent = Publish("a", bytes(300_000), 1, packet_id=9)
    stream = encode(sent, MQTT_5)
    decoder = Decoder(MQTT_5)
    found = [
        p for at in range(0, len(stream), 1_000) for p in decoder.feed(stream[at : at + 1_000])
    ]
    assert found == [sent]


def test_a_packet_above_the_maximum_fails_with_its_header() -> None:
    """[MQTT-3.2.2-15] and section 4.13: before any of it is stored."""
    decoder = Decoder(MQTT_5, maximum_packet_size=100)
    assert decoder.feed(encode(Publish("a", bytes(94)), MQTT_5)[:100]) == [Publish("a", bytes(94))]
    assert decoder.feed(bytes.fromhex("30 63")) == []
    assert decoder.failure is not None
    assert decoder.failure.reason_code is ReasonCode.PACKET_TOO_LARGE
    assert MAX_PACKET_BYTES == 268_435_460


def test_long_topics_are_checked_each_time() -> None:
    topic = "a" * (REMEMBERED_TOPIC_BYTES + 1)
    assert decode(encode(Publish(topic), MQTT_5) * 2, MQTT_5) == [Publish(topic)] * 2


def test_a_byte_order_mark_is_a_character() -> None:
    """[MQTT-1.5.4-3]"""
    assert decode(bytes.fromhex("30 07 0004 efbbbf61 00"), MQTT_5) == [Publish("\ufeffa")]


def test_a_topic_alias_may_stand_for_the_topic() -> None:
    [packet] = decode(bytes.fromhex("30 06 0000 03 230005"), MQTT_5)
    assert packet == Publish("", properties=Properties(topic_alias=5))


def test_a_short_acknowledgement_means_success() -> None:
    """Sections 3.4.2.1 and 3.14.2.1."""
    stream = bytes.fromhex("40 02 0007  40 03 0007 00  40 04 0007 00 00")
    assert decode(stream, MQTT_5) == [Puback(7)] * 3


# Malformed in both versions: first byte and body, reason code, text.
BOTH = [
    ("00", PROTOCOL, "packet type 0"),
    ("34", MALFORMED, "an empty PUBLISH"),
    ("30 00", MALFORMED, "PUBLISH within its topic's length"),
    ("30 0003 61", MALFORMED, "PUBLISH within its topic"),
    ("36 0001 61 0001 00", MALFORMED, "[MQTT-3.3.1-4] QoS 3"),
    ("38 0001 61 00", MALFORMED, "[MQTT-3.3.1-2] DUP at QoS 0"),
    ("32 0001 61 0000 00", PROTOCOL, "[MQTT-2.2.1-3] packet identifier 0"),
    ("32 0001 61 00", MALFORMED, "PUBLISH within its packet identifier"),
    ("30 0003 61c080 00", MALFORMED, "[MQTT-1.5.4-1] not UTF-8"),
    ("30 0003 eda080 00", MALFORMED, "[MQTT-1.5.4-1] a surrogate"),
    ("30 0001 00 00", MALFORMED, "[MQTT-1.5.4-2] U+0000"),
    ("30 0002 612b 00", MALFORMED, "[MQTT-3.3.2-2] + in a topic"),
    ("30 0002 2f23 00", MALFORMED, "[MQTT-3.3.2-2] # in a topic"),
    ("41 0001", MALFORMED, "[MQTT-2.1.3-1] flags of PUBACK"),
    ("60 0001", MALFORMED, "[MQTT-3.6.1-1] flags of PUBREL"),
    ("80 0001 00 0001 61 00", MALFORMED, "[MQTT-3.8.1-1] flags of SUBSCRIBE"),
    ("a0 0001 00 0001 61", MALFORMED, "[MQTT-3.10.1-1] flags of UNSUBSCRIBE"),
    ("c1", MALFORMED, "[MQTT-2.1.3-1] flags of PINGREQ"),
    ("c0 00", MALFORMED, "PINGREQ with a body"),
    ("d0 00", MALFORMED, "PINGRESP with a body"),
    ("e1", MALFORMED, "[MQTT-3.14.1-1] flags of DISCONNECT"),
    ("40 0000", PROTOCOL, "PUBACK of identifier 0"),
    ("40 00", MALFORMED, "PUBACK within its identifier"),
    ("62 0000", PROTOCOL, "PUBREL of identifier 0"),
    ("82 00", MALFORMED, "SUBSCRIBE within its identifier"),
    ("20 0200", MALFORMED, "[MQTT-3.2.2-1] flags of CONNACK"),
    ("10 0000", PROTOCOL, "[MQTT-3.1.0-2] a second CONNECT"),
]

ONLY_5 = [
    ("30 0001 61", MALFORMED, "PUBLISH without property length"),
    ("30 0001 61 05", MALFORMED, "properties longer than the packet"),
    ("30 0001 61 8100", MALFORMED, "[MQTT-1.5.5-1] a property length longer than needed"),
    ("30 0001 61 02 0101 01", None, "a byte more is payload"),
    ("30 0001 61 04 01010101", PROTOCOL, "payload format indicator twice"),
    ("30 0001 61 02 0102", PROTOCOL, "payload format indicator 2"),
    ("30 0001 61 01 01", MALFORMED, "a property without value"),
    ("30 0001 61 02 7f00", MALFORMED, "an unknown property"),
    ("30 0001 61 05 1100000001", MALFORMED, "a property that PUBLISH cannot have"),
    ("30 0000 00", PROTOCOL, "neither topic nor topic alias"),
    ("30 0001 61 03 230000", ReasonCode.TOPIC_ALIAS_INVALID, "[MQTT-3.3.2-8] alias 0"),
    ("30 0001 61 06 230001230001", PROTOCOL, "topic alias twice"),
    ("30 0001 61 02 0b00", PROTOCOL, "subscription identifier 0"),
    ("30 0001 61 04 0800012b", PROTOCOL, "[MQTT-3.3.2-14] a response topic with a wildcard"),
    ("30 0001 61 05 0300 02ff61", MALFORMED, "a property that is not UTF-8"),
    ("30 0001 61 05 2600016100", MALFORMED, "half a user property"),
    ("40 0001 01", PROTOCOL, "[MQTT-3.4.2-1] a reason code that PUBACK cannot have"),
    ("40 0001 00 00 00", MALFORMED, "PUBACK with bytes too many"),
    ("40 0001 00 02 0101", MALFORMED, "a property that PUBACK cannot have"),
    ("62 0001 80", PROTOCOL, "[MQTT-3.6.2-1] a reason code that PUBREL cannot have"),
    ("82 0001 00", PROTOCOL, "[MQTT-3.8.3-2] SUBSCRIBE without topic filter"),
    ("82 0001 00 0001 61", MALFORMED, "SUBSCRIBE without options"),
    ("82 0000 00 0001 61 00", MALFORMED, "SUBSCRIBE of identifier 0"),
    ("82 0001 00 0001 61 40", MALFORMED, "[MQTT-3.8.3-5] reserved subscription options"),
    ("82 0001 00 0001 61 03", PROTOCOL, "maximum QoS 3"),
    ("82 0001 00 0001 61 30", PROTOCOL, "retain handling 3"),
    ("82 0001 02 0b00 0001 61 00", PROTOCOL, "subscription identifier 0"),
    ("82 0001 04 0b010b02 0001 61 00", PROTOCOL, "subscription identifier twice"),
    (
        "82 0001 00 000a 2473686172652f672f61 04",
        PROTOCOL,
        "[MQTT-3.8.3-4] no-local on a shared subscription",
    ),
    ("82 0001 00 0002 6100 00", MALFORMED, "U+0000 in a topic filter"),
    ("a2 0001 00", PROTOCOL, "[MQTT-3.10.3-2] UNSUBSCRIBE without topic filter"),
    ("e0 01", PROTOCOL, "[MQTT-3.14.2-1] a reason code that DISCONNECT cannot have"),
    ("e0 00 00 00", MALFORMED, "DISCONNECT with bytes too many"),
    ("e0 00 0a 11000000011100000001", PROTOCOL, "session expiry interval twice"),
    ("f0 17", PROTOCOL, "[MQTT-3.15.2-1] a reason code that AUTH cannot have"),
    ("f1", MALFORMED, "[MQTT-3.15.1-1] flags of AUTH"),
    ("20 00 01 00", PROTOCOL, "[MQTT-3.2.2-8] a reason code that CONNACK cannot have"),
    ("90 0001 00 55", PROTOCOL, "[MQTT-3.9.3-2] a reason code that SUBACK cannot have"),
    ("b0 0001 00 55", PROTOCOL, "[MQTT-3.11.3-2] a reason code that UNSUBACK cannot have"),
]

ONLY_3_1_1 = [
    ("30 0000", PROTOCOL, "[MQTT-4.7.3-1] an empty topic"),
    ("40 0001 00", MALFORMED, "PUBACK of three bytes"),
    ("82 0001", PROTOCOL, "[MQTT-3.8.3-3] SUBSCRIBE without topic filter"),
    ("82 0001 0001 61 03", MALFORMED, "[MQTT-3.8.3-4] QoS 3"),
    ("82 0001 0001 61 04", MALFORMED, "[MQTT-3.8.3-4] reserved bits of the QoS"),
    ("a2 0001", PROTOCOL, "[MQTT-3.10.3-2] UNSUBSCRIBE without topic filter"),
    ("b0 0001 00", MALFORMED, "UNSUBACK of three bytes"),
    ("e0 00", MALFORMED, "DISCONNECT with a body"),
    ("f0", MALFORMED, "packet type 15"),
    ("20 0006", PROTOCOL, "return code 6"),
]

CASES = [
    *((text, code, why, version) for text, code, why in BOTH for version in VERSIONS),
    *((text, code, why, MQTT_5) for text, code, why in ONLY_5),
    *((text, code, why, MQTT_3_1_1) for text, code, why in ONLY_3_1_1),
]


@pytest.mark.parametrize(
    ("text", "code", "why", "version"), CASES, ids=[f"{case[3]}-{case[2]}" for case in CASES]
)
def test_malformed_packets_fail_with_their_reason(
    text: str, code: ReasonCode | None, why: str, version: int
) -> None:
    first, *body = bytes.fromhex(text)
    decoder = Decoder(version)
    found = decoder.feed(bytes((first, len(body), *body)))
    assert (decoder.failure and decoder.failure.reason_code) == code, decoder.failure
    assert len(found) == (code is None)


@pytest.mark.parametrize(
    ("text", "versions", "why"),
    [
        ("30 ffffffff01 00", VERSIONS, "a remaining length of five bytes"),
        ("40 8200 0001", (MQTT_5,), "[MQTT-1.5.5-1] a remaining length longer than needed"),
        ("c0 8000", (MQTT_5,), "[MQTT-1.5.5-1] a remaining length of 0 in two bytes"),
        ("30 8400 0001 61 00", (MQTT_5,), "[MQTT-1.5.5-1] a PUBLISH with a padded length"),
    ],
)
def test_remaining_lengths_are_read_or_fail(text: str, versions: tuple[int, ...], why: str) -> None:
    for version in versions:
        decoder = Decoder(version)
        assert decoder.feed(bytes.fromhex(text)) == [], why
        assert decoder.failure is not None
        assert decoder.failure.reason_code is MALFORMED


def test_a_remaining_length_may_be_padded_in_3_1_1() -> None:
    """Only 5.0 demands the shortest form; small devices of old reserve all four bytes."""
    assert decode(bytes.fromhex("30 83808000 0001 61"), MQTT_3_1_1) == [Publish("a")]


NAME = "0004 4d515454"
# CONNECT: the bytes between the fixed header and the end, and the code that answers it.
CONNECTS = [
    (f"{NAME} 05 03 0000 00 0000", MALFORMED, "[MQTT-3.1.2-3] the reserved flag"),
    (f"{NAME} 05 1e 0000 00 0000 00 0001 61 0000", MALFORMED, "[MQTT-3.1.2-12] will QoS 3"),
    (f"{NAME} 05 0a 0000 00 0000", MALFORMED, "[MQTT-3.1.2-11] will QoS without will"),
    (f"{NAME} 05 22 0000 00 0000", MALFORMED, "[MQTT-3.1.2-13] will retain without will"),
    (f"{NAME} 04 42 0000 0000 0000", MALFORMED, "[MQTT-3.1.2-22] of 3.1.1: password alone"),
    (f"{NAME} 05 02 0000 00 0000 00", MALFORMED, "a byte too many"),
    (f"{NAME} 05 02 00", MALFORMED, "the keep alive cut off"),
    (f"{NAME} 05 02 0000 03 210000 0000", PROTOCOL, "receive maximum 0"),
    (f"{NAME} 05 02 0000 05 2700000000 0000", PROTOCOL, "maximum packet size 0"),
    (f"{NAME} 05 02 0000 02 1702 0000", PROTOCOL, "request problem information 2"),
    (f"{NAME} 05 02 0000 02 1902 0000", PROTOCOL, "request response information 2"),
    (f"{NAME} 05 02 0000 04 16000101 0000", PROTOCOL, "authentication data without method"),
    (f"{NAME} 05 02 0000 06 210001 210001 0000", PROTOCOL, "receive maximum twice"),
    (f"{NAME} 05 02 0000 03 230001 0000", MALFORMED, "a topic alias"),
    (
        f"{NAME} 05 06 0000 00 0000 05 1100000000 0001 61 0000",
        MALFORMED,
        "session expiry in a will",
    ),
    (f"{NAME} 05 82 0000 00 0000 0002 61", MALFORMED, "the user name cut off"),
    (f"{NAME} 03 02 0000 0000", ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, "version 3"),
    (f"{NAME} 06 02 0000 0000", ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, "version 6"),
    ("0006 4d5149736470 04 02 0000 0000", ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, "MQTT 3.1"),
    ("0004 48545450 05 02 0000 00 0000", MALFORMED, "[MQTT-3.1.2-1] another protocol"),
    ("0004 4d5154", MALFORMED, "the protocol name cut off"),
]


@pytest.mark.parametrize(("text", "code", "why"), CONNECTS, ids=[case[2] for case in CONNECTS])
def test_malformed_connects_fail_with_their_reason(text: str, code: ReasonCode, why: str) -> None:
    body = bytes.fromhex(text)
    decoder = Decoder()
    assert decoder.feed(bytes((0x10, len(body))) + body) == []
    assert decoder.failure is not None
    assert decoder.failure.reason_code is code


@pytest.mark.parametrize(
    ("text", "version"),
    [("c000", None), ("1000", None), (f"10 0b {NAME} 03 02 0000 00", MQTT_3_1_1),
     (f"10 0b {NAME} 07 02 0000 00", MQTT_5)],
)  # fmt: skip
def test_the_version_in_which_a_failed_connect_can_be_answered(
    text: str, version: int | None
) -> None:
    decoder = Decoder()
    decoder.feed(bytes.fromhex(text))
    assert decoder.failure is not None
    assert decoder.version == version


def test_a_password_may_stand_alone_in_5() -> None:
    body = bytes.fromhex(f"{NAME} 05 42 0000 00 0000 0001 70")
    assert decode(bytes((0x10, len(body))) + body, None) == [Connect(password=b"p")]


def test_packets_before_connect_fail() -> None:
    """[MQTT-3.1.0-1]"""
    for text in ("3004 0001 61 00", "c000", "2002 0000", "f000"):
        decoder = Decoder()
        decoder.feed(bytes.fromhex(text))
        assert decoder.failure is not None
        assert decoder.failure.reason_code is PROTOCOL


@given(st.lists(publishes(MQTT_5) | st.just(Pingreq()), max_size=20), st.integers(1, 60), st.data())
def test_one_read_is_bounded_in_bytes_beside_short_payloads(
    packets: list[Packet], most: int, draw: st.DataObject
) -> None:
    decoder = Decoder()
    decoder.feed(encode(Connect("me"), MQTT_5))
    left, read = b"".join(encode(each, MQTT_5) for each in packets), []
    unread = b""
    while left or unread:
        count = draw.draw(st.integers(not unread, 200))
        data, left = unread + left[:count], left[count:]
        before = decoder.unfinished
        found = decoder.feed(data, most)
        read += found
        free = [
            min(len(each.payload), FREE_BYTES) if isinstance(each, Publish) else -SMALL_BYTES
            for each in found
        ]
        sizes = [len(encode(each, MQTT_5)) - size for each, size in zip(found, free, strict=True)]
        assert sum(sizes[:-1]) < before + most
        assert decoder.failure is None
        unread = data[len(data) - decoder.unread :]
        if unread:
            assert sum(sizes) >= most
    assert read == packets


def test_nothing_counts_as_unread_after_an_end_or_failure() -> None:
    decoder = Decoder()
    decoder.feed(encode(Connect("me"), MQTT_5))
    assert len(decoder.feed(b"\xc0\0" * 10, 20)) == 2
    assert decoder.unread == 16
    decoder.drop_unfinished()
    assert decoder.unread == 0
    decoder.feed(b"\xc0\0" * 10 + b"\xf0\0", 4)
    decoder.feed(b"\xf0\0" * 10, 4)
    assert decoder.failure is not None
    assert decoder.unread == 0


@given(publishes(MQTT_5))
def test_a_publications_bytes_are_reused_for_writing(packet: Publish) -> None:
    data = encode(packet, MQTT_5)
    read = decode_publish(b"xyz" + data, 3, MQTT_5)
    assert (read, hash(read)) == (packet, hash(packet))
    before, after = encode_publish_halves(
        read.topic, b"", MQTT_5, read.qos, read.retain, read.duplicate, written=read.written
    )
    texts = (packet.topic, *sum(packet.properties.user_properties, ()))
    assert max(len(packet.payload), *map(len, texts)) < read.size < len(data)
    if read.written is not None:
        assert before + read.packet_id.to_bytes(2, "big") * (read.qos > 0) + after == data


def test_long_publications_bytes_are_not_kept_twice() -> None:
    properties = Properties(user_properties=(("a", "b"),))
    [short, long] = (
        decode_publish(encode(Publish("a", b"x" * size, properties=properties), MQTT_5), 0, MQTT_5)
        for size in (10, MAX_WRITTEN_BYTES)
    )
    assert short.written is not None
    assert long.written is None


@pytest.mark.parametrize("text", ["", "30", "c000", "3004 000161 00 00", "3005 000161 00", "30ff"])
def test_bytes_that_are_not_exactly_one_publication_fail(text: str) -> None:
    with pytest.raises(MqttError):
        decode_publish(bytes.fromhex(text), 0, MQTT_5)


def test_packets_are_equal_whatever_bytes_they_came_in() -> None:
    assert Publish("a", written=b"x") == Publish("a")
    assert Publish("a") != Publish("b")
    assert Publish("a") != "a"


@pytest.mark.parametrize("packet", [Pingreq(), Pubrec(1)])
def test_one_read_takes_at_most_a_slice_of_small_packets(
    packet: Packet,
) -> None:
    """16,384 PINGREQs are 32 KB, and would delay all other clients by 100 ms on a busy machine."""
    data = encode(packet, MQTT_5)
    data *= 32_768 // len(data)
    decoder = Decoder(MQTT_5)
    read = decoder.feed(data, 32_768)
    assert 1_000 < len(read) < 2_100
    while decoder.unread:
        data = data[len(data) - decoder.unread :]
        read += decoder.feed(data, 32_768)
    assert len(read) == 32_768 // len(encode(packet, MQTT_5))
