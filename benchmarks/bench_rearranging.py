"""Gains of moving publishers and of exchanged links, each alone and both.

Brokers of a random tree are at random places of a continent. Publishers publish ten times a second;
their subscribers are at some brokers, near each other or anywhere. Each network is simulated four
times with the same publications. The table has, for the last quarter, messages that brokers receive
per second, brokers' own among them, the mean delay and the mean number of links; and for the whole
run the numbers of moves and of exchanges, and how often one prevented the other.

    python benchmarks/bench_rearranging.py [NETWORKS]
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random
from statistics import mean

import msgspec

from shoal.broker.messages import Publish
from shoal.clients.records import MigrationRecord
from shoal.experiments.networks.topologies import random_tree
from shoal.language import parse
from shoal.model import Advertisement, Publication, Subscription
from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters as Grape
from shoal.overlays.publisher_relocation.records import SelectionRecord
from shoal.overlays.registry import strategy_factory
from shoal.overlays.self_organising.parameters import (
    InterestMeasure,
    Mode,
    PublisherPolicy,
    SelfOrganisingParameters,
)
from shoal.overlays.self_organising.records import ProposalRecord
from shoal.simulation.links.underlay import GeographicUnderlay
from shoal.simulation.service import ServiceCosts
from shoal.simulation.world import World

SECOND_US = 1_000_000
BROKERS, PUBLISHERS, SUBSCRIBERS = 24, 16, 5
START_US, END_US, EACH_US = 5 * SECOND_US, 245 * SECOND_US, SECOND_US // 10
LAST_US = END_US - 60 * SECOND_US
SERVICE = ServiceCosts(
    processing_us=500, matching_us=300, transmission_us=150, client_transmission_us=50
)
EXCHANGE = SelfOrganisingParameters(
    mode=Mode.EXCHANGE, interval_us=10 * SECOND_US, interest=InterestMeasure.PASSING
)
RUNS: dict[str, tuple[str, msgspec.Struct | None]] = {
    "tree": ("tree", None),
    "moves (grape)": ("grape", Grape()),
    "exchanges": ("self_organising", EXCHANGE),
    "both": (
        "self_organising",
        msgspec.structs.replace(EXCHANGE, publishers=PublisherPolicy.GRAPE),
    ),
}
COLUMNS = ("messages/s", "delay (ms)", "links", "moves", "exchanges", "moves off", "exchanges off")


def network(seed: int, system: str, parameters: msgspec.Struct | None) -> World:
    """One of the four, after its run."""
    random = Random(f"rearranging/{seed}")
    names = [f"B{number}" for number in range(BROKERS)]
    places = {name: (random.uniform(30, 48), random.uniform(-120, -75)) for name in names}
    underlay = GeographicUnderlay(places, hop_cost_us=500, local_latency_us=100)
    world = World(
        random_tree(names, seed), strategy_factory(system, parameters), underlay,
        places={name: name for name in names}, costs=SERVICE, seed=seed,
    )  # fmt: skip
    for number in range(PUBLISHERS):
        publisher, home = f"P{number}", random.choice(names)
        world.add_publisher(publisher, home, home)
        filter = parse(f"class = '{publisher}'")
        world.advertise(0, Advertisement(id=publisher, publisher=publisher, filter=filter))
        for each, at in enumerate(random.sample(names, SUBSCRIBERS)):
            client = f"C{number}.{each}"
            world.add_subscriber(client, at)
            world.subscribe(SECOND_US, at, Subscription(id=client, client=client, filter=filter))
        from_us = START_US + random.randrange(EACH_US)
        for sequence, at_us in enumerate(range(from_us, END_US, EACH_US)):
            publication = Publication(
                publisher=publisher, sequence=sequence, published_us=at_us,
                attributes={"class": publisher},
            )  # fmt: skip
            world.request(at_us, publisher, Publish((publication,)))
    world.run(END_US + 5 * SECOND_US)
    return world


def row(world: World) -> list[float]:
    """The values of COLUMNS; AssertionError if anything is lost or doubled."""
    deliveries, records = world.trace.deliveries, world.trace.records
    assert len(deliveries) == len(world.trace.published) * SUBSCRIBERS
    late = [each for each in deliveries if each.publication.published_us >= LAST_US]
    taken = sum(
        each.messages_in for each in world.load_rows()
        if LAST_US <= each.window_start_us < END_US
    )  # fmt: skip
    counts = Counter(type(each) for each in records)
    proposals = [each for each in records if isinstance(each, ProposalRecord)]
    selected = sum(
        isinstance(each, SelectionRecord) and each.target != each.broker for each in records
    )
    return [
        taken / ((END_US - LAST_US) / SECOND_US),
        mean(each.delivered_us - each.publication.published_us for each in late) / 1_000,
        mean(each.hops for each in late),
        counts[MigrationRecord],
        sum(each.outcome == "done" for each in proposals),
        selected - counts[MigrationRecord],
        sum("a publisher moves" in each.reason for each in proposals),
    ]


def main(networks: int) -> None:
    print(f"{'mean of ' + str(networks):16}" + "".join(f"{name:>15}" for name in COLUMNS))
    for name, (system, parameters) in RUNS.items():
        rows = [row(network(seed, system, parameters)) for seed in range(1, networks + 1)]
        means = [mean(column) for column in zip(*rows, strict=True)]
        print(f"{name:16}" + "".join(f"{each:15,.1f}" for each in means), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
