"""A broker's knowledge of the brokers around it."""

from __future__ import annotations

import pytest

from shoal.overlays.self_organising.deciding.interest import (
    Cache,
    InterestSummary,
    exact,
    notification_id,
)
from shoal.overlays.self_organising.deciding.neighbourhood import (
    Neighbourhood,
    NeighbourHop,
    cycle_of,
)
from shoal.overlays.self_organising.parameters import Heuristic, ThreeWay

CI, MIT = Heuristic.COST_AND_INTEREST, Heuristic.INTEREST


def cache(*numbers: int) -> Cache:
    made = Cache(100)
    for number in numbers:
        made.add(notification_id("P", number))
    return made


def summary(*numbers: int) -> InterestSummary:
    return exact(cache(*numbers).ids)


def test_the_mean_is_over_all_others_of_the_neighbourhood() -> None:
    around = Neighbourhood(cache(1, 2, 3, 4), ThreeWay.MEAN)
    around.on_broadcast("B", summary(1, 2, 3))
    around.on_broadcast("C", summary(1, 2))
    around.on_broadcast("D", summary())
    assert around.shared_by_three("B", "C") == pytest.approx(5 / 3)
    around.on_broadcast("D", summary(1, 2, 3, 4))  # replaces the former summary
    assert around.shared_by_three("B", "C") == 2


def test_three_ways_of_counting_shared_interest_agree() -> None:
    here = cache(1, 2, 3, 4)
    around = Neighbourhood(here, ThreeWay.COUNTED)
    around.on_broadcast("B", summary(1, 2, 3))
    around.on_broadcast("C", summary(3, 4, 5))
    assert around.shared_by_three("B", "C") == 1
    # Shares with either were counted before these came.
    here.add(notification_id("P", 5))
    around.on_broadcast("B", summary(3, 4, 5))
    assert around.shared_by_three("B", "C") == 2


def test_an_entry_survives_one_to_two_intervals_without_news() -> None:
    around = Neighbourhood(cache(1), ThreeWay.MEAN)
    around.on_broadcast("B", summary(1))
    around.turn()
    around.on_broadcast("C", summary())
    assert "B" in around
    around.turn()
    assert "B" not in around
    assert "C" in around
    around.on_broadcast("C", summary(1))
    around.turn()
    assert around.shared_by_three("C", "C") == 1
    around.turn()
    assert len(around) == 0


def test_a_cycle_is_the_path_back_and_the_new_link() -> None:
    heard = (
        NeighbourHop("C", 30.0),
        NeighbourHop("B", 20.0, 2.0, 7),
        NeighbourHop("A", 10.0, 1.0, None),
    )
    cycle = cycle_of(heard, 5.0, 9, CI)
    assert cycle is not None
    assert cycle.brokers == ("A", "B", "C")
    assert cycle.processing == (10.0, 20.0, 30.0)
    assert cycle.costs == (1.0, 2.0, 5.0)
    assert cycle.link(2) == ("C", "A")


def test_the_baseline_of_interest_waits_until_each_link_is_known() -> None:
    heard = [
        NeighbourHop("C", 30.0),
        NeighbourHop("B", 20.0, 2.0, 7),
        NeighbourHop("A", 10.0, 1.0, None),
    ]
    assert cycle_of(heard, 5.0, 9, MIT) is None
    heard[2] = NeighbourHop("A", 10.0, 1.0, 4)
    cycle = cycle_of(heard, 5.0, 9, MIT)
    assert cycle is not None
    assert cycle.shared == (4, 7, 9)
