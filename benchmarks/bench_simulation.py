"""The simulator's speed: message hops per second on one core, 63 brokers.

A balanced binary tree of 63 brokers, 35 publishers, 700 subscriptions of which each publication
matches about five, publications one at a time (batching has no effect). A hop is one message over
one link: publisher to broker, broker to broker, broker to subscriber. The output has hops per
second for the tree and for GRAPE, medians of several runs, and the cost of one broker input.

    python benchmarks/bench_simulation.py [--publications N] [--runs N]
"""

from __future__ import annotations

import argparse
import statistics
import time
from random import Random

from shoal.broker.messages import Publish
from shoal.language import parse
from shoal.model import Advertisement, Publication, Subscription
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.overlays.shapes import TREE
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.service import ServiceCosts
from shoal.simulation.world import World

BROKERS = 63
PUBLISHERS = 35
SUBSCRIBERS_EACH = 20
START_US = 10_000_000
INTERVAL_US = 20_000
SETTLE_US = 5_000_000


class _Source:
    """Publishes one event of a random publisher every INTERVAL_US."""

    def __init__(self, world: World, publications: int, random: Random) -> None:
        self._world = world
        self._publications = publications
        self._random = random

    def publish(self, now_us: int, number: int) -> None:
        publisher = self._random.randrange(PUBLISHERS)
        publication = Publication(
            publisher=f"P{publisher}",
            sequence=number,
            published_us=now_us,
            attributes={
                "carrier": f"C{publisher % 12}",
                "origin": f"O{publisher // 12}",
                "delay": self._random.randrange(101),
                "distance": self._random.randrange(3_000),
                "flight": number,
            },
        )
        self._world.request(now_us, publication.publisher, Publish((publication,)))
        if number + 1 < self._publications:
            self._world.queue.push(now_us + INTERVAL_US, self.publish, number + 1)


def build(system: str, publications: int, seed: int) -> World:
    random = Random(seed)
    links = [(f"B{(number - 1) // 2}", f"B{number}") for number in range(1, BROKERS)]
    world = World(
        links,
        strategy_factory(system),
        ConstantUnderlay(2_000),
        costs=ServiceCosts(processing_us=50, matching_us=100, transmission_us=20),
    )
    for number in range(PUBLISHERS):
        publisher = f"P{number}"
        promise = f"carrier = 'C{number % 12}' AND origin = 'O{number // 12}'"
        world.add_publisher(publisher, f"B{random.randrange(BROKERS)}", "somewhere")
        advertisement = Advertisement(
            id=f"{publisher}.A", publisher=publisher, filter=parse(promise)
        )
        world.advertise(0, advertisement)
        for index in range(SUBSCRIBERS_EACH):
            client = f"{publisher}.S{index}"
            share = random.choices([0.1, 0.5, 1.0], [70, 25, 5])[0]
            text = promise if share == 1.0 else f"{promise} AND delay > {100 - share * 100:g}"
            subscription = Subscription(id=client, client=client, filter=parse(text))
            world.add_subscriber(client, "somewhere")
            world.subscribe(5_000_000, f"B{random.randrange(BROKERS)}", subscription)
    source = _Source(world, publications, random)
    world.queue.push(START_US, source.publish, 0)
    return world


def ends_us(publications: int) -> int:
    """The end of a run: some systems' timers never end."""
    return START_US + publications * INTERVAL_US + SETTLE_US


def measure(system: str, publications: int, seed: int) -> tuple[int, int, float]:
    """(message hops, deliveries, seconds) of the publishing part of one run."""
    world = build(system, publications, seed)
    world.run(START_US - 1)
    set_up = sum(row.messages_in for row in world.load_rows())
    start = time.process_time()
    world.run(ends_us(publications))
    seconds = time.process_time() - start
    deliveries = len(world.trace.deliveries)
    taken_in = sum(row.messages_in for row in world.load_rows()) - set_up
    return taken_in + deliveries, deliveries, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--publications", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{BROKERS} brokers, {PUBLISHERS} publishers, {arguments.publications} publications")
    for system in (name for name, one in SYSTEMS.items() if one.shape is TREE):
        runs = [measure(system, arguments.publications, 1) for _ in range(arguments.runs)]
        hops, deliveries, _ = runs[0]
        seconds = statistics.median(run[2] for run in runs)
        print(
            f"{system:22} {hops:>9,} message hops ({deliveries:,} of them deliveries) "
            f"in {seconds:.2f} s: {hops / seconds:>9,.0f} hops/s, "
            f"{seconds / (hops - deliveries) * 1e6:.1f} us per broker input"
        )


if __name__ == "__main__":
    main()
