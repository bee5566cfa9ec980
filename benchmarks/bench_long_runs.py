"""The cost of a publication after many, in comparison with the first: `make bench-long-runs`.

Brokers keep deliveries, streams, and the state of their system in bounded tables, which drop the
oldest rows at the bound. The cost of that appears only at the bound: after 500,000 publications, in
some tables. Four simulated brokers with a publisher and a subscriber each handle all publications,
half of them in streams of their own; then front ends handle publications that may come twice.

    python benchmarks/bench_long_runs.py [--publications N] [SYSTEM ...]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.systems import eager, with_cycles

from shoal.broker.messages import Publish
from shoal.language import parse
from shoal.model import Advertisement, Publication, Subscription
from shoal.mqtt.front_end.deduplication import OrderedDeduplication, UnorderedDeduplication
from shoal.overlays.registry import MODULES, strategy_factory
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.world import World

BROKERS = ("B1", "B2", "B3", "B4")
TOPICS, STREAMS = 20, 300_000
BATCH, INTERVAL_US, SETTLE_US = 25, 10_000, 5_000_000
PART = 100_000


class _Traffic:
    """Publications of one publisher at each broker, in batches."""

    def __init__(self, system: str) -> None:
        self._random = Random(1)
        self._sequence = 0
        self._left = 0
        chain = list(pairwise(BROKERS))
        self.world = World(
            with_cycles(system, BROKERS, chain),
            strategy_factory(system, eager(system, 1_000, BROKERS)),
            ConstantUnderlay(1_000),
            brokers=BROKERS,
        )
        for broker in BROKERS:
            publisher, subscriber = f"P{broker}", f"S{broker}"
            self.world.add_publisher(publisher, broker, "somewhere")
            promise = Advertisement(
                id=f"{publisher}.A", publisher=publisher, filter=parse("class > ''")
            )
            self.world.advertise(0, promise)
            self.world.add_subscriber(subscriber, "somewhere")
            for topic in range(TOPICS):
                wanted = Subscription(
                    id=f"{subscriber}.{topic}",
                    client=subscriber,
                    filter=parse(f"class = 't{topic}'"),
                )
                self.world.subscribe(SETTLE_US, broker, wanted)
        self.world.run(3 * SETTLE_US)

    def pass_on(self, publications: int) -> float:
        """Publish so many, and deliver them; seconds."""
        self._left = publications // BATCH // len(BROKERS)
        start_us, start = self.world.queue.now_us, time.process_time()
        self.world.queue.push(start_us, self._publish, None)
        self.world.run(start_us + self._left * INTERVAL_US + SETTLE_US)
        taken = time.process_time() - start
        trace = self.world.trace
        assert len(trace.deliveries) == publications // 2 * len(BROKERS)
        for rows in (trace.deliveries, trace.published, trace.records):
            rows.clear()
        return taken

    def _publish(self, now_us: int, _: None) -> None:
        for broker in BROKERS:
            batch = tuple(self._made(f"P{broker}", now_us) for _ in range(BATCH))
            self.world.request(now_us, f"P{broker}", Publish(batch))
        self._left -= 1
        if self._left:
            self.world.queue.push(now_us + INTERVAL_US, self._publish, None)

    def _made(self, publisher: str, now_us: int) -> Publication:
        self._sequence += 1
        is_wanted = self._sequence % 2
        name = f"t{self._sequence % TOPICS}" if is_wanted else f"z{self._random.randrange(STREAMS)}"
        return Publication(
            publisher=publisher,
            sequence=self._sequence,
            published_us=now_us,
            assured=True,
            attributes={"class": name},
        )


def of_a_system(system: str, publications: int) -> Iterator[float]:
    """Seconds for each 100,000 publications."""
    traffic = _Traffic(system)
    return (traffic.pass_on(PART) for _ in range(publications // PART))


def of_a_front_end(
    taker: OrderedDeduplication | UnorderedDeduplication, publications: int
) -> Iterator[float]:
    """The same of a front end where each publication may come twice."""
    for part in range(publications // PART):
        made = [
            Publication(
                publisher=f"P{number % STREAMS}",
                sequence=number,
                published_us=0,
                assured=True,
                attributes={},
            )
            for number in range(part * PART, (part + 1) * PART)
        ]
        start = time.process_time()
        assert all(map(taker.take, made))
        yield time.process_time() - start


def show(name: str, parts: Iterator[float]) -> None:
    taken = [seconds / PART * 1e6 for seconds in parts]
    print(
        f"{name:24}{taken[0]:10.1f}{taken[-1]:10.1f}{max(taken):10.1f}"
        f"{taken[-1] / taken[0]:12.2f}{max(taken) / taken[0]:12.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--publications", type=int, default=1_000_000)
    parser.add_argument("systems", nargs="*", default=list(MODULES))
    arguments = parser.parse_args()
    print("µs of processor time per publication, of each 100,000")
    print(f"{'':24}{'first':>10}{'last':>10}{'most':>10}{'last/first':>12}{'most/first':>12}")
    for system in arguments.systems:
        show(system, of_a_system(system, arguments.publications))
    for name, taker in (
        ("streams", OrderedDeduplication({})),
        ("publications", UnorderedDeduplication({})),
    ):
        show(f"a front end's {name}", of_a_front_end(taker, arguments.publications))


if __name__ == "__main__":
    main()
