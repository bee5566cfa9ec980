"""The standard's statements about the content of packets, with handwritten bytes.

Numbers are those of MQTT Version 5.0. Answers are compared as bytes, too, as a client of another
project would see them.
"""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packets import Connack, Disconnect, Suback, Unsuback
from tests.mqtt.broker_api import BrokerApi, Client
from tests.mqtt.connection.standard import CODES

# CONNECT up to its flags, and then to its payload: keep alive 0, no properties.
START = "0004 4d515454 05"
REST = "0000 00"


def packet(first: str, body: str) -> bytes:
    """One packet of fewer than 128 bytes."""
    rest = bytes.fromhex(body)
    assert len(rest) < 128
    return bytes.fromhex(first) + bytes((len(rest),)) + rest


def said(client: Client, first: str, body: str) -> list[object]:
    """The answer to one packet."""
    client.send_bytes(packet(first, body))
    return client.take()


def connecting(body: str) -> object:
    """The answer to a CONNECT; it may be empty."""
    client = BrokerApi().open()
    answers = said(client, "10", body)
    assert all(isinstance(answer, Connack) for answer in answers)  # [MQTT-3.14.0-1]
    assert len(answers) <= 1  # [MQTT-3.2.0-2]
    if not answers:
        assert client.closed
        return None
    [answer] = answers
    assert client.closed == (answer.reason_code >= 0x80)  # type: ignore[attr-defined]
    return answer.reason_code  # type: ignore[attr-defined]


# --- CONNECT --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (f"{START} 02 {REST} 0001 61", CODES.SUCCESS),  # [MQTT-3.1.4-5]
        (f"{START} 02 {REST}", CODES.MALFORMED_PACKET),  # [MQTT-3.1.3-3] no client identifier
        (f"{START} 02 {REST} 0001 ff", CODES.MALFORMED_PACKET),  # [MQTT-3.1.3-4]
        # [MQTT-3.1.2-9] a will of which the properties, the topic or the payload is not there
        (f"{START} 06 {REST} 0001 61", CODES.MALFORMED_PACKET),
        (f"{START} 06 {REST} 0001 61 00", CODES.MALFORMED_PACKET),
        (f"{START} 06 {REST} 0001 61 00 0001 62", CODES.MALFORMED_PACKET),
        (f"{START} 06 {REST} 0001 61 00 0001 62 0000", CODES.SUCCESS),
        (f"{START} 06 {REST} 0001 61 00 0001 ff 0000", CODES.MALFORMED_PACKET),  # [MQTT-3.1.3-11]
        (f"{START} 02 {REST} 0001 61 0001 75", CODES.MALFORMED_PACKET),  # [MQTT-3.1.2-16]
        (f"{START} 82 {REST} 0001 61", CODES.MALFORMED_PACKET),  # [MQTT-3.1.2-17]
        (f"{START} 82 {REST} 0001 61 0001 ff", CODES.MALFORMED_PACKET),  # [MQTT-3.1.3-12]
        (f"{START} 82 {REST} 0001 61 0001 75 0001 70", CODES.MALFORMED_PACKET),  # [MQTT-3.1.2-18]
        (f"{START} c2 {REST} 0001 61 0001 75", CODES.MALFORMED_PACKET),  # [MQTT-3.1.2-19]
        (f"{START} c2 {REST} 0001 61 0001 75 0001 70", CODES.SUCCESS),
        # [MQTT-3.1.3-1] in this order: identifier, will, user name, password
        (f"{START} c6 {REST} 0001 61 00 0001 62 0001 78 0001 75 0001 70", CODES.SUCCESS),
        # Section 3.1.2.11: values that may not be 0, values of 0 or 1 only, properties that may not
        # be repeated.
        (f"{START} 02 0000 03 21 0000 0001 61", CODES.PROTOCOL_ERROR),
        (f"{START} 02 0000 05 27 00000000 0001 61", CODES.PROTOCOL_ERROR),
        (f"{START} 02 0000 02 19 02 0001 61", CODES.PROTOCOL_ERROR),
        (f"{START} 02 0000 02 17 02 0001 61", CODES.PROTOCOL_ERROR),
        (f"{START} 02 0000 06 21 0005 21 0005 0001 61", CODES.PROTOCOL_ERROR),
        (f"{START} 02 0000 04 16 0001 78 0001 61", CODES.PROTOCOL_ERROR),  # data without method
        # A property of PUBLISH, an unknown one, and one that ends beyond the properties.
        (f"{START} 02 0000 02 01 00 0001 61", CODES.MALFORMED_PACKET),
        (f"{START} 02 0000 02 7e 00 0001 61", CODES.MALFORMED_PACKET),
        (f"{START} 02 0000 02 21 0005 0001 61", CODES.MALFORMED_PACKET),
        # [MQTT-1.5.7-1] names and values of user properties are UTF-8, too.
        (f"{START} 02 0000 07 26 0001 61 0001 62 0001 61", CODES.SUCCESS),
        (f"{START} 02 0000 07 26 0001 ff 0001 62 0001 61", CODES.MALFORMED_PACKET),
        (f"{START} 02 0000 07 26 0001 61 0001 ff 0001 61", CODES.MALFORMED_PACKET),
        # A will: its properties.
        (f"{START} 06 {REST} 0001 61 02 01 02 0001 62 0000", CODES.PROTOCOL_ERROR),
        (f"{START} 06 {REST} 0001 61 02 11 00 0001 62 0000", CODES.MALFORMED_PACKET),
        # Extended authentication is not offered [MQTT-4.12.0-1].
        (f"{START} 02 0000 04 15 0001 78 0001 61", CODES.BAD_AUTHENTICATION_METHOD),
    ],
)
def test_connects_are_answered_by_their_content(body: str, code: object) -> None:
    assert connecting(body) is code


