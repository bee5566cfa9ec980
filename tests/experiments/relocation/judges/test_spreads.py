"""Comparisons at each spread, on figures with known answers."""

from __future__ import annotations

import pytest

from shoal.experiments.relocation.evidence import Judge, RelocationEvidence
from shoal.experiments.relocation.grid import BASELINE, DELAY, LOAD, POP, RelocationSetting, grape
from shoal.experiments.relocation.judges.spreads import (
    Pick,
    alike,
    apart_by,
    between,
    compared,
    crowded,
    cuts,
    greatest,
    higher,
    longest_pop_ratio,
    lower_by,
    lowest,
)
from shoal.experiments.relocation.measuring.results import RelocationResults
from tests.experiments.relocation.judges.evidence import WIDE, evidence, value
from tests.experiments.relocation.summaries import spec, summary


def given_by(
    values: dict[RelocationSetting, dict[int, float]], metric: str = "delay_us"
) -> RelocationEvidence:
    runs = [
        summary(spec(setting, spread), **{metric: value})
        for setting, by_spread in values.items()
        for spread, value in by_spread.items()
    ]
    return RelocationEvidence(RelocationResults(runs), "quotes", [], [])


@pytest.mark.parametrize("after", [31.0, 33.0])
def test_a_cut_is_the_best_over_spreads(after: float) -> None:
    given = given_by({BASELINE: {1: 100.0, 4: 100.0}, LOAD: {1: after, 4: 90.0}})
    outcome = cuts(WIDE, LOAD, "delay_us")(given)
    assert outcome is not None
    assert outcome.value == pytest.approx(1 - after / 100)
    assert outcome.ours.startswith(f"best over X {100 - after:.0f} % at X = 1; mean over X ")


@pytest.mark.parametrize(
    ("judge", "values", "value"),
    [
        (greatest([WIDE], [LOAD, POP], "delay_us", str), {LOAD: {1: 4}, POP: {2: 6}}, 6),
        (alike(WIDE, LOAD, DELAY, ["delay_us"]), {LOAD: {1: 100}, DELAY: {1: 96}}, 0.04),
        (alike(WIDE, LOAD, DELAY, ["delay_us"], (2,)),
         {LOAD: {1: 100, 2: 5}, DELAY: {1: 9, 2: 5}}, 0),
        (alike(WIDE, LOAD, DELAY, ["delay_us"]), {LOAD: {1: 0}, DELAY: {1: 0}}, 0),
        (lowest(WIDE, LOAD, [POP], "delay_us"), {LOAD: {1: 9, 2: 8}, POP: {1: 9, 2: 9}}, 1),
        (lowest(WIDE, LOAD, [POP], "delay_us"), {LOAD: {1: 9, 2: 10}, POP: {1: 9, 2: 9}}, 0.5),
        (lowest(WIDE, LOAD, [POP], "delay_us", spreads=(4, 8)),
         {LOAD: {1: 9, 4: 1}, POP: {1: 1, 4: 9}}, 1),
        (higher([WIDE], [LOAD], POP, "delay_us"), {LOAD: {1: 9, 4: 1}, POP: {1: 1, 4: 9}}, 0.5),
        (higher([WIDE], [LOAD, DELAY], POP, "delay_us"),
         {LOAD: {1: 9}, DELAY: {1: 8}, POP: {1: 9}}, 0),
        (between(WIDE, POP, (LOAD, DELAY), "delay_us"),
         {POP: {1: 5, 2: 6}, LOAD: {1: 4, 2: 9}, DELAY: {1: 6, 2: 6}}, 1),
        (between(WIDE, POP, (LOAD, DELAY), "delay_us"),
         {POP: {1: 7}, LOAD: {1: 4}, DELAY: {1: 6}}, 0),
        (lower_by([WIDE], [LOAD], POP, "delay_us"),
         {POP: {1: 10, 2: 10}, LOAD: {1: 1, 2: 5}}, 0.9),
    ],
)  # fmt: skip
def test_values_are_judged_at_each_spread(
    judge: Judge, values: dict[RelocationSetting, dict[int, float]], value: float
) -> None:
    outcome = judge(given_by(values))
    assert outcome is not None
    assert outcome.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("metric", "apart"), [("overhead", 0.007), ("delay_us", 7 / 33), ("memory_bytes", 7 / 33)]
)
def test_shares_are_apart_by_points(metric: str, apart: float) -> None:
    assert apart_by(metric, (0.026, 0.033)) == pytest.approx(apart)
    assert apart_by(metric, (0.0, 0.0)) == 0


@pytest.mark.parametrize(
    "judge",
    [
        cuts(WIDE, LOAD, "delay_us"),
        greatest([WIDE], [LOAD], "delay_us", str),
        alike(WIDE, LOAD, DELAY, ["delay_us"]),
        lowest(WIDE, LOAD, [POP], "delay_us"),
        higher([WIDE], [LOAD], POP, "delay_us"),
        between(WIDE, POP, (LOAD, DELAY), "delay_us"),
        lower_by([WIDE], [LOAD], POP, "delay_us"),
        crowded(greatest([WIDE], [BASELINE], "delay_us", str)),
    ],
)
def test_missing_runs_have_no_outcome(judge: Judge) -> None:
    assert judge(given_by({BASELINE: {1: 3.0}})) is None


def test_spreads_of_one_setting_are_named_together() -> None:
    given = given_by({LOAD: {1: 9, 4: 8}, DELAY: {1: 8, 4: 10}, POP: {1: 9, 4: 9}})
    outcome = higher([WIDE], [LOAD, DELAY], POP, "delay_us")(given)
    assert outcome is not None
    assert outcome.ours.startswith(
        "at 1 of 4 spreads; not at X = 1, 4 (load100, wide clustered); "
        "X = 1 (delay100, wide clustered); "
    )


@pytest.mark.parametrize(("pick", "value"), [("least", 0.2), ("mean", 0.3), ("greatest", 0.4)])
def test_ratios_to_another_setting(pick: Pick, value: float) -> None:
    given = given_by({POP: {1: 10, 2: 10}, DELAY: {1: 2, 2: 4}})
    outcome = compared([WIDE], [DELAY], POP, "delay_us", pick, "POP's")(given)
    assert outcome is not None
    assert outcome.ours == "0.20 to 0.40 times POP's, mean over X 0.30"
    assert outcome.value == pytest.approx(value)


def test_selection_against_pop() -> None:
    given = evidence(
        summary(spec(POP), selection_us=100), summary(spec(grape("delay", 1)), selection_us=1_700)
    )
    assert value(longest_pop_ratio([WIDE])(given)) == 17


def test_costs_are_judged_where_there_are_many_subscribers() -> None:
    few, many = summary(spec(POP), overhead=0.35), summary(spec(POP, study="overhead",
                        subscriptions=100), overhead=0.3)  # fmt: skip
    judge = crowded(greatest([WIDE], [POP], "overhead", str))
    assert judge(evidence(few)) is None
    assert value(judge(evidence(few, many))) == 0.3
    whole = summary(spec(POP, subscriptions=100), overhead=0.2)
    assert value(judge(evidence(whole))) == 0.2
