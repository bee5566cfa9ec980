"""Choice of a client's broker by two figures for each candidate: its load, and its delay.

One figure decides first: it is normalised to 0..100 over the candidates, those above `100 - weight`
are dropped, and of the rest the one with the least of the other figure wins.

The right weight is unknown beforehand, so there is `knee`, without a weight to choose. Of the
Pareto front (candidates that no other beats in both figures) it takes the best compromise: both
figures are normalised to 0..1 between the ends of the front, and the least sum wins, which is the
point furthest below the straight line between the ends. If no point is below that line, the ends
are equal, and the nearer broker wins.

>>> loads = {"A": 100, "B": 40, "C": 30, "D": 50}
>>> delays = {"A": 10, "B": 12, "C": 90, "D": 15}
>>> brokers = ["A", "B", "C", "D"]
>>> weigh(brokers, loads, delays, Priority.KNEE, FULL_WEIGHT)
['B']
>>> weight_of("B", brokers, loads)
85

Source: Cheung and Jacobsen, publisher relocation, section 4.2, for the first two priorities. The
knee is ours.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from shoal.model import BrokerId

FULL_WEIGHT = 100


class Priority(enum.Enum):
    """The figure that decides first, or a compromise of both."""

    LOAD = "load"
    DELAY = "delay"
    KNEE = "knee"


def within(
    candidates: Sequence[BrokerId], figures: Mapping[BrokerId, int], weight: int
) -> list[BrokerId]:
    """The candidates whose normalised figure is at most `100 - weight`, without rounding."""
    values = [figures[broker] for broker in candidates]
    least = min(values)
    allowed = (FULL_WEIGHT - weight) * (max(values) - least)
    return [
        broker
        for broker, value in zip(candidates, values, strict=True)
        if FULL_WEIGHT * (value - least) <= allowed
    ]


def weigh(
    candidates: Sequence[BrokerId],
    loads: Mapping[BrokerId, int],
    delays: Mapping[BrokerId, int],
    priority: Priority,
    weight: int,
) -> list[BrokerId]:
    """The best of at least two candidates, and those that are no worse.

    Under LOAD they are those that `within` has left; under KNEE the weight does not count.
    """
    if priority is Priority.KNEE:
        return _knee(candidates, loads, delays)
    figures = delays
    if priority is Priority.DELAY:
        candidates, figures = within(candidates, delays, weight), loads
    least = min(figures[broker] for broker in candidates)
    return [broker for broker in candidates if figures[broker] == least]


def weight_of(
    broker: BrokerId, candidates: Sequence[BrokerId], loads: Mapping[BrokerId, int]
) -> int:
    """The greatest weight under LOAD that does not drop a candidate: 0 to 100, rounded down."""
    values = [loads[each] for each in candidates]
    least = min(values)
    above, most = loads[broker] - least, max(values) - least
    return FULL_WEIGHT - -(-FULL_WEIGHT * above // most) if most else FULL_WEIGHT


def _knee(
    candidates: Sequence[BrokerId], loads: Mapping[BrokerId, int], delays: Mapping[BrokerId, int]
) -> list[BrokerId]:
    points = {broker: (loads[broker], delays[broker]) for broker in candidates}
    front: list[tuple[int, int]] = []
    for load, delay in sorted(set(points.values())):
        if not front or delay < front[-1][1]:
            front.append((load, delay))
    (least_load, most_delay), (most_load, least_delay) = front[0], front[-1]
    loads_apart, delays_apart = most_load - least_load, most_delay - least_delay

    def given_up(point: tuple[int, int]) -> int:
        load, delay = point
        return (load - least_load) * delays_apart + (delay - least_delay) * loads_apart

    least = min(map(given_up, front))
    best = {point for point in front if given_up(point) == least}
    return [broker for broker, point in points.items() if point in best]
