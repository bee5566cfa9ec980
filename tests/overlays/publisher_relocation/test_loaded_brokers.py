"""Networks near saturation: decisions that know brokers' capacity, and tracing that backs off.

A chain of brokers with a subscriber of everything at its end, the main office, and one subscriber
for each publisher at the middle.  In the paper's way all publishers move to the office, and results
of POP's traces overload the brokers between.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import mean

import msgspec
import pytest

from shoal.broker.messages import Publish
from shoal.language import parse
from shoal.model import Advertisement, Publication, Subscription
from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters
from shoal.overlays.publisher_relocation.pop.parameters import PopParameters
from shoal.overlays.registry import strategy_factory
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.service import ServiceCosts
from shoal.simulation.world import World

BROKERS = [f"B{number}" for number in range(1, 8)]
LINKS = list(pairwise(BROKERS))
PUBLISHERS = 8
SECOND_US = 1_000_000
SECONDS = 120


def world(system: str, parameters: msgspec.Struct | None, publication_us: int) -> World:
    """Each publisher at another broker; every publication takes so long, and more by the tables."""
    costs = ServiceCosts(
        processing_us=publication_us,
        matching_per_subscription_ns=1_000_000,
        transmission_us=100,
    )
    factory = strategy_factory(system, parameters)
    made = World(LINKS, factory, ConstantUnderlay(1_000), costs=costs)
    for number in range(PUBLISHERS):
        name, broker = f"P{number}", BROKERS[number % 5]
        made.add_publisher(name, broker, broker)
        wanted = parse(f"y = {number}")
        made.advertise(0, Advertisement(id=name, publisher=name, filter=wanted))
        for client, at, filter in (
            (f"office{number}", "B7", wanted),
            (f"some{number}", "B3", parse(f"y = {number} AND rare = 0")),
        ):
            made.add_subscriber(client, at)
            made.subscribe(SECOND_US, at, Subscription(id=client, client=client, filter=filter))
    for tick in range(4 * SECONDS):
        for number in range(PUBLISHERS):
            at_us = 5 * SECOND_US + tick * SECOND_US // 4 + number * SECOND_US // 40
            name = f"P{number}"
            publication = Publication(
                publisher=name,
                sequence=tick,
                published_us=at_us,
                attributes={"rare": tick % 4, "y": number},
            )
            made.request(at_us, name, Publish((publication,)))
    made.run()
    wanted_deliveries = PUBLISHERS * (4 * SECONDS + SECONDS)
    assert len(made.trace.deliveries) == wanted_deliveries  # none is lost
    assert len({(row.client, row.publication.key) for row in made.trace.deliveries}) == (
        wanted_deliveries
    )
    return made


def late_delay_us(made: World) -> float:
    late = [row for row in made.trace.deliveries if row.publication.sequence >= 3 * SECONDS]
    return mean(row.delivered_us - row.publication.published_us for row in late)


@pytest.mark.parametrize(
    ("system", "parameters"),
    [
        ("grape", GrapeParameters),
        ("pop", PopParameters),
    ],
)
def test_relocation_does_not_saturate_brokers(
    system: str, parameters: type[GrapeParameters | PopParameters]
) -> None:
    baseline = late_delay_us(world("tree", None, 20_000))
    knowing = late_delay_us(world(system, parameters(), 20_000))
    papers_way = late_delay_us(world(system, parameters(most_busy_percent=100), 20_000))
    assert knowing < 1.2 * baseline
    assert papers_way > 10 * knowing
