"""Judges that compare a metric at each spread X: between settings, or with a figure.

The headline reductions ("can reduce ... by 68 %") are the best over the spreads: the paper gives
one figure each, nearly the same for POP and GRAPE, which its own text says happens at X = 1.  So is
every "at most" and "up to".  The mean over X stands beside it in every row.

Source: Cheung and Jacobsen, publisher relocation, abstract and section 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from shoal.experiments.relocation.evidence import (
    METRICS,
    NOISE,
    SHARES,
    Judge,
    Place,
    RelocationEvidence,
)
from shoal.experiments.relocation.grid import CROWD, POP, SPREADS, RelocationSetting, grape
from shoal.experiments.studies.claims import ClaimOutcome
from shoal.report.amounts import percent

Pick = Literal["least", "mean", "greatest"]


def crowded(judge: Judge) -> Judge:
    """The same where every publisher has `CROWD` subscribers."""

    def judge_crowded(evidence: RelocationEvidence) -> ClaimOutcome | None:
        outcome = judge(evidence._replace(results=evidence.results.crowded))
        if outcome is None:
            return None
        return ClaimOutcome(f"{outcome.ours}; {CROWD} subscribers of each publisher", outcome.value)

    return judge_crowded


def cuts(place: Place, setting: RelocationSetting, metric: str) -> Judge:
    """The share by which the metric falls below the baseline's, at the best spread."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        found = evidence.results.cuts(evidence.where(*place), setting, metric)
        if not found:
            return None
        spread, best = max(found.items(), key=lambda item: item[1])
        least_spread, worst = min(found.items(), key=lambda item: item[1])
        text = (
            f"best over X {percent(best)} at X = {spread}; mean over X "
            f"{percent(_mean(found.values()))}, least {percent(worst)} at X = {least_spread}"
        )
        return ClaimOutcome(text, best)

    return judge


def greatest(
    places: Sequence[Place],
    settings: Sequence[RelocationSetting],
    metric: str,
    show: Callable[[float], str],
) -> Judge:
    """The metric where it is greatest."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
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
        text = (
            f"at most {show(highest)} ({label}, {' '.join(place)}, X = {spread}); mean over X "
            f"{show(_mean(found.values()))}"
        )
        return ClaimOutcome(text, highest)

    return judge


def alike(
    place: Place,
    one: RelocationSetting,
    other: RelocationSetting,
    metrics: Sequence[str],
    spreads: Sequence[int] = SPREADS,
) -> Judge:
    """Return how far two settings are apart: the most in these metrics (`apart_by`)."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        apart: dict[tuple[str, int], float] = {}
        for metric in metrics:
            left = evidence.results.values(evidence.where(*place), one, metric)
            right = evidence.results.values(evidence.where(*place), other, metric)
            for spread in left.keys() & right.keys() & set(spreads):
                apart[metric, spread] = apart_by(metric, (left[spread], right[spread]))
        return farthest_apart(apart)

    return judge


def apart_by(metric: str, values: Collection[float]) -> float:
    """How far values of a metric are apart: as a share of the largest; those that are shares
    themselves, as overhead is, by points.
    """
    largest = 1.0 if metric in SHARES else max(values) or 1.0
    return (max(values) - min(values)) / largest


def farthest_apart(apart: Mapping[tuple[str, int], float]) -> ClaimOutcome | None:
    """The most by which metrics differ at spreads (`apart_by`)."""
    if not apart:
        return None
    (metric, spread), most = max(apart.items(), key=lambda item: (item[1], item[0]))
    text = (
        f"at most {percent(most)} apart ({METRICS[metric]}, X = {spread}); mean over X "
        f"{percent(_mean(apart.values()))}"
    )
    return ClaimOutcome(text, most)


def lowest(
    place: Place,
    setting: RelocationSetting,
    others: Sequence[RelocationSetting],
    metric: str,
    *,
    spreads: Sequence[int] = SPREADS,
) -> Judge:
    """At which share of the spreads the setting has the least of the metric, up to noise."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        where = evidence.where(*place)
        own = evidence.results.values(where, setting, metric)
        rivals = [evidence.results.values(where, other, metric) for other in others]
        holds: dict[str, bool] = {}
        for spread, value in own.items():
            seen = [values[spread] for values in rivals if spread in values]
            if spread in spreads and len(seen) == len(others):
                holds[f"{spread}"] = value <= min(seen) * (1 + NOISE)
        return _where(holds)

    return judge


def higher(
    places: Sequence[Place],
    settings: Sequence[RelocationSetting],
    other: RelocationSetting,
    metric: str,
    *,
    spreads: Sequence[int] = SPREADS,
) -> Judge:
    """At which share of the spreads settings have more of the metric than another."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        found = dict(_ratios(evidence, places, settings, other, metric, spreads))
        outcome = _where({name: ratio > 1 for name, ratio in found.items()})
        if outcome is None:
            return None
        text = f"{outcome.ours}; {min(found.values()):.2f} to {max(found.values()):.2f} times it"
        return ClaimOutcome(text, outcome.value)

    return judge


