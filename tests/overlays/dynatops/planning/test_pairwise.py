"""Planning in pairs, without a manager: nearly the same costs, and correct counts."""

from __future__ import annotations

from random import Random

import pytest

from shoal.overlays.dynatops.planning.costs import moved, notification_cost
from shoal.overlays.dynatops.planning.pairwise import rounds
from shoal.overlays.dynatops.planning.problem import inverse
from shoal.overlays.dynatops.structures.chord import Chord
from tests.overlays.dynatops.planning.drawing import draw_mapping, draw_problem

RING = Chord(24)


@pytest.mark.parametrize("heard_of", [0, 6])
def test_pairwise_rounds_reduce_costs_and_are_counted_right(heard_of: int) -> None:
    better = 0
    for seed in range(8):
        random = Random(seed)
        problem, start = draw_problem(RING, random), draw_mapping(24, random)
        before, mapping = notification_cost(problem, start), start
        for each in rounds(RING, problem, start, heard_of, seed):
            swapped = {broker for pair in each.swaps for broker in pair}
            assert len(swapped) == 2 * len(each.swaps)
            assert set(moved(mapping, each.mapping)) == swapped
            assert each.cost == pytest.approx(notification_cost(problem, each.mapping))
            assert each.messages > 0
            mapping = list(each.mapping)
        assert sorted(inverse(mapping)) == list(range(24))
        better += notification_cost(problem, mapping) < before
    assert better >= 6


def test_a_broker_without_a_better_partner_gives_up() -> None:
    """Of two brokers that are both placed well the worse one asks once."""
    ring = Chord(2)
    problem = draw_problem(ring, Random(1))._replace(delay_weight=1.0)
    last = [each for each in rounds(ring, problem, [0, 1]) if each.swaps]
    best = min([0, 1], [1, 0], key=lambda mapping: notification_cost(problem, mapping))
    assert (list(last[-1].mapping) if last else [0, 1]) == best
