"""Noise and changes of costs and traffic; exchanges that may not be undone."""

from __future__ import annotations

from random import Random

import pytest

from shoal.overlays.self_organising.deciding.steadiness import (
    MOST_REMOVED,
    RemovedLink,
    Steadiness,
)

COSTS = {"B1": 5.0, "B2": 40.0}


def poisson(random: Random, mean: float) -> int:
    """Arrivals in an interval."""
    count, at = 0, random.expovariate(mean)
    while at < 1:
        count, at = count + 1, at + random.expovariate(mean)
    return count


@pytest.mark.parametrize("seed", range(10))
def test_chance_and_late_notifications_are_no_change(seed: int) -> None:
    """In one interval of five nothing comes, and in the next one all of both."""
    random, steady = Random(seed), Steadiness()
    late = 0
    for interval in range(200):
        count = poisson(random, 60)
        if random.random() < 0.2:
            late, count = late + count, 0
        else:
            late, count = 0, late + count
        steady.turn({"P": count, "Q": poisson(random, 30)}, COSTS, interval)
    assert steady.changed_us < 80  # until it is known how much it varies


@pytest.mark.parametrize("seed", range(10))
def test_other_rates_are_a_change(seed: int) -> None:
    random, steady = Random(seed), Steadiness()
    for interval in range(60):
        steady.turn({"P": poisson(random, 60 if interval < 30 else 180)}, COSTS, interval)
    assert 30 < steady.changed_us < 60


def test_a_cost_that_is_fixed_changes_at_once_and_one_that_varies_by_more_than_that() -> None:
    steady = Steadiness()
    for interval in range(10):
        steady.turn({}, COSTS, interval)
    assert steady.changed_us == 0
    steady.turn({}, COSTS | {"B2": 41.0}, 10)
    assert steady.changed_us == 10
    random, steady = Random(1), Steadiness()
    for interval in range(100):
        steady.turn({}, {"B2": random.uniform(30, 50)}, interval)
    noisy_us = steady.changed_us
    assert noisy_us < 20  # until it is known how much it varies
    for interval in range(100, 120):
        steady.turn({}, {"B2": random.uniform(130, 150)}, interval)
    assert steady.changed_us >= 100


def test_an_exchange_is_not_undone_and_a_link_returns_once() -> None:
    steady = Steadiness()
    old, new, third = ("A", "B"), ("A", "C"), ("B", "C")
    assert steady.removed(old, 5) is None
    steady.exchanged(old, new, 10)
    assert steady.removed(("B", "A"), 15) == RemovedLink(5, new, 0)
    steady.exchanged(new, third, 20)
    steady.exchanged(third, old, 30)  # old returns, not for new
    assert steady.removed(old, 30) is None
    steady.exchanged(old, new, 40)
    found = steady.removed(old, 41)
    assert found == RemovedLink(1, new, 1)
    assert found.is_undone_by(third)
    steady.turn({}, COSTS, 50)
    steady.turn({}, {"B2": 1.0}, 60)  # a change: returns count from here
    steady.exchanged(third, old, 70)
    steady.exchanged(old, third, 80)
    assert steady.has_changed_within(30, 80)
    assert not steady.has_changed_within(10, 80)


def test_memory_is_bounded() -> None:
    steady = Steadiness()
    for number in range(2 * MOST_REMOVED):
        steady.exchanged(("A", f"B{number:04}"), ("A", f"C{number:04}"), number)
    assert steady.removed(("A", "B0000"), 0) is None
    assert steady.removed(("A", f"B{2 * MOST_REMOVED - 1:04}"), 0) is not None
