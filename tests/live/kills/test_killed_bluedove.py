"""Kills of BlueDove brokers (dispatcher and matcher in one), one after the other, under load."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from random import Random

import pytest

from shoal.runtime.free_ports import free_ports
from shoal.runtime.network_file import dump_network, parse_network
from shoal.runtime.supervisor import Supervisor
from tests.runtime.processes import Client
from tests.runtime.storage.test_ack_tracker import Publisher, arrived, numbers

BROKERS = ("B1", "B2", "B3")


class Cluster:
    """Three brokers under a supervisor; each dispatches, matches and keeps its sessions."""

    def __init__(self, folder: Path) -> None:
        ports = iter(free_ports("127.0.0.1", 9))
        keys = ("peers", "mqtt", "admin")
        sections = [
            {"name": name} | {key: f"127.0.0.1:{next(ports)}" for key in keys} for name in BROKERS
        ]
        self.network = parse_network(
            {
                "name": "n",
                "system": "bluedove",
                "brokers": sections,
                "links": [],
                "access": {"anonymous": True},
                "storage": {"folder": str(folder / "data")},
                "limits": {"maximum_queued_messages": 1_000_000},
            }
        )
        path = folder / "network.toml"
        path.write_text(dump_network(self.network), encoding="utf-8")
        self.supervisor = Supervisor(self.network, path)

    def place(self, broker: str) -> tuple[str, int]:
        address = self.network.broker(broker).address("mqtt")
        assert address is not None
        return address.host, address.port

    def kill(self, broker: str) -> None:
        process = self.supervisor.processes[broker]
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)


async def run(folder: Path, seed: int, count: int, kills: int) -> None:
    """Publishers at B1 at QoS 1 and 2, a lasting subscriber at B2, kills of any broker."""
    random, cluster = Random(seed), Cluster(folder)
    await cluster.supervisor.start()
    try:
        with Client(*cluster.place("B2"), "reader", 600) as reader:
            await asyncio.to_thread(reader.subscribe, "a/#", 2)
            publishers = {
                qos: Publisher(cluster.place("B1"), qos, comes_back=True, count=count)
                for qos in (1, 2)
            }
            publishing = asyncio.gather(*(each.run() for each in publishers.values()))
            for _ in range(kills):
                await asyncio.sleep(random.uniform(0.5, 6))
                cluster.kill(random.choice(BROKERS))
            async with asyncio.timeout(120):
                await publishing
            for qos, publisher in publishers.items():
                await asyncio.to_thread(arrived, reader, qos, publisher.received)
                found = numbers(reader, qos)
                once = list(dict.fromkeys(found))
                assert once == list(range(count))
                assert found == once or qos == 1
    finally:
        await cluster.supervisor.stop()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_killing_brokers_one_after_the_other_loses_nothing(tmp_path: Path, seed: int) -> None:
    """Acknowledged publications arrive in order, at QoS 2 once, and publishers continue."""
    asyncio.run(run(tmp_path, seed, count=30_000, kills=10))
