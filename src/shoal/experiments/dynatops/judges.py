"""Judges: each returns the runs' result about a claim of the paper, as text and as one value.

Source: DYNATOPS, section 6.3.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise

from shoal.experiments.dynatops.evidence import DynatopsEvidence, Which, having
from shoal.experiments.dynatops.grid import (
    CHANGE_RATES,
    CLUSTERS,
    FREE_HOURS,
    PATTERNS,
    UPDATE_HOURS,
    WEIGHTS,
    Part,
)
from shoal.experiments.dynatops.runs import Hours
from shoal.experiments.dynatops.setting import What
from shoal.experiments.studies.claims import ClaimOutcome
from shoal.report.amounts import percent

NAMES: dict[What, str] = {
    "bayeux": "Bayeux (static)", "bayeux-location": "Bayeux (loc)",
    "bayeux-near": "Bayeux (loc, PNS)",
    "tco": "TCO", "geops": "GeoPS", "chash": "CHash", "bnr": "DYNATOPS (BNR)",
    "up": "DYNATOPS (UP)", "dynatops": "DYNATOPS", "hybrid": "Hybrid",
}  # fmt: skip
USUAL_CLUSTER = 10
FAST = CHANGE_RATES[-1]
SAME = 0.05

Judge = Callable[[DynatopsEvidence], ClaimOutcome | None]
Figure = Callable[[Hours], float]


def number(value: float) -> str:
    """
    >>> number(22035.4), number(3.2841)
    ('22,035', '3.284')
    """
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.4g}"


def delay(one: Hours) -> float:
    return one.delay


def overhead(one: Hours) -> float:
    return one.overhead


def subscribing(one: Hours) -> float:
    return one.sum("subscribing")


def changes(one: Hours) -> float:
    return one.sum("changes")


def handovers(one: Hours) -> float:
    """Return handovers of users that had come to another cell: the paper counts those due to
    mobility.
    """
    return one.sum("session_transfer")


def reconfiguring(one: Hours) -> float:
    return one.sum("reconfiguring")


# --- users with places --------------------------------------------------------------------------


def less(figure: Figure, other: What) -> Judge:
    """Judge by which part DYNATOPS' figure is below another system's."""

    def judge(evidence: DynatopsEvidence) -> ClaimOutcome | None:
        runs = evidence.runs("location", ["dynatops", other])
        if runs is None or not figure(runs[other]):
            return None
        ours, theirs = figure(runs["dynatops"]), figure(runs[other])
        text = f"{percent(1 - ours / theirs)} ({number(ours)} against {number(theirs)})"
        return ClaimOutcome(text, 1 - ours / theirs)

    return judge


def below_the_best_other(figure: Figure, others: Sequence[What]) -> Judge:
    """Judge by which part DYNATOPS' figure, at its best size of cluster, is below the lowest
    other's.
    """

    def judge(evidence: DynatopsEvidence) -> ClaimOutcome | None:
        runs = evidence.runs("location", others)
        by_cluster = _by_cluster(evidence, figure)
        if runs is None or by_cluster is None:
            return None
        best = min(by_cluster, key=by_cluster.__getitem__)
        other = min(runs, key=lambda what: figure(runs[what]))
        saved = 1 - by_cluster[best] / figure(runs[other])
        return ClaimOutcome(f"{percent(saved)} against {NAMES[other]}, clusters of {best}", saved)

    return judge


def _by_cluster(
    evidence: DynatopsEvidence,
    figure: Figure,
    what: What = "dynatops",
    part: Part = "cluster",
    **values: int,
) -> dict[int, float] | None:
    found = {
        size: one
        for size in CLUSTERS
        if (one := evidence.run(part, what, having(cluster=size, **values)))
    }
    return (
        {size: figure(one) for size, one in found.items()} if len(found) == len(CLUSTERS) else None
    )


def falls_then_rises(evidence: DynatopsEvidence) -> ClaimOutcome | None:
    """Return whether the size of cluster with the least overhead lies inside the range.

    Judged with summaries exchanged as often as in all other runs; others stand beside it, as the
    paper says nothing of that.
    """
    by_hours = {1: _by_cluster(evidence, subscribing)}
    for hours in UPDATE_HOURS:
        by_hours[hours] = _by_cluster(evidence, subscribing, "up", "update", update_hours=hours)
    texts, holds = [], []
    for hours, found in by_hours.items():
        if found is None:
            return None
        best = min(found, key=found.__getitem__)
        holds.append(CLUSTERS[0] < best < CLUSTERS[-1])
        values = ", ".join(f"{value / 1_000:,.0f}" for value in found.values())
        texts.append(f"exchanged every {hours} h: least at {best} ({values} thousand)")
    return ClaimOutcome("; ".join(texts), float(holds[0]))


def weight_mends(evidence: DynatopsEvidence) -> ClaimOutcome | None:
    """Deviation without a weight is above location's, and some weight brings it below that."""
    plain = evidence.run("location", "bayeux-location")
    found = {
        weight: one.deviation
        for weight in WEIGHTS
        if (one := evidence.run("weight", "up", having(load_weight=weight)))
    }
    if plain is None or len(found) < len(WEIGHTS):
        return None
    holds = [found[0.0] > plain.deviation, min(found.values()) < plain.deviation]
    text = ", ".join(f"{weight:g}: {value:.2f}" for weight, value in found.items())
    return ClaimOutcome(
        f"by location {plain.deviation:.2f}; by weight {text}", sum(holds) / len(holds)
    )


