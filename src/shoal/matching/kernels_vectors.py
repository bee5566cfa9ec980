"""Vector instructions for kernels: 32 comparisons at once, and the places where they held.

A compiler makes vector code of many loops by itself, but not of "write down where this is true",
which is most of what matching does.  These functions are that, as instructions of LLVM's own
vector language: they become one or two instructions where a machine has AVX-512, and a few more
elsewhere.  A set of lanes is a whole number, lane 0 its lowest bit.

>>> import numpy as np
>>> from shoal.matching.kernels import kernel
>>> @kernel
... def small(codes: np.ndarray, out: np.ndarray) -> int:
...     return put_lanes(lanes_within(codes, 0, 3, 33), 0, out, 0)
>>> out = np.zeros(LANES + PUT_MARGIN, np.uint32)
>>> small(np.arange(2 * LANES, dtype=np.uint16), out), out[:2].tolist()
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

from shoal.matching.kernels import kernel

LANES = 32
# A set of lanes.
Lanes = np.uint64

ALL_LANES = Lanes(2**LANES - 1)

# Half of the lanes fill one register of the widest machines; wider vectors crash LLVM 20.
_HALF = LANES // 2

# `put_lanes` may write nonsense this far behind the end of what it counts.
PUT_MARGIN = _HALF

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


def _within(typing_context: Any, codes: Any, at: Any, above: Any, least: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, place, *bounds = arguments
        vector = ir.VectorType(_WORD, LANES)
        address = _address(context, builder, signature.args[0], array, place, vector)
        behind = builder.gep(address, [ir.Constant(_INDEX, 1)])
        lows, highs = (builder.load(each, align=2) for each in (address, behind))
        below, least = (_spread(builder, each, LANES) for each in bounds)
        held = builder.and_(
            builder.icmp_unsigned("<", lows, below), builder.icmp_unsigned(">=", highs, least)
        )
        return builder.zext(builder.bitcast(held, ir.IntType(LANES)), _LANE_SET)

    return types.uint64(codes, types.intp, types.uint16, types.uint16), generate


lanes_within = cast(Callable[[_Codes, int, int, int], Lanes], intrinsic(_within))
"""`lanes_within(codes, at, above, least)`: the lanes of `codes[at : at + LANES]` below `above` of
which those of the next LANES codes are not below `least`."""


def _count(typing_context: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


def _put_half(typing_context: Any, lanes: Any, first: Any, out: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        chosen, begin, array, place = arguments
        vector = ir.VectorType(_INDEX, _HALF)
        flags = ir.VectorType(ir.IntType(1), _HALF)
        compress = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]  # numba's
            builder.module,
            ir.FunctionType(vector, [vector, flags, vector]),
            f"llvm.experimental.vector.compress.v{_HALF}i32",
        )
        numbers = builder.add(
            _spread(builder, begin, _HALF), ir.Constant(vector, list(range(_HALF)))
        )
        mask = builder.bitcast(builder.trunc(chosen, ir.IntType(_HALF)), flags)
        closed = builder.call(compress, [numbers, mask, ir.Constant(vector, ir.Undefined)])
        address = _address(context, builder, signature.args[2], array, place, vector)
        builder.store(closed, address, align=4)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint32, out, types.intp), generate


count_lanes = cast(Callable[[Lanes], int], intrinsic(_count))
"""How many lanes are in a set."""

_put_lower_half = cast(Callable[[Lanes, np.uint32, _Members, int], None], intrinsic(_put_half))


@kernel
def put_lanes(lanes: Lanes, first: int, out: _Members, at: int) -> int:
    """Write `first` + each lane of the set to `out` from `at` on, ascending; where it ended.

    May write to `PUT_MARGIN` places behind that, too, which must exist.
    """
    upper = lanes >> Lanes(_HALF)
    middle = at + count_lanes(lanes & Lanes(2**_HALF - 1))
    _put_lower_half(lanes, np.uint32(first), out, at)
    _put_lower_half(upper, np.uint32(first + _HALF), out, middle)
    return middle + count_lanes(upper)
