"""The vector instructions against loops over lanes."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.matching.compiled.kernels.compiler import kernel
from shoal.matching.compiled.kernels.vectors import (
    LANES,
    PUT_MARGIN,
    count_lanes,
    lanes_within,
    put_lanes,
)


@kernel
def within(codes: np.ndarray, at: int, above: int, least: int) -> int:
    return lanes_within(codes, at, above, least)


@kernel
def counted(lanes: int) -> int:
    return count_lanes(lanes)


EDGES = [0, 1, 40, 32_768, 65_534, 65_535]


@pytest.mark.parametrize("above", EDGES)
@pytest.mark.parametrize("least", EDGES)
def test_comparisons_are_of_codes_without_a_sign(above: int, least: int) -> None:
    codes = np.random.default_rng(above).choice([0, 1, 39, 40, 41, 32_767, 32_768, 65_535], 99)
    for at in (0, 7, 99 - 2 * LANES):
        lows, highs = (codes[begin : begin + LANES].tolist() for begin in (at, at + LANES))
        expected = [lane for lane in range(LANES) if lows[lane] < above and highs[lane] >= least]
        lanes = within(codes.astype(np.uint16), at, np.uint16(above), np.uint16(least))
        assert [lane for lane in range(64) if int(lanes) >> lane & 1] == expected


@pytest.mark.parametrize("lanes", [0, 1, 2**31, 2**32 - 1, 0xFFFF, 0xFFFF0000, 0x80018001])
@pytest.mark.parametrize("at", [0, 5])
def test_lanes_are_put_ascending(lanes: int, at: int) -> None:
    out = np.full(at + LANES + PUT_MARGIN, 7, np.uint32)
    end = put_lanes(np.uint64(lanes), 1000, out, at)
    expected = [1000 + lane for lane in range(LANES) if lanes >> lane & 1]
    assert out[:at].tolist() == [7] * at
    assert out[at:end].tolist() == expected
    assert end - at == counted(np.uint64(lanes)) == len(expected)
