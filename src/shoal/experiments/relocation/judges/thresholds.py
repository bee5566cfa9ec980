"""Judges of runs that differ in how many publications a decision waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from shoal.experiments.relocation.evidence import NOISE, Judge, RelocationEvidence, seconds
from shoal.experiments.relocation.grid import BASELINE, THRESHOLDS, System
from shoal.experiments.relocation.measuring.summary import Moment, RunSummary
from shoal.experiments.studies.claims import ClaimOutcome
from shoal.report.amounts import percent

# A response is over when the delay is this close to where it ends.
SETTLED = 0.1


def by_threshold(evidence: RelocationEvidence, system: System) -> dict[int, RunSummary]:
    """The runs that vary a system's threshold."""
    found = {
        one.spec.setting.threshold: one
        for one in evidence.results.thresholds
        if one.spec.dataset == evidence.dataset and one.spec.setting.system == system
    }
    return {number: found[number] for number in THRESHOLDS if number in found}


def threshold_baseline(evidence: RelocationEvidence) -> RunSummary | None:
    """The baseline that ran as long as they did."""
    for one in evidence.results.thresholds:
        if one.spec.dataset == evidence.dataset and one.spec.setting == BASELINE:
            return one
    return None


def response_us(timeline: Sequence[Moment]) -> int | None:
    """Return when the delay first came close to where it ended; None where that cannot be seen.

    There may be too little of it, or it goes up and down to the end.  Later ups and downs are
    other decisions, not a late response to the first.
    """
    delays = [(one.since_us, one.delay_us) for one in timeline if one.delay_us is not None]
    if len(delays) < 6:
        return None
    end = float(np.mean([delay for _, delay in delays[-4:]]))
    way = abs(delays[0][1] - end)
    near = SETTLED * way + NOISE * end
    return next((since for since, delay in delays if abs(delay - end) <= near), None)


def response_grows(system: System) -> Judge:
    """The share of steps of the threshold after which the delay is down no sooner."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        times = {
            number: time_us
            for number, run in by_threshold(evidence, system).items()
            if (time_us := response_us(run.timeline)) is not None
        }
        if len(times) < 3:
            return None
        text = ", ".join(f"{number}: {seconds(time_us)}" for number, time_us in times.items())
        return ClaimOutcome(text, _share(one <= other for one, other in pairwise(times.values())))

    return judge


def overhead_by_threshold(system: System, *, rising: bool) -> Judge:
    """The share of steps of the threshold after which there are more control messages, or less."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        shares = {
            number: run.metrics["overhead_whole"]
            for number, run in by_threshold(evidence, system).items()
        }
        if len(shares) < 3:
            return None
        text = ", ".join(f"{number}: {percent(share)}" for number, share in shares.items())
        ordered = list(shares.values()) if rising else list(shares.values())[::-1]
        return ClaimOutcome(text, _share(one <= other * 1.01 for one, other in pairwise(ordered)))

    return judge


def greatest_overhead(system: System) -> Judge:
    """The share of control messages, at the threshold where it is highest."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        shares = {
            number: run.metrics["overhead_whole"]
            for number, run in by_threshold(evidence, system).items()
        }
        if not shares:
            return None
        number, share = max(shares.items(), key=lambda item: item[1])
        return ClaimOutcome(f"{percent(share)} at threshold {number}", share)

    return judge


def lowest_threshold_is_worst(metric: str, *, above_baseline: bool) -> Judge:
    """Judge GRAPE's lowest threshold, over the baseline's or all other thresholds'."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        runs = by_threshold(evidence, "grape")
        baseline = threshold_baseline(evidence)
        if THRESHOLDS[0] not in runs or len(runs) < 3 or baseline is None:
            return None
        values = {number: run.metrics[metric] for number, run in runs.items()}
        own = values.pop(THRESHOLDS[0])
        other = baseline.metrics[metric] if above_baseline else max(values.values())
        against = "the baseline's" if above_baseline else "the highest of the others"
        return ClaimOutcome(f"{own:.3g}, {against} is {other:.3g}", own / other)

    return judge


def _share(steps: Iterable[bool]) -> float:
    held = list(steps)
    return sum(held) / len(held)
