"""Better mappings than the greedy ones, to measure the distance of these from the best.

Source: ours. The paper's problem is NP-hard (5.1.1); of up to eight brokers all mappings are tried,
of more swaps of any two, or annealing.
"""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np

from shoal.overlays.dynatops.planning.advising.prices import no_prices
from shoal.overlays.dynatops.planning.advising.swapping import SwapRules, after, swaps
from shoal.overlays.dynatops.planning.costs import (
    LEAST,
    after_swap,
    notification_cost,
    standing,
    swap_costs,
)
from shoal.overlays.dynatops.planning.problem import Mapping, PlacementProblem

MAX_BROKERS_FOR_ALL = 8
# Annealing: from this part of the mean cost of a broker down to a thousandth of it.
_HOT, _COLD = 0.5, 0.001


def cheapest(problem: PlacementProblem) -> tuple[Mapping, float]:
    """The best of all mappings, and its cost; ValueError for more than eight brokers."""
    if problem.brokers > MAX_BROKERS_FOR_ALL:
        raise ValueError(f"{problem.brokers} brokers are too many to try all mappings")
    return min(
        (
            (mapping, notification_cost(problem, mapping))
            for mapping in permutations(range(problem.brokers))
        ),
        key=lambda found: found[1],
    )


def by_any_swap(problem: PlacementProblem, mapping: Mapping) -> tuple[Mapping, float]:
    """Take the best swap of any two brokers until none is useful."""
    mapping = after(mapping, list(swaps(problem, mapping, no_prices(mapping), SwapRules("any"))))
    return mapping, notification_cost(problem, mapping)


def annealed(
    problem: PlacementProblem, mapping: Mapping, seed: int, rounds: int
) -> tuple[Mapping, float]:
    """Simulated annealing by swaps of brokers; returns the best mapping met.

    In each round every position's broker changes places once, by the chances of a heat bath.
    """
    random = np.random.default_rng(seed)
    found = standing(problem, mapping)
    cost = found.cost(problem.delay_weight)
    best, lowest = found.brokers.copy(), cost
    mean = cost / problem.brokers
    for number in range(rounds):
        heat = mean * _HOT * (_COLD / _HOT) ** (number / max(1, rounds - 1))
        if heat <= 0:
            break
        for left in random.permutation(problem.brokers).tolist():
            changes = swap_costs(problem, found, left)
            chances = np.exp(-(changes - changes.min()) / heat)
            right = int(random.choice(problem.brokers, p=chances / chances.sum()))
            if right != left:
                cost += float(changes[right])
                found = after_swap(problem, found, left, right)
                if cost < lowest - LEAST * abs(lowest):
                    best, lowest = found.brokers.copy(), cost
    at = np.argsort(best).tolist()
    return by_any_swap(problem, at)


def regret(cost: float, best: float) -> float:
    """Relative excess of a cost over the best.

    >>> regret(11, 10), regret(0, 0)
    (0.1, 0.0)
    """
    return 0.0 if cost == best else math.inf if best == 0 else round(cost / best - 1, 9)
