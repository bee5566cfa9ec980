"""Trees of boxes against a test of every box, with points on the bounds themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from shoal.matching.compiled import boxes
from shoal.matching.compiled.boxes import BoxTree
from shoal.matching.compiled.columns import ColumnBatch
from shoal.matching.compiled.kernels.boxes import EDGES_MAXIMUM
from tests.examples import at_length, one_in


def naive_boxes(low: np.ndarray, high: np.ndarray, point: np.ndarray) -> list[int]:
    return np.flatnonzero(((low <= point) & (point <= high)).all(axis=1)).tolist()


def random_boxes(
    random: np.random.Generator, size: int, dimensions: int
) -> tuple[np.ndarray, np.ndarray]:
    """Boxes with integral bounds, so that many are equal; some are open, some empty."""
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


def batch_of(points: np.ndarray) -> ColumnBatch:
    columns = {f"a{at}": np.ma.array(column) for at, column in enumerate(points.T)}
    for column in columns.values():
        column.mask = np.isnan(column.data)
    return ColumnBatch.of_columns(columns)


def check(part: BoxTree, low: np.ndarray, high: np.ndarray, points: np.ndarray) -> None:
    found = part.search(batch_of(points))(0, len(points), {})
    assert sorted(found.order.tolist()) == list(range(len(points)))
    for at, point in enumerate(points):
        run = found.members[found.begins[at] : found.begins[at] + found.counts[at]]
        assert sorted(part.rows[run].tolist()) == naive_boxes(low, high, point)
    for at, (lowest, highest) in enumerate(part.as_rows().ranges.values()):
        assert (lowest == low[part.rows, at]).all()
        assert (highest == high[part.rows, at]).all()


@pytest.mark.parametrize("cached_bytes", [0, 2**20])
@pytest.mark.parametrize("edges", [EDGES_MAXIMUM, *at_length([7])])
@pytest.mark.parametrize("dimensions", one_in(2, [1, 2, 3, 4, 6]))
@pytest.mark.parametrize("size", [1, 31, 32, 33, 3000])
def test_boxes_of_points_equal_a_test_of_every_box(
    dimensions: int, size: int, edges: int, cached_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boxes, "EDGES_MAXIMUM", edges)  # fewer than bounds: codes leave some open
    monkeypatch.setattr(boxes, "CACHED_BYTES", cached_bytes)
    random = np.random.default_rng([dimensions, size])
    low, high = random_boxes(random, size, dimensions)
    part = BoxTree([f"a{at}" for at in range(dimensions)], low, high, np.arange(size))
    check(part, low, high, random_points(random, 120, dimensions))


@pytest.mark.parametrize("dimensions", [1, 2, 4, 6])
@pytest.mark.parametrize("size", [1, 33, 3000])
def test_spread_bounds_have_even_codes(dimensions: int, size: int) -> None:
    """Their codes are even; points on a bound, near it, and beyond all are checked."""
    random = np.random.default_rng([dimensions, size, 1])
    low = random.uniform(-1, 1, (size, dimensions))
    high = low + random.choice([-0.1, 0.0, 0.5, 1e-9], low.shape)
    some = np.minimum(random.integers(0, size, 20), size - 1)
    points = [
        low[some],
        high[some],
        np.nextafter(low[some], -np.inf),
        random.normal(0, 1, (60, dimensions)),
    ]
    low[random.random(low.shape) < 0.1] = -np.inf
    high[random.random(low.shape) < 0.1] = np.inf
    points += [random_points(random, 30, dimensions), np.full((1, dimensions), -np.inf)]
    part = BoxTree([f"a{at}" for at in range(dimensions)], low, high, np.arange(size))
    assert part._codes.is_even or size == 1
    check(part, low, high, np.vstack(points))


def test_crowded_bounds_have_ranks() -> None:
    """Even steps would put nearly all of them into one, and each would be tested."""
    random = np.random.default_rng(8)
    low = np.append(random.uniform(0, 1, 2_000), 1e9)[:, None]
    part = BoxTree(["a0"], low, low + 0.1, np.arange(len(low)))
    assert not part._codes.is_even
    check(part, low, low + 0.1, np.vstack((low[:40], random.uniform(0, 1.2, (40, 1)))))


def test_a_point_between_doubles_is_compared_exactly() -> None:
    """2^53 + 1 is no double: it is above a low bound below it, and below one above it."""
    low = np.array([2.0**53, 2.0**53 + 2, -1.0])[:, None]
    high = np.array([2.0**53, 2.0**54, 2.0**53 + 2])[:, None]
    part = BoxTree(["a0"], low, high, np.arange(3))
    batch = ColumnBatch.of_columns({"a0": np.array([2**53, 2**53 + 1, 2**53 + 2])})
    found = part.search(batch)(0, 3, {})
    assert found.counts.tolist() == [2, 1, 2]


@pytest.mark.parametrize("width", [0.0, 5e-324, 1e-300, 1e300])
def test_very_near_and_very_far_bounds_are_compared_exactly(width: float) -> None:
    low = np.array([[-width], [0.0], [width], [-np.inf], [np.inf], [-1.7e308]])
    high = np.array([[0.0], [width], [1.7e308], [np.inf], [np.inf], [-np.inf]])
    points = np.unique([0.0, width, -width, width / 2, 1.7e308, -1.7e308, np.inf, -np.inf])
    check(BoxTree(["a0"], low, high, np.arange(6)), low, high, points[:, None])


def test_more_bounds_than_codes_are_compared_exactly() -> None:
    random = np.random.default_rng(3)
    low = random.normal(0, 1, (70_000, 2))
    high = low + random.exponential(0.3, low.shape)
    points = np.vstack((random.normal(0, 1, (20, 2)), low[:10], high[:10]))
    check(BoxTree(["a0", "a1"], low, high, np.arange(len(low))), low, high, points)


def test_boxes_in_one_node_lie_close_together() -> None:
    grid = np.stack(np.meshgrid(np.arange(64.0), np.arange(64.0)), axis=2).reshape(-1, 2)
    part = BoxTree(["a0", "a1"], grid, grid, np.arange(4096))
    node = grid[part.rows[:32]]
    assert (np.ptp(node, axis=0) < 8).all()


@pytest.mark.soak
def test_machines_without_wide_vectors_answer_the_same(tmp_path: Path) -> None:
    program = (
        "import sys; from tests.matching.compiled.test_boxes import *; "
        "random = np.random.default_rng(9); low, high = random_boxes(random, 500, 2); "
        "points = random_points(random, 100, 2); "
        "check(BoxTree(['a0', 'a1'], low, high, np.arange(500)), low, high, points); "
        "low = random.uniform(0, 40, low.shape); high = low + 9; "
        "check(BoxTree(['a0', 'a1'], low, high, np.arange(500)), low, high, points); "
        "print('same')"
    )
    plain = {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | plain,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "same\n"
