"""Live brokers beside mosquitto, with the same load from the same generator: `make bench-live`.

Every load runs alone, first against mosquitto if it is installed (Debian: apt install mosquitto),
then against shoal; the ratio is the result. Loads without a counterpart in mosquitto (content
filters) are compared with the project's goals. The processor time of each broker for a publication
is printed beside the rate, as it depends less on the machine's load.
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
from typing import NamedTuple

import uvloop
from rich.console import Console, JustifyMethod
from rich.table import Table

import live_load
from live_load import Place
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packets import Packet, Publish, SubscriptionRequest
from shoal.mqtt.codec.properties import Properties
from shoal.runtime.network_file import NetworkFile, dump_network, parse_network
from shoal.runtime.supervisor import free_ports

REPEATS = 3
START_S = 30.0
Load = Callable[[Place], Coroutine[None, None, float]]


class Figures(NamedTuple):
    """The figures of a load, and the processor time of one message in each broker, in µs."""

    value: float
    cpu_us: str


class Brokers:
    """The measured processes, and the addresses for clients."""

    def __init__(self, processes: list[subprocess.Popen[bytes]], places: list[Place]) -> None:
        self.processes = processes
        self.places = places

    @property
    def resident_kb(self) -> int:
        text = Path(f"/proc/{self.processes[0].pid}/status").read_text(encoding="utf-8")
        return next(int(row.split()[1]) for row in text.splitlines() if row.startswith("VmRSS"))

    @property
    def cpu_s(self) -> list[float]:
        """The processor time of each process."""
        found = []
        for process in self.processes:
            text = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8")
            user, system = text.rpartition(")")[2].split()[11:13]
            found.append((int(user) + int(system)) / os.sysconf("SC_CLK_TCK"))
        return found

    def cpu_us_each(self, before_s: list[float], count: int) -> str:
        """The processor time of each process since then for one of so many, as text."""
        pairs = zip(before_s, self.cpu_s, strict=True)
        return " + ".join(f"{(after - before) / count * 1e6:.1f}" for before, after in pairs)


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
        # No bound on a subscriber's queue, which would drop messages that must be delivered.
        path.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
            "max_inflight_messages 1000\nset_tcp_nodelay true\n",
            encoding="utf-8",
        )
        with running([["mosquitto", "-c", str(path)]], [Place("127.0.0.1", port)]) as brokers:
            yield brokers


def line(count: int, log: str = "") -> NetworkFile:
    """Brokers in a line; every one admits clients, and keeps a log in a folder, if one is named."""
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
    return parse_network(data | {"access": {"anonymous": True}, "log": {"folder": log}})


@contextmanager
def shoal(count: int = 1, *, logs: bool = False) -> Iterator[Brokers]:
    with tempfile.TemporaryDirectory() as folder:
        network = line(count, f"{folder}/log" if logs else "")
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


def quotes(symbols: int, count: int) -> list[Packet]:
    """Stock quotes of equal length; prices vary, so that hardly any two are equal."""
    found: list[Packet] = []
    for number in range(count):
        attributes = (("symbol", f"S{number % symbols:03}"), ("price", str(100 + number * 7 % 900)))
        properties = Properties(user_properties=attributes)
        found.append(Publish("stocks", live_load.PAYLOAD, properties=properties))
    return found


async def content_line(brokers: Brokers, count: int = 60_000) -> Figures:
    """1,000 filters at the last of three brokers; each publication is for one of them."""
    reader = await live_load.connect(brokers.places[-1], "reader", 5)
    requests = [SubscriptionRequest(f"stocks?symbol='S{each:03}'") for each in range(1_000)]
    await live_load.subscribe(reader, requests, 5)
    await asyncio.sleep(2)  # until the first broker knows all
    packets = quotes(1_000, count)
    size = len(encode(packets[0], 5)) * count
    before_s = brokers.cpu_s
    rate = await live_load.flood(brokers.places[0], [(reader, size)], packets, count)
    live_load.close(reader)
    return Figures(rate, brokers.cpu_us_each(before_s, count))


async def content_filters(brokers: Brokers, count: int = 60_000) -> Figures:
    """10,000 filters of 100 clients; a publication matches about 11.5, at as many clients."""
    readers = []
    for number in range(100):
        reader = await live_load.connect(brokers.places[0], f"reader-{number}", 5)
        topic_filters = [
            f"stocks?symbol='S{(number + step * 100) * 7 % 870:03}'&price>{step}"
            for step in range(100)
        ]
        await live_load.subscribe(reader, [SubscriptionRequest(text) for text in topic_filters], 5)
        readers.append((reader, topic_filters))
    packets = quotes(870, count)
    size = len(encode(packets[0], 5))
    expected = []
    for reader, topic_filters in readers:
        wanted = {int(text[len("stocks?symbol='S") :][:3]) for text in topic_filters}
        matches = sum(1 for number in range(count) if number % 870 in wanted)
        expected.append((reader, matches * size))
    before_s = brokers.cpu_s
    rate = await live_load.flood(brokers.places[0], expected, packets, count)
    live_load.close(*(reader for reader, _ in readers))
    return Figures(rate, brokers.cpu_us_each(before_s, count))


def idle_kb(brokers: Brokers, connections: int = 2_000) -> float:
    """Memory of one idle connection."""

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

# With the number of deliveries.
LOADS: dict[str, tuple[Load, str, int]] = {
    "1 → 1, QoS 0": (saturated(1, 0, 200_000), "msg/s", 200_000),
    "1 → 1, QoS 1": (saturated(1, 1, 60_000), "msg/s", 60_000),
    "1 → 50, QoS 0": (saturated(50, 0, 8_000), "deliveries/s", 400_000),
    "1 → 50, QoS 1": (saturated(50, 1, 4_000), "deliveries/s", 200_000),
    "paced 1,000/s, p99": (paced, "ms", 5_000),
}


def median(load: Load, brokers: Brokers, deliveries: int) -> Figures:
    before_s = brokers.cpu_s
    value = statistics.median(uvloop.run(load(brokers.places[0])) for _ in range(REPEATS))
    return Figures(value, brokers.cpu_us_each(before_s, REPEATS * deliveries))


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:,.2f}"


def main() -> None:
    table = Table(title=f"live brokers, {os.cpu_count()} cores, medians of {REPEATS}")
    table.caption = "CPU: µs of processor time for each message, in each broker"
    for column in ("load", "mosquitto", "CPU", "shoal", "CPU", "ratio", "unit"):
        justify: JustifyMethod = "left" if column in ("load", "unit") else "right"
        table.add_column(column, justify=justify, no_wrap=True)
    console = Console(width=120)  # all of it, also if the output is no terminal
    peers: dict[str, Figures] = {}
    if shutil.which("mosquitto"):
        with mosquitto() as brokers:
            for name, (load, _, deliveries) in LOADS.items():
                peers[name] = median(load, brokers, deliveries)
    else:
        console.print("mosquitto is not installed: no ratios (Debian: apt install mosquitto)")
    with shoal() as brokers:
        for name, (load, unit, deliveries) in LOADS.items():
            ours, other = median(load, brokers, deliveries), peers.get(name)
            theirs = (figure(other.value), other.cpu_us) if other else ("", "")
            ratio = f"{ours.value / other.value:.2f}" if other else ""
            table.add_row(name, *theirs, figure(ours.value), ours.cpu_us, ratio, unit)
    contents = (
        ("10,000 filters, 11.5 matches", 1, content_filters),
        ("three in a line, 1,000 filters", 3, content_line),
    )
    for name, count, content in contents:
        with shoal(count) as brokers:
            rate, cpu_us = uvloop.run(content(brokers))
        table.add_row(name, "", "", f"{rate:,.0f}", cpu_us, "", "publications/s")
    with shoal() as brokers:
        table.add_row("idle connection", "", "", f"{idle_kb(brokers):,.1f}", "", "", "KB")
    console.print(table)


if __name__ == "__main__":
    main()
