"""Memory and disk of a live broker, for each kind of content: `make bench-sizes`.

Every row restarts two linked brokers, brings one kind of content to the first, and divides the
growth of its process (resident set) by the number of items; spooled messages are also measured on
disk. Then fifteen brokers start on this machine.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from shoal.client import Client
from shoal.client.terms import Keep
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import Connect, Disconnect
from shoal.mqtt.codec.properties import Properties
from shoal.overlays.registry import SYSTEMS
from shoal.runtime.network_file import dump_network
from shoal.runtime.network_sections import LinksSection, StorageSection
from shoal.runtime.supervisor import Supervisor, local_network

BROKERS = 15
CLIENTS, SUBSCRIPTIONS, MESSAGES = 2_000, 5_000, 5_000
PAYLOAD = b"x" * 100
# Messages for disconnected brokers go to disk soon.
PARK_US = 200_000
SETTLE_S = 1.0
_KEEP = Keep(seconds=3_600)


class Network(NamedTuple):
    """Running brokers; the first is measured."""

    supervisor: Supervisor
    folder: Path

    def mqtt(self, broker: int = 0) -> str:
        return self.supervisor.network.brokers[broker].mqtt

    def memory(self, broker: int = 0) -> int:
        """Resident bytes of a broker's process."""
        name = self.supervisor.network.brokers[broker].name
        pid = self.supervisor.processes[name].pid
        rows = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        return 1_024 * next(int(row.split()[1]) for row in rows if row.startswith("VmRSS"))

    def spool(self) -> int:
        """Bytes on disk for disconnected brokers."""
        return sum(each.stat().st_size for each in self.folder.glob("data/B1/spool/*/0*"))


@asynccontextmanager
async def running(brokers: int) -> AsyncIterator[Network]:
    with tempfile.TemporaryDirectory() as folder:
        layout = msgspec.convert({"brokers": brokers}, SYSTEMS["tree"].size).layout()
        network = local_network("tree", layout, port=0)
        network = msgspec.structs.replace(
            network,
            storage=StorageSection(folder=f"{folder}/data", sync="never"),
            link_limits=LinksSection(park_us=PARK_US),
        )
        path = Path(folder) / "network.toml"
        path.write_text(dump_network(network), encoding="utf-8")
        supervisor = Supervisor(network, path)
        await supervisor.start()
        try:
            yield Network(supervisor, Path(folder))
        finally:
            await supervisor.stop()


async def knock(address: str, name: str, expiry_s: int) -> asyncio.StreamWriter:
    """A client that connects and stays idle."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    properties = Properties(session_expiry_interval_s=expiry_s)
    writer.write(encode(Connect(name, clean_start=True, properties=properties), MQTT_5))
    await reader.read(100)
    return writer


async def connections(network: Network) -> int:
    KEPT.extend([await knock(network.mqtt(), f"c{n}", 0) for n in range(CLIENTS)])
    return CLIENTS


async def sessions(network: Network) -> int:
    for n in range(CLIENTS):
        writer = await knock(network.mqtt(), f"c{n}", 3_600)
        writer.write(encode(Disconnect(), MQTT_5))
        writer.close()
    return CLIENTS


async def subscriptions(network: Network) -> int:
    async with Client(network.mqtt(), "s", keep=_KEEP) as client:
        await asyncio.gather(
            *(
                client.subscribe(f"t/{n}", f"dep_delay > {n} AND distance < {n}").granted()
                for n in range(SUBSCRIPTIONS)
            )
        )
    return SUBSCRIPTIONS


async def _publish(address: str, topic: str, *, retain: bool = False) -> None:
    async with Client(address, "p") as client:
        for start in range(0, MESSAGES, 500):
            await asyncio.gather(
                *(
                    client.publish(topic.format(n=n), PAYLOAD, retain=retain)
                    for n in range(start, start + 500)
                )
            )


async def queued(network: Network) -> int:
    async with Client(network.mqtt(), "q", keep=_KEEP) as client:
        await client.subscribe("t").granted()
    await _publish(network.mqtt(), "t")
    return MESSAGES


async def retained(network: Network) -> int:
    await _publish(network.mqtt(), "t/{n}", retain=True)
    return MESSAGES


async def spooled(network: Network) -> int:
    async with Client(network.mqtt(1), "q", keep=_KEEP) as client:
        await client.subscribe("t").granted()
    away = network.supervisor.processes.pop("B2")
    for task in network.supervisor._watching:
        task.cancel()
    away.send_signal(signal.SIGKILL)
    await away.wait()
    await asyncio.sleep(SETTLE_S + PARK_US / 1e6)
    await _publish(network.mqtt(), "t")
    return MESSAGES


KEPT: list[asyncio.StreamWriter] = []
Kind = Callable[[Network], Awaitable[int]]
ROWS: dict[str, Kind] = {
    "idle connection": connections,
    "session of a client that is away": sessions,
    "subscription with two tests": subscriptions,
    "queued message of 100 bytes": queued,
    "retained message of 100 bytes, and its topic": retained,
    "spooled message of 100 bytes": spooled,
}


async def measure(table: Table, name: str, bring: Kind) -> None:
    async with running(2) as network:
        await asyncio.sleep(SETTLE_S)
        before, there = network.memory(), network.memory(1)
        count = await bring(network)
        await asyncio.sleep(SETTLE_S)
        grown = (network.memory() - before) / count
        elsewhere = ""
        if bring is not spooled:
            elsewhere = f"{(network.memory(1) - there) / count:,.0f}"
        disk = f"{network.spool() / count:,.0f}" if bring is spooled else ""
        table.add_row(name, f"{count:,}", f"{grown:,.0f}", elsewhere, disk)
        for writer in KEPT:
            writer.close()
        KEPT.clear()


async def main() -> None:
    columns = "each", "how many", "bytes here", "bytes at the neighbour", "bytes on disk"
    table = Table(*columns)
    for name, bring in ROWS.items():
        await measure(table, name, bring)
    async with running(BROKERS) as network:
        await asyncio.sleep(SETTLE_S)
        sizes = sorted(network.memory(broker) / 1e6 for broker in range(BROKERS))
    console = Console()
    console.print(table)
    console.print(
        f"{BROKERS} brokers at their start: {sizes[0]:.0f} to {sizes[-1]:.0f} MB each, "
        f"{sum(sizes):,.0f} MB together"
    )


if __name__ == "__main__":
    asyncio.run(main())
