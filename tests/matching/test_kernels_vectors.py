"""The vector instructions against loops over lanes."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.matching.kernels import kernel
from shoal.matching.kernels_vectors import (
    ALL_LANES,
    LANES,
    PUT_MARGIN,
    count_lanes,
    lanes_below,
    lanes_from,
    put_lanes,
)


@kernel
def compared(codes: np.ndarray, at: int, value: int) -> tuple[int, int]:
    return lanes_below(codes, at, value), lanes_from(codes, at, value)


@kernel
def counted(lanes: int) -> int:
    return count_lanes(lanes)


@pytest.mark.parametrize("value", [0, 1, 40, 32_768, 65_534, 65_535])
def test_comparisons_are_of_codes_without_a_sign(value: int) -> None:
    codes = np.random.default_rng(value).choice([0, 1, 39, 40, 41, 32_767, 32_768, 65_535], 99)
    for at in (0, 7, 99 - LANES):
        run = codes[at : at + LANES].tolist()
        below, rest = compared(codes.astype(np.uint16), at, np.uint16(value))
        assert below == sum(1 << lane for lane, code in enumerate(run) if code < value)
        assert below ^ rest == ALL_LANES


@pytest.mark.parametrize("lanes", [0, 1, 2**31, 2**32 - 1, 0xFFFF, 0xFFFF0000, 0x80018001])
@pytest.mark.parametrize("at", [0, 5])
def test_lanes_are_put_ascending(lanes: int, at: int) -> None:
    out = np.full(at + LANES + PUT_MARGIN, 7, np.uint32)
    end = put_lanes(np.uint64(lanes), 1000, out, at)
    expected = [1000 + lane for lane in range(LANES) if lanes >> lane & 1]
    assert out[:at].tolist() == [7] * at
    assert out[at:end].tolist() == expected
    assert end - at == counted(np.uint64(lanes)) == len(expected)
