"""Delays of deliveries at a steady pace, at rest and while clients move.

Three broker processes in a line, a publisher at the first, subscribers of QoS 1 at all of them.
Half of the subscribers stay; the others are redirected to another broker one after the other. Rest
and moves alternate. The exit code is 1 if the 99th percentile of all deliveries during moves is
more than `MOST` times that at rest, in the median turn, or if fewer than `LEAST` clients moved per
second in some turn.

    python benchmarks/bench_moves.py [TURNS [SECONDS]]
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.runtime.processes import Processes, processes

from shoal.client import Client, client
from shoal.runtime.supervisor import order

NAMES = ("B1", "B2", "B3")
SUBSCRIBERS = 24
PER_SECOND = 100
# Between two redirects.
PAUSE_S = 0.05
MOST = 3.0
LEAST = 2
# A client redirected repeatedly within seconds stops following; this benchmark needs it to follow.
client.SETTLED_S = 0.0
TOPIC = "paced"


class Subscriber:
    """Records the time of each delivery, in ms."""

    def __init__(self, number: int, server: str) -> None:
        self.name = f"c{number}"
        self.moves = number % 2 == 0
        self.at = NAMES[number % 3]
        self.delays_ms: list[float] = []
        self.client = Client(server, self.name)

    async def run(self, is_subscribed: asyncio.Event) -> None:
        async with self.client.subscribe(TOPIC, qos=1) as messages:
            is_subscribed.set()
            async for message in messages:
                took_ns = time.monotonic_ns() - int(message.payload)
                self.delays_ms.append(took_ns / 1_000_000)


async def publish(publisher: Client) -> None:
    """Publish at a steady pace; late publications are made at once."""
    started_s = time.monotonic()
    for number in count():
        await asyncio.sleep(max(0.0, started_s + number / PER_SECOND - time.monotonic()))
        await publisher.publish(TOPIC, b"%d" % time.monotonic_ns(), qos=1)


async def move(network: Processes, subscribers: Sequence[Subscriber]) -> None:
    """Redirect one client after the other to the next broker, repeatedly."""
    while True:
        for each in subscribers:
            target = NAMES[(NAMES.index(each.at) + 1) % 3]
            address = network.network.broker(each.at).address("admin")
            assert address is not None
            if not await order(address, "move", client=each.name, broker=target):
                each.at = target
            await asyncio.sleep(PAUSE_S)


def taken(subscribers: Sequence[Subscriber]) -> tuple[float, float]:
    """The median and the 99th percentile since the last call, in ms."""
    delays = np.concatenate([each.delays_ms for each in subscribers])
    for each in subscribers:
        each.delays_ms.clear()
    return float(np.percentile(delays, 50)), float(np.percentile(delays, 99))


async def measure(network: Processes, turns: int, seconds: float) -> float:
    """The median ratio of the 99th percentiles during moves and at rest."""
    servers = {name: network.network.broker(name).mqtt for name in NAMES}
    subscribers = [Subscriber(number, servers[NAMES[number % 3]]) for number in range(SUBSCRIBERS)]
    movers = [each for each in subscribers if each.moves]
    ratios = []
    async with AsyncExitStack() as stack:
        publisher = await stack.enter_async_context(Client(servers["B1"], "publisher"))
        tasks = [asyncio.create_task(publish(publisher))]
        for each in subscribers:
            await stack.enter_async_context(each.client)
            is_subscribed = asyncio.Event()
            tasks.append(asyncio.create_task(each.run(is_subscribed)))
            await is_subscribed.wait()
        print(f"{'':8}{'p50 (ms)':>10}{'p99 (ms)':>10}{'moves':>8}", flush=True)
        for _ in range(turns):
            await asyncio.sleep(1)
            taken(subscribers)
            await asyncio.sleep(seconds)
            rest = taken(subscribers)
            print(f"{'rest':8}{rest[0]:10.1f}{rest[1]:10.1f}", flush=True)
            before = sum(each.client.redirections for each in movers)
            moving = asyncio.create_task(move(network, movers))
            await asyncio.sleep(seconds)
            during = taken(subscribers)
            moved = sum(each.client.redirections for each in movers) - before
            print(f"{'moves':8}{during[0]:10.1f}{during[1]:10.1f}{moved:8}", flush=True)
            if moved < LEAST * seconds:
                raise SystemExit(f"only {moved} went: nothing is measured")
            moving.cancel()
            with suppress(asyncio.CancelledError):
                await moving
            ratios.append(during[1] / rest[1])
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    return median(ratios)


def main(turns: int = 5, seconds: float = 10) -> int:
    limits = {"maximum_moves_per_hour": 1_000_000}
    with (
        TemporaryDirectory() as folder,
        processes(Path(folder), brokers=3, limits=limits) as network,
    ):
        ratio = asyncio.run(measure(network, int(turns), seconds))
    print(f"p99 during moves: {ratio:.2f} times that at rest (at most {MOST})")
    return int(ratio > MOST)


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:])))
