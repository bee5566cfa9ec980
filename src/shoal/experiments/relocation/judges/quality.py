"""Judges of results that no figure of the paper shows: deliveries, and quality and speed of
choices.
"""

from __future__ import annotations

from shoal.experiments.relocation.evidence import Judge, RelocationEvidence, milliseconds
from shoal.experiments.relocation.grid import Distribution, RelocationSetting
from shoal.experiments.relocation.measuring.regret import Figure
from shoal.experiments.relocation.measuring.summary import RunSummary
from shoal.experiments.studies.claims import ClaimOutcome
from shoal.report.amounts import percent


def regret_within(
    distribution: Distribution,
    setting: RelocationSetting,
    figure: Figure,
    median: float,
    p95: float,
) -> Judge:
    """Decisions beside the best broker of all, as probes show: times our aim, the worse one."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        for one in evidence.regrets:
            asked = evidence.where("wide", distribution), setting.label, figure
            if (one.where, one.setting, one.figure) == asked:
                text = (
                    f"median {percent(one.median)}, 95th percentile {percent(one.p95)}, the best "
                    f"one taken in {percent(one.best_taken)} of {one.decisions} decisions"
                )
                return ClaimOutcome(text, max(one.median / median, one.p95 / p95))
        return None

    return judge


def choice_takes(brokers: int) -> Judge:
    """GRAPE's choice alone, on traces from every broker, µs."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        for one in evidence.networks:
            if (one.brokers, one.system) == (brokers, "grape") and one.choosing_us is not None:
                text = f"{milliseconds(one.choosing_us)} with traces from all {brokers} brokers"
                return ClaimOutcome(text, one.choosing_us)
        return None

    return judge


def exactly_once() -> Judge:
    """Deliveries that did not arrive as the filters ask, once and in order, in any run."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        runs = [
            one
            for one in evidence.results.summaries
            if one.spec.dataset == evidence.dataset and one.spec.study != "probe"
        ]
        if not runs:
            return None
        expected = sum(run.metrics["expected"] for run in runs)
        faults = {
            name: sum(run.metrics[name] for run in runs)
            for name in ("lost", "duplicated", "phantom", "out_of_order")
        }
        moves = sum(run.metrics["migrations"] for run in runs)
        text = f"{expected:,.0f} deliveries, {moves:,.0f} moves; " + ", ".join(
            f"{count:,.0f} {name.replace('_', ' ')}" for name, count in faults.items()
        )
        whole = sum(run.metrics["expected"] for run in runs if run.spec.study == "whole")
        text += f"; {whole:,.0f} of these deliveries are of whole machines"
        return ClaimOutcome(text, float(sum(faults.values())))

    return judge


def same_by_whole_machines() -> Judge:
    """Networks whose figures differ if machines handle all publications, and no compiled loop."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        pairs = [
            (one, evidence.results.again(one))
            for one in evidence.results.wholes
            if one.spec.dataset == evidence.dataset
        ]
        found = [_figures(one) == _figures(other) for one, other in pairs if other is not None]
        if not found:
            return None
        return ClaimOutcome(f"{sum(found)} of {len(found)} networks", float(found.count(False)))

    return judge


def _figures(one: RunSummary) -> tuple[object, ...]:
    return one.metrics, one.timeline, one.selections, one.migrations