def gain_grows(evidence: DynatopsEvidence) -> ClaimOutcome | None:
    """Delay and overhead fall with each size of cluster."""
    delays, overheads = _by_cluster(evidence, delay), _by_cluster(evidence, overhead)
    if delays is None or overheads is None:
        return None
    holds = [
        later <= earlier
        for found in (delays, overheads)
        for earlier, later in pairwise(found.values())
    ]
    text = ", ".join(f"{size}: {delays[size]:.2f}, {overheads[size]:.1f}" for size in CLUSTERS)
    return ClaimOutcome(f"delay and messages by size {text}", sum(holds) / len(holds))


def ten_suffices(evidence: DynatopsEvidence) -> ClaimOutcome | None:
    """With clusters of ten, delay and overhead against the best of the others."""
    found = evidence.run("cluster", "dynatops", having(cluster=USUAL_CLUSTER))
    others: list[What] = ["bayeux", "bayeux-location", "bayeux-near", "geops"]
    runs = evidence.runs("location", others)
    if found is None or runs is None:
        return None
    figures = {"delay": delay, "messages": overhead, "subscribing": subscribing}
    won = [name for name, of in figures.items() if of(found) < min(map(of, runs.values()))]
    return ClaimOutcome(
        f"better in {', '.join(won) or 'none'} of {len(figures)}", len(won) / len(figures)
    )


def halves_help(other: What) -> Judge:
    """Judge placement of users alone, and reconfiguration alone: delay and messages of each are
    below another system's.
    """
    halves: tuple[What, ...] = ("up", "bnr")

    def judge(evidence: DynatopsEvidence) -> ClaimOutcome | None:
        runs = evidence.runs("location", [other, *halves])
        if runs is None:
            return None
        texts, saved = [], []
        for half in halves:
            cuts = [1 - figure(runs[half]) / figure(runs[other]) for figure in (delay, overhead)]
            texts.append(f"{NAMES[half]}: delay {percent(cuts[0])}, messages {percent(cuts[1])}")
            saved += cuts
        return ClaimOutcome(f"cut by {'; '.join(texts)}", sum(cut > 0 for cut in saved) / 4)

    return judge


# --- users without places -----------------------------------------------------------------------


def below_all(figure: Figure, others: Sequence[What], at: Sequence[float] = CHANGE_RATES) -> Judge:
    """Judge by which part DYNATOPS is below the best of these, the least over rates of change."""

    def judge(evidence: DynatopsEvidence) -> ClaimOutcome | None:
        found = []
        for rate in at:
            runs = evidence.runs(
                "poisson",
                ["dynatops", *others],
                having(change_rate=rate),
            )
            if runs is None:
                return None
            best = min(figure(runs[what]) for what in others)
            found.append(1 - figure(runs["dynatops"]) / best if best else 0.0)
        text = ", ".join(
            f"{rate:g}: {percent(saved)}" for rate, saved in zip(at, found, strict=True)
        )
        return ClaimOutcome(f"by changes an hour {text}", min(found))

    return judge


