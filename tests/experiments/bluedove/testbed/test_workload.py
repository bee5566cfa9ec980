"""Workloads: the evaluation's skew, and ranges around rows of real data."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from shoal.experiments.bluedove.testbed.workload import (
    ATTRIBUTES,
    NARROW,
    RANGE,
    BlueDoveWorkload,
    Drawing,
    Points,
    PointsWorkload,
    load_points,
    points_digest,
    save_points,
)
from shoal.matching.semantics import matches


@pytest.mark.parametrize(
    ("drawing", "hot_spots"), [("moved", (125, 875)), ("single", (125, 875)), ("cut", (0, 1_000))]
)
def test_ranges_lie_around_hot_spots(drawing: Drawing, hot_spots: tuple[float, float]) -> None:
    workload = BlueDoveWorkload(Random(2), deviation=50.0, adverse=0, drawing=drawing, segments=20)
    assert (workload.hot_spots[0], workload.hot_spots[-1]) == hot_spots
    (low,) = (dimension for dimension in workload.dimensions(4) if dimension.attribute == "a1")
    ranges = [low.ranges(workload.filter()) for _ in range(200)]
    middles = [(each[0].low + each[0].high) / 2 for each in ranges]
    # Most of a range around the lower end is cut off: the rest lies higher.
    assert abs(np.median(middles) - hot_spots[0]) < (90 if drawing == "cut" else 60)
    longest = NARROW if drawing == "single" else RANGE
    assert max(each[0].high - each[0].low for each in ranges) <= longest + 1e-6


def test_points_read_back_equal(tmp_path: Path) -> None:
    points = Points(("x", "y"), np.arange(8.0).reshape(4, 2))
    for name in ("one.npz", "two.npz"):
        save_points(tmp_path / name, points)
    found = load_points(tmp_path / "one.npz")
    assert found.names == points.names
    assert np.array_equal(found.values, points.values)
    assert points_digest(tmp_path / "one.npz") == points_digest(tmp_path / "two.npz")
    save_points(tmp_path / "two.npz", Points(("x", "z"), points.values))
    assert points_digest(tmp_path / "one.npz") != points_digest(tmp_path / "two.npz")


def test_subscriptions_are_boxes_around_rows() -> None:
    values = np.random.default_rng(5).lognormal(1.0, 1.0, (400, 2))
    workload = PointsWorkload(Points(("x", "y"), values), Random(1), quantiles=False)
    rows = [dict(zip(("x", "y"), row, strict=True)) for row in values.tolist()]
    for _ in range(20):
        wanted = workload.filter()
        assert any(matches(wanted, row) for row in rows)
        assert not all(matches(wanted, row) for row in rows)
    assert workload.messages(1).tolist()[0] in values.tolist()
    assert set(ATTRIBUTES) != set(workload.attributes)


def test_segments_by_quantiles_have_equal_numbers() -> None:
    values = np.random.default_rng(5).lognormal(1.0, 1.0, (400, 1))
    workload = PointsWorkload(Points(("x",), values), Random(1), quantiles=True)
    (dimension,) = workload.dimensions(8)
    counts = np.bincount(np.searchsorted(dimension.cuts(8), values[:, 0], side="right"))
    assert counts.tolist() == [50] * 8
