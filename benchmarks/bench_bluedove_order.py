"""The cost of a publisher's order in a live BlueDove cluster (`order = "publisher"`).

Two dispatchers and three matchers, a process each on loopback. One client publishes at D1 at QoS 1,
with random places on two dimensions; another subscribes to everything at D2. Throughput is with
WINDOW publications under way, latency (publish to arrival) with one. The output has medians of
ROUNDS rounds with the two orders in turn, and their ratio. Inversions are pairs of consecutive
arrivals in the wrong order.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median

from shoal.client import Client
from shoal.runtime.free_ports import free_ports
from shoal.runtime.network_file import dump_network, parse_network
from shoal.runtime.supervisor import Supervisor

PUBLICATIONS = 4_000
ALONE = 300
WINDOW = 200
ROUNDS = 3
NAMES = ("D1", "D2", "M1", "M2", "M3")


async def measure(order: str) -> tuple[float, float, int]:
    """Publications per second, median latency in ms, inversions."""
    ports = iter(free_ports("127.0.0.1", 3 * len(NAMES)))
    keys = ("peers", "mqtt", "admin")
    brokers = [{"name": name} | {key: f"127.0.0.1:{next(ports)}" for key in keys} for name in NAMES]
    dimensions = [{"attribute": name, "low": 0, "high": 1_000} for name in "xy"]
    network = parse_network(
        {
            "name": "order",
            "system": "bluedove",
            "brokers": brokers,
            "links": [],
            "access": {"anonymous": True},
            "bluedove": {
                "dispatchers": NAMES[:2],
                "matchers": NAMES[2:],
                "dimensions": dimensions,
                "order": order,
            },
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.toml"
        path.write_text(dump_network(network), encoding="utf-8")
        supervisor = Supervisor(network, path)
        await supervisor.start()
        try:
            await asyncio.sleep(3)
            return await publish(*(str(network.broker(name).mqtt) for name in NAMES[:2]))
        finally:
            await supervisor.stop()


async def publish(writer_at: str, reader_at: str) -> tuple[float, float, int]:
    random, window = Random(1), asyncio.Semaphore(WINDOW)
    async with (
        Client(writer_at) as writer,
        Client(reader_at) as reader,
        reader.subscribe("q", "x >= 0", qos=1) as subscription,
    ):

        async def one(number: int) -> None:
            attributes = {"x": random.randrange(1_000), "y": random.randrange(1_000)}
            await writer.publish("q", b"%d" % number, qos=1, attributes=attributes)

        async def in_window(number: int) -> None:
            async with window:
                await one(number)

        latencies_s = []
        for number in range(ALONE):
            since_s = time.perf_counter()
            publishing = asyncio.create_task(one(number))
            await subscription.get()
            latencies_s.append(time.perf_counter() - since_s)
            await publishing
        since_s = time.perf_counter()
        tasks = [asyncio.create_task(in_window(number)) for number in range(PUBLICATIONS)]
        found = [int((await subscription.get()).payload) for _ in range(PUBLICATIONS)]
        took_s = time.perf_counter() - since_s
        await asyncio.gather(*tasks)
    inversions = sum(later < before for before, later in pairwise(found))
    return PUBLICATIONS / took_s, median(latencies_s) * 1_000, inversions


def main() -> None:
    rounds: dict[str, list[tuple[float, float, int]]] = {"free": [], "publisher": []}
    for _ in range(ROUNDS):
        for order, found in rounds.items():
            found.append(asyncio.run(measure(order)))
    for order, found in rounds.items():
        rates, latencies, inversions = (median(column) for column in zip(*found, strict=True))
        print(f"{order:10} {rates:8,.0f}/s {latencies:6.2f} ms {inversions:6,.0f} inversions")
    ratios = [
        median(after[column] / before[column] for before, after in zip(*rounds.values()))  # noqa: B905
        for column in (0, 1)
    ]
    print(f"order costs: {ratios[0]:.2f} times the throughput, {ratios[1]:.2f} times the latency")


if __name__ == "__main__":
    main()
