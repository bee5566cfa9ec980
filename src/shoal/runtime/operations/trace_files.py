"""Rows as Parquet files.  Imports Arrow, so it is imported when the first rows are to be written.

Arrays are made from their buffers: from lists Arrow would make them with pandas at hand, which it
imports for that, 30 MB in every broker.

>>> array_of(["a", None, "bc"], "text").to_pylist(), array_of([1, None], "double").to_pylist()
(['a', None, 'bc'], [1.0, None])
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.overlays.trace_rows import Columns, Kind

_TYPES = {"text": pa.string(), "integer": pa.int64(), "double": pa.float64()}
_CODES = {"integer": "q", "double": "d"}


def schema_of(columns: Columns) -> Any:
    return pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])


def array_of(values: Sequence[Any], kind: Kind) -> Any:
    """An Arrow array of these, some of which may be None."""
    nulls = values.count(None)
    buffers = [pa.py_buffer(_validity(values)) if nulls else None]
    if kind == "text":
        texts = [(value or "").encode() for value in values]
        buffers.append(pa.py_buffer(array("i", accumulate(map(len, texts), initial=0))))
        buffers.append(pa.py_buffer(b"".join(texts)))
    else:
        numbers = [value or 0 for value in values] if nulls else values
        buffers.append(pa.py_buffer(array(_CODES[kind], numbers)))
    return pa.Array.from_buffers(_TYPES[kind], len(values), buffers, nulls)


def _validity(values: Sequence[Any]) -> bytes:
    """A bit for each, least significant first: whether it is not None."""
    bits = bytearray(-(-len(values) // 8))
    for at, value in enumerate(values):
        if value is not None:
            bits[at >> 3] |= 1 << (at & 7)
    return bytes(bits)


def write_rows(path: Path, columns: Columns, rows: Sequence[tuple[Any, ...]]) -> None:
    """A file of these rows; OSError where that cannot be."""
    arrays = [
        array_of(values, kind)
        for values, kind in zip(zip(*rows, strict=True), columns.values(), strict=True)
    ]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema_of(columns)), path)
