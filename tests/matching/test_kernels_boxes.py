"""The boxes' kernels against bisections and tests of one box after the other."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.matching.compiled.kernels.boxes import STEPS, code_points, padded, step_table


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


def test_many_edges_in_one_step() -> None:
    edges = np.linspace(0.0, 1.0, 1000)
    values = np.random.default_rng(5).random(300)
    codes = np.zeros((300, 1), np.uint16)
    code_points(values, padded(edges), step_table(edges, 0.0, 2.0), 0.0, 2.0, codes, 0)
    assert codes[:, 0].tolist() == np.searchsorted(edges, values).tolist()