def between(
    place: Place,
    setting: RelocationSetting,
    ends: tuple[RelocationSetting, RelocationSetting],
    metric: str,
) -> Judge:
    """At which share of the spreads the metric lies between two others', up to noise."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        where = evidence.where(*place)
        own = evidence.results.values(where, setting, metric)
        left, right = (evidence.results.values(where, end, metric) for end in ends)
        return _where(
            {
                f"{spread}": min(left[spread], right[spread]) * (1 - NOISE)
                <= value
                <= max(left[spread], right[spread]) * (1 + NOISE)
                for spread, value in own.items()
                if spread in left and spread in right
            }
        )

    return judge


def _where(holds: Mapping[str, bool]) -> ClaimOutcome | None:
    """At which share of the spreads a comparison holds."""
    if not holds:
        return None
    fails = [name for name, held in holds.items() if not held]
    text = f"at {len(holds) - len(fails)} of {len(holds)} spreads"
    # Spreads of one setting and place together: "1 (load100, wide random)".
    together: dict[str, list[str]] = {}
    for name in fails:
        spread, _, of = name.partition(" ")
        together.setdefault(of, []).append(spread)
    found = (f"X = {', '.join(spreads)} {of}".rstrip() for of, spreads in together.items())
    if fails:
        text += f"; not at {'; '.join(found)}"
    return ClaimOutcome(text, 1 - len(fails) / len(holds))


def compared(
    places: Sequence[Place],
    settings: Sequence[RelocationSetting],
    reference: RelocationSetting,
    metric: str,
    pick: Pick,
    words: str,
    spreads: Sequence[int] = SPREADS,
) -> Judge:
    """The ratio of a metric to another setting's: the least, the mean or the greatest over X."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        ratios = [
            ratio for _, ratio in _ratios(evidence, places, settings, reference, metric, spreads)
        ]
        if not ratios:
            return None
        values = {"least": min(ratios), "mean": _mean(ratios), "greatest": max(ratios)}
        text = (
            f"{values['least']:.2f} to {values['greatest']:.2f} times {words}, mean over X "
            f"{values['mean']:.2f}"
        )
        return ClaimOutcome(text, values[pick])

    return judge


def lower_by(
    places: Sequence[Place],
    settings: Sequence[RelocationSetting],
    reference: RelocationSetting,
    metric: str,
) -> Judge:
    """The share by which a metric is lower than another setting's, at the best spread."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        found = [1 - ratio for _, ratio in _ratios(evidence, places, settings, reference, metric)]
        if not found:
            return None
        text = f"best over X {percent(max(found))}; mean {percent(_mean(found))}"
        return ClaimOutcome(f"{text}, least {percent(min(found))}", max(found))

    return judge


def longest_pop_ratio(places: Sequence[Place], metric: str = "selection_us") -> Judge:
    """Return how many times POP's GRAPE's selections take, with ping times from all: the most over
    X.
    """
    return compared(places, [grape("delay", 1)], POP, metric, "greatest", "POP's")


def _ratios(
    evidence: RelocationEvidence,
    places: Sequence[Place],
    settings: Sequence[RelocationSetting],
    reference: RelocationSetting,
    metric: str,
    spreads: Sequence[int] = SPREADS,
) -> Iterator[tuple[str, float]]:
    """Settings' metric over another's, by spread, where there is something to divide by."""
    for place in places:
        for setting in settings:
            own, against = (
                evidence.results.values(evidence.where(*place), each, metric)
                for each in (setting, reference)
            )
            for spread, value in own.items():
                if spread in spreads and against.get(spread):
                    alone = len(places) == len(settings) == 1
                    name = (
                        f"{spread}" if alone else f"{spread} ({setting.label}, {' '.join(place)})"
                    )
                    yield name, value / against[spread]


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return float(sum(found) / len(found))
