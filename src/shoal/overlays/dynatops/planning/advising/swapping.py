"""Which brokers should change places for an operator: what pays, of what is allowed, in few swaps.

The paper's greedy looks at the swaps of the broker that costs most, ends with the first that none
helps, and then asks how far it pays.  Here each swap must save more than it costs by itself; when
none of the worst broker's does, the next broker's turn comes, so that it ends where no swap of any
two pays.  Brokers may be pinned, stay within their region, and handle no more than they can.

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
    Standing,
    after_swap,
    standing,
    swap_costs,
)
from shoal.overlays.dynatops.planning.problem import Amounts, Flags, Mapping, Problem

# Whose swaps are looked at: the worst broker's alone, as the paper's; the next worst one's when
# none of these pays; or of all brokers the best.
Search = Literal["worst", "next", "any"]


class Rules(NamedTuple):
    """What swaps are allowed.

    search      whose swaps are looked at
    most        so many; None: any number
    least_gain  what each must save beyond its price, in messages
    pinned      (brokers) who stays
    regions     (brokers) each swaps with those of its own number only
    capacities  (brokers) how many messages each can handle in the period; none gets above that by a
                swap, nor farther above it
    """

    search: Search = "next"
    most: int | None = None
    least_gain: float = 0.0
    pinned: Flags | None = None
    regions: Sequence[int] | None = None
    capacities: Amounts | None = None


class Swap(NamedTuple):
    """Two brokers that change places, where they stood, what that saves and costs by itself.

    relays, delay  what is saved of either part of the notification cost
    """

    brokers: tuple[int, int]
    positions: tuple[int, int]
    gain: float
    price: float
    relays: float
    delay: float


def swaps(problem: Problem, mapping: Mapping, prices: Prices, rules: Rules) -> Iterator[Swap]:
    """Each the best by what it saves beyond its own price; of equal ones the first brokers'.

    The price of any change at all is not in theirs: see `plan_swaps`.
    """
    return (each for each in looks(problem, mapping, prices, rules) if each is not None)


def looks(
    problem: Problem, mapping: Mapping, prices: Prices, rules: Rules
) -> Iterator[Swap | None]:
    """The same, and None for each look at a broker's swaps that ends without one, so that no step
    takes longer than one look.
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
        yield Swap((one_broker, other_broker), (left, right), gain, price, relays, delay)
        count += 1


def plan_swaps(problem: Problem, mapping: Mapping, prices: Prices, rules: Rules) -> list[Swap]:
    """The swaps that pay together, what is due for any change included; none if they do not."""
    found = list(swaps(problem, mapping, prices, rules))
    return found if sum(each.gain - each.price for each in found) > prices.fixed else []


def after(mapping: Mapping, found: Sequence[Swap]) -> Mapping:
    """Where brokers stand after these swaps."""
    at = list(mapping)
    for (one, other), (left, right), *_ in found:
        at[one], at[other] = right, left
    return tuple(at)


def handled(problem: Problem, found: Standing) -> Amounts:
    """(positions): how many messages of publications come to who stands there, or go from it.

    What publishers send to a root counts there; what users are delivered does not.
    """
    trees = problem.trees
    return kernels.handled(trees.of, trees.roots, trees.parents, found.below, problem.publications)


# What a swap saves beyond its price, two positions, and the price.
_Choice = tuple[float, int, int, float]


def _worst_first(problem: Problem, found: Standing, rules: Rules) -> list[int]:
    """The positions whose brokers' swaps are looked at."""
    costs = found.relaying + problem.delay_weight * found.waiting
    # Sums of floats differ by their order; of equal ones the first broker comes first.
    scale = max(float(costs.max()), 1.0)
    order: list[int] = np.lexsort((found.brokers, -np.round(costs / scale, 9))).tolist()
    return order[:1] if rules.search == "worst" else order


def _best_of(
    problem: Problem, found: Standing, prices: Prices, rules: Rules, left: int
) -> _Choice | None:
    """The best swap of who stands here."""
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
    # What saves nothing is no plan, though it may make others cheaper.
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


def _fits(problem: Problem, found: Standing, capacities: Amounts, left: int, right: int) -> bool:
    """Whether nobody gets above what it can handle by a swap, or farther above it."""
    now = handled(problem, found) - capacities[found.brokers]
    then = after_swap(problem, found.copied(), left, right)
    excess = np.empty(len(now))
    excess[then.brokers] = handled(problem, then) - capacities[then.brokers]
    before = np.empty(len(now))
    before[found.brokers] = np.maximum(now, 0.0)
    return bool((excess <= before + LEAST * capacities).all())
