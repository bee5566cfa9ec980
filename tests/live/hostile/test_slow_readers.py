"""A burst for slow readers: one that reads receives everything, one that hangs loses messages."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from pathlib import Path

import pytest

from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_3_1_1
from shoal.mqtt.codec.packets import Connect, Publish, Subscribe, SubscriptionRequest
from tests.live.processes import Processes, up
from tests.runtime.live import PATIENCE_S

SIZE = 200
READ_BYTES = 65_536
# The kernel's receive buffer of a reader; without a bound it may grow to megabytes.
KERNEL_BYTES = 131_072
BATCH = 1_000


def packet(number: int) -> bytes:
    return encode(Publish("burst", number.to_bytes(4, "big") + bytes(SIZE - 4)), MQTT_3_1_1)


PACKET_BYTES = len(packet(0))


class Subscriber:
    """Reads so many bytes a second, or nothing until told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.data = bytearray()

    @classmethod
    async def connect(cls, address: str, name: str, *, to_read: bool = True) -> Subscriber:
        host, _, port = address.rpartition(":")
        connection = socket.socket()
        if to_read:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BYTES)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, (host, int(port)))
        reader, writer = await asyncio.open_connection(sock=connection, limit=READ_BYTES)
        subscriber = cls(reader, writer)
        writer.write(encode(Connect(name, version=MQTT_3_1_1), MQTT_3_1_1))
        assert await reader.readexactly(4) == b"\x20\x02\0\0"
        if to_read:
            writer.write(encode(Subscribe(1, (SubscriptionRequest("burst"),)), MQTT_3_1_1))
            assert (await reader.readexactly(5))[0] == 0x90
        return subscriber

    @property
    def numbers(self) -> list[int]:
        start = PACKET_BYTES - SIZE
        return [
            int.from_bytes(self.data[at + start : at + start + 4], "big")
            for at in range(0, len(self.data) - PACKET_BYTES + 1, PACKET_BYTES)
        ]

    async def read(self, count: int, bytes_per_s: float) -> None:
        """Read until there are so many messages, or nothing more arrives."""
        with contextlib.suppress(TimeoutError):
            while len(self.data) < count * PACKET_BYTES:
                started_s = time.monotonic()
                data = await asyncio.wait_for(self._reader.read(READ_BYTES), PATIENCE_S)
                assert data
                self.data += data
                spent_s = time.monotonic() - started_s
                await asyncio.sleep(max(0.0, len(data) / bytes_per_s - spent_s))

    async def publish(self, count: int) -> None:
        """Publish everything at once, and wait until the broker has acknowledged the last."""
        for first in range(0, count, BATCH):
            self.writer.write(b"".join(map(packet, range(first, min(first + BATCH, count)))))
            await self.writer.drain()
        self.writer.write(b"\xc0\0")
        assert await self._reader.readexactly(2) == b"\xd0\0"


async def burst(network: Processes, count: int, bytes_per_s: float) -> None:
    await network.whole()
    address = network.address("B1")
    slow = await Subscriber.connect(address, "slow")
    hanging = await Subscriber.connect(address, "hanging")
    publisher = await Subscriber.connect(address, "publisher", to_read=False)
    reading = asyncio.create_task(slow.read(count, bytes_per_s))
    await publisher.publish(count)
    await reading
    assert slow.numbers == list(range(count))
    # A hanging reader delays no one, and receives as much as its queue held.
    dropped = (await network.status("B1"))["mqtt"]["dropped"]
    assert 0 < dropped < count
    await hanging.read(count - dropped, 1e12)
    numbers = hanging.numbers
    assert len(numbers) == count - dropped
    assert numbers == sorted(set(numbers))
    for each in (slow, hanging, publisher):
        each.writer.close()


def test_a_slow_reader_receives_all_and_a_hanging_one_loses_some(tmp_path: Path) -> None:
    with up(tmp_path, "--brokers", "2") as network:
        asyncio.run(burst(network, 50_000, 4e6))


@pytest.mark.soak
@pytest.mark.parametrize("brokers", [1, 2])
def test_a_slow_reader_receives_all_of_a_long_burst(tmp_path: Path, brokers: int) -> None:
    with up(tmp_path, "--brokers", str(brokers)) as network:
        # Over a tenth of this publisher's rate at one broker on a fast machine.
        asyncio.run(burst(network, 300_000, 1.5e7))
