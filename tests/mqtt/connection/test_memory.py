"""Memory of many connections that complete no packet, or use caches."""

from __future__ import annotations

import tracemalloc

from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import Connect, Disconnect, Pingreq, Pingresp, Publish
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.connection.incoming import MOST_ALIASED
from shoal.mqtt.connection.session_writer import MOST_ALIASED as LONGEST_ALIASED
from shoal.mqtt.connection.unfinished import Unfinished
from tests.mqtt.broker_api import BrokerApi, Client

LONG = "x" * 60_000
# Packets that are never completed.
CONNECT = encode(Connect("c", username=LONG, password=LONG.encode()), MQTT_5)[:-1]
PUBLISH = encode(Publish("a", LONG.encode() * 2), MQTT_5)[:-1]


def bounded(strangers: int = 300_000, clients: int = 300_000) -> BrokerApi:
    broker_api = BrokerApi()
    broker_api.clients.unfinished = Unfinished(clients)
    broker_api.clients.unfinished_strangers = Unfinished(strangers)
    return broker_api


def test_of_unauthenticated_incomplete_connections_the_oldest_is_closed() -> None:
    broker_api = bounded()
    strangers = [broker_api.open() for _ in range(5)]
    for stranger in strangers:
        stranger.send_bytes(CONNECT)
    assert [each.closed or each.half_closed for each in strangers] == [True] * 3 + [False] * 2
    unfinished = broker_api.clients.unfinished_strangers
    assert unfinished.bytes == 2 * len(CONNECT)
    broker_api.connect("short")  # costs no memory, and is admitted
    strangers[3].send_bytes(b"x")
    assert unfinished.bytes == len(CONNECT)
    strangers[4].lose()
    assert unfinished.bytes == 0


def test_unauthenticated_connections_close_no_clients() -> None:
    broker_api = bounded(strangers=200_000)
    client = broker_api.connect("c")
    client.send_bytes(PUBLISH)
    for _ in range(5):
        broker_api.open().send_bytes(CONNECT)
    client.send_bytes(b"x" + encode(Pingreq(), MQTT_5))
    assert client.take() == [Pingresp()]
    assert broker_api.clients.unfinished.bytes == 0


def test_of_clients_the_oldest_incomplete_packet_is_closed() -> None:
    broker_api = bounded()
    busy, *idle = [broker_api.connect(f"c{number}") for number in range(6)]
    busy.send_bytes(PUBLISH)
    for client in idle:
        client.send_bytes(PUBLISH)
        busy.send_bytes(b"x" + PUBLISH)
    assert not busy.closed
    assert [each.closed for each in idle] == [True] * 4 + [False]
    (goodbye,) = idle[0].take()
    assert isinstance(goodbye, Disconnect)
    assert goodbye.reason_code is ReasonCode.QUOTA_EXCEEDED
    assert broker_api.clients.unfinished.bytes == 2 * len(PUBLISH)
    for client in (busy, idle[-1]):
        client.lose()
    assert broker_api.clients.unfinished.bytes == 0


def test_a_packet_in_tiny_pieces_takes_no_more_than_it_has_bytes() -> None:
    """Each piece may be a frame of its own, over WebSocket."""
    client = BrokerApi().connect("c")
    pieces = [PUBLISH[at : at + 3] for at in range(0, len(PUBLISH), 3)]
    tracemalloc.start()
    try:
        for piece in pieces:
            client.send_bytes(bytes(piece))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 2 * len(PUBLISH)


def topics(client: Client, length: int, count: int) -> None:
    for alias in range(1, count + 1):
        topic = f"{alias:05}" + "t" * (length - 5)
        client.send(Publish(topic, b"", properties=Properties(topic_alias=alias)))


def test_topics_of_aliases_have_a_common_bound() -> None:
    broker_api = BrokerApi()
    short, long = broker_api.connect("short"), broker_api.connect("long")
    for _ in range(10):  # they may stand for others each time
        topics(short, MOST_ALIASED // 64, 64)
    assert not short.closed
    topics(long, MOST_ALIASED // 4, 4)
    assert not long.closed
    long.send(Publish("a", b"", properties=Properties(topic_alias=5)))
    (goodbye,) = long.take()
    assert goodbye.reason_code is ReasonCode.QUOTA_EXCEEDED


def test_long_topics_get_no_alias() -> None:
    broker_api = BrokerApi()
    client = broker_api.connect("c", properties=Properties(topic_alias_maximum=64))
    client.subscribe("#")
    for length in (LONGEST_ALIASED, LONGEST_ALIASED + 1):
        topic = "t" * length
        broker_api.connect("p").publish(topic)
        (found,) = client.take_publications()
        assert found.topic == topic
        assert found.properties.topic_alias == (1 if length == LONGEST_ALIASED else None)
