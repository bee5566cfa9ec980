"""Overlay topologies: which brokers are linked.

Each function takes brokers and gives links as pairs, in an order that depends on its arguments
alone.

>>> star(["A", "B", "C"], "B")
[('B', 'A'), ('B', 'C')]
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from shoal.experiments.networks.underlays import coordinates as coordinates_of
from shoal.experiments.run_files import BrokerRow, WorkloadFiles, read_columns
from shoal.experiments.scenarios import scenario
from shoal.model import BrokerId
from shoal.overlays.registry import SYSTEMS
from shoal.overlays.shapes import (
    Link,
    TopologyError,
    balanced_tree,
    check_brokers,
    ring,
)
from shoal.overlays.trace_rows import OverlayLink
from shoal.simulation.links.underlay import Coordinates, great_circle_km


def scenario_links(chosen: scenario.Scenario, workload: WorkloadFiles) -> list[Link]:
    """The links that brokers have from the start, by the system's parameters if they say them.

    None where the system opens its own.  TopologyError when its parameters name other brokers."""
    system, names = SYSTEMS[chosen.system], [row.broker for row in workload.brokers]
    if strangers := system.strangers(chosen.parameters, names):
        raise TopologyError(f"{'; '.join(strangers)}; there are {', '.join(names)}")
    if system.links is not None:
        links = list(system.make_links(chosen.parameters, names))
    elif system.shape.opens_links:
        return []
    else:
        links = build_links(chosen.topology, workload.brokers, workload.links, chosen.seed)
    system.shape.check(names, links)
    return links


def build_links(
    section: scenario.Topology,
    brokers: Sequence[BrokerRow],
    workload_links: Sequence[OverlayLink] | None,
    seed: int,
) -> list[Link]:
    """The links that a scenario's `[topology]` asks for; TopologyError when there are none."""
    names = [row.broker for row in brokers]
    match section:
        case scenario.BalancedTree():
            return balanced_tree(_ordered(names, section.order, seed), section.fan_out)
        case scenario.LineSection():
            return line(_ordered(names, section.order, seed))
        case scenario.RingSection():
            return ring(_ordered(names, section.order, seed))
        case scenario.StarSection():
            return star(names, section.centre or None)
        case scenario.RandomTree():
            return random_tree(names, seed)
        case scenario.UniformTree():
            return uniform_tree(names, seed)
        case scenario.MinimumSpanningTree():
            return minimum_spanning_tree(coordinates_of(brokers), section.max_degree or None)
        case scenario.LinksFile():
            if section.path:
                return read_links(Path(section.path))
            if workload_links is None:
                raise TopologyError("topology.path: the workload has no links; name a table")
            return [(row.left, row.right) for row in workload_links]


def read_links(path: Path) -> list[Link]:
    """The links of a Parquet, CSV or GraphML file; RunFileError or TopologyError if it has none."""
    if path.suffix.lower() == ".graphml":
        return _graphml_links(path)
    ends = read_columns(path, ("left", "right"), ("source", "target"), ("from", "to"))
    return [(str(left), str(right)) for left, right in zip(*ends, strict=True)]


def _graphml_links(path: Path) -> list[Link]:
    """The edges of a GraphML file; a broker's name is its node's identifier."""
    try:
        root = ElementTree.parse(path).getroot()
    except FileNotFoundError:
        raise TopologyError(f"{path}: no such file") from None
    except ElementTree.ParseError as error:
        raise TopologyError(f"{path}: not GraphML: {error}") from None
    edges = [each for each in root.iter() if each.tag.rpartition("}")[2] == "edge"]
    if not edges:
        raise TopologyError(f"{path}: no edge in it")
    ends = [(each.get("source"), each.get("target")) for each in edges]
    links = [(source, target) for source, target in ends if source and target]
    if len(links) < len(ends):
        raise TopologyError(f"{path}: an edge without source or target")
    return links


def _ordered(brokers: list[BrokerId], order: scenario.BrokerOrder, seed: int) -> list[BrokerId]:
    if order == "workload":
        return brokers
    return random.Random(seed).sample(brokers, len(brokers))


def line(brokers: Sequence[BrokerId]) -> list[Link]:
    """Each broker linked to the next."""
    return balanced_tree(brokers, 1)


def star(brokers: Sequence[BrokerId], centre: BrokerId | None = None) -> list[Link]:
    """Every broker linked to `centre`, by default the first."""
    check_brokers(brokers)
    if centre is None:
        centre = brokers[0]
    if centre not in brokers:
        there = ", ".join(brokers)
        raise TopologyError(f"topology.centre: no broker {centre!r}; there are {there}")
    return [(centre, broker) for broker in brokers if broker != centre]


def random_tree(brokers: Sequence[BrokerId], seed: int) -> list[Link]:
    """Brokers join in random order, each linked to a random one that joined before."""
    check_brokers(brokers)
    generator = random.Random(seed)
    joining = generator.sample(list(brokers), len(brokers))
    return [(joining[generator.randrange(n)], joining[n]) for n in range(1, len(joining))]


def uniform_tree(brokers: Sequence[BrokerId], seed: int) -> list[Link]:
    """Each tree over the brokers as likely as any other, unlike `random_tree`: by Prüfer sequence.

    Source: Prüfer, "Neuer Beweis eines Satzes über Permutationen" (1918).
    """
    check_brokers(brokers)
    generator = random.Random(seed)
    count = len(brokers)
    sequence = [generator.randrange(count) for _ in range(count - 2)]
    degrees = [1 + sequence.count(number) for number in range(count)]
    leaves = [number for number in range(count) if degrees[number] == 1]
    heapq.heapify(leaves)
    links = []
    for inner in sequence:
        links.append((brokers[inner], brokers[heapq.heappop(leaves)]))
        degrees[inner] -= 1
        if degrees[inner] == 1:
            heapq.heappush(leaves, inner)
    if count > 1:
        links.append((brokers[heapq.heappop(leaves)], brokers[heapq.heappop(leaves)]))
    return links


def minimum_spanning_tree(
    coordinates: Mapping[BrokerId, Coordinates], max_degree: int | None = None
) -> list[Link]:
    """The shortest tree over the ground (Prim's algorithm, from the first broker).

    With `max_degree` (2 or more) the nearest pair is taken among those with a free link at the
    inner end; the exact problem is hard, so the result is a short tree, not the shortest.
    """
    brokers = list(coordinates)
    check_brokers(brokers)
    if max_degree is not None and max_degree < 2:
        raise TopologyError(
            f"topology.max_degree: {max_degree} is below 2, which joins no third broker"
        )
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


def _nearest(
    broker: BrokerId, ends: Sequence[BrokerId], coordinates: Mapping[BrokerId, Coordinates]
) -> tuple[float, BrokerId]:
    here = coordinates[broker]
    return min((great_circle_km(here, coordinates[end]), end) for end in ends)
