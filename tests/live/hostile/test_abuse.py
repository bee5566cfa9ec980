"""Garbage, silence, connection storms and greed of strangers do not disturb clients."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from shoal.client import Client
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_3_1_1
from shoal.mqtt.codec.packets import (
    Connack,
    Connect,
    Publish,
    Subscribe,
    SubscriptionRequest,
)
from tests.examples import at_length
from tests.live.processes import Processes, up
from tests.runtime.live import PATIENCE_S

PUBLICATIONS = 600
# Valid beginnings, which keep the following garbage from being refused at once.
BEGINNINGS = (
    b"",
    encode(Connect("x", version=MQTT_3_1_1), MQTT_3_1_1),
    b"GET / HTTP/1.1\r\nHost: x\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\x00\x00\x00\x20",
    b"\x10\xff\xff\xff\x7f",
    b"\x30\xff\xff\xff\x7f",
)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    folder = tmp_path_factory.mktemp("network")
    with up(folder, "--brokers", "3", "--websockets") as processes:
        asyncio.run(processes.whole())
        yield processes


@asynccontextmanager
async def undisturbed(network: Processes) -> AsyncIterator[None]:
    """Publish meanwhile; another client must receive everything in order."""
    async with (
        Client(network.address("B2")) as writer,
        Client(network.address("B3")) as reader,
        reader.subscribe("peace", qos=2) as subscription,
    ):
        arrived = asyncio.create_task(subscription.get())
        while not arrived.done():
            await writer.publish("peace", b"-1")
            await asyncio.wait([arrived], timeout=0.2)

        async def publish() -> None:
            for number in range(PUBLICATIONS):
                await writer.publish("peace", b"%d" % number, qos=2)

        publishing = asyncio.create_task(publish())
        yield
        found: list[int] = []
        async with asyncio.timeout(3 * PATIENCE_S):
            await publishing
            while not found or found[-1] != PUBLICATIONS - 1:
                found.append(int((await subscription.get()).payload))
    assert [number for number in found if number >= 0] == list(range(PUBLICATIONS))
    await network.whole()


async def throw(address: str, data: bytes, *, wait: bool) -> None:
    """Send these bytes to a port; wait until it closes the connection, or leave without closing."""
    host, _, port = address.rpartition(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(data)
        if wait:
            writer.write_eof()
            async with asyncio.timeout(PATIENCE_S):
                await reader.read()
        writer.transport.abort()
    except OSError:
        pass  # closed by the broker, as expected


def test_garbage_on_every_port_disturbs_no_client(network: Processes) -> None:
    random = Random(4)

    async def run() -> None:
        async with undisturbed(network):
            for broker in network.network.brokers:
                for address in broker.listeners().values():
                    for _ in range(12):
                        garbage = random.choice(BEGINNINGS) + random.randbytes(
                            random.randrange(3_000)
                        )
                        await throw(address, garbage, wait=random.random() < 0.5)

    asyncio.run(run())


def test_silent_and_half_open_connections_disturb_no_client(network: Processes) -> None:
    async def run() -> None:
        kept = []
        async with undisturbed(network):
            for broker in network.network.brokers:
                for address in broker.listeners().values():
                    host, _, port = address.rpartition(":")
                    for beginning in BEGINNINGS:
                        _, writer = await asyncio.open_connection(host, int(port))
                        writer.write(beginning[:9])
                        kept.append(writer)
        for writer in kept:
            writer.transport.abort()

    asyncio.run(run())


def test_a_connection_storm_disturbs_no_client(network: Processes) -> None:
    address = network.address("B2")
    host, _, port = address.rpartition(":")

    async def come_and_go(number: int) -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(encode(Connect(f"c{number}", version=MQTT_3_1_1), MQTT_3_1_1))
        assert await reader.readexactly(4) == b"\x20\x02\0\0"
        if number % 2:
            writer.write(b"\xe0\0")
            writer.close()
        else:
            writer.transport.abort()

    async def run() -> None:
        async with undisturbed(network), asyncio.timeout(3 * PATIENCE_S):
            for hundred in range(10):
                numbers = range(100 * hundred, 100 * hundred + 100)
                await asyncio.gather(*map(come_and_go, numbers))
        async with asyncio.timeout(PATIENCE_S):
            while (await network.status("B2"))["mqtt"]["connected"]:
                await asyncio.sleep(0.1)

    asyncio.run(run())


def resident_bytes(process: int) -> int:
    text = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return 1_024 * next(int(row.split()[1]) for row in text.splitlines() if row[:6] == "VmRSS:")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("qos", [1, *at_length([0])])
def test_a_subscriber_that_does_not_read_costs_bounded_memory(network: Processes, qos: int) -> None:
    """A subscriber that does not read is sent 160 MB; a session queues 64 MB at most, a socket
    less.
    """
    address = network.address("B3")
    host, _, port = address.rpartition(":")
    chunk = b"".join(
        encode(Publish("flood", b"x" * 100_000, qos, packet_id=1 if qos else 0), MQTT_3_1_1)
        for _ in range(16)
    )

    async def run() -> None:
        before = resident_bytes((await network.status("B3"))["pid"])
        _, deaf = await asyncio.open_connection(host, int(port))
        deaf.transport.pause_reading()
        deaf.write(encode(Connect("deaf", version=MQTT_3_1_1), MQTT_3_1_1))
        deaf.write(encode(Subscribe(1, (SubscriptionRequest("flood", qos),)), MQTT_3_1_1))
        async with undisturbed(network):
            reader, flood = await asyncio.open_connection(host, int(port))
            flood.write(encode(Connect("flood", version=MQTT_3_1_1), MQTT_3_1_1))
            # Counted by bytes: an answer left over may come before or after the ping's.
            await reader.readexactly(len(encode(Connack(), MQTT_3_1_1)))
            for _ in range(100):
                flood.write(chunk)
                await flood.drain()
                if qos:
                    await reader.readexactly(4 * 16)
            flood.write(b"\xc0\0")  # a ping: everything before it has been read
            async with asyncio.timeout(3 * PATIENCE_S):
                assert await reader.readexactly(2) == b"\xd0\0"
            after = resident_bytes((await network.status("B3"))["pid"])
            flood.transport.abort()
        deaf.transport.abort()
        assert after - before < 120 * 2**20

    asyncio.run(run())
