"""Live brokers with little processor time, while publishers relocate.

Five broker processes in a star. Each may use a part of a processor, as in a container with a limit
(Linux' control groups, so this needs root). Twenty publishers are at the leaves, and subscribers of
all of them at the middle, the main office. Messages are fewest with all publishers there, and then
the middle has more work than it can do. Publishers relocate in the paper's way, which knows no
broker's capacity, and in ours (`most_busy_percent`); the first run is without relocation.

The table has, for the last seconds of each run, the number of publishers at the middle, how much of
its processor time it used, and the delays of deliveries from the times at which the publications
were due; then the 99th percentiles as ratios. POP's window is shorter than its default, so that it
decides within the run.

    python benchmarks/bench_loaded_brokers.py [SECONDS [PER_SECOND [PROCESSORS]]]
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.runtime.live import status_of
from tests.runtime.processes import Processes, processes

from shoal.client import Client

MIDDLE, LEAVES = "B1", ("B2", "B3", "B4", "B5")
LINKS = [[MIDDLE, leaf] for leaf in LEAVES]
PUBLISHERS, SUBSCRIBERS = 20, 2
# The end of a run, which is measured.
MEASURED_S = 15.0
# A limit holds for each period of this length.
PERIOD_US = 20_000
GROUPS = Path("/sys/fs/cgroup")
POP = {"trace_window_us": 10_000_000}
WAYS: dict[str, dict[str, Any]] = {
    "no relocation": {"system": "tree"},
    "GRAPE, paper": {"system": "grape", "grape": {"most_busy_percent": 100}},
    "GRAPE, ours": {"system": "grape"},
    "POP, paper": {"system": "pop", "pop": POP | {"most_busy_percent": 100}},
    "POP, ours": {"system": "pop", "pop": POP},
}


class Figures(NamedTuple):
    """Of the end of a run: publishers at the middle, its busy part, delays in ms."""

    there: int
    busy: float
    median_ms: float
    slow_ms: float


@contextmanager
def limited(network: Processes, processors: float) -> Iterator[None]:
    """Let each broker use so many processors; all have ended afterwards."""
    is_version_2 = (GROUPS / "cgroup.controllers").exists()
    quota_us = round(processors * PERIOD_US)
    files = {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota_us)}
    if is_version_2:
        files = {"cpu.max": f"{quota_us} {PERIOD_US}"}
    groups = []
    try:
        for name, process in network.running.items():
            group = (GROUPS if is_version_2 else GROUPS / "cpu") / f"shoal-{os.getpid()}-{name}"
            group.mkdir()
            groups.append(group)
            for file, text in (files | {"cgroup.procs": str(process.pid)}).items():
                (group / file).write_text(text, encoding="ascii")
        yield
    finally:
        network.kill(*network.running)
        for group in groups:
            group.rmdir()


def used_s(pid: int) -> float:
    """The processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def publish(publisher: Client, topic: str, per_s: float) -> None:
    """Publish when it is due; late publications are made at once, with the time they were due."""
    started_ns = time.monotonic_ns()
    for number in count():
        due_ns = started_ns + round(number / per_s * 1e9)
        await asyncio.sleep(max(0.0, (due_ns - time.monotonic_ns()) / 1e9))
        await publisher.publish(topic, b"%d" % due_ns, qos=1)


async def record(subscriber: Client, delays_ms: list[float], subscribed: asyncio.Event) -> None:
    """Record the delay of each message."""
    async with subscriber.subscribe("prices/+") as messages:
        subscribed.set()
        async for message in messages:
            delays_ms.append((time.monotonic_ns() - int(message.payload)) / 1e6)  # noqa: PERF401


async def measure(network: Processes, seconds: float, per_s: float, processors: float) -> Figures:
    """Let clients publish and subscribe for so long."""
    servers = {each.name: each.mqtt for each in network.network.brokers}
    delays_ms: list[float] = []
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        tasks = []
        for number in range(SUBSCRIBERS):
            subscriber = Client(servers[MIDDLE], f"subscriber{number}")
            await stack.enter_async_context(subscriber)
            subscribed = asyncio.Event()
            tasks.append(group.create_task(record(subscriber, delays_ms, subscribed)))
            await subscribed.wait()
        for number in range(PUBLISHERS):
            topic = f"prices/{number}"
            server, promised = servers[LEAVES[number % 4]], [f"`$topic` = '{topic}'"]
            publisher = Client(server, f"publisher{number}", advertise=promised)
            await stack.enter_async_context(publisher)
            tasks.append(group.create_task(publish(publisher, topic, per_s)))
        await asyncio.sleep(seconds - MEASURED_S)
        delays_ms.clear()
        pid = network.running[MIDDLE].pid
        used, from_s = used_s(pid), time.monotonic()
        await asyncio.sleep(MEASURED_S)
        busy = (used_s(pid) - used) / (time.monotonic() - from_s) / processors
        status = await status_of(network.broker_address(MIDDLE, "admin"))
        for task in tasks:
            task.cancel()
    median_ms, slow_ms = np.percentile(delays_ms, (50, 99))
    return Figures(status["mqtt"]["connected"] - SUBSCRIBERS, busy, median_ms, slow_ms)


def main(seconds: float = 45, per_s: float = 30, processors: float = 0.1) -> None:
    if not os.access(GROUPS, os.W_OK):
        raise SystemExit(f"needs root: it makes control groups in {GROUPS}")
    columns = ("at the middle", "busy", "p50 (ms)", "p99 (ms)")
    print(f"{'':14}", *(f"{each:>13}" for each in columns), flush=True)
    found = {}
    for name, options in WAYS.items():
        with (
            TemporaryDirectory() as folder,
            processes(Path(folder), 5, links=LINKS, **options) as network,
            limited(network, processors),
        ):
            each = asyncio.run(measure(network, seconds, per_s, processors))
        cells = (f"{each.there:13}", f"{each.busy:13.0%}", *(f"{ms:13.0f}" for ms in each[2:]))
        print(f"{name:14}", *cells, flush=True)
        found[name] = each.slow_ms
    for system in ("GRAPE", "POP"):
        ratio = found[f"{system}, paper"] / found[f"{system}, ours"]
        print(f"p99 of {system}: the paper's way {ratio:.1f} times ours")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
