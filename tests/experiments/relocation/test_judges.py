"""Judges over time, paths, weights and between algorithms, on figures with known answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from shoal.experiments.claims import Outcome
from shoal.experiments.relocation import judges
from shoal.experiments.relocation.claims import Evidence, Place
from shoal.experiments.relocation.grid import (
    BASELINE,
    DELAY,
    LOAD,
    POP,
    THRESHOLDS,
    WEIGHTS,
    Setting,
    grape,
)
from shoal.experiments.relocation.networks import NetworkSummary
from shoal.experiments.relocation.regret import Regrets
from shoal.experiments.relocation.results import Results, Where
from shoal.experiments.relocation.summary import Migration, Moment, RunSummary
from tests.experiments.relocation.summaries import selection, spec, summary

WIDE: Place = ("wide", "clustered")


def evidence(*runs: RunSummary, **more: Any) -> Evidence:
    return Evidence(Results(runs), "quotes", more.get("regrets", []), more.get("networks", []))


def verdict(outcome: Outcome | None) -> bool:
    assert outcome is not None
    return outcome.met


def moments(delays: Sequence[float | None]) -> tuple[Moment, ...]:
    return tuple(
        Moment(
            since_us=number * 30_000_000,
            message_rate_per_s=1,
            overhead=0,
            delay_us=delay,
            hops=1,
        )
        for number, delay in enumerate(delays)
    )


def test_a_response_ends_when_the_delay_is_down() -> None:
    assert judges.response_us(moments([10, 10, 10, 5, 5, 5, 5, 5])) == 90_000_000
    assert judges.response_us(moments([5, 5, 5, 5, 5, 5])) == 0
    assert judges.response_us(moments([10, 10, None, 5, 6, 5, 5, 5, 5])) == 90_000_000
    assert judges.response_us(moments([10, 5])) is None


def test_a_delay_that_never_comes_close_to_its_mean_has_no_response() -> None:
    assert judges.response_us(moments([10, 9, 1, 9, 1, 9])) is None


def thresholds(system: Any, falls_at: list[int], overheads: list[float]) -> list[RunSummary]:
    found = []
    for threshold, falls, overhead in zip(THRESHOLDS, falls_at, overheads, strict=True):
        setting = Setting(system=system, threshold=threshold)
        rows = {"timeline": moments([10.0] * falls + [5.0] * (20 - falls))}
        found.append(
            summary(
                spec(setting, study="threshold"), rows, overhead_whole=overhead, hops=1 / threshold
            )
        )
    return found


def test_thresholds() -> None:
    grape_runs = thresholds("grape", [1, 2, 3, 4, 9], [0.5, 0.4, 0.3, 0.2, 0.1])
    baseline = summary(spec(BASELINE, study="threshold"), hops=0.05)
    given = evidence(*grape_runs, baseline, *thresholds("pop", [5, 4, 3, 2, 1], [0.1] * 5))
    assert verdict(judges.response_grows("grape")(given))
    assert not verdict(judges.response_grows("pop")(given))
    assert verdict(judges.overhead_by_threshold("grape", rising=False)(given))
    assert not verdict(judges.overhead_by_threshold("grape", rising=True)(given))
    assert verdict(judges.overhead_at_most("grape", 0.5)(given))
    assert not verdict(judges.overhead_at_most("grape", 0.49)(given))
    assert verdict(judges.lowest_threshold_is_worst("hops", above_baseline=True)(given))
    assert verdict(judges.lowest_threshold_is_worst("hops", above_baseline=False)(given))
    assert judges.lowest_threshold_is_worst("hops", above_baseline=True)(evidence()) is None


def test_weights_trade_one_figure_for_the_other() -> None:
    runs = [
        summary(
            spec(grape(priority, weight)), delay_us=delay, message_rate_per_s=rate, overhead=0.1
        )
        for weight in WEIGHTS
        for priority, delay, rate in (("load", 100 + weight, 50), ("delay", 70, 100 + weight))
    ]
    given = evidence(*runs)
    assert verdict(judges.weights_trade(WIDE)(given))
    assert verdict(judges.weights_cost_alike(WIDE, "overhead", 0)(given))
    assert verdict(judges.settings_alike(WIDE, ["overhead"])(given))
    assert not verdict(judges.settings_alike(WIDE, ["delay_us"])(given))
    assert judges.settings_alike(WIDE, ["delay_us"])(evidence(runs[0])) is None
    worse = summary(spec(grape("load", 1)), delay_us=300, message_rate_per_s=9, overhead=0.3)
    outcome = judges.weights_trade(WIDE)(evidence(*runs, worse))
    assert outcome == Outcome("7 of 8 steps of weight; not load25 to load1 at X = 16", False)
    assert not verdict(judges.weights_cost_alike(WIDE, "overhead", 0.1)(evidence(*runs, worse)))


def moved(hops_and_waits: list[tuple[int, int]], setting: Setting = LOAD) -> RunSummary:
    migrations = tuple(
        Migration(publisher=f"P{n}", source="A", target="B", path_hops=hops, wait_us=wait_us)
        for n, (hops, wait_us) in enumerate(hops_and_waits)
    )
    selections = tuple(
        selection(f"P{n}", "A", "B", took_us=wait_us)
        for n, (_, wait_us) in enumerate(hops_and_waits)
    )
    return summary(spec(setting), {"migrations": migrations, "selections": selections})


def test_waits_and_paths() -> None:
    given = evidence(moved([(1, 10_000), (2, 20_000), (3, 31_000), (12, 9_000_000)]))
    straight = evidence(moved([(1, 10_000), (2, 20_000), (3, 31_000)]))
    assert verdict(judges.waits_grow_with_paths([WIDE], [LOAD])(straight))
    assert not verdict(judges.waits_grow_with_paths([WIDE], [LOAD])(evidence(
        moved([(1, 9_000), (2, 8_000), (3, 9_000)]))))  # fmt: skip
    assert verdict(judges.long_moves_take([WIDE], [LOAD], 31_000)(given))
    assert not verdict(judges.long_moves_take([WIDE], [LOAD], 30_000)(given))
    assert not verdict(judges.selections_ignore_paths([WIDE], LOAD)(straight))
    assert verdict(judges.selections_ignore_paths([WIDE], LOAD)(evidence(
        moved([(1, 10), (2, 12), (3, 8), (4, 11)]))))  # fmt: skip


def test_staying_is_a_path_of_length_nought() -> None:
    run = summary(
        spec(LOAD),
        {
            "selections": (selection("P", "A", "A", 6), selection("Q", "A", "B", 8)),
            "migrations": (
                Migration(publisher="Q", source="A", target="B", path_hops=4, wait_us=1),
            ),
        },
    )
    assert list(judges.selections_by_path(run, with_pings=True)) == [(0, 6), (4, 8)]
    assert list(judges.selections_by_path(run, with_pings=False)) == [(0, 3), (4, 4)]
    assert judges.means_by_path([(2, 4), (0, 1), (2, 6)]) == {0: 1.0, 2: 5.0}


def test_ratios_to_another_setting() -> None:
    given = evidence(summary(spec(POP), overhead=0.3), summary(spec(DELAY), overhead=0.06))
    judge = judges.compared(
        [WIDE], [DELAY], POP, "overhead", lambda least, most: least <= 0.2, "POP's"
    )
    assert judge(given) == Outcome("0.20 to 0.20 times POP's", True)
    assert judge(evidence()) is None


@pytest.mark.parametrize(("p95", "met"), [(0.1, True), (0.11, False)])
def test_regrets_against_our_aim(p95: float, met: bool) -> None:
    regret = Regrets(
        where=Where("quotes", "wide", "random"),
        setting="load100",
        figure="load",
        decisions=9,
        median=0.02,
        p95=p95,
        best_taken=0.5,
    )
    judge = judges.regret_within("random", LOAD, "load", 0.02, 0.1)
    assert verdict(judge(evidence(regrets=[regret]))) is met
    assert judges.regret_within("random", POP, "load", 1, 1)(evidence(regrets=[regret])) is None


def test_losses_anywhere_are_a_miss() -> None:
    names = ("lost", "duplicated", "phantom", "out_of_order")
    fine = {"expected": 10.0, **dict.fromkeys(names, 0.0)}
    runs = [summary(spec(LOAD), migrations=2.0, **fine)]
    assert verdict(judges.exactly_once()(evidence(*runs)))
    runs.append(summary(spec(POP), migrations=1.0, **{**fine, "lost": 1.0}))
    outcome = judges.exactly_once()(evidence(*runs))
    assert outcome is not None
    assert outcome.ours.startswith("20 deliveries, 3 moves; 1 lost, 0 duplicated")
    assert not outcome.met


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
    assert verdict(judges.chosen_within(63, 70_000)(given))
    assert not verdict(judges.chosen_within(63, 400)(given))
    assert judges.chosen_within(255, 70_000)(given) is None


def test_selection_against_pop() -> None:
    given = evidence(
        summary(spec(POP), selection_us=100), summary(spec(grape("delay", 1)), selection_us=1_700)
    )
    assert verdict(judges.longest_pop_ratio([WIDE], 17)(given))
    assert not verdict(judges.longest_pop_ratio([WIDE], 16)(given))
