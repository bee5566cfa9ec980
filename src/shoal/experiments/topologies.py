"""Overlay shapes: which brokers are linked, always as one tree.

Each function takes brokers and gives links as pairs, in an order that depends on its arguments
alone.  `check_tree` is what every shape from outside (a file) has to pass: known brokers, no
broker left out, no cycle.

>>> balanced_tree(["A", "B", "C", "D"], fan_out=2)
[('A', 'B'), ('A', 'C'), ('B', 'D')]
>>> check_tree(["A", "B", "C"], [("A", "B"), ("B", "A")])
Traceback (most recent call last):
shoal.experiments.topologies.TopologyError: link B - A closes a cycle; an overlay is a tree
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from shoal.experiments import scenario
from shoal.experiments.run_files import BrokerRow, LinkRow, read_rows
from shoal.experiments.underlays import coordinates as coordinates_of
from shoal.model import BrokerId
from shoal.simulation.underlay import Coordinates, great_circle_km

Link = tuple[BrokerId, BrokerId]


class TopologyError(ValueError):
    """Links that are no tree over the brokers, or a parameter that allows none."""


def build_links(
    section: scenario.Topology,
    brokers: Sequence[BrokerRow],
    workload_links: Sequence[LinkRow] | None,
    seed: int,
) -> list[Link]:
    """The links that a scenario's `[topology]` asks for; TopologyError when there are none."""
    names = [row.broker for row in brokers]
    match section:
        case scenario.BalancedTree():
            return balanced_tree(_ordered(names, section.order, seed), section.fan_out)
        case scenario.Line():
            return line(_ordered(names, section.order, seed))
        case scenario.Star():
            return star(names, section.centre or None)
        case scenario.RandomTree():
            return random_tree(names, seed)
        case scenario.MinimumSpanningTree():
            return minimum_spanning_tree(coordinates_of(brokers), section.max_degree or None)
        case scenario.LinksFile():
            rows = read_rows(Path(section.path), LinkRow) if section.path else workload_links
            if rows is None:
                raise TopologyError("topology.path: the workload has no links; name a table")
            links = [(row.left, row.right) for row in rows]
            check_tree(names, links)
            return links


def _ordered(brokers: list[BrokerId], order: scenario.BrokerOrder, seed: int) -> list[BrokerId]:
    if order == "workload":
        return brokers
    return random.Random(seed).sample(brokers, len(brokers))


def balanced_tree(brokers: Sequence[BrokerId], fan_out: int) -> list[Link]:
    """Level by level in the given order, the first broker on top (relocation paper, 5.1)."""
    _check_brokers(brokers)
    if fan_out < 1:
        raise TopologyError(f"fan_out: {fan_out} is below 1")
    return [(brokers[(n - 1) // fan_out], brokers[n]) for n in range(1, len(brokers))]


def line(brokers: Sequence[BrokerId]) -> list[Link]:
    """Each broker linked to the next."""
    return balanced_tree(brokers, 1)


def star(brokers: Sequence[BrokerId], centre: BrokerId | None = None) -> list[Link]:
    """Every broker linked to `centre`, by default the first."""
    _check_brokers(brokers)
    if centre is None:
        centre = brokers[0]
    if centre not in brokers:
        raise TopologyError(f"centre: no broker {centre!r}")
    return [(centre, broker) for broker in brokers if broker != centre]


def random_tree(brokers: Sequence[BrokerId], seed: int) -> list[Link]:
    """Brokers join in random order, each linked to a random one that joined before."""
    _check_brokers(brokers)
    generator = random.Random(seed)
    joining = generator.sample(list(brokers), len(brokers))
    return [(joining[generator.randrange(n)], joining[n]) for n in range(1, len(joining))]


def minimum_spanning_tree(
    coordinates: Mapping[BrokerId, Coordinates], max_degree: int | None = None
) -> list[Link]:
    """The shortest tree over the ground (Prim's algorithm, from the first broker).

    With `max_degree` (2 or more) the nearest pair is taken among those whose inner end has a
    link to spare; the exact problem is hard, so the result is a short tree, not the shortest.
    """
    brokers = list(coordinates)
    _check_brokers(brokers)
    if max_degree is not None and max_degree < 2:
        raise TopologyError(f"max_degree: {max_degree} is below 2, which joins no third broker")
    spare = dict.fromkeys(brokers, math.inf if max_degree is None else max_degree)
    links: list[Link] = []
    inside, outside = [brokers[0]], brokers[1:]
    # The nearest inside end for each broker outside; searched again when that end is full.
    nearest = {broker: _nearest(broker, inside, coordinates) for broker in outside}
    while outside:
        _, joining = min((nearest[broker][0], broker) for broker in outside)
        _, end = nearest.pop(joining)
        links.append((end, joining))
        spare[end] -= 1
        spare[joining] -= 1
        inside.append(joining)
        outside.remove(joining)
        free = [broker for broker in inside if spare[broker] > 0]
        for broker in outside:
            if spare[nearest[broker][1]] > 0:
                newcomer = _nearest(broker, [joining], coordinates)
                nearest[broker] = min(nearest[broker], newcomer)
            else:
                nearest[broker] = _nearest(broker, free, coordinates)
    return links


def check_tree(brokers: Sequence[BrokerId], links: Sequence[Link]) -> None:
    """TopologyError unless `links` join exactly `brokers` as one tree."""
    _check_brokers(brokers)
    group = {broker: broker for broker in brokers}

    def representative(broker: BrokerId) -> BrokerId:
        while group[broker] != broker:
            group[broker] = group[group[broker]]
            broker = group[broker]
        return broker

    for left, right in links:
        for end in (left, right):
            if end not in group:
                raise TopologyError(f"link {left} - {right}: no broker {end!r}")
        one, other = representative(left), representative(right)
        if one == other:
            raise TopologyError(f"link {left} - {right} closes a cycle; an overlay is a tree")
        group[one] = other
    top = representative(brokers[0])
    apart = [broker for broker in brokers if representative(broker) != top]
    if apart:
        raise TopologyError(
            f"{len(apart)} of {len(brokers)} brokers cannot be reached from {brokers[0]}, "
            f"the first is {apart[0]}"
        )


def _nearest(
    broker: BrokerId, ends: Sequence[BrokerId], coordinates: Mapping[BrokerId, Coordinates]
) -> tuple[float, BrokerId]:
    here = coordinates[broker]
    return min((great_circle_km(here, coordinates[end]), end) for end in ends)


def _check_brokers(brokers: Sequence[BrokerId]) -> None:
    if not brokers:
        raise TopologyError("no brokers")
    seen = set()
    for broker in brokers:
        if broker in seen:
            raise TopologyError(f"broker {broker!r} is listed twice")
        seen.add(broker)
