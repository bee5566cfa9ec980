"""Live brokers beside mosquitto, same load from the same generator: `make bench-live`.

Every load runs alone, first against mosquitto where it is installed (Debian: apt install
mosquitto), then against shoal; the ratio is what counts.  Loads that mosquitto has no counterpart
for (filters on content) are compared with the figures in the project's goals.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

import live_load
from live_load import Place
from shoal.mqtt.encoder import encode
from shoal.mqtt.packets import Publish, SubscriptionRequest
from shoal.mqtt.properties import Properties
from shoal.runtime.network_file import Network, dump_network, parse_network
from shoal.runtime.supervisor import free_ports

REPEATS = 3
START_S = 30.0
Load = Callable[[Place], Coroutine[None, None, float]]


class Brokers:
    """What is measured: processes, and where clients connect."""

    def __init__(self, processes: list[subprocess.Popen[bytes]], places: list[Place]) -> None:
        self.processes = processes
        self.places = places

    @property
    def resident_kb(self) -> int:
        text = Path(f"/proc/{self.processes[0].pid}/status").read_text(encoding="utf-8")
        return next(int(row.split()[1]) for row in text.splitlines() if row.startswith("VmRSS"))


@contextmanager
def running(commands: list[list[str]], places: list[Place]) -> Iterator[Brokers]:
    """Processes that listen at these places, until the end."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen(command, **quiet) for command in commands]  # type: ignore[call-overload]
    try:
        asyncio.run(_listening(places))
        yield Brokers(processes, places)
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait()


async def _listening(places: list[Place]) -> None:
    deadline_s = time.monotonic() + START_S
    for place in places:
        while True:
            try:
                _, writer = await asyncio.open_connection(*place)
                writer.close()
                break
            except OSError:
                if time.monotonic() > deadline_s:
                    raise
                await asyncio.sleep(0.1)
    await asyncio.sleep(1.0)  # links come up


@contextmanager
def mosquitto() -> Iterator[Brokers]:
    with tempfile.TemporaryDirectory() as folder:
        (port,) = free_ports("127.0.0.1", 1)
        path = Path(folder) / "mosquitto.conf"
        # No bound on what waits for a subscriber, as it would drop what it must deliver.
        path.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
            "max_inflight_messages 1000\nset_tcp_nodelay true\n",
            encoding="utf-8",
        )
        with running([["mosquitto", "-c", str(path)]], [Place("127.0.0.1", port)]) as brokers:
            yield brokers


def line(count: int) -> Network:
    """Brokers in a line; every one lets clients in."""
    free = iter(free_ports("127.0.0.1", 2 * count))
    names = [f"B{number}" for number in range(1, count + 1)]
    sections = [
        {"name": name, "peers": f"127.0.0.1:{next(free)}", "mqtt": f"127.0.0.1:{next(free)}"}
        for name in names
    ]
    links = [list(pair) for pair in pairwise(names)]
    # As mosquitto above: nothing that must be delivered is dropped.
    limits = {"maximum_queued_messages": 10_000_000, "maximum_queued_bytes": 2**30}
    data = {"name": "line", "brokers": sections, "links": links, "limits": limits}
    return parse_network(data | {"access": {"anonymous": True}})


@contextmanager
def shoal(count: int = 1) -> Iterator[Brokers]:
    network = line(count)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.toml"
        path.write_text(dump_network(network), encoding="utf-8")
        base = [sys.executable, "-m", "shoal.cli.main", "serve", str(path), "--broker"]
        addresses = [broker.address("mqtt") for broker in network.brokers]
        places = [Place(each.host, each.port) for each in addresses if each is not None]
        with running([[*base, each.name] for each in network.brokers], places) as brokers:
            yield brokers


# --- loads ------------------------------------------------------------------------------------


def saturated(subscribers: int, qos: int, count: int) -> Load:
    async def load(place: Place) -> float:
        return await live_load.saturate(place, subscribers, qos, count) * subscribers

    return load


async def paced(place: Place) -> float:
    return await live_load.pace(place, 1_000, 5)


def quote(symbol: int, price: int) -> Publish:
    """A stock quote, equally long whatever it says."""
    attributes = (("symbol", f"S{symbol:03}"), ("price", str(price)))
    return Publish("stocks", live_load.PAYLOAD, properties=Properties(user_properties=attributes))


