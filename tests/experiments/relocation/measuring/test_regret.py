"""Regret: against the best broker of all, per publisher, also for decisions to stay."""

from __future__ import annotations

import msgspec
import pytest

from shoal.experiments.relocation.grid import BASELINE, DELAY, LOAD
from shoal.experiments.relocation.measuring.regret import costs_by_publisher, regret, regrets
from shoal.experiments.relocation.measuring.results import RelocationResults, Where
from shoal.experiments.relocation.measuring.summary import RunSummary
from tests.experiments.relocation.summaries import selection, spec, stand, summary

WHERE = Where("quotes", "wide", "clustered")
# Two publishers at two brokers each: P is best at B in load and at A in delay, Q at B in both.
PROBES = [
    summary(spec(BASELINE, study="probe", probe=0), {"stands": {
        "P": stand("A", 120, 1_000), "Q": stand("B", 50, 400)}}),
    summary(spec(BASELINE, study="probe", probe=1), {"stands": {
        "P": stand("B", 100, 1_500), "Q": stand("A", 80, 800)}}),
]  # fmt: skip


def run(*targets: tuple[str, str]) -> RunSummary:
    selections = tuple(
        msgspec.structs.replace(selection(publisher, "A", target), decided_us=number)
        for number, (publisher, target) in enumerate(targets)
    )
    return summary(spec(LOAD), {"selections": selections})


def test_costs_are_gathered_from_all_probes() -> None:
    costs = costs_by_publisher(PROBES)[WHERE]
    assert {broker: one.messages for broker, one in costs["P"].items()} == {"A": 120, "B": 100}
    assert regret(costs["P"], "A", "load") == pytest.approx(0.2)
    assert regret(costs["P"], "A", "delay") == 0
    assert regret(costs["P"], "B", "delay") == pytest.approx(0.5)
    assert regret(costs["Q"], "A", "traced_load") == pytest.approx(0.6)


def test_regrets_equal_calculated_ones() -> None:
    results = RelocationResults([*PROBES, run(("P", "A"), ("P", "B"), ("Q", "B"))])
    (one,) = regrets(results, [LOAD, DELAY], ["load"])
    assert (one.setting, one.decisions, one.median) == ("load100", 3, 0)
    assert one.best_taken == pytest.approx(2 / 3)
    assert one.p95 == pytest.approx(0.18)


def test_a_session_tells_of_the_decision_that_it_led_to() -> None:
    results = RelocationResults([*PROBES, run(("P", "A"), ("P", "B"), ("Q", "B"))])
    (one,) = regrets(results, [LOAD], ["traced_load"])
    assert (one.decisions, one.p95) == (2, pytest.approx(0.19))


def test_a_publisher_without_deliveries_has_no_delay_to_regret() -> None:
    costs = {"A": stand("A", 5, 0, deliveries=0), "B": stand("B", 5, 0, deliveries=0)}
    assert regret(costs, "A", "delay") is None
    assert regret(costs, "A", "load") == 0