def less_sensitive(evidence: DynatopsEvidence) -> ClaimOutcome | None:
    """How often DYNATOPS' messages to change the overlay grow from the slowest to the fastest
    change of subscriptions, as a part of how often TCO's do.
    """
    grown: dict[What, float] = {}
    systems: tuple[What, ...] = ("dynatops", "tco")
    for what in systems:
        slow, fast = (
            evidence.run("poisson", what, having(change_rate=rate))
            for rate in (CHANGE_RATES[0], CHANGE_RATES[-1])
        )
        if slow is None or fast is None or not reconfiguring(slow):
            return None
        grown[what] = reconfiguring(fast) / reconfiguring(slow)
    part = grown["dynatops"] / grown["tco"]
    text = ", ".join(f"{NAMES[what]} {times:.2f} times" for what, times in grown.items())
    return ClaimOutcome(f"{part:.2f} times TCO's growth: {text}", part)


def within_the_bound(evidence: DynatopsEvidence) -> ClaimOutcome | None:
    """The share of changes of brokers' places whose messages are within Eq. 7's bound."""
    slots = [slot for one in evidence.found for slot in one.slots if slot.bound]
    if not slots:
        return None
    parts = [slot.reconfiguring / slot.bound for slot in slots]
    text = f"{len(parts)} changes took {percent(min(parts))} to {percent(max(parts))} of it"
    return ClaimOutcome(text, sum(part <= 1 for part in parts) / len(parts))


def tco_between(evidence: DynatopsEvidence) -> ClaimOutcome | None:
    """TCO has less overhead than Bayeux and BNR, and more delay, at every rate of change."""
    holds = []
    for rate in CHANGE_RATES:
        runs = evidence.runs(
            "poisson",
            ["tco", "bayeux", "bnr"],
            having(change_rate=rate),
        )
        if runs is None:
            return None
        for other in ("bayeux", "bnr"):
            holds += [
                runs["tco"].overhead < runs[other].overhead,
                runs["tco"].delay > runs[other].delay,
            ]
    return ClaimOutcome(f"{sum(holds)} of {len(holds)} comparisons", sum(holds) / len(holds))


def best_under_every_pattern(evidence: DynatopsEvidence) -> ClaimOutcome | None:
    holds = {}
    for pattern in PATTERNS:
        whats: list[What] = ["dynatops", "bayeux", "tco"]
        runs = evidence.runs("pattern", whats, having(pattern=pattern))
        if runs is None:
            return None
        for name, figure in (("delay", delay), ("overhead", overhead)):
            least = min(figure(runs[what]) for what in ("bayeux", "tco"))
            holds[f"{pattern} {name}"] = figure(runs["dynatops"]) < least
    no = [name for name, held in holds.items() if not held]
    text = f"{len(holds) - len(no)} of {len(holds)}" + (f"; not {', '.join(no)}" if no else "")
    return ClaimOutcome(text, 1 - len(no) / len(holds))


def below_hashed_users(figure: Figure) -> Judge:
    """Judge by which least part DYNATOPS' figure is below that of users placed by hash."""

    def judge(evidence: DynatopsEvidence) -> ClaimOutcome | None:
        saved: dict[str, float] = {}
        for pattern in PATTERNS:
            runs = evidence.runs("pattern", ["dynatops", "chash"], having(pattern=pattern))
            if runs is None:
                return None
            saved[pattern] = 1 - figure(runs["dynatops"]) / figure(runs["chash"])
        located = evidence.runs("location", ["dynatops", "chash"])
        if located is None:
            return None
        saved["with places"] = 1 - figure(located["dynatops"]) / figure(located["chash"])
        text = ", ".join(f"{name}: {percent(share)}" for name, share in saved.items())
        return ClaimOutcome(text, min(saved.values()))

    return judge


def tco_under_zipf(evidence: DynatopsEvidence) -> ClaimOutcome | None:
    """TCO's delay as a part of Bayeux's: below under Zipf, above under the others."""
    found = {}
    for pattern in PATTERNS:
        runs = evidence.runs("pattern", ["tco", "bayeux"], having(pattern=pattern))
        if runs is None:
            return None
        found[pattern] = runs["tco"].delay / runs["bayeux"].delay
    holds = [found["zipf"] < 1, *(found[other] > 1 for other in ("multimodal", "uniform"))]
    text = ", ".join(f"{pattern} {percent(share)}" for pattern, share in found.items())
    return ClaimOutcome(f"of Bayeux's delay: {text}", sum(holds) / len(holds))


