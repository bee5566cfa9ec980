"""Judges of figure 5: whether drawn users visit cells as the people of the check-ins do (6.1.1).

Users of a file of check-ins are none of ours, and are not judged.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.experiments.dynatops.crowds.visit_figures import VisitFigures, visit_figures
from shoal.experiments.dynatops.evidence import DynatopsEvidence
from shoal.experiments.dynatops.judges import Judge, number
from shoal.experiments.studies.claims import ClaimOutcome, mean_and_interval
from shoal.report.amounts import percent


def share_of_visits(figure: Callable[[VisitFigures], float]) -> Judge:
    """Judge a share, in the mean of the draws."""

    def judge(evidence: DynatopsEvidence) -> ClaimOutcome | None:
        found = _figures(evidence)
        if found is None:
            return None
        mean, half = mean_and_interval([figure(each) for each in found])
        return ClaimOutcome(f"{percent(mean)} ± {100 * half:.1f}", mean)

    return judge


def visits_of_a_user(evidence: DynatopsEvidence) -> ClaimOutcome | None:
    """Judge the number of visits of a user in the three months."""
    found = _figures(evidence)
    if found is None:
        return None
    mean, half = mean_and_interval([each.visits for each in found])
    return ClaimOutcome(f"{number(mean)} ± {half:.1f}", mean)


def _figures(evidence: DynatopsEvidence) -> list[VisitFigures] | None:
    run = evidence.run("location", "dynatops")
    if run is None or run.setting.trace:
        return None
    return visit_figures(run.setting)
