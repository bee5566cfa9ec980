"""Greedy placement of brokers: swap by swap, and only as far as it pays.

Source: DYNATOPS, section 5.1, Algorithms 2 to 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from shoal.overlays.dynatops.planning.advising.prices import no_prices
from shoal.overlays.dynatops.planning.advising.swapping import Search, SwapRules, after, looks
from shoal.overlays.dynatops.planning.bound import reconfiguration_cost
from shoal.overlays.dynatops.planning.costs import moved, notification_cost
from shoal.overlays.dynatops.planning.problem import Mapping, PlacementProblem


class GreedyStep(NamedTuple):
    """Two brokers that change places, the mapping then, and its notification cost."""

    swap: tuple[int, int]
    mapping: Mapping
    cost: float


class GreedyProposal(NamedTuple):
    """A proposal: some first steps, maybe none, with their saving and price (Eq. 6 and 7)."""

    steps: tuple[GreedyStep, ...]
    mapping: Mapping
    benefit: float = 0.0
    cost: float = 0.0

    @property
    def gain(self) -> float:
        return self.benefit - self.cost


def improvements(
    problem: PlacementProblem, mapping: Mapping, search: Search = "worst"
) -> Iterator[GreedyStep]:
    """All steps of `searched`."""
    return (each for each in searched(problem, mapping, SwapRules(search)) if each is not None)


def searched(
    problem: PlacementProblem, mapping: Mapping, rules: SwapRules
) -> Iterator[GreedyStep | None]:
    """SSBR-Greedy, Algorithm 3: each step the best swap of the broker that costs most.

    Of equal brokers and swaps it takes the first by number. It ends with the first broker that no
    swap makes cheaper; if the rules search "next" it continues with the next worst then, and ends
    when no swap of any two is useful. The number of steps does not bound its time: take them one by
    one; None stands for a broker without a useful swap.
    """
    cost = notification_cost(problem, mapping)
    for swap in looks(problem, mapping, no_prices(mapping), rules):
        if swap is None:
            yield None
            continue
        mapping = after(mapping, [swap])
        cost -= swap.gain
        yield GreedyStep(swap.brokers, mapping, cost)


def best_of(
    problem: PlacementProblem,
    mapping: Mapping,
    cost: float,
    steps: list[GreedyStep],
    price_weight: float = 1.0,
    price_of: Callable[[int], float] | None = None,
) -> GreedyProposal:
    """DYNATOPS-Greedy, Algorithm 4: the number of these steps that pays best, none if none does.

    `cost` is the notification cost before the first. The price of so many moving brokers is that of
    Eq. 7 unless it is given, and counts by its weight (ours).
    """
    best = GreedyProposal((), mapping)
    for count, step in enumerate(steps, 1):
        count_moved = len(moved(mapping, step.mapping))
        if price_of is None:
            price = reconfiguration_cost(problem.brokers, problem.topics, count_moved)
        else:
            price = price_of(count_moved)
        price *= price_weight
        if cost - step.cost - price > best.gain:
            best = GreedyProposal(tuple(steps[:count]), step.mapping, cost - step.cost, price)
    return best


def propose(
    problem: PlacementProblem, mapping: Mapping, search: Search = "worst"
) -> GreedyProposal:
    """Both algorithms, one after the other."""
    cost = notification_cost(problem, mapping)
    return best_of(problem, mapping, cost, list(improvements(problem, mapping, search)))


def is_worth_a_look(
    problem: PlacementProblem,
    cost: float,
    share: float,
    price_of: Callable[[int], float] | None = None,
) -> bool:
    """The reconfigurability test of Algorithm 2: not below a share, beta, of the highest price.

    That is the price if all brokers move, by Eq. 7 unless it is given.
    """
    if price_of is not None:
        return cost > share * price_of(problem.brokers)
    return cost > share * reconfiguration_cost(problem.brokers, problem.topics, problem.brokers)
