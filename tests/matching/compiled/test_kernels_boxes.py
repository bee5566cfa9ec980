"""The boxes' kernels against bisections and tests of single boxes."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.matching.compiled.kernels.boxes import (
    EVEN_STEPS,
    FIRST_STEP,
    NOTHING,
    OPEN_ABOVE,
    OPEN_BELOW,
    STEPS,
    code_bounds_evenly,
    code_evenly,
    code_points,
    padded,
    step_table,
)


@pytest.mark.parametrize(
    ("origin", "scale"), [(-1.5, STEPS / 21.0), (0.0, STEPS / 30.0), (0.0, 0.0), (-1e300, 1e-290)]
)
def test_codes_are_those_of_a_bisection(origin: float, scale: float) -> None:
    random = np.random.default_rng(4)
    edges = np.unique(random.integers(-3, 40, 30) / 2)
    values = np.array([-np.inf, np.inf, np.nan, 1e300, *random.integers(-9, 90, 200) / 4])
    codes = np.full((len(values), 3), 7, np.uint16)
    steps = step_table(edges, origin, scale)
    code_points(values, padded(edges), steps, origin, scale, codes, 1)
    expected = np.searchsorted(edges, values)
    expected[np.isnan(values)] = 7
    assert codes[:, 1].tolist() == expected.tolist()
    assert (codes[:, [0, 2]] == 7).all()


def test_many_edges_in_one_step_have_right_codes() -> None:
    edges = np.linspace(0.0, 1.0, 1000)
    values = np.random.default_rng(5).random(300)
    codes = np.zeros((300, 1), np.uint16)
    code_points(values, padded(edges), step_table(edges, 0.0, 2.0), 0.0, 2.0, codes, 0)
    assert codes[:, 0].tolist() == np.searchsorted(edges, values).tolist()


@pytest.mark.parametrize(("origin", "scale"), [(-2.0, 3.0), (0.0, 0.0), (0.5, EVEN_STEPS / 0.25)])
def test_even_codes_are_steps_in_order(origin: float, scale: float) -> None:
    random = np.random.default_rng(6)
    values = np.sort([-np.inf, np.inf, 1e300, *random.uniform(-3, 3, 200)])
    steps = np.minimum(np.maximum((values[1:-1] - origin) * scale, 0), EVEN_STEPS - 1)
    expected = [FIRST_STEP, *(FIRST_STEP + steps.astype(int)), 0]
    expected[-1] = FIRST_STEP + (EVEN_STEPS - 1 if scale else 0)
    for opened, is_open in ((OPEN_BELOW, values == -np.inf), (OPEN_ABOVE, values == np.inf)):
        codes = np.full((len(values), 2), 7, np.uint16)
        code_bounds_evenly(values, origin, scale, opened, codes, 1)
        assert codes[:, 1].tolist() == np.where(is_open, opened, expected).tolist()
        assert (codes[:, 0] == 7).all()
    # Two dimensions of points: the values rounded down and up, and the same with one missing.
    down, up = np.stack((values, values)), np.stack((values + 1, values))
    down[1, 5] = up[1, 5] = np.nan
    shape = down.shape[::-1]
    most, least = np.empty(shape, np.uint16), np.empty(shape, np.uint16)
    downs, ups = np.empty(shape), np.empty(shape)
    code_evenly(down, up, np.full(2, origin), np.full(2, scale), most, least, downs, ups)
    assert np.array_equal(downs.T, down, equal_nan=True)
    assert np.array_equal(ups.T, up, equal_nan=True)
    assert most[:, 0].tolist() == [code - 1 for code in expected]
    assert (np.diff(least[:, 0].astype(int)) >= 0).all()
    assert (most[5, 1], least[5, 1]) == (0, NOTHING)
    others = np.arange(len(values)) != 5
    assert least[others, 1].tolist() == [code + 1 for code in np.array(expected)[others]]
