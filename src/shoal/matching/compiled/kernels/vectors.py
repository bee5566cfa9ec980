"""Vector instructions for kernels: 32 comparisons at once, and the places where they held.

A compiler makes vector code of many loops by itself, but not of "write down where this is true",
the main loop of matching. These functions are that, as instructions of LLVM's own vector language.
Places are written eight at once, from a table of the ones of every byte: as fast as AVX-512's own
instruction for this, which becomes a loop on other machines. A set of lanes is a whole number, lane
0 its lowest bit.

>>> import numpy as np
>>> from shoal.matching.compiled.kernels.compiler import kernel
>>> @kernel
... def small(codes: np.ndarray, most: np.ndarray, least: np.ndarray, out: np.ndarray) -> int:
...     return put_lanes(lanes_within(codes, 0, most, least), 0, out, 0)
>>> codes, out = np.arange(2 * LANES, dtype=np.uint16), np.zeros(LANES + PUT_MARGIN, np.uint32)
>>> bounds = np.array([2], np.uint16), np.array([33], np.uint16)
>>> small(codes, *bounds, out), out[:2].tolist()
(2, [1, 2])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]  # llvmlite has no types
from numba.core import cgutils, types
from numba.extending import intrinsic

from shoal.matching.compiled.kernels.compiler import kernel
from shoal.matching.compiled.kernels.lanes import LANES, PUT_MARGIN, Lanes

# Lanes that are written at once; for each byte, the places of its ones, a byte each.
_GROUP = PUT_MARGIN
_LANES_OF_A_BYTE = [
    int.from_bytes(bytes([at for at in range(8) if byte >> at & 1]).ljust(8, b"\0"), "little")
    for byte in range(256)
]

_WORD, _INDEX, _LANE_SET = ir.IntType(16), ir.IntType(32), ir.IntType(64)

_Codes = npt.NDArray[np.uint16]
_Members = npt.NDArray[np.uint32]


def _spread(builder: Any, value: Any, lanes: int) -> Any:
    """The value in every lane."""
    kind = ir.VectorType(value.type, lanes)
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(_INDEX, 0))
    everywhere = ir.Constant(ir.VectorType(_INDEX, lanes), [0] * lanes)
    return builder.shuffle_vector(first, nothing, everywhere)


def _address(context: Any, builder: Any, kind: Any, array: Any, at: Any, vector: Any) -> Any:
    start = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(start, [at]), vector.as_pointer())


def _failed(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Of each lane, the bits of how far codes are outside a test's bounds, all tests together.

    Saturated differences are 0 where a test is passed, so that no instruction set needs more than
    two instructions for a test, and all tests together one for their masks."""
    array, place, *bounds = arguments
    vector = ir.VectorType(_WORD, LANES)
    nothing = ir.Constant(vector, [0] * LANES)
    difference = builder.module.declare_intrinsic(
        f"llvm.usub.sat.v{LANES}i16", (), ir.FunctionType(vector, [vector, vector])
    )
    address = _address(context, builder, signature.args[0], array, place, vector)
    upper, lower = (
        context.make_array(kind)(context, builder, each)
        for kind, each in zip(signature.args[2:], bounds, strict=True)
    )
    size = builder.extract_value(upper.shape, 0)
    failed = cgutils.alloca_once_value(builder, nothing)  # type: ignore[no-untyped-call]
    with cgutils.for_range(builder, size) as loop:
        first = builder.mul(loop.index, ir.Constant(loop.index.type, 2))
        behind = builder.add(first, ir.Constant(loop.index.type, 1))
        lows, highs = (
            builder.load(builder.gep(address, [each]), align=2) for each in (first, behind)
        )
        high_end, low_end = (
            _spread(builder, builder.load(builder.gep(each.data, [loop.index])), LANES)
            for each in (upper, lower)
        )
        beyond = builder.call(difference, [lows, high_end])
        short = builder.call(difference, [low_end, highs])
        builder.store(builder.or_(builder.load(failed), builder.or_(beyond, short)), failed)
    return builder.load(failed)


def _lanes_below(builder: Any, failed: Any, end: int) -> Any:
    """Return the set of lanes with differences that are all below an end: 1, or 2."""
    limit = ir.Constant(failed.type, [end] * LANES)
    held = builder.icmp_unsigned("<", failed, limit)
    return builder.zext(builder.bitcast(held, ir.IntType(LANES)), _LANE_SET)


def _within(typing_context: Any, codes: Any, at: Any, most: Any, least: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _lanes_below(builder, _failed(context, builder, signature, arguments), 1)

    return types.uint64(codes, types.intp, most, least), generate


def _within_or_next(typing_context: Any, codes: Any, at: Any, most: Any, least: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        failed = _failed(context, builder, signature, arguments)
        surely, maybe = (_lanes_below(builder, failed, end) for end in (1, 2))
        return builder.or_(maybe, builder.shl(surely, ir.Constant(_LANE_SET, LANES)))

    return types.uint64(codes, types.intp, most, least), generate


lanes_within = cast(Callable[[_Codes, int, _Codes, _Codes], Lanes], intrinsic(_within))
"""`lanes_within(codes, at, most, least)`: the lanes that pass in every dimension.

Per dimension `codes` has LANES low codes, which may be at most `most`, and LANES high codes, which
must be at least `least`; those of the first dimension are at `at`."""

lanes_within_or_next = cast(
    Callable[[_Codes, int, _Codes, _Codes], Lanes], intrinsic(_within_or_next)
)
"""As `lanes_within`, LANES bits higher; below them the lanes that pass, or miss by 1 at most."""


def _count(typing_context: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


def _put_eight(typing_context: Any, lanes: Any, first: Any, out: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        chosen, begin, array, place = arguments
        vector = ir.VectorType(_INDEX, _GROUP)
        table = cgutils.global_constant(  # type: ignore[no-untyped-call]  # numba's
            builder, "lanes_of_a_byte", ir.Constant(ir.ArrayType(_LANE_SET, 256), _LANES_OF_A_BYTE)
        )
        byte = builder.and_(chosen, ir.Constant(_LANE_SET, 255))
        packed = builder.load(builder.gep(table, [ir.Constant(_LANE_SET, 0), byte]))
        lanes_of = builder.zext(
            builder.bitcast(packed, ir.VectorType(ir.IntType(8), _GROUP)), vector
        )
        numbers = builder.add(lanes_of, _spread(builder, begin, _GROUP))
        address = _address(context, builder, signature.args[2], array, place, vector)
        builder.store(numbers, address, align=4)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint32, out, types.intp), generate


count_lanes = cast(Callable[[Lanes], int], intrinsic(_count))
"""Number of lanes in a set."""

_put_group = cast(Callable[[Lanes, np.uint32, _Members, int], None], intrinsic(_put_eight))


@kernel
def put_lanes(lanes: Lanes, first: int, out: _Members, at: int) -> int:
    """Write `first` + each lane of the set to `out` from `at` on, ascending; where it ended.

    May write to `PUT_MARGIN` places behind that, too, which must exist.
    """
    for group in range(LANES // _GROUP):
        byte = lanes & Lanes(255)
        _put_group(byte, np.uint32(first + group * _GROUP), out, at)
        at += count_lanes(byte)
        lanes >>= Lanes(_GROUP)
    return at
