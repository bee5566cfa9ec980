"""Regrets, losses and the time of a choice, on figures with known answers."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.experiments.relocation.grid import LOAD, POP
from shoal.experiments.relocation.judges.quality import (
    choice_takes,
    exactly_once,
    regret_within,
    same_by_whole_machines,
)
from shoal.experiments.relocation.measuring.regret import Regrets
from shoal.experiments.relocation.measuring.results import Where
from shoal.experiments.relocation.networks import NetworkSummary
from tests.experiments.relocation.judges.evidence import evidence, value
from tests.experiments.relocation.summaries import spec, summary


@pytest.mark.parametrize(("p95", "of_aim"), [(0.1, 1.0), (0.11, 1.1), (0.0, 1.0)])
def test_regrets_against_our_aim(p95: float, of_aim: float) -> None:
    regret = Regrets(
        where=Where("quotes", "wide", "random"),
        setting="load100",
        figure="load",
        decisions=9,
        median=0.02,
        p95=p95,
        best_taken=0.5,
    )
    judge = regret_within("random", LOAD, "load", 0.02, 0.1)
    assert value(judge(evidence(regrets=[regret]))) == pytest.approx(of_aim)
    assert regret_within("random", POP, "load", 1, 1)(evidence(regrets=[regret])) is None


def test_losses_anywhere_are_a_miss() -> None:
    names = ("lost", "duplicated", "phantom", "out_of_order")
    fine = {"expected": 10.0, **dict.fromkeys(names, 0.0)}
    runs = [summary(spec(LOAD), migrations=2.0, **fine)]
    assert value(exactly_once()(evidence(*runs))) == 0
    runs.append(summary(spec(POP), migrations=1.0, **{**fine, "lost": 1.0}))
    outcome = exactly_once()(evidence(*runs))
    assert outcome is not None
    assert outcome.ours.startswith("20 deliveries, 3 moves; 1 lost, 0 duplicated")
    assert outcome.value == 1


def test_a_figure_that_whole_machines_change_is_a_miss() -> None:
    judge = same_by_whole_machines()
    runs = [summary(spec(LOAD), hops=2.0), summary(spec(POP), hops=3.0)]
    assert judge(evidence(*runs)) is None
    runs.append(summary(spec(LOAD, study="whole"), hops=2.0))
    assert value(judge(evidence(*runs))) == 0
    runs.append(summary(spec(POP, study="whole"), hops=3.1))
    outcome = judge(evidence(*runs))
    assert outcome is not None
    assert (outcome.ours, outcome.value) == ("1 of 2 networks", 1)


def network(system: Any, brokers: int, choosing_us: float | None) -> NetworkSummary:
    return NetworkSummary(
        key="",
        system=system,
        brokers=brokers,
        publishers=1,
        subscribers=1,
        publications=1,
        deliveries=1,
        expected=1,
        selections=0,
        migrations=0,
        hops=1,
        control_per_publication=0,
        cpu_per_hop_us=1,
        cpu_per_publication_us=1,
        memory_bytes=0,
        choosing_us=choosing_us,
    )


def test_the_choice_alone() -> None:
    given = evidence(networks=[network("grape", 15, 99_000), network("grape", 63, 500)])
    assert value(choice_takes(63)(given)) == 500
    assert choice_takes(255)(given) is None
