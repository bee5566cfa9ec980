"""Judges of claims that compare more than one metric's value per spread.

Over time (thresholds), over path lengths (selections and migrations), over weights, between
algorithms; and our own aims for the quality of decisions.  Each is a function that returns a
judge, as in `claims`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from shoal.experiments.claims import Outcome
from shoal.experiments.relocation.claims import (
    ALIKE,
    METRICS,
    NOISE,
    Evidence,
    Judge,
    Place,
    milliseconds,
    percent,
    seconds,
)
from shoal.experiments.relocation.grid import (
    BASELINE,
    POP,
    SPREADS,
    THRESHOLDS,
    WEIGHTS,
    Distribution,
    Priority,
    Setting,
    System,
    grape,
)
from shoal.experiments.relocation.regret import Figure
from shoal.experiments.relocation.results import Where
from shoal.experiments.relocation.summary import Moment, RunSummary

# What gets better as a priority's weight falls.
TRADES: Sequence[tuple[Priority, str]] = (("load", "delay_us"), ("delay", "message_rate_per_s"))
# A correlation of this much is what a figure shows as a line.
LINEAR = 0.9
# A response is over when the delay is this close to where it ends.
SETTLED = 0.1


def compared(
    places: Sequence[Place],
    settings: Sequence[Setting],
    reference: Setting,
    metric: str,
    judge_ratio: Callable[[float, float], bool],
    words: str,
    spreads: Sequence[int] = SPREADS,
) -> Judge:
    """Ratios of a metric to another setting's; `judge_ratio` sees the least and the greatest."""

    def judge(evidence: Evidence) -> Outcome | None:
        ratios = []
        for place in places:
            against = evidence.results.values(evidence.where(*place), reference, metric)
            for setting in settings:
                own = evidence.results.values(evidence.where(*place), setting, metric)
                ratios += [
                    own[spread] / against[spread]
                    for spread in own
                    if spread in spreads and against.get(spread)
                ]
        if not ratios:
            return None
        least, most = min(ratios), max(ratios)
        text = f"{least:.2f} to {most:.2f} times {words}"
        return Outcome(text, judge_ratio(least, most))

    return judge


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
        if not apart:
            return None
        (metric, spread), most = max(apart.items(), key=lambda item: (item[1], item[0]))
        text = f"at most {percent(most)} apart ({METRICS[metric]}, X = {spread})"
        return Outcome(text, most <= ALIKE)

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


# --- paths ----------------------------------------------------------------------------------------


def path_lengths(run: RunSummary) -> Mapping[tuple[str, str, str], int]:
    """How many links each finished move went over."""
    return {(one.publisher, one.source, one.target): one.path_hops for one in run.migrations}


def selections_by_path(run: RunSummary, *, with_pings: bool) -> Iterator[tuple[int, int]]:
    """(links between publisher and chosen broker, how long choosing took in µs)."""
    lengths = path_lengths(run)
    for one in run.selections:
        took_us = one.took_us if with_pings else one.asked_us
        if one.broker == one.target:
            yield 0, took_us
        elif (one.publisher, one.broker, one.target) in lengths:
            yield lengths[one.publisher, one.broker, one.target], took_us


def means_by_path(pairs: Sequence[tuple[int, int]]) -> dict[int, float]:
    """The mean time of each path length."""
    found: dict[int, list[int]] = defaultdict(list)
    for hops, took_us in pairs:
        found[hops].append(took_us)
    return {hops: float(np.mean(values)) for hops, values in sorted(found.items())}


def waits_grow_with_paths(places: Sequence[Place], settings: Sequence[Setting]) -> Judge:
    """The mean wait of a moving publisher grows linearly with the path."""

    def judge(evidence: Evidence) -> Outcome | None:
        pairs = [
            (one.path_hops, one.wait_us)
            for run in _runs(evidence, places, settings)
            for one in run.migrations
        ]
        means = means_by_path(pairs)
        if len(means) < 3:
            return None
        correlation = float(np.corrcoef(list(means), list(means.values()))[0, 1])
        per_link = np.polyfit(list(means), list(means.values()), 1)[0]
        text = f"correlation {correlation:.2f}, {milliseconds(per_link)} more per link"
        return Outcome(text, correlation >= LINEAR)

    return judge


def long_moves_take(places: Sequence[Place], settings: Sequence[Setting], most_us: int) -> Judge:
    """No publisher waits longer than this for a move over at most ten links."""

    def judge(evidence: Evidence) -> Outcome | None:
        waits = [
            one.wait_us
            for run in _runs(evidence, places, settings)
            for one in run.migrations
            if one.path_hops <= 10
        ]
        if not waits:
            return None
        return Outcome(f"at most {seconds(max(waits))}", max(waits) <= most_us)

    return judge


def selections_ignore_paths(places: Sequence[Place], setting: Setting) -> Judge:
    """How long choosing takes does not depend on how far the chosen broker is."""

    def judge(evidence: Evidence) -> Outcome | None:
        pairs = [
            pair
            for run in _runs(evidence, places, [setting])
            for pair in selections_by_path(run, with_pings=True)
        ]
        if len(means_by_path(pairs)) < 3:
            return None
        hops, took = zip(*pairs, strict=True)
        correlation = float(np.corrcoef(hops, took)[0, 1])
        return Outcome(f"correlation {correlation:.2f}", abs(correlation) < 0.5)

    return judge


