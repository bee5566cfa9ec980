"""What the judges of the relocation paper's claims look at, and those that compare spreads.

A judge looks at the results of one data set.  Each here is made by a function that says which
settings it compares, and in which metric.

The headline reductions ("can reduce ... by 68 %") are the best over the spreads X: the paper
gives one figure each, nearly the same for POP and GRAPE, which its own text says happens at
X = 1.  The mean over X stands beside it.

Source: Cheung and Jacobsen, publisher relocation, abstract and sections 4.2, 5.2 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from shoal.experiments.claims import Outcome
from shoal.experiments.relocation.grid import SPREADS, Distribution, Setting, Testbed
from shoal.experiments.relocation.networks import NetworkSummary
from shoal.experiments.relocation.regret import Regrets
from shoal.experiments.relocation.results import Results, Where

# "Virtually identical" (5.2): this close at every spread, relative to the larger.
ALIKE = 0.05
# What a publisher stays for (GRAPE's least gain), so smaller differences say nothing.
NOISE = 0.02


class Evidence(NamedTuple):
    """All that judges look at: one data set's results, decisions' regrets, network sizes."""

    results: Results
    dataset: str
    regrets: Sequence[Regrets]
    networks: Sequence[NetworkSummary]

    def where(self, testbed: Testbed, distribution: Distribution) -> Where:
        """A place of this data set."""
        return Where(self.dataset, testbed, distribution)


Judge = Callable[[Evidence], Outcome | None]
Place = tuple[Testbed, Distribution]


# --- judges ---------------------------------------------------------------------------------------


def cuts(
    testbed: Testbed,
    distribution: Distribution,
    setting: Setting,
    metric: str,
    least: float,
) -> Judge:
    """The metric falls below the baseline's by at least this share, at the best spread."""

    def judge(evidence: Evidence) -> Outcome | None:
        found = evidence.results.cuts(evidence.where(testbed, distribution), setting, metric)
        if not found:
            return None
        spread, best = max(found.items(), key=lambda item: item[1])
        mean = sum(found.values()) / len(found)
        least_spread, worst = min(found.items(), key=lambda item: item[1])
        text = (
            f"{percent(best)} at X = {spread}; mean over X {percent(mean)}, least "
            f"{percent(worst)} at X = {least_spread}"
        )
        return Outcome(text, round(best, 2) >= least)

    return judge


def at_most(
    places: Sequence[Place],
    settings: Sequence[Setting],
    metric: str,
    most: float,
    show: Callable[[float], str],
) -> Judge:
    """The metric stays at or below this everywhere."""

    def judge(evidence: Evidence) -> Outcome | None:
        found = {
            (setting.label, place, spread): value
            for place in places
            for setting in settings
            for spread, value in evidence.results.values(
                evidence.where(*place), setting, metric
            ).items()
        }
        if not found:
            return None
        (label, place, spread), highest = max(found.items(), key=lambda item: item[1])
        text = f"at most {show(highest)} ({label}, {' '.join(place)}, X = {spread})"
        return Outcome(text, highest <= most)

    return judge


def alike(
    place: Place,
    one: Setting,
    other: Setting,
    metrics: Sequence[str],
    spreads: Sequence[int] = SPREADS,
) -> Judge:
    """Two settings come to the same, in all these metrics at these spreads."""

    def judge(evidence: Evidence) -> Outcome | None:
        apart: dict[tuple[str, int], float] = {}
        for metric in metrics:
            left = evidence.results.values(evidence.where(*place), one, metric)
            right = evidence.results.values(evidence.where(*place), other, metric)
            for spread in left.keys() & right.keys() & set(spreads):
                larger = max(left[spread], right[spread])
                difference = abs(left[spread] - right[spread])
                apart[metric, spread] = difference / larger if larger else 0.0
        if not apart:
            return None
        (metric, spread), most = max(apart.items(), key=lambda item: (item[1], item[0]))
        name = METRICS[metric]
        text = f"at most {percent(most)} apart ({name}, X = {spread})"
        return Outcome(text, most <= ALIKE)

    return judge


def lowest(
    place: Place,
    setting: Setting,
    others: Sequence[Setting],
    metric: str,
    *,
    spreads: Callable[[int], bool] = lambda spread: True,
    share: float = 1.0,
) -> Judge:
    """The setting has the least of the metric, up to noise, at this share of the spreads."""

    def judge(evidence: Evidence) -> Outcome | None:
        where = evidence.where(*place)
        own = evidence.results.values(where, setting, metric)
        rivals = {other.label: evidence.results.values(where, other, metric) for other in others}
        won: list[int] = []
        lost: list[int] = []
        for spread, value in own.items():
            if not spreads(spread):
                continue
            seen = [values[spread] for values in rivals.values() if spread in values]
            if len(seen) == len(others):
                (won if value <= min(seen) * (1 + NOISE) else lost).append(spread)
        if not won and not lost:
            return None
        text = f"at {len(won)} of {len(won) + len(lost)} spreads"
        if lost:
            text += f"; not at X = {', '.join(map(str, lost))}"
        return Outcome(text, len(won) >= share * (len(won) + len(lost)))

    return judge


def between(
    place: Place,
    setting: Setting,
    ends: tuple[Setting, Setting],
    metric: str,
) -> Judge:
    """The setting's metric lies between those of two others, up to noise, at most spreads."""

    def judge(evidence: Evidence) -> Outcome | None:
        where = evidence.where(*place)
        own = evidence.results.values(where, setting, metric)
        left, right = (evidence.results.values(where, end, metric) for end in ends)
        common = [spread for spread in own if spread in left and spread in right]
        if not common:
            return None
        inside = [
            spread
            for spread in common
            if min(left[spread], right[spread]) * (1 - NOISE)
            <= own[spread]
            <= max(left[spread], right[spread]) * (1 + NOISE)
        ]
        outside = [spread for spread in common if spread not in inside]
        text = f"at {len(inside)} of {len(common)} spreads"
        if outside:
            text += f"; not at X = {', '.join(map(str, outside))}"
        return Outcome(text, not outside)

    return judge


# --- words ----------------------------------------------------------------------------------------

METRICS = {
    "message_rate_per_s": "message rate",
    "messages_both_per_s": "messages in and out",
    "input_utilisation": "input utilisation",
    "matching_utilisation": "matching utilisation",
    "output_utilisation": "output utilisation",
    "delay_us": "delivery delay",
    "hops": "hops",
    "overhead": "message overhead",
    "memory_bytes": "memory",
}


def percent(share: float) -> str:
    """A share as percent, to the whole number where that says enough."""
    value = 100 * share
    text = f"{value:.1f}" if abs(value) < 9.95 else f"{value:.0f}"
    return f"{text} %".replace("-", "\N{MINUS SIGN}")


def milliseconds(value_us: float) -> str:
    """Microseconds as milliseconds."""
    return f"{value_us / 1000:,.3g} ms"


def seconds(value_us: float) -> str:
    """Microseconds as seconds."""
    return f"{value_us / 1e6:,.3g} s"
