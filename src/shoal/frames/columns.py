"""Arrow columns of Python's values and numpy's, from buffers.

`pa.array` would do, but where pandas is installed it imports that first (so does an array's
`to_numpy`; `np.from_dlpack` does not): a quarter of a second, in commands that take less than one.

>>> texts(["a", None, "é"]).to_pylist(), binaries([b"", None]).to_pylist()
(['a', None, 'é'], [b'', None])
>>> integers(np.array([3, 4])).type, flags(np.array([True, False])).to_pylist()
(DataType(int64), [True, False])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from shoal.frames.errors import TableError

# Capacity of one Arrow array of texts.
MOST_BYTES = 2**31 - 1


def texts(values: Iterable[str | None]) -> pa.Array:
    """A column of strings, null where there is none."""
    return _of_bytes([None if each is None else each.encode() for each in values], pa.string())


def binaries(values: Sequence[bytes | None]) -> pa.Array:
    """A column of bytes, null where there are none."""
    return _of_bytes(values, pa.binary())


def integers(values: npt.NDArray[np.int64] | npt.NDArray[np.int32]) -> pa.Array:
    """A column of integers of 64 or 32 bits, none of them null."""
    kind = pa.int32() if values.dtype == np.int32 else pa.int64()
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def flags(values: npt.NDArray[np.bool_]) -> pa.Array:
    """A column of booleans, none of them null."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def _of_bytes(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    data = b"".join(each for each in values if each)
    if len(data) > MOST_BYTES:
        raise TableError(f"a column of {len(data):,} bytes is too long; split the table")
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(each or b"") for each in values], out=offsets[1:])
    there = _bits(np.array([each is not None for each in values], np.bool_))
    return pa.Array.from_buffers(
        kind, len(values), [there, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def _bits(values: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))