def _runs(
    evidence: Evidence, places: Sequence[Place], settings: Sequence[Setting]
) -> Iterator[RunSummary]:
    for place in places:
        for setting in settings:
            yield from evidence.results.runs(evidence.where(*place), setting).values()


# --- thresholds -----------------------------------------------------------------------------------


def by_threshold(evidence: Evidence, system: System) -> dict[int, RunSummary]:
    """The runs that vary a system's threshold."""
    found = {
        one.spec.setting.threshold: one
        for one in evidence.results.thresholds
        if one.spec.dataset == evidence.dataset and one.spec.setting.system == system
    }
    return {number: found[number] for number in THRESHOLDS if number in found}


def threshold_baseline(evidence: Evidence) -> RunSummary | None:
    """The baseline that ran as long as they did."""
    for one in evidence.results.thresholds:
        if one.spec.dataset == evidence.dataset and one.spec.setting == BASELINE:
            return one
    return None


def response_us(timeline: Sequence[Moment]) -> int | None:
    """When the delay first came close to where it ended; None where that cannot be seen.

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
    """The higher the threshold, the later the delay is down."""

    def judge(evidence: Evidence) -> Outcome | None:
        times = {
            number: time_us
            for number, run in by_threshold(evidence, system).items()
            if (time_us := response_us(run.timeline)) is not None
        }
        if len(times) < 3:
            return None
        text = ", ".join(f"{number}: {seconds(time_us)}" for number, time_us in times.items())
        ascending = all(one <= other for one, other in pairwise(times.values()))
        return Outcome(text, ascending)

    return judge


def overhead_by_threshold(system: System, *, rising: bool) -> Judge:
    """The share of control messages rises, or falls, with the threshold."""

    def judge(evidence: Evidence) -> Outcome | None:
        shares = {
            number: run.metrics["overhead_whole"]
            for number, run in by_threshold(evidence, system).items()
        }
        if len(shares) < 3:
            return None
        text = ", ".join(f"{number}: {percent(share)}" for number, share in shares.items())
        ordered = list(shares.values()) if rising else list(shares.values())[::-1]
        return Outcome(text, all(one <= other * 1.01 for one, other in pairwise(ordered)))

    return judge


def overhead_at_most(system: System, most: float) -> Judge:
    """The share of control messages, at the threshold where it is highest."""

    def judge(evidence: Evidence) -> Outcome | None:
        shares = {
            number: run.metrics["overhead_whole"]
            for number, run in by_threshold(evidence, system).items()
        }
        if not shares:
            return None
        number, share = max(shares.items(), key=lambda item: item[1])
        return Outcome(f"{percent(share)} at threshold {number}", share <= most)

    return judge


def lowest_threshold_is_worst(metric: str, *, above_baseline: bool) -> Judge:
    """GRAPE's lowest threshold ends above the baseline, or above all other thresholds."""

    def judge(evidence: Evidence) -> Outcome | None:
        runs = by_threshold(evidence, "grape")
        baseline = threshold_baseline(evidence)
        if THRESHOLDS[0] not in runs or len(runs) < 3 or baseline is None:
            return None
        values = {number: run.metrics[metric] for number, run in runs.items()}
        own = values.pop(THRESHOLDS[0])
        other = baseline.metrics[metric] if above_baseline else max(values.values())
        against = "the baseline's" if above_baseline else "the highest of the others"
        return Outcome(f"{own:.3g}, {against} is {other:.3g}", own > other)

    return judge


# --- quality --------------------------------------------------------------------------------------


def regret_within(
    distribution: Distribution, setting: Setting, figure: Figure, median: float, p95: float
) -> Judge:
    """Our aim for decisions beside the best broker of all, measured by probes."""

    def judge(evidence: Evidence) -> Outcome | None:
        for one in evidence.regrets:
            asked = evidence.where("wide", distribution), setting.label, figure
            if (one.where, one.setting, one.figure) == asked:
                text = (
                    f"median {percent(one.median)}, 95th percentile {percent(one.p95)}, the best "
                    f"one taken in {percent(one.best_taken)} of {one.decisions} decisions"
                )
                return Outcome(text, one.median <= median and one.p95 <= p95)
        return None

    return judge


def chosen_within(brokers: int, most_us: float) -> Judge:
    """GRAPE's choice alone, on traces from every broker, takes at most this long."""

    def judge(evidence: Evidence) -> Outcome | None:
        for one in evidence.networks:
            if (one.brokers, one.system) == (brokers, "grape") and one.choosing_us is not None:
                text = f"{milliseconds(one.choosing_us)} with traces from all {brokers} brokers"
                return Outcome(text, one.choosing_us <= most_us)
        return None

    return judge


def exactly_once() -> Judge:
    """Every delivery that the filters ask for arrives, once and in order, in every run."""

    def judge(evidence: Evidence) -> Outcome | None:
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
        return Outcome(text, not any(faults.values()))

    return judge


def longest_pop_ratio(place: Sequence[Place], most: float) -> Judge:
    """GRAPE's selections (with all ping times) take at most this many times POP's."""

    def judge(evidence: Evidence) -> Outcome | None:
        ratios = []
        for each in place:
            where = evidence.where(*each)
            pop = evidence.results.values(where, POP, "selection_us")
            own = evidence.results.values(where, grape("delay", 1), "selection_us")
            ratios += [own[spread] / pop[spread] for spread in own if pop.get(spread)]
        if not ratios:
            return None
        return Outcome(f"up to {max(ratios):.1f} times as long", max(ratios) <= most)

    return judge
