"""The planner against its definition, computed broker by broker, and its tie rules."""

from __future__ import annotations

import random

import pytest

from shoal.overlays.self_organising.deciding.planner import Cycle, Mean, cost_vector, decide
from shoal.overlays.self_organising.parameters import Heuristic

CI, MST, MIT = Heuristic.COST_AND_INTEREST, Heuristic.COST, Heuristic.INTEREST


def naive_cost(view: Mean, cycle: Cycle, broker: str, without: int) -> float:
    """Eq. 8 for one removed link: walk from `broker` both ways until the link."""
    size, total = len(cycle.brokers), 0.0
    for step in (1, -1):
        here, before, cost, count = cycle.brokers.index(broker), None, 0.0, None
        while True:
            link = here if step == 1 else (here - 1) % size
            if link == without:
                break
            next_one = (here + step) % size
            name = cycle.brokers[next_one]
            count = view.shared(name)
            assert count is not None
            if before is None:
                cost = cycle.costs[link]
            else:
                between = cycle.brokers[before]
                part = 1.0
                if count and view.shared(between):
                    part = (count - view.shared_by_three(between, name)) / count
                cost = part * (cost + cycle.processing[before]) + cycle.costs[link]
            total += count * cost
            here = before = next_one
    return total


def random_cycle(generator: random.Random, size: int) -> tuple[Cycle, dict[str, Mean]]:
    names = [f"B{number}" for number in range(size)]
    cycle = Cycle(
        brokers=tuple(names),
        processing=tuple(generator.uniform(0, 10) for _ in names),
        costs=tuple(generator.uniform(0, 10) for _ in names),
        shared=tuple(generator.randrange(20) for _ in names),
    )
    pairs = {(a, b): generator.randrange(4) * 5 for a in names for b in names if a < b}
    views = {a: Mean({b: pairs[min(a, b), max(a, b)] for b in names if a != b}) for a in names}
    return cycle, views


@pytest.mark.parametrize("size", [3, 4, 5, 9])
def test_vectors_equal_a_walk_around_the_cycle(size: int) -> None:
    generator = random.Random(size)
    for _ in range(30):
        cycle, views = random_cycle(generator, size)
        for name, view in views.items():
            expected = [naive_cost(view, cycle, name, link) for link in range(size)]
            assert cost_vector(view, cycle, name) == pytest.approx(expected)


def cycle_of(*costs: float, shared: tuple[int, ...] = ()) -> Cycle:
    names = tuple(f"B{number}" for number in range(len(costs)))
    return Cycle(brokers=names, processing=(1.0,) * len(costs), costs=costs, shared=shared)


def test_of_equal_removals_the_new_link_stays_out() -> None:
    assert decide(CI, cycle_of(1, 9, 2), [50.0, 40.0, 40.0]).remove == 2
    # Sums of the same numbers in another order are equal, too.
    assert decide(CI, cycle_of(1, 9, 2), [50.0, 0.1 + 0.2, 0.3]).remove == 2


def test_of_further_ties_the_dearest_goes_then_the_first_by_name() -> None:
    assert decide(CI, cycle_of(1, 9, 2), [40.0, 40.0, 50.0]).remove == 1
    assert decide(CI, cycle_of(5, 5, 2), [40.0, 40.0, 50.0]).remove == 0
    assert decide(MIT, cycle_of(1, 2, 3, shared=(4, 4, 6)), ()).remove == 1


def test_the_baselines_remove_a_cycles_dearest_link_and_its_least_shared() -> None:
    assert decide(MST, cycle_of(1, 9, 8), ()) == (1, 10, 9)
    assert decide(MST, cycle_of(1, 8, 9), ()).remove == 2
    assert decide(MIT, cycle_of(1, 9, 8, shared=(3, 5, 4)), ()) == (0, 4, 3)


def test_a_gain_below_the_minimum_is_not_taken() -> None:
    vector = [99.0, 98.0, 100.0]
    assert decide(CI, cycle_of(1, 1, 1), vector, least_gain_percent=2).remove == 1
    assert decide(CI, cycle_of(1, 1, 1), vector, least_gain_percent=3).remove == 2
