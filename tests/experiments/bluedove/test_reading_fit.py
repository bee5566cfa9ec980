"""Arithmetic of the readings against the machines' limits, worked examples and the paper."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from shoal.experiments.bluedove import reading_fit
from shoal.experiments.bluedove.reading_fit import (
    DRAWINGS,
    RATIOS,
    FitDrawing,
    FitReading,
    Forwarding,
    RangeSample,
    ReadingLimits,
    cluster_sample,
    hot_spot_density,
    largest_set,
    least_busiest,
    prints_as,
    score,
)
from shoal.experiments.bluedove.testbed.saturation import expected_rate
from shoal.experiments.bluedove.testbed.testbed import BlueDoveSetting, LoadedCluster
from shoal.overlays.bluedove.cluster.forwarding import Policy


def test_ranges_that_wrap_meet_both_ends() -> None:
    ranges = RangeSample(np.array([[900.0, 100.0]]), np.array([[150.0, 350.0]]))
    assert ranges.meets(0, 0.0, 50.0).tolist() == [True, False]
    assert ranges.meets(0, 100.0, 150.0).tolist() == [True, True]
    assert ranges.meets(0, 850.0, 900.0).tolist() == [False, False]
    assert ranges.meets(0, 950.0, 1_000.0).tolist() == [True, False]
    assert ranges.matching(np.array([[0.0, 120.0, 500.0, 950.0]])).tolist() == [1, 2, 0, 1]


def test_the_ring_alone_has_both_of_the_papers_densities() -> None:
    found = {
        drawing: (hot_spot_density(drawing, 250.0), largest_set(drawing, 1_000.0))
        for drawing in DRAWINGS
    }
    near = [name for name, (spot, _) in found.items() if 2.65 <= spot <= 2.75]
    assert near == ["ring"]
    assert found["ring"][1] == pytest.approx(1.17, abs=0.025)
    assert max(found["cut"][1], found["moved"][1]) > 1.2


@pytest.mark.parametrize("drawing", DRAWINGS)
def test_sets_are_those_of_the_ranges_one_by_one(drawing: FitDrawing) -> None:
    ranges = reading_fit.sample_ranges(drawing, 250.0, 20, 1)
    sets = cluster_sample(drawing, 20, 250.0, 0, 1).sets
    for attribute, segment in ((0, 0), (1, 7), (3, 19)):
        low, high = segment * 50.0, segment * 50.0 + 50.0
        count = 0
        for start, end in zip(ranges.low[attribute], ranges.high[attribute], strict=True):
            parts = [(start, end)] if start <= end else [(0.0, end), (start, 1_000.0)]
            count += any(one < high and other > low for one, other in parts)
        assert sets[attribute][segment] == pytest.approx(count / reading_fit.SAMPLE)


@pytest.mark.parametrize(
    ("options", "forwarding", "attributes"),
    [
        ({"system": "peer-to-peer", "peers_by": 1}, "amount", (1,)),
        ({"system": "peer-to-peer"}, "amount", (0,)),
        ({"policy": Policy.RANDOM}, "random", range(4)),
    ],
    ids=["evenest attribute", "most skewed attribute", "random"],
)
@pytest.mark.parametrize("drawing", ["moved", "cut"])
def test_limits_are_those_of_the_machines(
    drawing: FitDrawing, options: dict[str, object], forwarding: Forwarding, attributes: range
) -> None:
    setting = BlueDoveSetting(
        subscriptions=1_000, stands_for=40, slowdown=400, drawing=drawing, **options
    )
    machines = expected_rate(LoadedCluster(setting), 20_000) * setting.slowdown
    limits = ReadingLimits(FitReading(drawing))
    # 100 ns a search.
    ours = limits.partitioned(20, forwarding, attributes=attributes) * 1e7
    assert ours == pytest.approx(machines, rel=0.12)


def test_full_replication_searches_all() -> None:
    assert ReadingLimits(FitReading("moved")).replicated(20) == 4 * 20 / 40_000
    assert ReadingLimits(FitReading("moved", fixed=40_000)).replicated(20) == 4 * 20 / 80_000


def test_the_best_division_is_that_of_an_exhaustive_search() -> None:
    random = np.random.default_rng(5)
    owners = np.array([random.integers(0, 3, 9), random.integers(0, 3, 9)])
    costs = random.integers(1, 9, (2, 9)).astype(float)
    whole = min(
        max(np.bincount(owners[list(chosen), range(9)], costs[list(chosen), range(9)], minlength=3))
        for chosen in product((0, 1), repeat=9)
    )
    found = least_busiest(owners, costs, 3)
    # Messages are many: a part of one may go elsewhere.
    assert 0.8 * whole <= found <= 1.02 * whole


def test_a_cost_for_each_message_takes_from_the_gain_over_full_replication() -> None:
    plain, fixed = (ReadingLimits(FitReading("single", cost)) for cost in (0, 1_000))
    gains = [
        each.partitioned(20, "amount") / each.replicated(20, 40_000) for each in (plain, fixed)
    ]
    assert gains[1] < gains[0] / 1.5


def test_a_score_is_the_mean_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    as_printed = {name: each.value for name, each in RATIOS.items()}
    monkeypatch.setattr(ReadingLimits, "ratios", lambda _: as_printed)
    assert score(FitReading("moved"))[2:] == (1.0, len(RATIOS))
    doubled = {name: 2 * value for name, value in as_printed.items()}
    monkeypatch.setattr(ReadingLimits, "ratios", lambda _: doubled)
    assert score(FitReading("moved"))[2:] == (pytest.approx(2.0), 0)
    assert prints_as(3.5, "4")
    assert not prints_as(3.44, "3.5")