# --- PUBLISH --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "body", "code"),
    [
        ("30", "ff", CODES.MALFORMED_PACKET),  # [MQTT-3.3.2-1] no topic
        ("30", "0001 61", CODES.MALFORMED_PACKET),  # [MQTT-2.2.2-1] no property length
        ("32", "0001 61", CODES.MALFORMED_PACKET),
        ("30", "0001 61 04 08 0001 ff", CODES.MALFORMED_PACKET),  # [MQTT-3.3.2-13]
        ("30", "0001 61 04 03 0001 ff", CODES.MALFORMED_PACKET),  # [MQTT-3.3.2-19]
        ("30", "0001 61 02 01 02", CODES.PROTOCOL_ERROR),  # payload format indicator 2
        ("30", "0001 61 04 01 00 01 00", CODES.PROTOCOL_ERROR),  # twice
        ("30", "0001 61 0a 02 00000001 02 00000001", CODES.PROTOCOL_ERROR),
        ("30", "0001 61 02 0b 00", CODES.PROTOCOL_ERROR),  # subscription identifier 0
        ("30", "0001 61 05 11 00000001", CODES.MALFORMED_PACKET),  # a property of CONNECT
        ("30", "0000 03 23 0001", CODES.PROTOCOL_ERROR),  # an alias without a topic
    ],
)
def test_malformed_publishes_end_the_connection(first: str, body: str, code: object) -> None:
    client = BrokerApi().connect("c")
    [answer] = said(client, first, body)
    assert isinstance(answer, Disconnect)
    assert (answer.reason_code, client.closed) == (code, True)


def test_mqtt_3_3_2_18_and_3_1_3_10_user_properties_keep_their_order_byte_by_byte() -> None:
    broker_api = BrokerApi()
    reader, writer = broker_api.connect("r"), broker_api.open()
    reader.subscribe("#")
    reader.written = b""
    pairs = "26 0001 62 0001 31 26 0001 61 0001 32 26 0001 62 0001 33"
    said(writer, "10", f"{START} 06 {REST} 0001 63 15 {pairs} 0004 77696c6c 0001 78")
    said(writer, "30", f"0001 74 15 {pairs} 79")
    assert reader.written == packet("30", f"0001 74 15 {pairs} 79")
    reader.written = b""
    writer.lose()
    assert reader.written == packet("30", f"0004 77696c6c 15 {pairs} 78")


def test_mqtt_4_3_1_1_and_2_2_1_2_qos_0_has_no_identifier_and_is_never_a_duplicate() -> None:
    broker_api = BrokerApi()
    reader, writer = broker_api.connect("r"), broker_api.connect("w")
    reader.subscribe("t", qos=0)
    reader.written = b""
    said(writer, "3d", "0001 74 0009 00 78")
    said(writer, "62", "0009")
    assert reader.written == packet("30", "0001 74 00 78")


def test_mqtt_4_3_2_1_to_3_and_4_3_3_2_first_sent_with_an_identifier_of_their_own() -> None:
    broker_api = BrokerApi()
    reader, writer = broker_api.connect("r"), broker_api.connect("w")
    reader.subscribe("t", qos=2)
    reader.written = b""
    said(writer, "3a", "0001 74 0007 00 31")  # DUP: it was sent before
    said(writer, "34", "0001 74 0008 00 32")
    said(writer, "62", "0008")
    first, second = packet("32", "0001 74 0001 00 31"), packet("34", "0001 74 0002 00 32")
    assert reader.written == first + second
    assert reader.connection.session.inflight == 2


# --- acknowledgements -----------------------------------------------------------------------------


def test_mqtt_3_3_4_1_and_2_2_1_5_each_qos_is_answered_as_it_must_be() -> None:
    client = BrokerApi().connect("c")
    client.subscribe("t")
    arrived = packet("30", "0001 74 00")
    for exchange in (
        (("30", "0001 74 00", b""),),
        (("32", "0001 74 1234 00", packet("40", "1234")),),
        (("34", "0001 74 4321 00", packet("50", "4321")), ("62", "4321", packet("70", "4321"))),
    ):
        written = b""
        for first, body, answer in exchange:
            client.written = b""
            said(client, first, body)
            assert client.written.replace(arrived, b"") == answer
            written += client.written
        assert written.count(arrived) == 1