def gateways_save(figure: Figure) -> Judge:
    """Judge by which least part a hybrid network's figure is below DYNATOPS'."""

    def judge(evidence: DynatopsEvidence) -> ClaimOutcome | None:
        saved: dict[str, float] = {}
        parts: list[tuple[str, Part, Which]] = [
            (pattern, "pattern", having(pattern=pattern, users_are="poisson"))
            for pattern in PATTERNS
        ]
        for name, part, which in [
            *parts,
            ("with places", "location", having(users_are="location")),
        ]:
            flat, hybrid = (
                evidence.run(part, "dynatops", which),
                evidence.run("hybrid", "hybrid", which),
            )
            if flat is None or hybrid is None:
                return None
            saved[name] = 1 - figure(hybrid) / figure(flat)
        text = ", ".join(f"{name}: {percent(share)}" for name, share in saved.items())
        return ClaimOutcome(text, min(saved.values()))

    return judge


def below_among(part: Part, figure: Figure, others: Sequence[What]) -> Judge:
    """Judge by which part DYNATOPS is below the best of these, with the users of a file."""

    def judge(evidence: DynatopsEvidence) -> ClaimOutcome | None:
        runs = evidence.runs(part, ["dynatops", *others])
        if runs is None or not figure(runs[others[0]]):
            return None
        best = min(others, key=lambda what: figure(runs[what]))
        ours, theirs = figure(runs["dynatops"]), figure(runs[best])
        text = f"{percent(1 - ours / theirs)} ({number(ours)} against {NAMES[best]}'s "
        return ClaimOutcome(f"{text}{number(theirs)})", 1 - ours / theirs)

    return judge


# --- frequencies, and plans --------------------------------------------------------------------


def free_hours(users: str, figure: Figure, judge: Callable[[list[float]], float]) -> Judge:
    def found(evidence: DynatopsEvidence) -> ClaimOutcome | None:
        runs = {
            hours: one
            for hours in FREE_HOURS
            if (
                one := evidence.run(
                    "free",
                    "dynatops",
                    having(free_hours=hours, users_are=users),
                )
            )
        }
        if len(runs) < len(FREE_HOURS):
            return None
        values = [figure(one) for one in runs.values()]
        text = ", ".join(
            f"{hours} h: {number(value)}" for hours, value in zip(runs, values, strict=True)
        )
        return ClaimOutcome(text, judge(values))

    return found


def falls(values: list[float]) -> float:
    """The share of steps at which values fall, or stay.

    >>> falls([9.0, 5.0, 6.0]), falls([5.0, 5.0])
    (0.5, 1.0)
    """
    steps = [later <= sooner for sooner, later in pairwise(values)]
    return sum(steps) / len(steps)


def always_gains(evidence: DynatopsEvidence) -> ClaimOutcome | None:
    found = evidence.plans()
    if not found:
        return None
    savings = [one.saving for one in found]
    text = f"{percent(min(savings))} to {percent(max(savings))}"
    return ClaimOutcome(text, sum(saving > 0 for saving in savings) / len(savings))


def more_when_skewed(evidence: DynatopsEvidence) -> ClaimOutcome | None:
    pairs = [
        (one.saving, other.saving)
        for one in evidence.plans()
        if one.case.pattern == "multimodal"
        and (other := evidence.plan("uniform", one.case.brokers, one.case.topics))
    ]
    if not pairs:
        return None
    more = sum(skewed > uniform for skewed, uniform in pairs)
    return ClaimOutcome(f"{more} of {len(pairs)} sizes", more / len(pairs))


def seconds(brokers: int, topics: int) -> Judge:
    def judge(evidence: DynatopsEvidence) -> ClaimOutcome | None:
        found = [
            one.seconds
            for pattern in ("uniform", "multimodal")
            if (one := evidence.plan(pattern, brokers, topics))
        ]
        if not found:
            return None
        return ClaimOutcome(f"{max(found):.3g} s", max(found))

    return judge


def regret_of(judge: str, other: str = "") -> Judge:
    """Return how far the greedy plan, or another one, is above the best that is known."""

    def found(evidence: DynatopsEvidence) -> ClaimOutcome | None:
        values = evidence.regrets(judge, lambda one: one.others.get(other) if other else one.regret)
        if not values:
            return None
        text = f"{percent(statistics.median(values))}, at most {percent(values[-1])}"
        return ClaimOutcome(f"{text} ({len(values)} cases)", statistics.median(values))

    return found
