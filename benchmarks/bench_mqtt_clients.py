"""Messages per second that the MQTT side of one broker receives and delivers, without sockets.

Run `python benchmarks/bench_mqtt_clients.py`. Input is as one read of a socket, output as one
write; every message is counted on arrival, and at QoS 1 acknowledged. Then 10,000 content filters,
a client each, with attributes as user properties and as a JSON payload; and the cost of an idle
connection. The output has medians of RUNS runs, in process time.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
import tracemalloc

from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import (
    Connect,
    Packet,
    Puback,
    Publish,
    Subscribe,
    SubscriptionRequest,
)
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties
from shoal.mqtt.connection.connection import Connection
from shoal.mqtt.connection.effects import Write
from shoal.mqtt.limits import MqttLimits

RUNS = 5
READ_MESSAGES = 250
READS = 40
PAYLOAD = b"x" * 100
CONTENT_FILTERS = 10_000
SYMBOLS = 900
CONNECTIONS = 5_000

QUIET = MqttLimits(statistics_interval_s=0)


def send(connection: Connection, *packets: Packet) -> None:
    connection.receive(b"".join(encode(packet, MQTT_5) for packet in packets), 0)


def subscriber(
    clients: BrokerClients, name: str, topic: str, qos: int, properties: Properties = NO_PROPERTIES
) -> Connection:
    connection = clients.open(0)
    subscribe = Subscribe(1, (SubscriptionRequest(topic, qos),), properties)
    send(connection, Connect(name), subscribe)
    return connection


def fan_out_rates(subscribers: int, qos: int) -> tuple[float, bool]:
    """Deliveries per second, and whether all arrived."""
    clients = BrokerClients("B1", 0, limits=QUIET)
    for number in range(subscribers):
        subscriber(clients, f"s{number}", "bench/topic", qos)
    publisher = clients.open(0)
    send(publisher, Connect("p"))
    packets = (
        Publish("bench/topic", PAYLOAD, qos, packet_id=number + 1 if qos else 0)
        for number in range(READ_MESSAGES)
    )
    read = b"".join(encode(packet, MQTT_5) for packet in packets)
    arrived = 0
    reads = max(1, READS // subscribers)
    spent_s = 0.0
    for _ in range(reads):
        started = time.process_time()
        effects = publisher.receive(read, 1)
        while publisher.holds:  # what is too much for one turn
            effects += publisher.take_held(1)
        spent_s += time.process_time() - started
        for effect in effects:
            if isinstance(effect, Write) and effect.connection is not publisher:
                found = [p for p in Decoder(MQTT_5).feed(effect.data) if isinstance(p, Publish)]
                arrived += len(found)
                if not qos:
                    continue
                acks = b"".join(encode(Puback(p.packet_id), MQTT_5) for p in found)
                started = time.process_time()
                effect.connection.receive(acks, 1)
                spent_s += time.process_time() - started
    due = reads * READ_MESSAGES * subscribers
    return due / spent_s, arrived == due


def content_rates(as_json: bool) -> tuple[float, float]:
    """Publications per second into CONTENT_FILTERS filters, and the number that match each."""
    chance = random.Random(1)
    clients = BrokerClients("B1", 0, limits=QUIET)
    for number in range(CONTENT_FILTERS):
        where = f"symbol = 'S{chance.randrange(SYMBOLS)}' AND volume > {chance.randrange(100)}"
        properties = Properties(user_properties=(("$where", where),))
        subscriber(clients, f"s{number}", "quotes/#", 0, properties)
    publisher = clients.open(0)
    send(publisher, Connect("p"))
    packets = []
    for _ in range(READ_MESSAGES * 8):
        symbol, volume = f"S{chance.randrange(SYMBOLS)}", chance.randrange(100)
        if as_json:
            payload = b'{"symbol": "%s", "volume": %d, "open": 18.37}' % (symbol.encode(), volume)
            properties = Properties(content_type="application/json")
        else:
            payload = PAYLOAD
            properties = Properties(user_properties=(("symbol", symbol), ("volume", str(volume))))
        packets.append(encode(Publish("quotes/x", payload, properties=properties), MQTT_5))
    read = b"".join(packets)
    started = time.process_time()
    publisher.receive(read, 1)
    while publisher.holds:
        publisher.take_held(1)
    spent_s = time.process_time() - started
    return len(packets) / spent_s, clients.statistics.deliveries / len(packets)


def idle_bytes() -> float:
    """Memory of one idle connection with a session and a subscription."""
    clients = BrokerClients("B1", 0, limits=QUIET)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    kept = [subscriber(clients, f"c{n}", f"devices/{n}/#", 1) for n in range(CONNECTIONS)]
    for now_us in range(1, CONNECTIONS):  # what has waited for its turn, as retained messages do
        clients.advance(now_us)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / len(kept)


def main() -> int:
    right = True
    for subscribers in (1, 50):
        for qos in (0, 1):
            runs = [fan_out_rates(subscribers, qos) for _ in range(RUNS)]
            right = right and all(complete for _, complete in runs)
            rate = statistics.median(rate for rate, _ in runs)
            print(
                f"1 publisher, {subscribers:>2} subscribers, QoS {qos}: {rate:>10,.0f} deliveries/s"
            )
    for as_json in (False, True):
        runs = [content_rates(as_json) for _ in range(RUNS)]
        rate = statistics.median(rate for rate, _ in runs)
        what = "JSON payload" if as_json else "user properties"
        print(
            f"{CONTENT_FILTERS:,} content filters, {what}: {rate:,.0f} publications/s, "
            f"{runs[0][1]:.1f} matches each"
        )
    print(f"an idle connection: {idle_bytes():,.0f} bytes")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
