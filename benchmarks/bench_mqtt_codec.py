"""MQTT packets read and written per second, beside the compiled package mqtt5.

Run `python benchmarks/bench_mqtt_codec.py`. A stream of PUBLISH packets (100-byte payload, a topic
of 27 characters) is decoded as it comes from a socket, READ_PACKETS at a time, and single PUBLISHes
are encoded; then PUBLISHes with four properties. The engines' packets are compared before the
measurement. The output has medians of RUNS runs and ratios.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import mqtt5

from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import Publish
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties

RUNS = 5
READ_PACKETS = 500
READS = 200

TOPIC = "sensors/site-17/temperature"
PAYLOAD = b"x" * 100
PROPERTIES = Properties(
    message_expiry_interval_s=60,
    content_type="application/json",
    user_properties=(("carrier", "UA"), ("dep_delay", "41")),
)


def theirs_packet(qos: int, properties: Properties) -> mqtt5.PublishPacket:
    return mqtt5.PublishPacket(
        TOPIC,
        PAYLOAD,
        qos=mqtt5.QoS(qos),
        packet_id=7 if qos else None,
        message_expiry_interval=properties.message_expiry_interval_s,
        content_type=properties.content_type,
        user_properties=list(properties.user_properties),
    )


def decode_ours(stream: bytes) -> int:
    return len(Decoder(MQTT_5).feed(stream))


def decode_theirs(stream: bytes) -> int:
    view, position, packets = memoryview(stream), 0, []
    while position < len(stream):
        packet, size = mqtt5.read(view[position:])
        packets.append(packet)
        position += size
    return len(packets)


def rate_per_s(work: Callable[[], int]) -> float:
    started = time.perf_counter()
    done = sum(work() for _ in range(READS))
    return done / (time.perf_counter() - started)


def bench(title: str, qos: int, properties: Properties) -> bool:
    ours = Publish(TOPIC, PAYLOAD, qos, packet_id=7 if qos else 0, properties=properties)
    stream = encode(ours, MQTT_5)
    if stream != theirs_packet(qos, properties).write():
        print(f"{title}: the packages write different bytes")
        return False
    stream *= READ_PACKETS

    def encode_ours() -> int:
        for _ in range(READ_PACKETS):
            encode(Publish(TOPIC, PAYLOAD, qos, False, False, 7, properties), MQTT_5)
        return READ_PACKETS

    def encode_theirs() -> int:
        for _ in range(READ_PACKETS):
            theirs_packet(qos, properties).write()
        return READ_PACKETS

    print(f"\n{title}")
    for what, engines in (
        ("decode", (lambda: decode_ours(stream), lambda: decode_theirs(stream))),
        ("encode", (encode_ours, encode_theirs)),
    ):
        rates = [[rate_per_s(engine) for engine in engines] for _ in range(RUNS)]
        shoal, other = (statistics.median(each) for each in zip(*rates, strict=True))
        print(
            f"  {what}: shoal {shoal:>9,.0f} packets/s, mqtt5 {other:>9,.0f} packets/s, "
            f"shoal / mqtt5: {shoal / other:.2f}"
        )
    return True


def main() -> int:
    right = [
        bench("PUBLISH, QoS 0", 0, NO_PROPERTIES),
        bench("PUBLISH, QoS 1", 1, NO_PROPERTIES),
        bench("PUBLISH, QoS 1, four properties", 1, PROPERTIES),
    ]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
