"""Thresholds reach the wanted share of matches for any data."""

from __future__ import annotations

import random

import numpy as np
import pytest

from shoal.matching import matches
from shoal.model import And, Filter, Predicate
from shoal.pipeline.workloads.aiming import TOLERANCE, Numbers, aim

EVENTS = 1_000


def made_up(seed: int) -> dict[str, Numbers]:
    source = np.random.default_rng(seed)
    return {
        "normal": Numbers.masked(source.normal(size=EVENTS), np.ones(EVENTS, dtype=bool)),
        "skewed": Numbers.masked(source.geometric(0.05, EVENTS), source.random(EVENTS) > 0.1),
        "large": Numbers.masked(source.integers(2**60, 2**61, EVENTS), source.random(EVENTS) > 0.5),
        "clock": Numbers.of(list(range(EVENTS))),
        "constant": Numbers.of([7] * EVENTS),
        "absent": Numbers.of([None] * EVENTS),
        "endless": Numbers.of([float("inf")] * 10 + [1.0] * (EVENTS - 10)),
    }


def counted(numbers: dict[str, Numbers], predicates: tuple[Predicate, ...]) -> int:
    wanted = Filter(And(predicates))
    return sum(
        matches(
            wanted,
            {
                name: of_name.values[row].item()
                for name, of_name in numbers.items()
                if of_name.present[row]
            },
        )
        for row in range(EVENTS)
    )


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("seed", [1, 2])
def test_shares_are_hit_and_counted_as_the_matcher_counts(seed: int, share: float) -> None:
    numbers = made_up(seed)
    source, taken = random.Random(seed), set()
    for _ in range(12):
        aimed = aim(numbers, EVENTS, share, source, taken)
        assert aimed is not None
        assert aimed.predicates not in taken
        taken.add(aimed.predicates)
        assert abs(aimed.matches - share * EVENTS) <= TOLERANCE * EVENTS
        assert counted(numbers, aimed.predicates) == aimed.matches
    used = {test.attribute for predicates in taken for test in predicates}
    assert used <= {"normal", "skewed", "large"}
    assert len(used) > 1


def test_a_few_events_are_aimed_at_with_one_match_at_least() -> None:
    numbers = {"delay": Numbers.of([3, 9, 4])}
    aimed = aim(numbers, 3, 0.1, random.Random(1), set())
    assert aimed is not None
    assert aimed.matches == 1


def test_ties_leave_the_closest_share() -> None:
    numbers = {"delay": Numbers.of([0, 1] * 50)}
    aimed = aim(numbers, 100, 0.1, random.Random(1), set())
    assert aimed is not None
    assert aimed.matches in (0, 50)


def test_without_an_attribute_to_aim_at_there_is_no_filter() -> None:
    assert aim({"constant": Numbers.of([7, 7])}, 2, 0.1, random.Random(1), set()) is None
