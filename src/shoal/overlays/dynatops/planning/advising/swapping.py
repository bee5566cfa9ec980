"""Swaps of brokers for an operator: those that pay, within constraints, in few swaps.

The paper's greedy search looks at the swaps of the broker that costs most, ends with the first
without a useful swap, and then computes how far the steps pay. Here each swap must save more than
it costs by itself; after a broker without such a swap the next one is searched, so that the search
ends when no swap of any two pays. Brokers may be pinned, restricted to their region, and limited in
capacity.

Source: ours, from DYNATOPS, section 5.1.1, Algorithms 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from shoal.overlays.dynatops.planning import kernels
from shoal.overlays.dynatops.planning.advising.prices import Prices
from shoal.overlays.dynatops.planning.costs import (
    LEAST,
    MappingCounts,
    after_swap,
    standing,
    swap_costs,
)
from shoal.overlays.dynatops.planning.problem import Amounts, Flags, Mapping, PlacementProblem

# The brokers whose swaps are searched: the worst one, as in the paper; the next worst one if none
# of these pays; or all brokers, for the best swap.
Search = Literal["worst", "next", "any"]


class SwapRules(NamedTuple):
    """Constraints on swaps.

    search      the brokers whose swaps are searched
    most        number of swaps; None: any number
    least_gain  the least saving of each beyond its price, in messages
    pinned      (brokers) those that stay
    regions     (brokers) each swaps with those of its own number only
    capacities  (brokers) number of messages each can handle in the period; no swap brings a broker
                above that, or farther above it
    """

    search: Search = "next"
    most: int | None = None
    least_gain: float = 0.0
    pinned: Flags | None = None
    regions: Sequence[int] | None = None
    capacities: Amounts | None = None


class PositionSwap(NamedTuple):
    """Two brokers that change places, their positions, and the swap's own saving and price.

    relays, delay  saving in either part of the notification cost
    """

    brokers: tuple[int, int]
    positions: tuple[int, int]
    gain: float
    price: float
    relays: float
    delay: float


def swaps(
    problem: PlacementProblem, mapping: Mapping, prices: Prices, rules: SwapRules
) -> Iterator[PositionSwap]:
    """Each the best by its saving beyond its own price; of equal ones the first brokers'.

    Their prices exclude the fixed part of any change: see `plan_swaps`.
    """
    return (each for each in looks(problem, mapping, prices, rules) if each is not None)


def looks(
    problem: PlacementProblem, mapping: Mapping, prices: Prices, rules: SwapRules
) -> Iterator[PositionSwap | None]:
    """The same, and None for each search of a broker's swaps that finds none, so that no step takes
    longer than one search.
    """
    at = np.array(mapping)
    found = standing(problem, mapping)
    count = 0
    while rules.most is None or count < rules.most:
        best: _Choice | None = None
        for left in _worst_first(problem, found, rules):
            one = _best_of(problem, found, prices, rules, left)
            if one is not None and (best is None or one[0] > best[0] + LEAST * abs(best[0])):
                best = one
            if best is not None and rules.search != "any":
                break
            yield None
        if best is None:
            return
        _, left, right, price = best
        relays, delay = found.relays, found.delay
        one_broker, other_broker = int(found.brokers[left]), int(found.brokers[right])
        found = after_swap(problem, found, left, right)
        at[one_broker], at[other_broker] = right, left
        relays, delay = relays - found.relays, delay - found.delay
        gain = relays + problem.delay_weight * delay
        yield PositionSwap((one_broker, other_broker), (left, right), gain, price, relays, delay)
        count += 1


def plan_swaps(
    problem: PlacementProblem, mapping: Mapping, prices: Prices, rules: SwapRules
) -> list[PositionSwap]:
    """The swaps that pay together, the fixed price included; none if they do not."""
    found = list(swaps(problem, mapping, prices, rules))
    return found if sum(each.gain - each.price for each in found) > prices.fixed else []


def after(mapping: Mapping, found: Sequence[PositionSwap]) -> Mapping:
    """The brokers' positions after these swaps."""
    at = list(mapping)
    for (one, other), (left, right), *_ in found:
        at[one], at[other] = right, left
    return tuple(at)


def handled(problem: PlacementProblem, found: MappingCounts) -> Amounts:
    """(positions): number of messages of publications to and from the broker there.

    A publisher's messages to a root count there; deliveries to users do not.
    """
    trees = problem.trees
    return kernels.handled(trees.of, trees.roots, trees.parents, found.below, problem.publications)


# Saving of a swap beyond its price, two positions, and the price.
_Choice = tuple[float, int, int, float]


def _worst_first(problem: PlacementProblem, found: MappingCounts, rules: SwapRules) -> list[int]:
    """The positions whose brokers' swaps are searched."""
    costs = found.relaying + problem.delay_weight * found.waiting
    # Sums of floats differ by their order; of equal ones the first broker comes first.
    scale = max(float(costs.max()), 1.0)
    order: list[int] = np.lexsort((found.brokers, -np.round(costs / scale, 9))).tolist()
    return order[:1] if rules.search == "worst" else order


def _best_of(
    problem: PlacementProblem, found: MappingCounts, prices: Prices, rules: SwapRules, left: int
) -> _Choice | None:
    """The best swap of the broker at a position."""
    brokers = found.brokers
    one = brokers[left]
    may = np.ones(len(brokers), np.bool_)
    may[left] = False
    if rules.pinned is not None:
        may &= ~rules.pinned[brokers] & ~rules.pinned[one]
    if rules.regions is not None:
        regions = np.array(rules.regions)
        may &= regions[brokers] == regions[one]
    changes = swap_costs(problem, found, left)
    scale = LEAST * found.cost(problem.delay_weight)
    # A swap without a saving is no plan, though it may make others cheaper.
    may &= changes < -scale
    if not may.any():
        return None
    positions = np.arange(len(brokers))
    price = prices.moving[one] + prices.moving[brokers, left]
    price = price - prices.moving[one, left] - prices.moving[brokers, positions]
    net = np.where(may, -changes - price, -np.inf)
    least = max(rules.least_gain, scale)
    rounded = np.round(net / max(1.0, float(np.abs(net[may]).max())), 9)
    for right in np.lexsort((brokers, -rounded)).tolist():
        if net[right] <= least:
            return None
        if rules.capacities is None or _fits(problem, found, rules.capacities, left, right):
            return float(net[right]), left, right, float(price[right])
    return None


def _fits(
    problem: PlacementProblem, found: MappingCounts, capacities: Amounts, left: int, right: int
) -> bool:
    """Whether no broker gets above its capacity by a swap, or farther above it."""
    now = handled(problem, found) - capacities[found.brokers]
    then = after_swap(problem, found.copied(), left, right)
    excess = np.empty(len(now))
    excess[then.brokers] = handled(problem, then) - capacities[then.brokers]
    before = np.empty(len(now))
    before[found.brokers] = np.maximum(now, 0.0)
    return bool((excess <= before + LEAST * capacities).all())
