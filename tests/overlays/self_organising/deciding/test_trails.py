"""A cycle's cost without each of its links, counted notification by notification."""

from __future__ import annotations

from random import Random

import pytest

from shoal.overlays.self_organising.deciding.planner import Cycle
from shoal.overlays.self_organising.deciding.trails import (
    HERE,
    MOST,
    Trail,
    Trails,
    counted_vector,
)

WINDOW_US = 100
CYCLE = Cycle(brokers=("A", "B", "C"), processing=(1, 2, 4), costs=(10, 20, 40))


def trail_of(*ids: int, older: tuple[int, ...] = (), level: int = 0) -> Trail:
    fresh, before = (b"".join(id.to_bytes(8, "little") for id in row) for row in (ids, older))
    return Trail(level, fresh, before)


def test_a_notification_costs_its_delivery_tree_and_the_brokers_it_passes() -> None:
    # All of A and C: over B, directly, and over B again.
    assert counted_vector(CYCLE, [trail_of(8), trail_of(), trail_of(8)]) == (40, 40, 32)
    # Of A and B; of all three; of one alone, which costs nothing.
    assert counted_vector(CYCLE, [trail_of(8), trail_of(8), trail_of()]) == (64, 10, 10)
    assert counted_vector(CYCLE, [trail_of(8), trail_of(8), trail_of(8)]) == (60, 50, 30)
    assert counted_vector(CYCLE, [trail_of(8), trail_of(9), trail_of(10)]) == (0, 0, 0)


def test_notifications_old_everywhere_do_not_count_and_partly_new_ones_do() -> None:
    nothing = trail_of()
    assert counted_vector(CYCLE, [trail_of(older=(8,)), trail_of(older=(8,)), nothing]) == (0, 0, 0)
    assert counted_vector(CYCLE, [trail_of(older=(8,)), trail_of(8), nothing]) == (64, 10, 10)


def test_the_smallest_sample_counts() -> None:
    trails = [trail_of(1, 2, 3, 4), trail_of(1, 2, 3, 4), trail_of(level=1)]
    assert counted_vector(CYCLE, trails) == (2 * 64, 2 * 10, 2 * 10)


@pytest.mark.parametrize("seed", range(20))
def test_counted_costs_equal_a_naive_walk_along_each_line(seed: int) -> None:
    random = Random(seed)
    size = random.randint(3, 7)
    cycle = Cycle(
        brokers=tuple(f"B{number}" for number in range(size)),
        processing=tuple(random.randint(0, 9) for _ in range(size)),
        costs=tuple(random.randint(0, 9) for _ in range(size)),
    )
    needed = [random.sample(range(size), random.randint(1, size)) for _ in range(30)]
    trails = [
        trail_of(*(id for id, places in enumerate(needed) if place in places))
        for place in range(size)
    ]
    expected = []
    for link in range(size):
        line = [(link + 1 + step) % size for step in range(size)]
        total = 0
        for places in needed:
            inside = [place for place in line if place in places]
            span = line[line.index(inside[0]) : line.index(inside[-1]) + 1]
            total += sum(cycle.costs[place] for place in span[:-1])
            total += sum(cycle.processing[place] for place in span if place not in places)
        expected.append(total)
    assert counted_vector(cycle, trails) == tuple(expected)


def test_a_new_or_relinked_broker_waits_for_a_window() -> None:
    trails = Trails(WINDOW_US)
    for begun_us in (0, 500):
        trails.begin(begun_us)
        trails.add(8, frozenset({"B1", HERE}), begun_us + 10)
        assert trails.beside(["B1"], begun_us + WINDOW_US - 1) is None
        assert trails.beside(["B1"], begun_us + WINDOW_US) == trail_of(8)


def test_a_notifications_trail_covers_two_windows_and_all_sides() -> None:
    trails = Trails(WINDOW_US)
    trails.begin(0)
    trails.add(8, frozenset({"B1"}), 50)
    trails.add(8, frozenset({"B2"}), 60)
    trails.add(9, frozenset({"B1", "B2"}), 140)
    assert trails.beside(["B1", "B2"], 149) == trail_of()
    assert trails.beside(["B1"], 149) == trail_of(8, 9)
    assert trails.beside(["B1"], 150) == trail_of(9, older=(8,))
    assert trails.beside(["B1"], 250) == trail_of(older=(9,))
    assert trails.beside(["B1"], 340) == trail_of()


def test_a_sample_of_many_notifications_grows_when_there_are_fewer() -> None:
    trails = Trails(WINDOW_US)
    trails.begin(0)
    for id in range(4 * MOST):
        trails.add(id, frozenset({HERE}), 1 + id // MOST)
    found = trails.beside([], WINDOW_US)
    assert found == trail_of(*range(0, 4 * MOST, 4), level=2)
    assert not found.problem()
    trails.turn(3 * WINDOW_US)
    assert trails.beside([], 3 * WINDOW_US) is None, "the larger sample is incomplete"
    trails.add(2, frozenset({HERE}), 3 * WINDOW_US + 1)
    assert trails.beside([], 4 * WINDOW_US) == trail_of(2, level=1)


@pytest.mark.parametrize(
    "wrong", [Trail(0, b"1234567", b""), Trail(64, b"", b""), Trail(0, b"", bytes(8 * MOST + 8))]
)
def test_an_impossible_trail_is_refused(wrong: Trail) -> None:
    assert wrong.problem()
