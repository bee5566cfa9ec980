"""Which broker should stand where: swap by swap, and only as far as it pays.

Source: DYNATOPS, section 5.1, Algorithms 2 to 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from shoal.overlays.dynatops.planning.advising.prices import no_prices
from shoal.overlays.dynatops.planning.advising.swapping import Rules, Search, after, looks
from shoal.overlays.dynatops.planning.bound import reconfiguration_cost
from shoal.overlays.dynatops.planning.costs import moved, notification_cost
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


def improvements(problem: Problem, mapping: Mapping, search: Search = "worst") -> Iterator[Step]:
    """All steps of `searched`."""
    return (each for each in searched(problem, mapping, Rules(search)) if each is not None)


def searched(problem: Problem, mapping: Mapping, rules: Rules) -> Iterator[Step | None]:
    """SSBR-Greedy, Algorithm 3: each step the best swap of the broker that costs most.

    Of equal brokers and swaps it takes the first by number.  It ends with the first broker that no
    swap makes cheaper; if the rules search "next" it goes on with the next worst then, and ends
    where no swap of any two helps.  Its time is not bounded by a number of steps: take them one by
    one; None stands for a broker that was looked at in vain.
    """
    cost = notification_cost(problem, mapping)
    for swap in looks(problem, mapping, no_prices(mapping), rules):
        if swap is None:
            yield None
            continue
        mapping = after(mapping, [swap])
        cost -= swap.gain
        yield Step(swap.brokers, mapping, cost)


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


def propose(problem: Problem, mapping: Mapping, search: Search = "worst") -> Proposal:
    """Both algorithms, one after the other."""
    cost = notification_cost(problem, mapping)
    return best_of(problem, mapping, cost, list(improvements(problem, mapping, search)))


def is_worth_a_look(problem: Problem, cost: float, share: float) -> bool:
    """The reconfigurability test of Algorithm 2: not below a share, beta, of the highest price."""
    return cost > share * reconfiguration_cost(problem.brokers, problem.topics, problem.brokers)
