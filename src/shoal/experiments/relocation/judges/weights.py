"""Judges that compare GRAPE's priorities and their weights with each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from shoal.experiments.relocation.evidence import (
    METRICS,
    NOISE,
    Judge,
    Place,
    RelocationEvidence,
)
from shoal.experiments.relocation.grid import WEIGHTS, Priority, grape
from shoal.experiments.relocation.judges.spreads import apart_by, farthest_apart
from shoal.experiments.relocation.measuring.results import Where
from shoal.experiments.studies.claims import ClaimOutcome

PRIORITIES: Sequence[Priority] = ("load", "delay")


def weights_trade(
    place: Place, priority: Priority, falling: Sequence[str], rising: Sequence[str]
) -> Judge:
    """At which share of steps to less weight, at each spread, metrics fall or rise, up to noise."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        where = evidence.where(*place)
        steps, broken = 0, []
        settings = [grape(priority, weight) for weight in WEIGHTS]
        for metric in (*falling, *rising):
            values = [evidence.results.values(where, each, metric) for each in settings]
            for (before, after), (one, other) in zip(
                pairwise(values), pairwise(settings), strict=True
            ):
                for spread in before.keys() & after.keys():
                    steps += 1
                    smaller, larger = before[spread], after[spread]
                    if metric in falling:
                        smaller, larger = larger, smaller
                    if smaller > larger * (1 + NOISE):
                        step = f"{one.label} to {other.label} at X = {spread}"
                        broken.append(f"{step}, {METRICS[metric]}")
        if not steps:
            return None
        text = f"{steps - len(broken)} of {steps} steps of weight"
        if broken:
            text += f"; not {broken[0]}"
        return ClaimOutcome(text, 1 - len(broken) / steps)

    return judge


def settings_alike(place: Place, metrics: Sequence[str]) -> Judge:
    """Return how far apart all priorities and weights are in these metrics, at any spread."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        apart: dict[tuple[str, int], float] = {}
        for metric in metrics:
            found = by_weight(evidence.where(*place), evidence, metric)
            for spread, values in found.items():
                if len(values) == len(PRIORITIES) * len(WEIGHTS):
                    apart[metric, spread] = apart_by(metric, values)
        return farthest_apart(apart)

    return judge


def by_weight(where: Where, evidence: RelocationEvidence, metric: str) -> Mapping[int, list[float]]:
    """A metric under every priority and weight, by spread."""
    found: dict[int, list[float]] = defaultdict(list)
    for priority in PRIORITIES:
        for weight in WEIGHTS:
            values = evidence.results.values(where, grape(priority, weight), metric)
            for spread, value in values.items():
                found[spread].append(value)
    return found


def weights_cost_alike(place: Place, metric: str) -> Judge:
    """By how much a share that a cost takes differs between weights."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        found = by_weight(evidence.where(*place), evidence, metric)
        gaps = [max(values) - min(values) for values in found.values() if len(values) > 1]
        if not gaps:
            return None
        points = 100 * max(gaps)
        return ClaimOutcome(f"at most {points:.1f} points of {METRICS[metric]} apart", max(gaps))

    return judge
