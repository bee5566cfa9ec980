"""The grid's kernels against a test of every box, with points on the bounds themselves."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.matching.boxes import BoxGrid
from shoal.matching.columns import Batch
from shoal.matching.kernels_grid import STEPS, rank_of, step_of, step_table


def naive_boxes(low: np.ndarray, high: np.ndarray, point: np.ndarray) -> list[int]:
    return [
        box
        for box in range(len(low))
        if all(a <= x <= b for a, x, b in zip(low[box], point, high[box], strict=True))
    ]


def random_boxes(
    random: np.random.Generator, size: int, dimensions: int
) -> tuple[np.ndarray, np.ndarray]:
    """Boxes with whole bounds, so that many are equal; some are open, some hold nothing."""
    low = random.integers(0, 40, (size, dimensions)).astype(float)
    high = low + random.integers(-1, 12, (size, dimensions))
    low[random.random(low.shape) < 0.1] = -np.inf
    high[random.random(low.shape) < 0.1] = np.inf
    return low, high


def random_points(random: np.random.Generator, size: int, dimensions: int) -> np.ndarray:
    points = random.integers(-2, 56, (size, dimensions)) / random.choice([1, 2], (size, dimensions))
    points[random.random(points.shape) < 0.05] = np.nan
    points[random.random(points.shape) < 0.05] = np.inf
    return points


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("kind", [BoxGrid])
def test_boxes_that_hold_points(kind: type[BoxGrid], dimensions: int) -> None:
    random = np.random.default_rng(dimensions)
    names = [f"a{at}" for at in range(dimensions)]
    low, high = random_boxes(random, 500, dimensions)
    part = kind(names, low, high, np.arange(500))
    points = random_points(random, 300, dimensions)
    given = {name: np.ma.masked_invalid(points[:, at]) for at, name in enumerate(names)}
    for at, name in enumerate(names):
        given[name].mask = np.isnan(points[:, at])
    kept = random.random(500) < 0.5
    for some, allowed in ((part, np.ones(500, bool)), (part.restricted(kept[part.rows]), kept)):
        found = some.match(Batch.of_columns(given), 0, 300, {})
        for at, point in enumerate(points):
            run = found.members[found.begins[at] : found.begins[at] + found.counts[at]]
            expected = [box for box in naive_boxes(low, high, point) if allowed[box]]
            assert sorted(some.rows[run].tolist()) == expected


def test_steps_never_fall() -> None:
    values = np.sort(np.random.default_rng(3).normal(0, 1e3, 2000))
    steps = [step_of(value, -500.0, STEPS / 700.0) for value in [-np.inf, *values, np.inf]]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, STEPS - 1)


@pytest.mark.parametrize(("origin", "scale"), [(0.0, STEPS / 30.0), (0.0, 0.0), (-1e300, 1e-290)])
def test_ranks_are_those_of_a_bisection(origin: float, scale: float) -> None:
    random = np.random.default_rng(4)
    bounds = np.unique(random.integers(-3, 40, 30) / 2)
    steps = step_table(bounds, origin, scale)
    for value in [-np.inf, np.inf, 1e300, *random.integers(-9, 90, 200) / 4]:
        assert rank_of(bounds, steps, origin, scale, value, True) == sum(bounds <= value)
        assert rank_of(bounds, steps, origin, scale, value, False) == sum(bounds < value)
