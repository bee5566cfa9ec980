"""Publishers that move to one broker of little room: the paper's way beside known capacity, live.

Three broker processes in a line. Ten publishers start at each end; of every publication the middle
broker's subscribers want three in ten, and those at the ends one in twenty. The middle is the best
broker for each publisher, and has no room for all: costly filters, which match nothing, take every
broker that a publication passes some milliseconds. GRAPE (for load) and POP run with
`most_busy_percent` 100, which is the papers' way, and 80. The columns: publishers at the middle in
the end, its busy part of the last seconds, and delays of the deliveries in the last third.

    python benchmarks/bench_loaded_brokers.py [SECONDS [FILTERS]]

It needs two idle cores: a busy machine makes brokers slower. Source: ours; Cheung and Jacobsen,
publisher relocation, knows no capacity (4.2).
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.runtime.processes import Processes, processes

from shoal.client import Client

NAMES = ("B1", "B2", "B3")
OFFICE = "B2"
PUBLISHERS = 20
PER_SECOND = 5
TOPIC = "orders"
# Of 1,000 values of `x`, those that subscribers want.
WANTED = {"B1": (500, 550), "B2": (0, 300), "B3": (600, 650)}
SYSTEMS: dict[str, dict[str, Any]] = {
    "grape": {"trace_session_length": 20, "priority": "load"},
    "pop": {"threshold": 20, "window_publications": 20, "trace_window_us": 5_000_000},
}


class Load:
    """Publishers and subscribers, and the time of each delivery."""

    def __init__(self, network: Processes, filters: int) -> None:
        self._servers = {name: network.network.broker(name).mqtt for name in NAMES}
        self._filters = filters
        self.delays_ms: list[float] = []
        starts = ["B1" if number % 2 else "B3" for number in range(PUBLISHERS)]
        self.publishers = [
            Client(self._servers[at], f"p{number}", advertise=[f"p = {number}"])
            for number, at in enumerate(starts)
        ]

    async def run(self, seconds: float) -> None:
        async with AsyncExitStack() as stack:
            office = await stack.enter_async_context(Client(self._servers[OFFICE], "office"))
            for costly in _costly_filters(self._filters):
                await stack.enter_async_context(office.subscribe(TOPIC, costly))
            tasks = []
            for name, (least, most) in WANTED.items():
                reader = await stack.enter_async_context(Client(self._servers[name], f"at-{name}"))
                where = f"x >= {least} AND x < {most}"
                messages = await stack.enter_async_context(reader.subscribe(TOPIC, where))
                tasks.append(asyncio.create_task(self._read(messages)))
            await asyncio.sleep(2)
            for number, publisher in enumerate(self.publishers):
                await stack.enter_async_context(publisher)
                tasks.append(asyncio.create_task(_publish(publisher, number)))
            await asyncio.sleep(seconds * 2 / 3)
            self.delays_ms.clear()
            await asyncio.sleep(seconds / 3)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _read(self, messages: Any) -> None:
        async for message in messages:
            self.delays_ms.append((time.monotonic_ns() - int(message.payload)) / 1_000_000)

    def at_the_office(self) -> int:
        return sum(each.address.endswith(self._servers[OFFICE]) for each in self.publishers)


async def _publish(publisher: Client, number: int) -> None:
    """At a steady pace; late publications are made at once."""
    chance, started_s = random.Random(number), time.monotonic() + number / PUBLISHERS / PER_SECOND
    for sent in count():
        await asyncio.sleep(max(0.0, started_s + sent / PER_SECOND - time.monotonic()))
        values = {"p": number, "x": chance.randrange(1_000), "a": 2**60 + sent, "b": 2**61}
        await publisher.publish(TOPIC, b"%d" % time.monotonic_ns(), attributes=values)


def _costly_filters(filters: int) -> Iterator[str]:
    """Expressions that no publication makes true, with sums of large integers."""
    chance = random.Random(1)
    for number in range(filters):
        terms = " + ".join(f"a % {chance.randrange(2, 99)}" for _ in range(30))
        yield f"CASE WHEN b > {number} THEN {terms} ELSE {number} END > {10_000 + number}"


def measure(system: str, most_busy: int, seconds: float, filters: int) -> None:
    options = SYSTEMS[system] | {"most_busy_percent": most_busy}
    with (
        TemporaryDirectory() as folder,
        processes(Path(folder), brokers=3, system=system, **{system: options}) as network,
    ):
        load = Load(network, filters)
        asyncio.run(load.run(seconds))
        status = network.status(OFFICE)
        at, delays = load.at_the_office(), load.delays_ms
    print(status.get("shown"), file=sys.stderr)
    p50, p95 = np.percentile(delays, [50, 95]) if delays else (float("nan"),) * 2
    print(f"{system:6}{most_busy:6} %{at:10}{p50:11.0f}{p95:11.0f}{len(delays):9}", flush=True)


def main(seconds: float = 75, filters: float = 100) -> None:
    print(f"{'':6}{'most busy':>8}{'at B2':>9}{'p50 (ms)':>11}{'p95 (ms)':>11}{'delivered':>10}")
    for system in SYSTEMS:
        for most_busy in (100, 80):
            measure(system, most_busy, seconds, int(filters))


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
