"""Costs of messages in a scenario: systems decide by them, and wrong ones are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.experiments.runs.runner import run_scenario
from shoal.experiments.runs.trace_sinks import Tables
from shoal.experiments.scenarios.scenario import dump_scenario, load_scenario, parse_scenario
from shoal.experiments.scenarios.sections import ScenarioError
from shoal.typed_toml import TomlError
from tests.experiments.test_run_files import SUBSCRIPTION, event, write_workload

NEAR, FAR = 1_000.0, 500_000.0


def settings(folder: Path, costs: dict[str, Any]) -> dict[str, Any]:
    """All is published at EWR and wanted at ORD-2, and ATL is between them."""
    names = ("EWR", "ATL", "ORD-2")
    workload = write_workload(
        folder,
        brokers=[{"broker": name, "rank": rank} for rank, name in enumerate(names)],
        subscriptions=[{**SUBSCRIPTION, "broker": "ORD-2"}],
        events=[event(number, 100_000 * number) for number in range(60)],
    )
    return {
        "name": "costs",
        "system": "self_organising",
        "workload": {"path": str(workload)},
        "topology": {"kind": "line"},
        "underlay": {"kind": "constant", "latency_us": 7_000, "local_latency_us": 1},
        "self_organising": {"mode": "exchange", "interval_us": 1_000_000},
        "costs": costs,
    }


def run(folder: Path, costs: dict[str, Any]) -> Tables:
    result = run_scenario(parse_scenario(settings(folder, costs)))
    assert (result.checks["delivered"], result.checks["duplicates"]) == (60, 0)
    return result.tables


@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize(("short_cut", "hops"), [(NEAR, 1), (FAR, 2)])
def test_a_system_decides_by_costs_and_not_by_latency(
    tmp_path: Path, short_cut: float, hops: int, is_file: bool
) -> None:
    rows = {"EWR-ATL": NEAR, "ATL-ORD-2": NEAR, "EWR-ORD-2": short_cut}
    costs: dict[str, Any] = {"links": rows}
    if is_file:
        path = tmp_path / "costs.csv"
        lines = [f"{key.replace('-', ',', 1)},{cost}" for key, cost in rows.items()]
        path.write_text("\n".join(["left,right,cost", *lines]))
        costs = {"path": str(path)}
    deliveries = run(tmp_path / "run", costs)["deliveries"]
    assert deliveries["hops"][0] == 2
    assert deliveries["hops"][-1] == hops


def test_a_dear_broker_is_bypassed(tmp_path: Path) -> None:
    """With equal latencies: dear processing at ATL is saved."""
    assert run(tmp_path, {"here": 900_000.0})["deliveries"]["hops"][-1] == 1


@pytest.mark.parametrize(
    ("costs", "problem"),
    [
        ({"links": {"EWR-LHR": 1.0}}, "costs.links: 'EWR-LHR' is no two brokers"),
        ({"links": {"EWR-EWR": 1.0}}, "costs.links: 'EWR-EWR' is no two brokers"),
        ({"links": {"EWR-ATL": 1.0}}, "costs.links: ATL-ORD-2 is a link without a cost"),
        (
            {"links": {"EWR-ATL": 1.0, "ATL-EWR": 1.0}},
            "costs.links: ATL-EWR: ATL and EWR have a cost already",
        ),
    ],
)
def test_costs_that_cannot_be_are_named(
    tmp_path: Path, costs: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        run_scenario(parse_scenario(settings(tmp_path, costs)))
    assert str(caught.value) == f"{problem} (docs/reference/scenario.md)"


@pytest.mark.parametrize("cost", ["dear", "-1", "nan", "inf", ""])
def test_a_cost_in_a_file_is_a_number_from_0_on(tmp_path: Path, cost: str) -> None:
    path = tmp_path / "costs.csv"
    path.write_text(f"left,right,cost\nEWR,ATL,{cost}\n")
    scenario = parse_scenario(settings(tmp_path, {"path": str(path)}))
    with pytest.raises(
        ScenarioError, match=r"costs.csv: row 0: cost: \S+ is not a number from 0 on"
    ):
        run_scenario(scenario)


@pytest.mark.parametrize("cost", [-1.0, float("inf")])
def test_a_cost_that_is_none_is_named_by_its_pair(tmp_path: Path, cost: float) -> None:
    with pytest.raises(TomlError, match=f"costs.links: 'A-B': {cost} is not a number from 0 on"):
        parse_scenario(settings(tmp_path, {"links": {"A-B": cost}}))


def test_a_file_of_costs_is_found_from_a_scenario_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    path = tmp_path / "a" / "scenario.toml"
    path.write_text("name = 'x'\nworkload.path = 'w'\ncosts.path = 'costs.csv'\n")
    scenario = load_scenario(path)
    assert scenario.costs.path == str(tmp_path / "a" / "costs.csv")
    other = tmp_path / "b" / "scenario.toml"
    other.write_text(dump_scenario(scenario, other.parent))
    assert load_scenario(other) == scenario
