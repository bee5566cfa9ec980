"""The encoder: its short forms, and packets that a version cannot express."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.mqtt.codec.encoder import (
    encode,
    encode_acknowledgement,
    encode_publish_halves,
    with_duplicate_flag,
)
from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5, PacketType
from shoal.mqtt.codec.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Puback,
    Publish,
    Pubrel,
    Suback,
    Unsuback,
    WillFields,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from tests.mqtt.random_packets import publishes


@given(publishes(MQTT_5))
def test_two_halves_and_an_identifier_are_a_publication(packet: Publish) -> None:
    before, after = encode_publish_halves(
        packet.topic, packet.payload, MQTT_5, packet.qos, packet.retain, False, packet.properties
    )
    middle = packet.packet_id.to_bytes(2, "big") if packet.qos else b""
    if packet.duplicate:
        before = with_duplicate_flag(before)
    assert before + middle + after == encode(packet, MQTT_5)


@given(st.integers(1, 65_535))
def test_short_acknowledgements_equal_encoded_ones(packet_id: int) -> None:
    assert encode_acknowledgement(0x40, packet_id) == encode(Puback(packet_id), MQTT_5)
    assert encode_acknowledgement(0x62, packet_id) == encode(Pubrel(packet_id), MQTT_3_1_1)


def test_3_1_1_omits_properties_and_reason_codes() -> None:
    properties = Properties(reason_string="why", user_properties=(("a", "b"),))
    for packet, text in [
        (Puback(5, ReasonCode.NOT_AUTHORIZED, properties), "40 02 00 05"),
        (
            Suback(5, (ReasonCode.TOPIC_FILTER_INVALID, ReasonCode.GRANTED_QOS_1), properties),
            "90 04 00 05 80 01",
        ),
        (Unsuback(5, (ReasonCode.SUCCESS,), properties), "b0 02 00 05"),
        (Disconnect(ReasonCode.SESSION_TAKEN_OVER, properties), "e0 00"),
        (Connack(ReasonCode.NOT_AUTHORIZED, properties=properties), "20 02 00 05"),
        (Publish("a", b"", properties=properties), "30 03 00 01 61"),
        (
            Connect("c", version=MQTT_3_1_1, will=WillFields("w", b"x", properties=properties)),
            "10 13 00 04 4d 51 54 54 04 06 00 00 00 01 63 00 01 77 00 01 78",
        ),
    ]:
        assert encode(packet, MQTT_3_1_1).hex(" ") == text


def test_packets_without_a_3_1_1_form_are_errors() -> None:
    with pytest.raises(ValueError, match="BAD_AUTHENTICATION_METHOD"):
        encode(Connack(ReasonCode.BAD_AUTHENTICATION_METHOD), MQTT_3_1_1)
    with pytest.raises(ValueError, match="AUTH"):
        encode(Auth(), MQTT_3_1_1)


def test_invalid_strings_are_errors() -> None:
    for packet in (
        Publish("a" * 65_536),
        Publish("a\0"),
        Connect("a\0"),
        Connect(password=bytes(65_536)),
    ):
        with pytest.raises(ValueError, match="MQTT strings"):
            encode(packet, MQTT_5)
    with pytest.raises(ValueError, match="four bytes"):
        encode(Publish("a", bytes(268_435_456)), MQTT_5)


def test_properties_of_another_packet_are_left_out() -> None:
    properties = Properties(session_expiry_interval_s=5, content_type="x")
    assert (
        encode(Publish("a", properties=properties), MQTT_5).hex(" ")
        == "30 08 00 01 61 04 03 00 01 78"
    )
    assert PacketType.PUBLISH == 3