@pytest.mark.parametrize("first", ["40", "50", "62", "70"])
def test_acknowledgements_may_have_reason_strings_and_user_properties(first: str) -> None:
    """[MQTT-3.4.2-2 and 3, 3.5.2-2 and 3, 3.6.2-2 and 3, 3.7.2-2 and 3]: strings are UTF-8."""
    good, bad = BrokerApi().connect("c"), BrokerApi().connect("c")
    said(good, first, "0001 00 0b 1f 0001 61 26 0001 61 0001 62")
    assert not good.closed
    said(bad, first, "0001 00 04 1f 0001 ff")
    assert bad.closed


@pytest.mark.parametrize(
    ("first", "code"), [("40", "05"), ("50", "92"), ("62", "91"), ("70", "10")]
)
def test_mqtt_3_5_2_1_and_3_7_2_1_reason_codes_of_another_packet(first: str, code: str) -> None:
    """[MQTT-3.4.2-1, 3.6.2-1]"""
    client = BrokerApi().connect("c")
    [answer] = said(client, first, f"0001 {code}")
    assert answer.reason_code is CODES.PROTOCOL_ERROR  # type: ignore[attr-defined]


# --- SUBSCRIBE, UNSUBSCRIBE -----------------------------------------------------------------------


def test_mqtt_3_8_4_5_and_7_and_2_2_1_6_one_answer_for_filters_in_order() -> None:
    """The second filter of the same name in the packet replaces the first."""
    client = BrokerApi().connect("c")
    [suback] = said(client, "82", "0102 00 0001 61 02 0001 61 00 0001 62 01")
    assert isinstance(suback, Suback)
    assert (suback.packet_id, suback.reason_codes) == (0x0102, (2, 0, 1))
    said(client, "32", "0001 61 0001 00")
    assert client.written.endswith(packet("30", "0001 61 00") + packet("40", "0001"))
    [unsuback] = said(client, "a2", "0103 00 0001 61 0001 63 0001 61 0001 62")
    assert isinstance(unsuback, Unsuback)
    assert unsuback.packet_id == 0x0103
    assert unsuback.reason_codes == (0, 0x11, 0x11, 0)  # [MQTT-3.11.3-1]


@pytest.mark.parametrize(
    ("first", "body", "code"),
    [
        ("82", "0001 00 0001 ff 00", CODES.MALFORMED_PACKET),  # [MQTT-3.8.3-1]
        ("a2", "0001 00 0001 ff", CODES.MALFORMED_PACKET),  # [MQTT-3.10.3-1]
        ("82", "0001 00 0003 610062 00", CODES.MALFORMED_PACKET),  # [MQTT-4.7.3-2]
        ("82", "0001 00 0001 61 30", CODES.PROTOCOL_ERROR),  # retain handling 3
        ("82", "0001 00 0001 61 03", CODES.PROTOCOL_ERROR),  # QoS 3
        ("82", "0000 00 0001 61 00", CODES.MALFORMED_PACKET),  # [MQTT-2.2.1-3]
        ("a2", "0000 00 0001 61", CODES.MALFORMED_PACKET),
        ("82", "0001 02 0b 00 0001 61 00", CODES.PROTOCOL_ERROR),  # subscription identifier 0
        ("82", "0001 04 0b 01 0b 02 0001 61 00", CODES.PROTOCOL_ERROR),  # two of them
        ("a2", "0001 02 0b 01 0001 61", CODES.MALFORMED_PACKET),  # UNSUBSCRIBE has none
        ("82", "0001 00 0001 61", CODES.MALFORMED_PACKET),  # no options
    ],
)
def test_malformed_requests_end_the_connection(first: str, body: str, code: object) -> None:
    client = BrokerApi().connect("c")
    [answer] = said(client, first, body)
    assert isinstance(answer, Disconnect)
    assert (answer.reason_code, client.closed) == (code, True)


# --- AUTH and DISCONNECT --------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["", "18 00", "19 00", "19 04 15 0001 78"])
def test_mqtt_4_12_1_1_and_2_reauthentication_is_a_protocol_error(body: str) -> None:
    """CONNECT named no method, so an AUTH is a protocol error."""
    client = BrokerApi().connect("c")
    [answer] = said(client, "f0", body)
    assert isinstance(answer, Disconnect)
    assert (answer.reason_code, client.closed) == (CODES.PROTOCOL_ERROR, True)


@pytest.mark.parametrize("body", ["", "00", "00 00", "00 04 1f 0001 61", "04"])
def test_disconnects_of_every_length(body: str) -> None:
    client = BrokerApi().connect("c")
    assert said(client, "e0", body) == []
    assert client.closed
