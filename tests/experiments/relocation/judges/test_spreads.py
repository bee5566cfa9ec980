"""Comparisons at each spread, on figures with known answers."""

from __future__ import annotations

import pytest

from shoal.experiments.claims import Outcome
from shoal.experiments.relocation.evidence import Evidence, Judge
from shoal.experiments.relocation.grid import BASELINE, DELAY, LOAD, POP, Setting, grape
from shoal.experiments.relocation.judges.spreads import (
    alike,
    at_most,
    between,
    compared,
    cuts,
    longest_pop_ratio,
    lowest,
)
from shoal.experiments.relocation.results import Results
from tests.experiments.relocation.judges.evidence import WIDE, evidence, verdict
from tests.experiments.relocation.summaries import spec, summary


def given_by(values: dict[Setting, dict[int, float]], metric: str = "delay_us") -> Evidence:
    runs = [
        summary(spec(setting, spread), **{metric: value})
        for setting, by_spread in values.items()
        for spread, value in by_spread.items()
    ]
    return Evidence(Results(runs), "quotes", [], [])


@pytest.mark.parametrize(("after", "met"), [(31.0, True), (32.0, True), (33.0, False)])
def test_a_cut_is_the_best_over_spreads(after: float, met: bool) -> None:
    given = given_by({BASELINE: {1: 100.0, 4: 100.0}, LOAD: {1: after, 4: 90.0}})
    outcome = cuts("wide", "clustered", LOAD, "delay_us", 0.68)(given)
    assert outcome is not None
    assert outcome.met is met
    assert outcome.ours.startswith(f"{100 - after:.0f} % at X = 1; mean over X ")


@pytest.mark.parametrize(
    ("judge", "values", "met"),
    [
        (at_most([WIDE], [LOAD, POP], "delay_us", 5, str), {LOAD: {1: 4}, POP: {2: 5}}, True),
        (at_most([WIDE], [LOAD, POP], "delay_us", 5, str), {LOAD: {1: 4}, POP: {2: 6}}, False),
        (alike(WIDE, LOAD, DELAY, ["delay_us"]), {LOAD: {1: 100}, DELAY: {1: 96}}, True),
        (alike(WIDE, LOAD, DELAY, ["delay_us"]), {LOAD: {1: 100}, DELAY: {1: 94}}, False),
        (alike(WIDE, LOAD, DELAY, ["delay_us"], (2,)),
         {LOAD: {1: 100, 2: 5}, DELAY: {1: 9, 2: 5}}, True),
        (alike(WIDE, LOAD, DELAY, ["delay_us"]), {LOAD: {1: 0}, DELAY: {1: 0}}, True),
        (lowest(WIDE, LOAD, [POP], "delay_us"), {LOAD: {1: 9, 2: 8}, POP: {1: 9, 2: 9}}, True),
        (lowest(WIDE, LOAD, [POP], "delay_us"), {LOAD: {1: 9, 2: 10}, POP: {1: 9, 2: 9}}, False),
        (lowest(WIDE, LOAD, [POP], "delay_us", share=0.5),
         {LOAD: {1: 9, 2: 10}, POP: {1: 9, 2: 9}}, True),
        (lowest(WIDE, LOAD, [POP], "delay_us", spreads=lambda spread: spread > 2),
         {LOAD: {1: 9, 4: 1}, POP: {1: 1, 4: 9}}, True),
        (between(WIDE, POP, (LOAD, DELAY), "delay_us"),
         {POP: {1: 5, 2: 6}, LOAD: {1: 4, 2: 9}, DELAY: {1: 6, 2: 6}}, True),
        (between(WIDE, POP, (LOAD, DELAY), "delay_us"),
         {POP: {1: 7}, LOAD: {1: 4}, DELAY: {1: 6}}, False),
    ],
)  # fmt: skip
def test_verdicts(judge: Judge, values: dict[Setting, dict[int, float]], met: bool) -> None:
    outcome = judge(given_by(values))
    assert outcome is not None
    assert outcome.met is met


@pytest.mark.parametrize(
    "judge",
    [
        cuts("wide", "clustered", LOAD, "delay_us", 0.5),
        at_most([WIDE], [LOAD], "delay_us", 5, str),
        alike(WIDE, LOAD, DELAY, ["delay_us"]),
        lowest(WIDE, LOAD, [POP], "delay_us"),
        between(WIDE, POP, (LOAD, DELAY), "delay_us"),
    ],
)
def test_what_was_not_run_has_no_outcome(judge: Judge) -> None:
    assert judge(given_by({BASELINE: {1: 3.0}})) is None


def test_ratios_to_another_setting() -> None:
    given = evidence(summary(spec(POP), overhead=0.3), summary(spec(DELAY), overhead=0.06))
    judge = compared([WIDE], [DELAY], POP, "overhead", lambda least, most: least <= 0.2, "POP's")
    assert judge(given) == Outcome("0.20 to 0.20 times POP's", True)
    assert judge(evidence()) is None


def test_selection_against_pop() -> None:
    given = evidence(
        summary(spec(POP), selection_us=100), summary(spec(grape("delay", 1)), selection_us=1_700)
    )
    assert verdict(longest_pop_ratio([WIDE], 17)(given))
    assert not verdict(longest_pop_ratio([WIDE], 16)(given))
