"""Longer searches: never worse than their start, and optimal where all mappings can be tried."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from shoal.overlays.dynatops.planning.costs import notification_cost
from shoal.overlays.dynatops.planning.greedy import improvements
from shoal.overlays.dynatops.planning.problem import PlacementProblem, trees_of
from shoal.overlays.dynatops.planning.search import annealed, by_any_swap, cheapest
from shoal.overlays.dynatops.structures.chord import Chord


def draw(brokers: int, topics: int, seed: int) -> PlacementProblem:
    random = np.random.default_rng(seed)
    roots = random.integers(0, brokers, topics).tolist()
    wanted = random.random((brokers, topics)) < 0.3
    return PlacementProblem(trees_of(Chord(brokers), roots), wanted, np.ones(topics))


@pytest.mark.parametrize("seed", range(3))
def test_exhaustive_search_finds_the_optimum_of_five_brokers(seed: int) -> None:
    problem = draw(5, 10, seed)
    mapping, cost = cheapest(problem)
    costs = [notification_cost(problem, each) for each in permutations(range(5))]
    assert cost == min(costs) == notification_cost(problem, mapping)
    assert annealed(problem, range(5), seed, 20)[1] == pytest.approx(cost)


@pytest.mark.parametrize("seed", range(5))
def test_longer_searches_find_lower_costs(seed: int) -> None:
    problem = draw(20, 30, seed)
    start = list(range(20))
    *_, last = improvements(problem, start)
    swapped, lower = by_any_swap(problem, last.mapping)
    assert lower <= last.cost
    assert notification_cost(problem, swapped) == pytest.approx(lower)
    warmed, lowest = annealed(problem, start, seed, 20)
    assert notification_cost(problem, warmed) == pytest.approx(lowest)
    assert lowest <= notification_cost(problem, start)
    # No swap of any two helps.
    assert by_any_swap(problem, warmed) == (tuple(warmed), pytest.approx(lowest))


def test_exhaustive_search_refuses_nine_brokers() -> None:
    with pytest.raises(ValueError, match="9 brokers"):
        cheapest(draw(9, 3, 1))
