"""Load on live MQTT brokers: publishers and subscribers that cost far less than the brokers.

Packets of one load have equal length, so they are counted by bytes and acknowledged by slices,
without decoding each.
"""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple, cast

import numpy as np

from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packets import (
    Connect,
    Packet,
    Publish,
    Subscribe,
    SubscriptionRequest,
)

PAYLOAD = b"x" * 100
TOPIC = "bench/topic"
# Unacknowledged publications at QoS 1; about as many as a round trip takes at full speed.
WINDOW = 1_000
# Bytes written to the socket at once.
CHUNK = 200
TIMEOUT_S = 120.0
_PUBACK_BYTES = 4
_LAST_ID = 65_535


class Place(NamedTuple):
    """The address of a broker."""

    host: str
    port: int


class Peer(asyncio.Protocol):
    """One connection: received bytes, and whether it may be written to."""

    def __init__(self) -> None:
        self.received = 0
        self.expected = 0
        self.done = asyncio.Event()
        self.writable = asyncio.Event()
        self.writable.set()
        self.packet_bytes = 0  # with these, received packets are acknowledged
        self.id_place = 0
        self._left = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if self.packet_bytes:
            self._acknowledge(data)
        if self.received >= self.expected:
            self.done.set()

    def _acknowledge(self, data: bytes) -> None:
        data = self._left + data
        whole = len(data) - len(data) % self.packet_bytes
        self._left = data[whole:]
        if whole:
            rows = np.frombuffer(data[:whole], np.uint8).reshape(-1, self.packet_bytes)
            answers = np.empty((len(rows), _PUBACK_BYTES), np.uint8)
            answers[:, 0], answers[:, 1] = 0x40, 2
            answers[:, 2:] = rows[:, self.id_place : self.id_place + 2]
            self.transport.write(answers.tobytes())

    async def wait_for(self, count: int) -> None:
        """Wait until so many more bytes have come than when `received` was 0."""
        self.expected = count
        self.done.clear()
        if self.received < count:
            async with asyncio.timeout(TIMEOUT_S):
                await self.done.wait()


async def connect(place: Place, name: str, version: int = 4) -> Peer:
    """A connection with an admitted client."""
    loop = asyncio.get_running_loop()
    _, peer = await loop.create_connection(Peer, *place)
    peer.transport.write(encode(Connect(name, version=version), version))
    await peer.wait_for(4)
    await asyncio.sleep(0.01)
    peer.received = 0
    return peer


async def subscribe(peer: Peer, requests: list[SubscriptionRequest], version: int = 4) -> None:
    """Subscribe, and wait for the grant."""
    for start in range(0, len(requests), 100):
        part = tuple(requests[start : start + 100])
        peer.transport.write(encode(Subscribe(1, part), version))
        await peer.wait_for(4 + len(part) + (version == 5))
        await asyncio.sleep(0.02)
        peer.received = 0


async def saturate(place: Place, subscribers: int, qos: int, count: int) -> float:
    """Publications per second from one client to so many, at full speed."""
    readers = [await connect(place, f"reader-{number}") for number in range(subscribers)]
    packet = encode(Publish(TOPIC, PAYLOAD, qos, packet_id=1 if qos else 0), 4)
    for reader in readers:
        await subscribe(reader, [SubscriptionRequest(TOPIC, qos)])
        if qos:
            reader.packet_bytes = len(packet)
            reader.id_place = len(packet) - len(PAYLOAD) - 2
    writer = await connect(place, "writer")
    started = time.perf_counter()
    if qos:
        await _publish_acknowledged(writer, packet, count)
    else:
        for _ in range(count // CHUNK):
            writer.transport.write(packet * CHUNK)
            await writer.writable.wait()
            await asyncio.sleep(0)
    for reader in readers:
        await reader.wait_for(count // CHUNK * CHUNK * len(packet))
    elapsed_s = time.perf_counter() - started
    close(*readers, writer)
    return count / elapsed_s


async def _publish_acknowledged(writer: Peer, packet: bytes, count: int) -> None:
    head, tail = packet[: -len(PAYLOAD) - 2], packet[-len(PAYLOAD) :]
    sent = 0
    for _ in range(count // CHUNK):
        if sent >= WINDOW:
            await writer.wait_for((sent - WINDOW + CHUNK) * _PUBACK_BYTES)
        ids = ((sent + number) % _LAST_ID + 1 for number in range(CHUNK))
        writer.transport.write(b"".join(head + each.to_bytes(2, "big") + tail for each in ids))
        sent += CHUNK
    await writer.wait_for(sent * _PUBACK_BYTES)


async def pace(place: Place, rate_per_s: int, seconds: float) -> float:
    """The 99th percentile of the latency, in ms, at a steady rate."""
    reader, writer = await connect(place, "reader"), await connect(place, "writer")
    await subscribe(reader, [SubscriptionRequest(TOPIC)])
    packet = encode(Publish(TOPIC, PAYLOAD), 4)
    latencies_s = []
    due_s = time.perf_counter()
    for number in range(1, int(rate_per_s * seconds)):
        due_s += 1 / rate_per_s
        await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
        sent_s = time.perf_counter()
        writer.transport.write(packet)
        await reader.wait_for(number * len(packet))
        latencies_s.append(time.perf_counter() - sent_s)
    close(reader, writer)
    return float(np.percentile(latencies_s, 99)) * 1_000


async def flood(
    source: Place, readers: list[tuple[Peer, int]], packets: list[Packet], count: int
) -> float:
    """Publications per second until each reader has received its bytes."""
    writer = await connect(source, "writer", 5)
    data = [encode(packet, 5) for packet in packets]
    started = time.perf_counter()
    for start in range(0, count, CHUNK):
        chunk = (data[number % len(data)] for number in range(start, start + CHUNK))
        writer.transport.write(b"".join(chunk))
        await writer.writable.wait()
        await asyncio.sleep(0)
    for reader, size in readers:
        await reader.wait_for(size)
    elapsed_s = time.perf_counter() - started
    close(writer)
    return count / elapsed_s


def close(*peers: Peer) -> None:
    for peer in peers:
        peer.transport.abort()
