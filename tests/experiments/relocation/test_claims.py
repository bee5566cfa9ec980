"""The list of claims, and the verdicts of figures on both sides of their bands."""

from __future__ import annotations

import msgspec
import pytest

from shoal.experiments.relocation.claims import CLAIMS
from shoal.experiments.relocation.evidence import RelocationEvidence
from shoal.experiments.relocation.grid import BASELINE, DELAY, LOAD, POP, SPREADS
from shoal.experiments.relocation.measuring.results import RelocationResults, Where
from shoal.experiments.relocation.measuring.summary import RunSummary
from shoal.experiments.studies.claims import Band, judge_claims
from tests.experiments.relocation.judges.evidence import evidence
from tests.experiments.relocation.summaries import spec, summary

COUNTS = ("expected", "lost", "duplicated", "phantom", "out_of_order", "migrations")
BANDS = {claim.id: claim.band for claim in CLAIMS}


def test_claims_have_no_verdict_without_runs() -> None:
    findings = judge_claims(
        CLAIMS, RelocationEvidence(RelocationResults([]), "quotes", [], []), "quotes"
    )
    assert {finding.verdict for finding in findings} == {"not run"}
    assert all(claim.reason or claim.id for claim in CLAIMS)


@pytest.mark.parametrize("name", BANDS)
def test_no_claim_is_met_on_both_sides_of_everything(name: str) -> None:
    band: Band = BANDS[name]
    width = abs(band.figure or 1) / 100
    outside = [band.verdict(band.low - width)[0], band.verdict(band.high + width)[0]]
    assert band.reason
    assert "met" not in [verdict for verdict, bound in zip(outside, (band.low, band.high),
                         strict=True) if bound not in (float("inf"), float("-inf"))]  # fmt: skip
    assert outside.count("beaten") == (band.better != "neither")
    assert band.verdict(band.low)[0] == "met"


@pytest.mark.parametrize(
    ("name", "value", "verdict"),
    [
        ("grape-load-input", 0.67, "missed"),
        ("grape-load-input", 0.69, "met"),
        ("grape-load-input", 0.89, "beaten"),
        ("pop-overhead", 0.33, "missed"),
        ("pop-overhead", 0.31, "met"),
        ("pop-overhead", 0.1, "beaten"),
        ("grape-overhead-random", 0.056, "missed"),
        ("grape-overhead-random", 0.053, "met"),
        ("grape-overhead-random", 0.034, "beaten"),
        ("selection-ratio", 6.4, "beaten"),
        ("selection-ratio", 18.0, "missed"),
        ("random-pop-rate", 0.9, "missed"),
        ("random-pop-rate", 1.45, "met"),
        ("random-pop-rate", 1.7, "missed"),
        ("random-alike", 0.0498, "missed"),
        ("random-alike", 0.04, "met"),
        ("random-baseline-rate", 1.05, "missed"),
        ("random-baseline-rate", 0.97, "met"),
        ("random-baseline-rate", 0.9, "beaten"),
        ("load-lowest-rate", 5 / 6, "missed"),
        ("delay-lowest", 6 / 7, "met"),
        ("grape-lowest-rate", 1.0, "missed"),
        ("grape-lowest-rate", 1.01, "met"),
        ("weights-overhead", 0.03, "missed"),
        ("exactly-once", 1, "missed"),
    ],
)
def test_figures_have_the_verdict_of_their_band(name: str, value: float, verdict: str) -> None:
    assert BANDS[name].verdict(value)[0] == verdict


def test_a_repeated_claim_is_counted_once() -> None:
    again = {claim.id for claim in CLAIMS if claim.is_again}
    assert again == {
        "pop-matching",
        "grape-memory-share",
        "pop-memory-share",
        "pop-between-matching_utilisation",
        "random-pop-matching",
        "load-delay-cluster-idle",
    } | {claim.id for claim in CLAIMS if claim.id.endswith("-wide")}
    assert sum(not claim.is_own and not claim.is_again for claim in CLAIMS) == 56


def test_delays_under_load_are_judged_near_saturation() -> None:
    def runs(near_saturation: float) -> list[RunSummary]:
        knowing = msgspec.structs.replace(LOAD, knows_room=True)
        delays = {
            (BASELINE, 10): 1.0,
            (BASELINE, 105): 2.0,
            (LOAD, 10): 0.5,
            (LOAD, 105): near_saturation,
            (knowing, 10): 0.5,
            (knowing, 105): 2.1,
        }
        return [
            summary(
                msgspec.structs.replace(
                    spec(setting, testbed="cluster", study="load"), busy=busy, office=True
                ),
                delay_us=delay,
                **dict.fromkeys(COUNTS, 0.0),
            )
            for (setting, busy), delay in delays.items()
        ]

    found = {one.id: one for one in judge_claims(CLAIMS, evidence(*runs(60.0)), "quotes")}
    assert found["load-delay-cluster"].verdict == "met"
    assert "0.50 at 10 %, 30.00 at 105 %" in found["load-delay-cluster"].ours
    assert found["room"].verdict == "missed"
    assert "1 of 2; at most 1.05 times" in found["room"].ours
    found = {one.id: one for one in judge_claims(CLAIMS, evidence(*runs(1.9)), "quotes")}
    assert found["load-delay-cluster"].verdict == "missed"
    assert not RelocationResults(runs(1.0)).runs(Where("quotes", "cluster", "clustered"), LOAD)


def test_judges_and_bands_together() -> None:
    figures = {BASELINE: 100.0, POP: 150.0, LOAD: 100.0, DELAY: 101.0}
    runs = [
        summary(
            spec(setting, spread, "cluster", "random", subscriptions=100),
            message_rate_per_s=value,
            hops=5.0,
            input_utilisation=value / 1_000,
            matching_utilisation=0.1,
            output_utilisation=0.1,
            **dict.fromkeys(COUNTS, 0.0),
        )
        for setting, value in figures.items()
        for spread in SPREADS
    ]
    found = {one.id: one for one in judge_claims(CLAIMS, evidence(*runs), "quotes")}
    verdicts = {name: one.verdict for name, one in found.items() if one.verdict != "not run"}
    assert verdicts == {
        "exactly-once": "met",
        "random-alike": "met",
        "random-baseline-rate": "met",
        "random-baseline-input": "met",
        "random-output": "missed",
        "random-pop-rate": "met",
        "random-pop-hops": "met",
        "random-pop-input": "missed",
        "random-pop-matching": "met",
        "random-pop-output": "met",
    }
    assert "mean over X 1.50" in found["random-pop-rate"].ours
