"""The vector instructions against loops over lanes."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.matching.compiled.kernels.compiler import kernel
from shoal.matching.compiled.kernels.lanes import LANES, PUT_MARGIN
from shoal.matching.compiled.kernels.vectors import (
    count_lanes,
    lanes_within,
    lanes_within_or_next,
    put_lanes,
)
from tests.examples import one_in


@kernel
def within(codes: np.ndarray, at: int, most: np.ndarray, least: np.ndarray) -> int:
    return lanes_within(codes, at, most, least)


@kernel
def within_or_next(codes: np.ndarray, at: int, most: np.ndarray, least: np.ndarray) -> int:
    return lanes_within_or_next(codes, at, most, least)


@kernel
def counted(lanes: int) -> int:
    return count_lanes(lanes)


EDGES = [0, 1, 40, 32_768, 65_534, 65_535]


@pytest.mark.parametrize("dimensions", one_in(2, [1, 2, 3]))
@pytest.mark.parametrize("most", EDGES)
@pytest.mark.parametrize("least", EDGES)
def test_comparisons_are_of_codes_without_a_sign(most: int, least: int, dimensions: int) -> None:
    """The last dimension has these bounds, all before it others."""
    random = np.random.default_rng(most)
    size = dimensions * 2 * LANES
    codes = random.choice([0, 1, 39, 40, 41, 32_767, 32_768, 65_535], size + 35)
    mosts, leasts = (
        [other] * (dimensions - 1) + [last] for other, last in ((40, most), (1, least))
    )
    for at in (0, 7, 35):
        node = codes[at : at + size].reshape(dimensions, 2, LANES)
        expected = [
            lane
            for lane in range(LANES)
            if (node[:, 0, lane] <= mosts).all() and (node[:, 1, lane] >= leasts).all()
        ]
        bounds = np.array(mosts, np.uint16), np.array(leasts, np.uint16)
        lanes = within(codes.astype(np.uint16), at, *bounds)
        assert [lane for lane in range(64) if int(lanes) >> lane & 1] == expected
        both = int(within_or_next(codes.astype(np.uint16), at, *bounds))
        assert both >> LANES == int(lanes)
        near = [
            lane
            for lane in range(LANES)
            if (node[:, 0, lane] <= np.add(mosts, 1)).all()
            and (node[:, 1, lane] >= np.subtract(leasts, 1)).all()
        ]
        assert [lane for lane in range(LANES) if both >> lane & 1] == near


@pytest.mark.parametrize("lanes", [0, 1, 2**31, 2**32 - 1, 0xFFFF, 0xFFFF0000, 0x80018001])
@pytest.mark.parametrize("at", [0, 5])
def test_lanes_are_put_ascending(lanes: int, at: int) -> None:
    out = np.full(at + LANES + PUT_MARGIN, 7, np.uint32)
    end = put_lanes(np.uint64(lanes), 1000, out, at)
    expected = [1000 + lane for lane in range(LANES) if lanes >> lane & 1]
    assert out[:at].tolist() == [7] * at
    assert out[at:end].tolist() == expected
    assert end - at == counted(np.uint64(lanes)) == len(expected)
