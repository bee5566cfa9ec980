"""Thousands of connections to one broker: memory of an idle one, and the rate of new ones."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_3_1_1
from shoal.mqtt.codec.packets import Connect, Publish, Subscribe, SubscriptionRequest
from tests.live.hostile.test_abuse import resident_bytes
from tests.live.processes import Processes, up
from tests.runtime.live import PATIENCE_S

# The goal is 20 KB for each of 10,000 connections.
MAX_BYTES_EACH = 20_480
_AT_ONCE = 200

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


class Idle(asyncio.Protocol):
    """A client that connects, subscribes, and counts the messages that it receives."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.received = 0
        self.subscribed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        subscribe = Subscribe(1, (SubscriptionRequest("news", 0),))
        hello = Connect(f"idle-{self.number}", version=MQTT_3_1_1)
        transport.write(b"".join(encode(each, MQTT_3_1_1) for each in (hello, subscribe)))  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if self.received >= 9 and not self.subscribed.done():
            self.subscribed.set_result(None)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with up(tmp_path_factory.mktemp("network"), "--brokers", "1") as processes:
        asyncio.run(processes.whole())
        yield processes


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_idle_clients_take_little_memory_and_receive_their_messages(
    network: Processes, count: int
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 100:
        if hard != resource.RLIM_INFINITY and hard < count + 100:
            pytest.skip(f"a process may have only {hard} files open here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, hard))
    host, _, port = network.address("B1").rpartition(":")
    news = encode(Publish("news", b"x" * 100), MQTT_3_1_1)

    async def run() -> float:
        loop = asyncio.get_running_loop()
        process = (await network.status("B1"))["pid"]
        before = resident_bytes(process)
        clients: list[Idle] = []
        async with asyncio.timeout(6 * PATIENCE_S):
            for start in range(0, count, _AT_ONCE):
                numbers = range(start, min(start + _AT_ONCE, count))
                made = await asyncio.gather(
                    *(
                        loop.create_connection(lambda n=number: Idle(n), host, int(port))  # type: ignore[misc]
                        for number in numbers
                    )
                )
                clients += [client for _, client in made]
                await asyncio.gather(*(client.subscribed for _, client in made))
            each = (resident_bytes(process) - before) / count
            clients[0].transport.write(news)  # type: ignore[attr-defined]
            while not all(client.received == 9 + len(news) for client in clients):
                await asyncio.sleep(0.05)
        status = (await network.status("B1"))["mqtt"]
        assert status["connected"] == status["subscriptions"] == count
        for client in clients:
            client.transport.close()
        async with asyncio.timeout(PATIENCE_S):
            while (await network.status("B1"))["mqtt"]["connected"]:
                await asyncio.sleep(0.1)
        return each

    each = asyncio.run(run())
    print(f"{count} clients, {each / 1_024:.1f} KB each")
    assert each < MAX_BYTES_EACH


def test_the_broker_raises_its_limit_of_open_files(network: Processes) -> None:
    process = asyncio.run(network.status("B1"))["pid"]
    rows = Path(f"/proc/{process}/limits").read_text(encoding="utf-8").splitlines()
    (row,) = (row.split() for row in rows if row.startswith("Max open files"))
    assert row[3] == row[4]
