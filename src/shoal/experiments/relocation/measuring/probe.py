"""Measures every publisher's cost at every broker, by putting it there: the judge of decisions.

A probe is a network without relocation, in which each publisher's broker is `n` places after its
own in the order of brokers. After as many probes as there are brokers every publisher has been
everywhere, always among the others. A publication's load is the number of brokers that it passes,
which its deliveries determine; their sum over all publications has to equal the brokers' counters,
else the probe fails.

>>> distances = TreePaths([("A", "B"), ("B", "C"), ("B", "D")])
>>> distances.passed("A", ["C", "D"]), distances.passed("A", [])
(4, 1)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from shoal.experiments.relocation.grid import RunSpec
from shoal.experiments.relocation.measuring.summary import RunSummary, Stand
from shoal.experiments.run_files import WorkloadFiles
from shoal.experiments.runs.runner import RunResult
from shoal.model import BrokerId, ClientId

# As many publications as one trace session has by default (4.1).
TRACED = 100


class ProbeError(ValueError):
    """Deliveries and counters tell different loads: one of them is wrong."""


class TreePaths:
    """Computes the brokers that a publication passes on a tree."""

    def __init__(self, links: Iterable[tuple[BrokerId, BrokerId]]) -> None:
        self._neighbours: dict[BrokerId, list[BrokerId]] = defaultdict(list)
        for left, right in links:
            self._neighbours[left].append(right)
            self._neighbours[right].append(left)
        self._upstream: dict[BrokerId, dict[BrokerId, BrokerId]] = {}

    def passed(self, source: BrokerId, targets: Iterable[BrokerId]) -> int:
        """Return how many brokers are on the ways from `source` to all `targets`, both included."""
        if source not in self._upstream:
            self._upstream[source] = self._rooted(source)
        upstream = self._upstream[source]
        seen = {source}
        for broker in targets:
            while broker not in seen:
                seen.add(broker)
                broker = upstream[broker]
        return len(seen)

    def _rooted(self, root: BrokerId) -> dict[BrokerId, BrokerId]:
        upstream = {root: root}
        reached = [root]
        for broker in reached:  # grows while it is read
            for neighbour in self._neighbours[broker]:
                if neighbour not in upstream:
                    upstream[neighbour] = broker
                    reached.append(neighbour)
        return upstream


def places(workload: WorkloadFiles, probe: int) -> dict[ClientId, BrokerId]:
    """Return each publisher's broker in this probe; probe 0 is the baseline."""
    brokers = [row.broker for row in workload.brokers]
    number = {broker: position for position, broker in enumerate(brokers)}
    return {
        row.publisher: brokers[(number[row.broker] + probe) % len(brokers)]
        for row in workload.publishers
    }


def summarise_probe(spec: RunSpec, key: str, result: RunResult) -> RunSummary:
    """The summary of a probe: a `Stand` per publisher; ProbeError when loads do not add up."""
    tables = result.tables
    links = zip(tables["links"]["left"], tables["links"]["right"], strict=True)
    paths = TreePaths(links)
    reached: dict[tuple[ClientId, int], list[BrokerId]] = defaultdict(list)
    delay_us: dict[tuple[ClientId, int], int] = defaultdict(int)
    for publisher, sequence, broker, published_us, delivered_us in _rows(
        tables["deliveries"], ("publisher", "sequence", "broker", "published_us", "delivered_us")
    ):
        reached[publisher, sequence].append(broker)
        delay_us[publisher, sequence] += delivered_us - published_us
    stands: dict[ClientId, Stand] = {}
    total = 0
    publications: dict[ClientId, list[tuple[int, BrokerId]]] = defaultdict(list)
    for publisher, sequence, broker in _rows(
        tables["publications"], ("publisher", "sequence", "first_broker")
    ):
        publications[publisher].append((sequence, broker))
    for publisher, published in publications.items():
        costs = []
        for sequence, broker in sorted(published):
            one = publisher, sequence
            costs.append((paths.passed(broker, reached[one]), delay_us[one], len(reached[one])))
        stands[publisher] = _stand(published[0][1], costs)
        total += stands[publisher].messages
    _check(tables["load"], total)
    return RunSummary(spec=spec, key=key, metrics={}, stands=stands)


def _stand(broker: BrokerId, costs: Sequence[tuple[int, int, int]]) -> Stand:
    whole = [sum(column) for column in zip(*costs, strict=True)]
    traced = [sum(column) for column in zip(*costs[:TRACED], strict=True)]
    return Stand(
        broker=broker,
        messages=whole[0],
        delay_us=whole[1],
        deliveries=whole[2],
        traced_messages=traced[0],
        traced_delay_us=traced[1],
        traced_deliveries=traced[2],
    )


def _check(load: Mapping[str, Sequence[Any]], total: int) -> None:
    counted = sum(load["messages_in"]) - sum(load["control_in"])
    if counted != total:
        raise ProbeError(f"brokers counted {counted} publications, their paths tell {total}")


def _rows(table: Mapping[str, Sequence[Any]], columns: Sequence[str]) -> Iterable[tuple[Any, ...]]:
    found = (table[name] for name in columns)
    lists = (each.tolist() if isinstance(each, np.ndarray) else each for each in found)
    return zip(*lists, strict=True)
