"""The chaos clients' packets against shoal's codec."""

from __future__ import annotations

from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import (
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Publish,
    Pubrec,
    Suback,
    Subscribe,
    SubscriptionRequest,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from tests.chaos import packets


def test_written_packets_decode_with_shoals_codec() -> None:
    user = (("$follow", "yes"),)
    written = [
        packets.connect("c", clean_start=False, expiry_s=600, user=user),
        packets.publish("t", b"{}", qos=2, packet_id=7, again=True),
        packets.answer(packets.PUBREC, 7),
        packets.subscribe(1, "t/#", 1, user),
        packets.pingreq(),
        packets.disconnect(),
    ]
    hello = Properties(session_expiry_interval_s=600, user_properties=user)
    said = Properties(content_type="application/json")
    assert Decoder().feed(b"".join(written)) == [
        Connect("c", clean_start=False, properties=hello),
        Publish("t", b"{}", 2, False, True, 7, said),
        Pubrec(7),
        Subscribe(1, (SubscriptionRequest("t/#", 1),), Properties(user_properties=user)),
        Pingreq(),
        Disconnect(),
    ]


def test_packets_of_shoals_codec_are_read_byte_by_byte() -> None:
    there = Properties(server_reference="h:1", user_properties=(("a", "b"),))
    moved = Disconnect(ReasonCode.USE_ANOTHER_SERVER, there)
    sent = [
        Connack(session_present=True, properties=Properties(receive_maximum=9)),
        Publish("t", b"x" * 200, 1, False, True, 7, Properties(content_type="application/json")),
        Suback(1, (ReasonCode.GRANTED_QOS_2,)),
        moved,
    ]
    data = b"".join(encode(packet, MQTT_5) for packet in sent)
    stream = packets.Stream()
    found = [packet for byte in data for packet in stream.feed(bytes([byte]))]
    assert [packet.kind for packet in found] == [2, 3, 9, 14]
    connack, publish, suback, disconnect = found
    assert (connack.flags, connack.reason) == (1, 0)
    assert (publish.topic, publish.payload, publish.qos) == ("t", b"x" * 200, 1)
    assert (publish.packet_id, publish.flags & 8) == (7, 8)
    assert (suback.packet_id, suback.reason) == (1, 2)
    assert disconnect.reason == packets.USE_ANOTHER_SERVER
    assert disconnect.properties[packets.SERVER_REFERENCE] == "h:1"