async def content_line(first: Place, last: Place, count: int = 60_000) -> float:
    """1,000 filters at the last of three brokers; each publication is for one of them."""
    reader = await live_load.connect(last, "reader", 5)
    requests = [SubscriptionRequest(f"stocks?symbol='S{each:03}'") for each in range(1_000)]
    await live_load.subscribe(reader, requests, 5)
    await asyncio.sleep(2)  # until the first broker has heard of all
    packets = [quote(symbol, 500) for symbol in range(1_000)]
    size = len(encode(packets[0], 5)) * count
    rate = await live_load.flood(first, [(reader, size)], list(packets), count)
    live_load.close(reader)
    return rate


async def content_filters(place: Place, count: int = 20_000) -> float:
    """10,000 filters of 100 clients; a publication matches about 11.5, at as many clients."""
    readers = []
    for number in range(100):
        reader = await live_load.connect(place, f"reader-{number}", 5)
        wishes = [
            f"stocks?symbol='S{(number + step * 100) * 7 % 870:03}'&price>{step}"
            for step in range(100)
        ]
        await live_load.subscribe(reader, [SubscriptionRequest(wish) for wish in wishes], 5)
        readers.append((reader, wishes))
    packets = [quote(symbol, 500) for symbol in range(870)]
    size = len(encode(packets[0], 5))
    expected = []
    for reader, wishes in readers:
        wanted = {int(wish[len("stocks?symbol='S") :][:3]) for wish in wishes}
        matches = sum(1 for number in range(count) if number % len(packets) in wanted)
        expected.append((reader, matches * size))
    rate = await live_load.flood(place, expected, list(packets), count)
    live_load.close(*(reader for reader, _ in readers))
    return rate


def idle_kb(brokers: Brokers, connections: int = 2_000) -> float:
    """What one idle connection takes."""

    async def run() -> float:
        before = brokers.resident_kb
        peers = [
            await live_load.connect(brokers.places[0], f"c{number}")
            for number in range(connections)
        ]
        after = brokers.resident_kb
        live_load.close(*peers)
        return (after - before) / connections

    return uvloop.run(run())


# --- the table --------------------------------------------------------------------------------

LOADS: dict[str, tuple[Load, str]] = {
    "1 → 1, QoS 0": (saturated(1, 0, 200_000), "msg/s"),
    "1 → 1, QoS 1": (saturated(1, 1, 60_000), "msg/s"),
    "1 → 50, QoS 0": (saturated(50, 0, 8_000), "deliveries/s"),
    "1 → 50, QoS 1": (saturated(50, 1, 4_000), "deliveries/s"),
    "paced 1,000/s, p99": (paced, "ms"),
}


def median(load: Load, place: Place) -> float:
    return statistics.median(uvloop.run(load(place)) for _ in range(REPEATS))


def main() -> None:
    table = Table(title=f"live brokers, {os.cpu_count()} cores, medians of {REPEATS}")
    for column in ("load", "mosquitto", "shoal", "ratio", "unit"):
        table.add_column(column, justify="left" if column in ("load", "unit") else "right")
    console = Console()
    peers: dict[str, float] = {}
    if shutil.which("mosquitto"):
        with mosquitto() as brokers:
            peers = {name: median(load, brokers.places[0]) for name, (load, _) in LOADS.items()}
    else:
        console.print("mosquitto is not installed: no ratios (Debian: apt install mosquitto)")
    with shoal() as brokers:
        for name, (load, unit) in LOADS.items():
            ours = median(load, brokers.places[0])
            other = peers.get(name)
            ratio = f"{ours / other:.2f}" if other else ""
            table.add_row(name, f"{other:,.2f}" if other else "", f"{ours:,.2f}", ratio, unit)
    with shoal() as brokers:
        rate = uvloop.run(content_filters(brokers.places[0]))
        table.add_row("10,000 filters, 11.5 matches", "", f"{rate:,.0f}", "", "publications/s")
    with shoal(3) as brokers:
        rate = uvloop.run(content_line(brokers.places[0], brokers.places[-1]))
        table.add_row("three in a line, 1,000 filters", "", f"{rate:,.0f}", "", "publications/s")
    with shoal() as brokers:
        table.add_row("idle connection", "", f"{idle_kb(brokers):,.1f}", "", "KB")
    console.print(table)


if __name__ == "__main__":
    main()
