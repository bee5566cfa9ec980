"""Judges that compare GRAPE's priorities and their weights with each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from shoal.experiments.claims import Outcome
from shoal.experiments.relocation.evidence import (
    NOISE,
    Evidence,
    Judge,
    Place,
    percent,
)
from shoal.experiments.relocation.grid import WEIGHTS, Priority, grape
from shoal.experiments.relocation.judges.spreads import farthest_apart
from shoal.experiments.relocation.results import Where

# What gets better as a priority's weight falls.
TRADES: Sequence[tuple[Priority, str]] = (("load", "delay_us"), ("delay", "message_rate_per_s"))


def weights_trade(place: Place) -> Judge:
    """Less weight on load: less delay and more messages; less weight on delay: the reverse."""

    def judge(evidence: Evidence) -> Outcome | None:
        where = evidence.where(*place)
        steps, broken = 0, []
        for priority, falling in TRADES:
            settings = [grape(priority, weight) for weight in WEIGHTS]
            values = [evidence.results.values(where, each, falling) for each in settings]
            for (before, after), (one, other) in zip(
                pairwise(values), pairwise(settings), strict=True
            ):
                for spread in before.keys() & after.keys():
                    steps += 1
                    if after[spread] > before[spread] * (1 + NOISE):
                        broken.append(f"{one.label} to {other.label} at X = {spread}")
        if not steps:
            return None
        text = f"{steps - len(broken)} of {steps} steps of weight"
        if broken:
            text += f"; not {broken[0]}"
        return Outcome(text, not broken)

    return judge


def settings_alike(place: Place, metrics: Sequence[str]) -> Judge:
    """All priorities and weights come to the same in these metrics, at every spread."""

    def judge(evidence: Evidence) -> Outcome | None:
        apart: dict[tuple[str, int], float] = {}
        for metric in metrics:
            found = by_weight(evidence.where(*place), evidence, metric)
            for spread, values in found.items():
                if len(values) == len(TRADES) * len(WEIGHTS):
                    apart[metric, spread] = 1 - min(values) / (max(values) or 1.0)
        return farthest_apart(apart)

    return judge


def by_weight(where: Where, evidence: Evidence, metric: str) -> Mapping[int, list[float]]:
    """A metric under every priority and weight, by spread."""
    found: dict[int, list[float]] = defaultdict(list)
    for priority, _ in TRADES:
        for weight in WEIGHTS:
            values = evidence.results.values(where, grape(priority, weight), metric)
            for spread, value in values.items():
                found[spread].append(value)
    return found


def weights_cost_alike(place: Place, metric: str, most: float) -> Judge:
    """A cost differs by at most this much (as a share of brokers' messages) between weights."""

    def judge(evidence: Evidence) -> Outcome | None:
        found = by_weight(evidence.where(*place), evidence, metric)
        gaps = [max(values) - min(values) for values in found.values() if len(values) > 1]
        if not gaps:
            return None
        return Outcome(f"at most {percent(max(gaps))} of all messages apart", max(gaps) <= most)

    return judge
