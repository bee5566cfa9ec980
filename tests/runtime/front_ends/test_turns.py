"""The packets of one read are handled in time slices."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shoal.mqtt.codec.decoder import FREE_BYTES
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packets import Connect, Publish, Subscribe, SubscriptionRequest
from shoal.runtime.front_ends.reading import PIECE_BYTES
from shoal.runtime.front_ends.sockets.mqtt_socket import MqttSocket
from tests.runtime.live import on_loop, until
from tests.runtime.one_service import network, running

ALL = SubscriptionRequest("#")


@pytest.mark.parametrize("brokers", [1, 2])
@on_loop
async def test_expensive_packets_wait_for_the_next_slice(
    brokers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two publications of a slice each, at a single broker, must not share one: 0.11 s."""
    monkeypatch.setattr("shoal.mqtt.connection.serving.TURN", 1)
    async with running(network(brokers), "B1") as (service,):
        front_end = service.front_end
        assert front_end is not None
        taken, plain = [0], front_end.received

        def received(connection: Any, data: bytes) -> None:
            before = front_end.clients.statistics.publications_received
            plain(connection, data)
            taken.append(front_end.clients.statistics.publications_received - before)

        monkeypatch.setattr(front_end, "received", received)
        where = service.listening["mqtt"]
        _, writer = await asyncio.open_connection(where.host, where.port)
        writer.write(encode(Connect("p"), 5))
        await until(lambda: front_end.clients.statistics.connected == 1)
        writer.write(encode(Publish("a", b"x"), 5) * 10)
        await until(lambda: front_end.clients.statistics.publications_received == 10)
        assert max(taken) == 1
        writer.close()


@on_loop
async def test_reads_of_tiny_packets_and_long_payloads_are_smaller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A read of 256 KB may be 131,072 PINGREQs, which would take 0.4 s.

    Or 26 publications of 10 KB for 900 readers: 234 MB of writes.
    """
    async with running(network(1), "B1") as (service,):
        front_end = service.front_end
        assert front_end is not None
        where = service.listening["mqtt"]
        received, taken = front_end.received, []
        statistics = front_end.clients.statistics

        def counted(connection: Any, data: bytes) -> None:
            packets, size = statistics.packets_received, statistics.bytes_received
            received(connection, data)
            packets, size = statistics.packets_received - packets, statistics.bytes_received - size
            taken.append((packets, size))

        monkeypatch.setattr(front_end, "received", counted)
        reader, writer = await asyncio.open_connection(where.host, where.port)
        writer.write(encode(Connect("p"), 5) + b"\xc0\0" * 200_000)
        found = b""
        while found.count(b"\xd0\0") < 200_000:
            found += await reader.read(1_000_000)
        assert max(packets for packets, _ in taken) <= PIECE_BYTES // 2 + 1
        assert sum(packets for packets, _ in taken) == 200_001
        for length, are_many in ((FREE_BYTES, True), (10_000, False)):
            taken.clear()
            publication = encode(Publish("a", bytes(length)), 5)
            writer.write(publication * 2_000 + b"\xc0\0")
            await reader.readexactly(2)
            assert (max(size for _, size in taken) > 2 * PIECE_BYTES) is are_many
            assert sum(packets for packets, _ in taken) == 2_001
            assert sum(size for _, size in taken) == 2_000 * len(publication) + 2
        writer.close()


@on_loop
async def test_writes_of_a_round_are_combined_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """32,768 bytes of a client must not be written to 100 readers by 100 calls each."""
    async with running(network(1), "B1") as (service,):
        front_end = service.front_end
        assert front_end is not None
        where = service.listening["mqtt"]
        reader, reading = await asyncio.open_connection(where.host, where.port)
        reading.write(encode(Connect("r"), 5) + encode(Subscribe(1, (ALL,)), 5))
        _, writer = await asyncio.open_connection(where.host, where.port)
        writer.write(encode(Connect("p"), 5))
        await until(lambda: front_end.clients.statistics.connected == 2)
        pieces, writes = [0], [0]
        received, write = front_end.received, MqttSocket.write

        def counted(connection: Any, data: bytes) -> None:
            pieces[0] += 1
            received(connection, data)

        def written(self: MqttSocket, data: bytes) -> None:
            writes[0] += 1
            write(self, data)

        monkeypatch.setattr(front_end, "received", counted)
        monkeypatch.setattr(MqttSocket, "write", written)
        monkeypatch.setattr("shoal.runtime.front_ends.reading.ROUND_S", 10.0)
        topic = "a" * 1_000
        sent = b"".join(encode(Publish(topic, b"%05d" % n), 5) for n in range(2_000))
        writer.write(sent)
        found = b""
        while not found.endswith(b"01999"):
            found += await reader.read(1_000_000)
        numbers = [int(each[1:6]) for each in found.split(topic.encode())[1:]]
        assert numbers == list(range(2_000))
        assert pieces[0] > 30
        assert writes[0] <= pieces[0] // 2
        writer.close()
        reading.close()
