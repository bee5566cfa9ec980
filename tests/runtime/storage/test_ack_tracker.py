"""Brokers killed under load, as processes that a supervisor restarts.

Acknowledged publications arrive, at QoS 2 once, in order.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import (
    Connack,
    Connect,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
)
from shoal.mqtt.codec.properties import Properties
from shoal.runtime.free_ports import free_ports
from shoal.runtime.network_file import NetworkFile, dump_network, parse_network
from shoal.runtime.supervisor import StartError, Supervisor
from tests.runtime.live import PATIENCE_S, status_of
from tests.runtime.processes import Client, wait_until

COUNT = 4_000
WINDOW = 50


class Killable:
    """A line of three brokers under a supervisor; each keeps its sessions."""

    def __init__(self, folder: Path) -> None:
        ports = iter(free_ports("127.0.0.1", 9))
        sections = [
            {
                "name": name,
                **{key: f"127.0.0.1:{next(ports)}" for key in ("peers", "mqtt", "admin")},
            }
            for name in ("B1", "B2", "B3")
        ]
        self.network: NetworkFile = parse_network(
            {
                "name": "n",
                "brokers": sections,
                "links": [["B1", "B2"], ["B2", "B3"]],
                "access": {"anonymous": True},
                "storage": {"folder": str(folder / "data")},
                # A reader may be disconnected during many publications.
                "limits": {"maximum_queued_messages": 1_000_000},
            }
        )
        path = folder / "network.toml"
        path.write_text(dump_network(self.network), encoding="utf-8")
        self.supervisor = Supervisor(self.network, path)

    async def knows(self, broker: str, subscriptions: int) -> None:
        """A broker knows so many subscriptions."""
        address = self.network.broker(broker).address("admin")
        async with asyncio.timeout(PATIENCE_S):
            while (await status_of(address))["tables"]["subscriptions"] != subscriptions:
                await asyncio.sleep(0.05)

    def kill(self, broker: str) -> None:
        """Kill a broker at once, if it has not been killed already."""
        process = self.supervisor.processes[broker]
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)

    def place(self, broker: str) -> tuple[str, int]:
        address = self.network.broker(broker).address("mqtt")
        assert address is not None
        return address.host, address.port


@asynccontextmanager
async def killable(folder: Path) -> AsyncIterator[Killable]:
    for attempt in range(5):
        (folder / str(attempt)).mkdir()
        found = Killable(folder / str(attempt))
        try:
            await found.supervisor.start()
            break
        except StartError:  # another process took one of its ports
            await found.supervisor.stop()
    try:
        yield found
    finally:
        await found.supervisor.stop()


class Publisher:
    """Publishes numbers in order, so many at a time, and records the acknowledged ones.

    It reconnects and retransmits if it `comes_back`.
    """

    def __init__(
        self, place: tuple[str, int], qos: int, *, comes_back: bool, count: int = COUNT
    ) -> None:
        self.acknowledged: set[int] = set()
        self._count = count
        self._place = place
        self._qos = qos
        self._comes_back = comes_back
        self._sent: dict[int, bool] = {}  # unacknowledged ones; whether they are released
        self._next = 0

    async def run(self) -> None:
        """Run until all is acknowledged, or the connection is lost for good."""
        while len(self.acknowledged) < self._count:
            try:
                await self._connect()
            except OSError:
                if not self._comes_back:
                    return
                await asyncio.sleep(0.1)

    async def _connect(self) -> None:
        reader, writer = await asyncio.open_connection(*self._place)
        try:
            properties = Properties(session_expiry_interval_s=600)
            hello = Connect(f"p{self._qos}", clean_start=False, properties=properties)
            writer.write(encode(hello, MQTT_5))
            decoder = Decoder(MQTT_5)
            while len(self.acknowledged) < self._count:
                data = await reader.read(65_536)
                if not data:
                    raise ConnectionResetError
                for packet in decoder.feed(data):
                    writer.write(self._answer(packet))
                writer.write(self._more())
                await writer.drain()
        finally:
            writer.close()

    def _answer(self, packet: Packet) -> bytes:
        match packet:
            case Connack():
                packets: list[Packet] = [
                    Pubrel(number + 1) if released else self._publication(number, again=True)
                    for number, released in self._sent.items()
                ]
                return b"".join(encode(each, MQTT_5) for each in packets)
            case Puback(packet_id) | Pubcomp(packet_id):
                del self._sent[packet_id - 1]
                self.acknowledged.add(packet_id - 1)
            case Pubrec(packet_id):
                self._sent[packet_id - 1] = True
                return encode(Pubrel(packet_id), MQTT_5)
        return b""

    def _more(self) -> bytes:
        parts = []
        while self._next < self._count and len(self._sent) < WINDOW:
            self._sent[self._next] = False
            parts.append(encode(self._publication(self._next), MQTT_5))
            self._next += 1
        return b"".join(parts)

    def _publication(self, number: int, *, again: bool = False) -> Publish:
        payload = b"%d %d" % (self._qos, number)
        return Publish("a/b", payload, self._qos, False, again, number + 1)

    @property
    def received(self) -> set[int]:
        """The broker has acknowledged it: it will not be retransmitted."""
        return self.acknowledged | {number for number, released in self._sent.items() if released}


def numbers(reader: Client, qos: int) -> list[int]:
    """The received publications of this QoS."""
    pairs = (map(int, payload.split()) for payload in tuple(reader.payloads))
    return [number for published_at, number in pairs if published_at == qos]


def arrived(reader: Client, qos: int, owed: set[int]) -> None:
    """Everything has arrived."""
    wait_until(lambda: owed <= set(numbers(reader, qos)))


@pytest.mark.parametrize(
    "killed",
    [
        ("B1",),
        pytest.param(("B2",), marks=pytest.mark.soak),
        pytest.param(("B3",), marks=pytest.mark.soak),
        ("B2", "B3"),
    ],
    ids=" ".join,
)
def test_killed_brokers_lose_nothing_acknowledged(tmp_path: Path, killed: tuple[str, ...]) -> None:
    """Publishers at one end, at QoS 1 and 2, a lasting subscriber at the other."""

    async def run() -> None:
        async with killable(tmp_path) as network:
            with Client(*network.place("B3"), "reader", 600) as reader:
                await asyncio.to_thread(reader.subscribe, "a/#", 2)
                await network.knows("B1", 4)
                # Of the killed broker only acknowledged publications are owed.
                publishers = {
                    qos: Publisher(network.place("B1"), qos, comes_back="B1" not in killed)
                    for qos in (1, 2)
                }
                publishing = asyncio.gather(*(each.run() for each in publishers.values()))
                async with asyncio.timeout(PATIENCE_S):
                    while any(len(each.received) < COUNT // 10 for each in publishers.values()):
                        await asyncio.sleep(0.001)
                for name in killed:
                    network.kill(name)
                assert all(len(each.received) < COUNT for each in publishers.values())
                async with asyncio.timeout(3 * PATIENCE_S):
                    await publishing
                for qos, publisher in publishers.items():
                    owed = publisher.received
                    assert len(owed) == COUNT or "B1" in killed
                    await asyncio.to_thread(arrived, reader, qos, owed)
                    found = numbers(reader, qos)
                    once = list(dict.fromkeys(found))
                    assert once == list(range(len(once)))
                    assert found == once or qos == 1

    asyncio.run(run())


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_kills_one_after_the_other_lose_nothing_acknowledged(tmp_path: Path, seed: int) -> None:
    """Any of them, at any time, also during starts; publishers retransmit."""
    random, count = Random(seed), 30_000

    async def run() -> None:
        async with killable(tmp_path) as network:
            with Client(*network.place("B3"), "reader", 600) as reader:
                await asyncio.to_thread(reader.subscribe, "a/#", 2)
                await network.knows("B1", 4)
                publishers = {
                    qos: Publisher(network.place("B1"), qos, comes_back=True, count=count)
                    for qos in (1, 2)
                }
                publishing = asyncio.gather(*(each.run() for each in publishers.values()))
                while not publishing.done():
                    network.kill(random.choice(("B1", "B2", "B3")))
                    await asyncio.sleep(random.uniform(0.5, 6))
                await publishing
                for qos, publisher in publishers.items():
                    await asyncio.to_thread(arrived, reader, qos, publisher.received)
                    found = numbers(reader, qos)
                    once = list(dict.fromkeys(found))
                    assert once == list(range(count))
                    assert found == once or qos == 1

    asyncio.run(run())
