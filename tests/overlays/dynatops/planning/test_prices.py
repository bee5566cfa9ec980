"""Prices: predictions against the messages of the protocol's steps, one by one."""

from __future__ import annotations

from random import Random

import pytest

from shoal.overlays.dynatops.planning.advising.prices import (
    bounded_prices,
    no_prices,
    predicted_prices,
)
from shoal.overlays.dynatops.planning.bound import reconfiguration_cost
from shoal.overlays.dynatops.planning.costs import moved
from shoal.overlays.dynatops.planning.problem import Mapping, PlacementProblem, inverse
from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.structures.prefixes import QuadGrid, tapestry
from shoal.overlays.dynatops.structures.structure import Structure, route
from tests.overlays.dynatops.planning.drawing import draw_mapping, draw_problem


def counted(
    structure: Structure, problem: PlacementProblem, before: Mapping, after: Mapping
) -> int:
    """The messages of 5.1.2, over their routes."""

    def hops(start: int, target: int) -> int:
        return len(route(structure, start, target)) - 1

    changed = moved(before, after)
    # Begin, mend trees, use, drop: to all, and back.
    count = 4 * 2 * structure.size if changed else 0
    stood = inverse(before)
    for broker in changed:
        position = after[broker]
        count += 2
        count += len(structure.neighbours(position))
        count += sum(position in structure.neighbours(other) for other in range(structure.size))
        count += hops(position, before[broker])
        for topic, row in enumerate(problem.trees.of):
            if problem.wanted[broker, topic] != problem.wanted[stood[position], topic]:
                root = int(problem.trees.roots[row])
                count += hops(position, root) + hops(root, position)
    return count


@pytest.mark.parametrize("structure", [Chord(8), Chord(13), tapestry(12, seed=3), QuadGrid(4)])
def test_predicted_prices_equal_the_messages_of_the_steps(structure: Structure) -> None:
    for seed in range(10):
        random = Random(seed)
        problem = draw_problem(structure, random)
        before = draw_mapping(structure.size, random)
        after = draw_mapping(structure.size, random)
        prices = predicted_prices(structure, problem, before)
        assert prices.of(after) == counted(structure, problem, before, after)
        assert prices.of(before) == 0


def test_the_bound_is_the_papers() -> None:
    random = Random(1)
    problem = draw_problem(Chord(13), random)
    before, after = draw_mapping(13, random), draw_mapping(13, random)
    price = reconfiguration_cost(13, problem.topics, len(moved(before, after)))
    assert bounded_prices(problem, before).of(after) == pytest.approx(price)
    assert no_prices(before).of(after) == 0
