"""Judges of BlueDove's claims: each returns the measurement as text and as a value for a band."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from shoal.experiments.bluedove.evidence import BlueDoveEvidence
from shoal.experiments.bluedove.grid import (
    DIMENSIONS,
    EVENEST_PEERS,
    PEERS,
    dimensions_name,
    rate_name,
)
from shoal.experiments.studies.claims import ClaimOutcome
from shoal.overlays.bluedove.cluster.gossip import paper_bytes_per_s

Judge = Callable[[BlueDoveEvidence], ClaimOutcome | None]
Name = Callable[[BlueDoveEvidence], str]

DISPATCHERS = 2
BY_WORST = "by the most skewed attribute"
# A figure over time is a line when its values follow one this closely.
LINE = 0.9


def times(one: Name, other: Name, key: str = "rate_per_s") -> Judge:
    """Return how many times another run's figure one run's is."""

    def judge(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
        ratio = evidence.ratio(one(evidence), other(evidence), key)
        return None if ratio is None else ClaimOutcome(f"{ratio:.3g} times", ratio)

    return judge


def over_peers(one: Name, run: Callable[[str, int], str], matchers: int, key: str) -> Judge:
    """A run's figure over peer-to-peer's by its best attribute; by its worst one beside it.

    `run` names peer-to-peer's run. If it was run by one attribute only, that one counts.
    """

    def judge(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
        name = one(evidence)
        best = evidence.ratio(name, run(EVENEST_PEERS, matchers), key)
        worst = evidence.ratio(name, run(PEERS, matchers), key)
        if best is None:
            text = f"{worst:.3g} times, {BY_WORST}" if worst is not None else ""
            return None if worst is None else ClaimOutcome(text, worst)
        beside = "" if worst is None else f" ({worst:.3g} {BY_WORST})"
        return ClaimOutcome(f"{best:.3g} times{beside}", best)

    return judge


def gain(system: str, matchers: int) -> Judge:
    """BlueDove's rate over a system's."""

    def own(_: BlueDoveEvidence) -> str:
        return rate_name("bluedove", matchers)

    if system == PEERS:
        return over_peers(own, rate_name, matchers, "rate_per_s")
    return times(own, lambda _: rate_name(system, matchers))


def total_rate(system: str) -> Judge:
    """The rate itself, with most matchers."""

    def judge(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
        rate = evidence.value(rate_name(system, evidence.scale.most))
        return None if rate is None else ClaimOutcome(f"{rate:,.0f} messages/s", rate)

    return judge


def peers_rate(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
    """Peer-to-peer's rate by its best attribute; by its worst one beside it."""
    best, worst = (
        evidence.value(rate_name(system, evidence.scale.most)) for system in (EVENEST_PEERS, PEERS)
    )
    rate = worst if best is None else best
    if rate is None:
        return None
    beside = "" if best is None or worst is None else f" ({worst:,.0f} {BY_WORST})"
    return ClaimOutcome(f"{rate:,.0f} messages/s{beside}", rate)


def whole_gain(name: str) -> Judge:
    return times(lambda evidence: evidence.whole, lambda _: name)


