"""Our engine's costs: between what was measured, and as a simulated matcher pays them."""

from __future__ import annotations

import pytest

from shoal.broker.effects import MatchingWork
from shoal.experiments.bluedove.testbed.engine_costs import (
    EngineCosts,
    SearchTime,
    measured,
    search_ns,
)

TIMES = (SearchTime(10, 1_000, 5), SearchTime(100, 5_000, 6), SearchTime(1_000, 100_000, 7))


def test_what_was_measured_is_met() -> None:
    for time in TIMES:
        assert search_ns(TIMES, time.subscriptions) == pytest.approx(time.single_ns)
    assert search_ns(TIMES, 3) == search_ns(TIMES, 0) == 1_000
    assert 1_000 < search_ns(TIMES, 40) < 5_000
    assert search_ns(TIMES, 2_000) > 200_000  # as steeply as at last


def test_the_measurement_says_where_it_is_from() -> None:
    found = measured()
    assert found.machine
    assert found.command.startswith("python benchmarks/")
    sizes = [time.subscriptions for time in found.times]
    assert sizes == sorted(set(sizes))
    assert all(time.single_ns > 0 and time.batch_ns > 0 for time in found.times)


def test_work_is_that_of_each_publication_slowed_down() -> None:
    costs = EngineCosts(stands_for=40, slowdown=20)
    one = costs.work_us(MatchingWork(1, 25))  # a set of 25, which stands for 1,000
    (thousand,) = (time for time in measured().times if time.subscriptions == 1_000)
    assert one == pytest.approx(thousand.single_ns * 20 / 1_000, abs=1)
    assert costs.work_us(MatchingWork(3, 75)) == pytest.approx(3 * one, abs=2)
    assert costs.work_us(MatchingWork(1, 0)) > 0
