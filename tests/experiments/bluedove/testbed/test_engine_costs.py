"""Our engine's costs: interpolation between measurements, and a simulated matcher's use of them."""

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


def test_costs_equal_the_measurements_at_their_points() -> None:
    for time in TIMES:
        assert search_ns(TIMES, time.subscriptions) == pytest.approx(time.single_ns)
    assert search_ns(TIMES, 3) == search_ns(TIMES, 0) == 1_000
    assert 1_000 < search_ns(TIMES, 40) < 5_000
    assert search_ns(TIMES, 2_000) > 200_000  # as steeply as at the end


def test_the_measurement_names_its_machine() -> None:
    found = measured()
    assert found.machine
    assert found.command.startswith("python benchmarks/")
    sizes = [time.subscriptions for time in found.times]
    assert sizes == sorted(set(sizes))
    assert all(time.single_ns > 0 and time.batch_ns > 0 for time in found.times)


def test_work_is_each_publications_cost_slowed_down() -> None:
    costs = EngineCosts(stands_for=40, slowdown=20)
    one = costs.work_us(MatchingWork(1, 25))  # a set of 25, which stands for 1,000
    (thousand,) = (time for time in measured().times if time.subscriptions == 1_000)
    assert one == pytest.approx(thousand.single_ns * 20 / 1_000, abs=1)
    assert costs.work_us(MatchingWork(3, 75)) == pytest.approx(3 * one, abs=2)
    assert costs.work_us(MatchingWork(1, 0)) > 0
