"""Which broker should stand where: swap by swap, and only as far as it pays.

Source: DYNATOPS, section 5.1, Algorithms 2 to 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from shoal.overlays.dynatops.planning.costs import (
    LEAST,
    after_swap,
    first_of,
    moved,
    notification_cost,
    reconfiguration_cost,
    standing,
    swap_costs,
    worst_position,
)
from shoal.overlays.dynatops.planning.problem import Mapping, Problem


class Step(NamedTuple):
    """Two brokers that change places, the mapping then, and what notifications cost with it."""

    swap: tuple[int, int]
    mapping: Mapping
    cost: float


class Proposal(NamedTuple):
    """What is proposed: some first steps, maybe none, and what they save and cost (Eq. 6 and 7)."""

    steps: tuple[Step, ...]
    mapping: Mapping
    benefit: float = 0.0
    cost: float = 0.0

    @property
    def gain(self) -> float:
        return self.benefit - self.cost


def improvements(problem: Problem, mapping: Mapping) -> Iterator[Step]:
    """SSBR-Greedy, Algorithm 3: each step the best swap of the broker that costs most.

    Of equal brokers and swaps it takes the first by number.  It ends with the first broker that no
    swap makes cheaper, so that its time is not bounded by a number of steps: take them one by one.
    """
    mapping = list(mapping)
    found = standing(problem, mapping)
    while True:
        cost = found.cost(problem.delay_weight)
        worst = worst_position(problem, found)
        changes = swap_costs(problem, found, worst)
        # A swap with itself changes nothing.
        best = first_of(changes, found.brokers)
        if changes[best] >= -LEAST * cost:
            return
        swap = int(found.brokers[worst]), int(found.brokers[best])
        mapping[swap[0]], mapping[swap[1]] = best, worst
        found = after_swap(problem, found, worst, best)
        yield Step(swap, tuple(mapping), cost + float(changes[best]))


def best_of(
    problem: Problem, mapping: Mapping, cost: float, steps: list[Step], price_weight: float = 1.0
) -> Proposal:
    """DYNATOPS-Greedy, Algorithm 4: as many of these steps as pay best, none if none does.

    `cost` is what notifications cost before the first; the price counts by its weight (ours).
    """
    best = Proposal((), mapping)
    for count, step in enumerate(steps, 1):
        price = reconfiguration_cost(
            problem.brokers, problem.topics, len(moved(mapping, step.mapping))
        )
        price *= price_weight
        if cost - step.cost - price > best.gain:
            best = Proposal(tuple(steps[:count]), step.mapping, cost - step.cost, price)
    return best


def propose(problem: Problem, mapping: Mapping) -> Proposal:
    """Both algorithms, one after the other."""
    cost = notification_cost(problem, mapping)
    return best_of(problem, mapping, cost, list(improvements(problem, mapping)))


def is_worth_a_look(problem: Problem, cost: float, share: float) -> bool:
    """The reconfigurability test of Algorithm 2: not below a share, beta, of the highest price."""
    return cost > share * reconfiguration_cost(problem.brokers, problem.topics, problem.brokers)


def smoothed_rate(before: float, now: float, weight: float = 0.3) -> float:
    """The rate expected for the next period, Eq. 8.

    >>> smoothed_rate(10, 20)
    13.0
    """
    return (1 - weight) * before + weight * now
