"""Probes: places of publishers, brokers passed by publications, and counters that agree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from shoal.experiments.networks.topologies import random_tree
from shoal.experiments.relocation.grid import BASELINE
from shoal.experiments.relocation.measuring.probe import (
    ProbeError,
    TreePaths,
    places,
    summarise_probe,
)
from shoal.experiments.run_files import read_workload
from shoal.experiments.runs.run_totals import RunTotals
from shoal.experiments.runs.runner import RunResult
from tests.experiments.relocation.summaries import spec
from tests.experiments.test_run_files import write_workload


def naive_passed(links: list[tuple[str, str]], source: str, targets: list[str]) -> int:
    """Every simple path, walked anew."""
    neighbours: dict[str, list[str]] = {}
    for left, right in links:
        neighbours.setdefault(left, []).append(right)
        neighbours.setdefault(right, []).append(left)

    def path(broker: str, target: str, behind: str) -> list[str] | None:
        if broker == target:
            return [broker]
        for neighbour in neighbours.get(broker, []):
            if neighbour != behind:
                rest = path(neighbour, target, broker)
                if rest is not None:
                    return [broker, *rest]
        return None

    return len({source}.union(*(path(source, target, "") or [] for target in targets)))


@pytest.mark.parametrize("seed", range(20))
def test_brokers_passed_equal_walked_paths(seed: int) -> None:
    random = Random(seed)
    brokers = [f"B{number}" for number in range(random.randint(1, 15))]
    links = random_tree(brokers, seed)
    paths = TreePaths(links)
    for _ in range(10):
        source = random.choice(brokers)
        targets = random.choices(brokers, k=random.randint(0, 4))
        assert paths.passed(source, targets) == naive_passed(links, source, targets), f"{seed=}"


def test_probes_shift_publishers_by_one_broker(tmp_path: Path) -> None:
    workload = read_workload(write_workload(tmp_path))
    assert [places(workload, probe)["UA-EWR"] for probe in (0, 1, 2)] == ["EWR", "ATL", "EWR"]


@dataclass
class Row:
    """One delivery of publication `sequence`."""

    sequence: int
    broker: str
    took_us: int


def result(deliveries: list[Row], messages_in: int) -> RunResult:
    tables: dict[str, dict[str, Any]] = {
        "links": {"left": ["A", "B"], "right": ["B", "C"]},
        "publications": {"publisher": ["P", "P"], "sequence": [0, 1], "first_broker": ["A", "A"]},
        "deliveries": {
            "publisher": ["P" for _ in deliveries],
            "sequence": [row.sequence for row in deliveries],
            "broker": [row.broker for row in deliveries],
            "published_us": [0 for _ in deliveries],
            "delivered_us": [row.took_us for row in deliveries],
        },
        "load": {"messages_in": [messages_in + 7], "control_in": [7]},
    }
    return RunResult(tables=tables, checks={}, totals=RunTotals())


def test_a_publishers_cost_is_the_brokers_its_publications_pass() -> None:
    rows = [Row(0, "C", 30), Row(0, "B", 20)]
    summary = summarise_probe(spec(BASELINE, probe=1), "key", result(rows, messages_in=4))
    stand = summary.stands["P"]
    assert (stand.broker, stand.messages, stand.delay_us, stand.deliveries) == ("A", 4, 50, 2)
    assert stand.traced_messages == 4


def test_counters_that_disagree_are_an_error() -> None:
    with pytest.raises(ProbeError, match="counted 5 publications, their paths tell 4"):
        summarise_probe(spec(BASELINE, probe=1), "key", result([Row(0, "C", 30)], messages_in=5))
