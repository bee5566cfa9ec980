"""Judges that compare a metric at each spread X: between settings, or with a figure.

The headline reductions ("can reduce ... by 68 %") are the best over the spreads: the paper gives
one figure each, nearly the same for POP and GRAPE, which its own text says happens at X = 1.  The
mean over X stands beside it.

Source: Cheung and Jacobsen, publisher relocation, abstract and section 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from shoal.experiments.claims import Outcome, beaten_by
from shoal.experiments.relocation.evidence import (
    ALIKE,
    METRICS,
    NOISE,
    Evidence,
    Judge,
    Place,
    percent,
)
from shoal.experiments.relocation.grid import POP, SPREADS, Distribution, Setting, Testbed, grape

# A cut better than the paper's by more points than these is beaten: a share is never far above
# another, so that points say more than a ratio.
POINTS = 5


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
        points = round(100 * (best - least))
        beaten = f"by {points} points" if points > POINTS else ""
        return Outcome(text, round(best, 2) >= least, beaten)

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
        beaten = beaten_by(highest, most, more_is_better=False)
        return Outcome(text, highest <= most, beaten)

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
        return farthest_apart(apart)

    return judge


def farthest_apart(apart: Mapping[tuple[str, int], float]) -> Outcome | None:
    """Shares by which metrics differ at spreads: met if all count as alike."""
    if not apart:
        return None
    (metric, spread), most = max(apart.items(), key=lambda item: (item[1], item[0]))
    text = f"at most {percent(most)} apart ({METRICS[metric]}, X = {spread})"
    return Outcome(text, most <= ALIKE)


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
        return _where(won, lost, share)

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
        inside = [
            spread
            for spread in common
            if min(left[spread], right[spread]) * (1 - NOISE)
            <= own[spread]
            <= max(left[spread], right[spread]) * (1 + NOISE)
        ]
        outside = [spread for spread in common if spread not in inside]
        return _where(inside, outside)

    return judge


def _where(holds: Sequence[int], fails: Sequence[int], share: float = 1.0) -> Outcome | None:
    """The spreads at which a comparison holds: met if it does at this share of them."""
    count = len(holds) + len(fails)
    if not count:
        return None
    text = f"at {len(holds)} of {count} spreads"
    if fails:
        text += f"; not at X = {', '.join(map(str, fails))}"
    return Outcome(text, len(holds) >= share * count)


def compared(
    places: Sequence[Place],
    settings: Sequence[Setting],
    reference: Setting,
    metric: str,
    judge_ratio: Callable[[float, float], bool],
    words: str,
    spreads: Sequence[int] = SPREADS,
    most: float | None = None,
) -> Judge:
    """Ratios of a metric to another setting's; `judge_ratio` sees the least and the greatest.

    `most` is the paper's figure for the greatest, where it has one.
    """

    def judge(evidence: Evidence) -> Outcome | None:
        ratios = []
        for place in places:
            for setting in settings:
                found = _ratios(evidence, place, setting, reference, metric)
                ratios += [ratio for spread, ratio in found.items() if spread in spreads]
        if not ratios:
            return None
        lowest, highest = min(ratios), max(ratios)
        text = f"{lowest:.2f} to {highest:.2f} times {words}"
        beaten = "" if most is None else beaten_by(highest, most, more_is_better=False)
        return Outcome(text, judge_ratio(lowest, highest), beaten)

    return judge


def longest_pop_ratio(place: Sequence[Place], most: float) -> Judge:
    """GRAPE's selections (with all ping times) take at most this many times POP's."""

    def judge(evidence: Evidence) -> Outcome | None:
        ratios: list[float] = []
        for each in place:
            found = _ratios(evidence, each, grape("delay", 1), POP, "selection_us")
            ratios += found.values()
        if not ratios:
            return None
        beaten = beaten_by(max(ratios), most, more_is_better=False)
        return Outcome(f"up to {max(ratios):.1f} times as long", max(ratios) <= most, beaten)

    return judge


def _ratios(
    evidence: Evidence, place: Place, setting: Setting, reference: Setting, metric: str
) -> dict[int, float]:
    """A setting's metric over another's, at the spreads where there is something to divide by."""
    own, against = (
        evidence.results.values(evidence.where(*place), each, metric)
        for each in (setting, reference)
    )
    return {spread: own[spread] / against[spread] for spread in own if against.get(spread)}
