"""Prices: against the messages of a change, counted one by one."""

from __future__ import annotations

from random import Random

import pytest

from shoal.overlays.dynatops.planning.advising.prices import (
    bounded_prices,
    change_messages,
    no_prices,
    predicted_prices,
)
from shoal.overlays.dynatops.planning.bound import reconfiguration_cost
from shoal.overlays.dynatops.planning.costs import moved
from shoal.overlays.dynatops.planning.problem import Mapping
from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.structures.prefixes import QuadGrid, tapestry
from shoal.overlays.dynatops.structures.structure import Structure, route
from tests.overlays.dynatops.planning.drawing import draw_mapping, draw_problem


def counted(structure: Structure, before: Mapping, after: Mapping) -> int:
    """The messages for other positions: one by one, over their routes."""
    if before == after:
        return 0
    size = structure.size

    def linked(mapping: Mapping, one: int, other: int) -> bool:
        left, right = mapping[one], mapping[other]
        is_managed = min(one, other) < 2  # the first two by name are linked to all
        return (
            is_managed or right in structure.neighbours(left) or left in structure.neighbours(right)
        )

    count = size - 1
    for broker in range(size):
        if before[broker] != after[broker]:  # to the broker that is where this one was
            taker = after.index(before[broker])
            count += len(route(structure, after[broker], after[taker])) - 1
    for one in range(size):
        for other in range(one):
            had, has = linked(before, one, other), linked(after, one, other)
            count += 2 * (has and not had) + (had and not has)
    return count


STRUCTURES = pytest.mark.parametrize(
    "structure", [Chord(8), Chord(13), tapestry(12, seed=3), QuadGrid(4)]
)


@STRUCTURES
def test_messages_of_a_change_are_those_of_its_steps(structure: Structure) -> None:
    for seed in range(10):
        random = Random(seed)
        before = list(draw_mapping(structure.size, random))
        after = list(draw_mapping(structure.size, random))
        assert change_messages(structure, before, after) == counted(structure, before, after)
        assert change_messages(structure, before, before) == 0


@STRUCTURES
def test_predicted_prices_of_swaps_are_near_their_messages(structure: Structure) -> None:
    for seed in range(10):
        random = Random(seed)
        problem = draw_problem(structure, random)
        before = list(draw_mapping(structure.size, random))
        after = list(before)
        one, other = random.sample(range(structure.size), 2)
        after[one], after[other] = after[other], after[one]
        prices = predicted_prices(structure, problem, before)
        sent = change_messages(structure, before, after)
        assert sent / 2 <= prices.of(after) <= 4 * sent  # links of the managers are there anyway
        assert prices.of(before) == 0


def test_the_bound_is_the_papers() -> None:
    random = Random(1)
    problem = draw_problem(Chord(13), random)
    before, after = draw_mapping(13, random), draw_mapping(13, random)
    price = reconfiguration_cost(13, problem.topics, len(moved(before, after)))
    assert bounded_prices(problem, before).of(after) == pytest.approx(price)
    assert no_prices(before).of(after) == 0
