"""The network that a seed of `random_ack_tracker` plays: any built-in system with cycles.

On a tree a dead broker cuts the others off; `random_kills` and `random_restarts` cover trees.
"""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import NamedTuple

import msgspec

from shoal.overlays.dynatops import parameters as dynatops
from shoal.overlays.octopia import parameters as octopia
from shoal.overlays.octopia.places.labels import Product, rows_of
from shoal.overlays.registry import MODULES, SYSTEMS
from shoal.overlays.tco import parameters as tco
from shoal.overlays.tid import parameters as tid
from tests.systems import eager

SECOND_US = 1_000_000
PLAYED = tuple(name for name in MODULES if SYSTEMS[name].shape.has_cycles)


class Drawn(NamedTuple):
    """A network in which `most_away` brokers may be down at once and leave the rest connected."""

    names: list[str]
    links: list[tuple[str, str]]
    parameters: msgspec.Struct | None
    most_away: int
    give_up_us: int

    @property
    def looks_at_topics(self) -> bool:
        return "topic" in getattr(self.parameters, "__struct_fields__", ())


def draw(system: str, random: Random, *, spreads: bool = False, sharp_bits: int = 0) -> Drawn:
    """A random network, with parameters of the system's type."""
    kind = SYSTEMS[system].parameters
    if kind is octopia.OctopiaParameters:
        return _octopia(random, spreads=spreads, sharp_bits=sharp_bits)
    if kind is tid.TidParameters:
        return _tid(random)
    names = [f"B{number}" for number in range(random.randint(3, 9))]
    if issubclass(kind, dynatops.DynatopsParameters):
        clusters = {"per_gateway": random.randint(2, 4)} if system == "hybrid" else {}
        parameters: msgspec.Struct | None = kind(
            topic="topic",
            order=random.choice(list(dynatops.TopicOrder)),
            reconfigure_us=random.choice([0, 2 * SECOND_US]),
            manager=list(dynatops.Managed)[len(names) % 2],
            price_percent=0,
            **clusters,
        ).for_brokers(names)
    elif kind is tco.TcoParameters:
        parameters = tco.TcoParameters(
            topic="topic",
            goal=random.choice(["fan-out", "links"]),
            linger_us=random.choice([200_000, 2 * SECOND_US]),
        ).for_brokers(names)
    else:
        parameters = eager(system, 3, tuple(names))
    links = SYSTEMS[system].make_links(parameters, names)
    # A broker that is not given up returns with nothing lost, so that all are waited for.
    return Drawn(names, list(links), parameters, 2, 20 * SECOND_US)


def _octopia(random: Random, *, spreads: bool, sharp_bits: int) -> Drawn:
    clusters, regions = random.randint(2, 4), random.randint(2, 4)
    names = [f"B{number}" for number in range(clusters * regions)]
    parents = tuple(random.randrange(region) for region in range(1, regions))
    product = Product(rows_of(names, clusters), parents)
    # Static routing keeps no order while a cluster is entered elsewhere for a time.
    dynamic = random.choice([octopia.Dynamic.ORDERED, octopia.Dynamic.FREE])
    parameters = octopia.OctopiaParameters(
        rows=product.rows,
        parents=parents,
        dynamic=octopia.Dynamic.SPREAD if spreads else dynamic,
        threshold=random.choice([0.0, 2.0, 10.0]),
        window_us=random.choice([20_000, 50_000]),
        return_us=random.choice([200_000, 2_000_000]),
        sharp_bits=sharp_bits,
    )
    return Drawn(names, list(product.links), parameters, clusters - 1, 3 * SECOND_US)


def _tid(random: Random) -> Drawn:
    names = [f"B{number}" for number in range(random.randint(3, 7))]
    tree = {(names[random.randrange(n)], names[n]) for n in range(1, len(names))}
    more = random.sample(list(combinations(names, 2)), random.randint(1, len(names) - 1))
    parameters = tid.TidParameters(
        dynamic=random.choice([True, False]),
        matching=random.choice(list(tid.Matching)),
        window_us=50_000,
    ).for_brokers(names)
    # A broker that is disconnected for longer counts as dead at once.
    return Drawn(names, sorted(tree | set(more)), parameters, 2, 20 * SECOND_US)
