"""Swaps for an operator: each pays, none breaks a rule, and at the end no further swap pays."""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random
from typing import Literal

import numpy as np
import pytest

from shoal.overlays.dynatops.planning.advising.prices import Prices, no_prices, predicted_prices
from shoal.overlays.dynatops.planning.advising.swapping import (
    SwapRules,
    after,
    handled,
    plan_swaps,
    swaps,
)
from shoal.overlays.dynatops.planning.costs import notification_cost, standing
from shoal.overlays.dynatops.planning.greedy import improvements
from shoal.overlays.dynatops.planning.problem import Mapping, PlacementProblem, inverse
from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.structures.structure import route
from tests.overlays.dynatops.planning.drawing import draw_mapping, draw_problem

RING = Chord(12)


def swapped(mapping: Mapping, one: int, other: int) -> list[int]:
    at = list(mapping)
    at[one], at[other] = at[other], at[one]
    return at


def net(problem: PlacementProblem, prices: Prices, before: Mapping, then: Mapping) -> float:
    """The savings of a step between two mappings, less its price."""
    gain = notification_cost(problem, before) - notification_cost(problem, then)
    each = [float(prices.moving[b, to]) for b, to in enumerate(then)]
    former = [float(prices.moving[b, to]) for b, to in enumerate(before)]
    return gain - (sum(each) - sum(former))


@pytest.mark.parametrize("search", ["next", "any"])
@pytest.mark.parametrize("is_measured", [False, True])
def test_each_swap_pays_and_no_further_one_would(
    search: Literal["next", "any"], is_measured: bool
) -> None:
    taken = 0
    for seed in range(15):
        random = Random(seed)
        problem = draw_problem(RING, random, is_measured=is_measured)
        start = draw_mapping(12, random)
        prices = predicted_prices(RING, problem, start)
        mapping: Mapping = start
        for swap in swaps(problem, start, prices, SwapRules(search, least_gain=5.0)):
            then = after(mapping, [swap])
            assert swap.gain - swap.price > 5.0
            assert swap.gain - swap.price == pytest.approx(net(problem, prices, mapping, then))
            assert swap.gain == pytest.approx(swap.relays + problem.delay_weight * swap.delay)
            assert [mapping[each] for each in swap.brokers] == list(swap.positions)
            mapping, taken = then, taken + 1
        cost = notification_cost(problem, mapping)
        for one, other in combinations(range(12), 2):
            then = swapped(mapping, one, other)
            is_better = notification_cost(problem, then) < cost - 1e-6
            assert not is_better or net(problem, prices, mapping, then) <= 5.0 + 1e-6
    assert taken > 20


def test_the_worst_brokers_swaps_are_the_papers_when_nothing_costs() -> None:
    for seed in range(10):
        random = Random(seed)
        problem, start = draw_problem(RING, random), draw_mapping(12, random)
        ours = list(swaps(problem, start, no_prices(start), SwapRules("worst")))
        papers = list(improvements(problem, start))
        assert [each.brokers for each in ours] == [step.swap for step in papers]


def test_the_first_of_any_swaps_is_the_best() -> None:
    random = Random(4)
    problem, start = draw_problem(RING, random), draw_mapping(12, random)
    first = next(swaps(problem, start, no_prices(start), SwapRules("any")))
    cost = notification_cost(problem, start)
    best = max(
        cost - notification_cost(problem, swapped(start, *pair))
        for pair in combinations(range(12), 2)
    )
    assert first.gain == pytest.approx(best)


def test_pins_regions_and_budget_hold() -> None:
    taken = 0
    for seed in range(10):
        random = Random(seed)
        problem, start = draw_problem(RING, random), draw_mapping(12, random)
        pinned = np.array([number in (2, 7) for number in range(12)])
        regions = [number // 6 for number in range(12)]
        rules = SwapRules("any", most=2, pinned=pinned, regions=regions)
        found = list(swaps(problem, start, no_prices(start), rules))
        assert len(found) <= 2
        for (one, other), *_ in found:
            taken += 1
            assert regions[one] == regions[other]
            assert not {one, other} & {2, 7}
    assert taken > 10
    assert not list(swaps(problem, start, no_prices(start), SwapRules(most=0)))
    everybody = np.ones(12, np.bool_)
    assert not list(swaps(problem, start, no_prices(start), SwapRules(pinned=everybody)))


def loads(problem: PlacementProblem, mapping: Mapping) -> list[float]:
    """(brokers): messages to and from each, over the routes of publications."""
    at, found = inverse(mapping), [0.0] * 12
    for topic, row in enumerate(problem.trees.of):
        root, weight = int(problem.trees.roots[row]), float(problem.publications[topic])
        members = [mapping[broker] for broker in np.flatnonzero(problem.wanted[:, topic])]
        hops = {hop for member in members for hop in pairwise(route(RING, root, member))}
        found[at[root]] += weight
        for hop in hops:
            for position in hop:
                found[at[position]] += weight
    return found


def test_no_broker_exceeds_its_capacity() -> None:
    bound = 0
    for seed in range(10):
        random = Random(seed)
        problem, start = draw_problem(RING, random), draw_mapping(12, random)
        before = loads(problem, start)
        by_position = handled(problem, standing(problem, start))
        assert by_position[start].tolist() == pytest.approx(before)
        capacities = np.array([random.uniform(0.7, 1.2) * (load + 20) for load in before])
        found = list(
            swaps(problem, start, no_prices(start), SwapRules("any", capacities=capacities))
        )
        free = list(swaps(problem, start, no_prices(start), SwapRules("any")))
        bound += found != free
        then = loads(problem, after(start, found))
        for load, former, capacity in zip(then, before, capacities, strict=True):
            assert load <= max(capacity, former) + 1e-6
    assert bound > 3


def test_savings_must_exceed_the_fixed_price_of_a_change() -> None:
    random = Random(2)
    problem, start = draw_problem(RING, random), draw_mapping(12, random)
    found = list(swaps(problem, start, no_prices(start), SwapRules()))
    gain = sum(each.gain for each in found)
    assert (
        plan_swaps(problem, start, no_prices(start)._replace(fixed=gain - 1), SwapRules()) == found
    )
    assert plan_swaps(problem, start, no_prices(start)._replace(fixed=gain + 1), SwapRules()) == []