def drop(name: str) -> Judge:
    """The share by which the rate falls."""

    def judge(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
        ratio = evidence.ratio(name, evidence.whole)
        rate = evidence.value(name)
        if ratio is None:
            return None
        return ClaimOutcome(
            f"{100 * (1 - ratio):.0f} % less ({rate:,.0f} messages/s remain)", 1 - ratio
        )

    return judge


def linear(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
    """Return how many times the rate, for each time the matchers."""
    few, many = min(evidence.scale.sizes), evidence.scale.most
    ratio = evidence.ratio(rate_name("bluedove", many), rate_name("bluedove", few))
    if ratio is None:
        return None
    text = f"{ratio:.3g} times the rate with {many / few:.2g} times the matchers"
    return ClaimOutcome(text, ratio * few / many)


def spread(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
    """The standard deviation of BlueDove's loads over their mean."""
    found = evidence.value(evidence.whole, "load_spread")
    return None if found is None else ClaimOutcome(f"{found:.3f}", found)


def peers_spread(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
    """Peer-to-peer's, by its best attribute; by its worst one beside it."""
    best, worst = (
        evidence.value(rate_name(system, evidence.scale.most), "load_spread")
        for system in (EVENEST_PEERS, PEERS)
    )
    found = worst if best is None else best
    if found is None:
        return None
    beside = "" if best is None or worst is None else f" ({worst:.2f} {BY_WORST})"
    return ClaimOutcome(f"{found:.2f}{beside}", found)


def overhead(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
    """Bytes per second and matcher."""
    ours = evidence.value(evidence.whole, "overhead_bytes_per_s")
    if ours is None:
        return None
    return ClaimOutcome(f"{ours:,.0f} of {paper_bytes_per_s(DISPATCHERS):,} bytes/s", ours)


def grows_with_dimensions(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
    """The share of further dimensions that raise the rate."""
    rates = [
        evidence.value(evidence.whole if count == DIMENSIONS else dimensions_name(count))
        for count in evidence.scale.dimensions
    ]
    known = [rate for rate in rates if rate is not None]
    if len(known) < len(rates):
        return None
    text = ", ".join(
        f"{count}: {rate:,.0f}"
        for count, rate in zip(evidence.scale.dimensions, known, strict=True)
    )
    steps = [one < other for one, other in pairwise(known)]
    return ClaimOutcome(f"{text} messages/s", sum(steps) / len(steps))


def more_than_peers(name: str, most: int) -> Judge:
    """A run's rate over peer-to-peer's on the usual workload."""
    return over_peers(lambda _: name, rate_name, most, "rate_per_s")


# --- over time ----------------------------------------------------------------------------------


def constant_below(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
    """The response in the last third over that in the middle one, below saturation."""
    points = evidence.series(evidence.whole, "below")
    if len(points) < 3:
        return None
    third = len(points) // 3
    values = [value or 0.0 for _, value in points]
    middle, last = np.mean(values[third : 2 * third]), np.mean(values[-third:])
    return ClaimOutcome(f"{middle:,.0f} ms, later {last:,.0f} ms", float(last / middle))


def linear_above(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
    """Judge how closely responses above saturation follow a rising line."""
    points = evidence.series(evidence.whole, "above")
    if len(points) < 3:
        return None
    times_s, values = zip(*points, strict=True)
    correlation = float(np.corrcoef(times_s, values)[0, 1])
    slope = np.polyfit(times_s, values, 1)[0]
    return ClaimOutcome(
        f"correlation {correlation:.2f}, {slope:,.0f} ms more each second", correlation
    )


def changed(event: str, count: str, mean: str) -> Judge:
    """Judge how soon responses fall, or are normal again, after a matcher is added."""

    def judge(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
        result = evidence.results.get("elasticity")
        if result is None:
            return None
        added, happened = (round(result.values[key]) for key in ("added", count))
        mean_s = result.values.get(mean)
        if mean_s is None or not happened == added > 0:
            text = f"{added} matchers added, responses {event} after {happened}"
            return ClaimOutcome(text, float("inf"))
        return ClaimOutcome(f"{mean_s:.1f} s on average, after each of {added} additions", mean_s)

    return judge


def smaller_improvement(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
    """Return the fall of responses after the third matcher, over that after the first two."""
    falls = [ms for _, ms in evidence.series("elasticity", "improvement") if ms is not None]
    if len(falls) < 3:
        return None
    before = float(np.mean(falls[:2]))
    text = ", ".join(f"{ms:,.0f}" for ms in falls[:3]) + " ms"
    return ClaimOutcome(text, falls[2] / before if before else float("inf"))


def least_lost(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
    """The greatest share of messages lost in any second after a failure."""
    shares = [share for _, share in evidence.series("faults", "loss") if share is not None]
    return (
        ClaimOutcome(f"{100 * max(shares):.1f} % in the worst second", max(shares))
        if shares
        else None
    )


def loss_ends(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
    """Return how long messages are lost after a failure, on average."""
    points = evidence.series("faults", "loss")
    kills = evidence.series("faults", "killed")
    if not points or not kills:
        return None
    lossy_s = sum(share > 0 for _, share in points if share is not None) / len(kills)
    text = "none lost at any time" if not lossy_s else f"{lossy_s:.1f} s"
    return ClaimOutcome(text, lossy_s)


def slower_after_a_failure(evidence: BlueDoveEvidence) -> ClaimOutcome | None:
    """The slowest second after a failure over the mean before the first."""
    points = evidence.series("faults", "response")
    kills = evidence.series("faults", "killed")
    if not points or not kills:
        return None
    first_s = kills[0][0]
    before = float(np.mean([ms or 0.0 for time_s, ms in points if time_s < first_s]))
    worst = max(ms or 0.0 for time_s, ms in points if time_s >= first_s)
    worst_s = evidence.value("faults", "worst_s")
    text = f"at most {worst / before:.2g} times the mean before"
    return ClaimOutcome(text + ("" if worst_s is None else f"; one message {worst_s:.1f} s"),
                   worst / before)  # fmt: skip
