"""Choice of a publication's candidate: four policies, from blind to looking ahead.

A candidate is a dimension and a matcher that serves the publication's place on it. Matchers report
each dimension's queue, its rates and the size of its set; the adaptive policy extrapolates the
queue linearly from the last report and takes the matcher that would be done first.

>>> busy = Load(queue=90, arrival_per_s=400.0, matching_per_s=300.0, subscriptions=10)
>>> slow = Load(queue=10, arrival_per_s=50.0, matching_per_s=100.0, subscriptions=40)
>>> candidates = [Candidate(0, "A", busy, 0), Candidate(1, "B", slow, 0)]
>>> choose(Policy.SUBSCRIPTIONS, candidates, 0, Random(1)).matcher
'A'
>>> choose(Policy.ADAPTIVE, candidates, 0, Random(1)).matcher  # 91 / 300 s against 11 / 100 s
'B'
>>> processing_s(busy, 0, 1_000_000), processing_s(slow, 0, 1_000_000)  # queues 190 and 0
(0.6366666666666667, 0.01)

Source: Li et al., BlueDove, section III-B; response time without extrapolation, section IV-D.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import msgspec

from shoal.model import BrokerId


class Policy(enum.Enum):
    """Policy of a dispatcher's choice among candidates."""

    RANDOM = "random"
    SUBSCRIPTIONS = "subscriptions"
    RESPONSE_TIME = "response_time"
    ADAPTIVE = "adaptive"


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """One dimension at one matcher.

    queue            publications that wait to be matched
    arrival_per_s    publications that came, per second
    matching_per_s   publications that all cores together match in a second
    subscriptions    number of subscriptions that each of them is matched against
    """

    queue: int
    arrival_per_s: float
    matching_per_s: float
    subscriptions: int

    def __post_init__(self) -> None:
        figures = (self.queue, self.arrival_per_s, self.subscriptions)
        if not (self.matching_per_s > 0 and all(figure >= 0 for figure in figures)):
            raise ValueError(f"{self} is no load")


class Candidate(NamedTuple):
    """A dimension, a matcher, and the last report of its load there (None: none yet)."""

    dimension: int
    matcher: BrokerId
    load: Load | None
    reported_us: int


def choose(
    policy: Policy, candidates: Sequence[Candidate], now_us: int, random: Random
) -> Candidate:
    """The candidate to send to, of at least one; equals are drawn.

    A candidate of unknown load is taken before any other, so that its load becomes known.
    """
    if len(candidates) == 1:
        return candidates[0]
    if policy is Policy.RANDOM:
        return random.choice(candidates)
    cost = _COSTS[policy]
    best: list[Candidate] = []
    least = float("inf")
    for candidate in candidates:
        load = candidate.load
        costs = -1.0 if load is None else cost(load, candidate.reported_us, now_us)
        if costs < least:
            best, least = [candidate], costs
        elif costs == least:
            best.append(candidate)
    return best[0] if len(best) == 1 else random.choice(best)


def processing_s(load: Load, reported_us: int, now_us: int) -> float:
    """Time to one more publication's result, with the queue extrapolated to now."""
    grown = (load.arrival_per_s - load.matching_per_s) * (now_us - reported_us) / 1e6
    return (max(0.0, load.queue + grown) + 1) / load.matching_per_s


def _reported_processing_s(load: Load, reported_us: int, now_us: int) -> float:
    return (load.queue + 1) / load.matching_per_s


def _subscriptions(load: Load, reported_us: int, now_us: int) -> float:
    return load.subscriptions


_COSTS: dict[Policy, Callable[[Load, int, int], float]] = {
    Policy.SUBSCRIPTIONS: _subscriptions,
    Policy.RESPONSE_TIME: _reported_processing_s,
    Policy.ADAPTIVE: processing_s,
}


def has_changed(before: Load, after: Load, share: float) -> bool:
    """Whether any figure of a load has changed by more than this share."""
    pairs = (
        (before.queue, after.queue),
        (before.arrival_per_s, after.arrival_per_s),
        (before.matching_per_s, after.matching_per_s),
        (before.subscriptions, after.subscriptions),
    )
    return any(abs(new - old) > share * old for old, new in pairs)
