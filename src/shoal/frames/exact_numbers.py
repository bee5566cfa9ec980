"""Exact columns of a text file with fractions and integers that are no doubles.

A column of Arrow has one type, and as doubles 9007199254740993 and 9007199254740992 are one.  So
such a column is mixed, as `shoal.pipeline.matching.spark_filters` says it: a struct with a member
per type, of which one is not null.

>>> values = pa.chunked_array([["9007199254740993", "0.5", None]])
>>> exact_column(values.cast(pa.float64()), values).to_pylist()[:2]
[{'bigint': 9007199254740993, 'double': None}, {'bigint': None, 'double': 0.5}]
"""

from __future__ import annotations

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above

from shoal.model import INTEGER_MAX, INTEGER_MIN

MIXED = pa.struct([("bigint", pa.int64()), ("double", pa.float64())])
# All integers up to here are doubles; shorter ones are below.
EXACT_INTEGERS = 2**53
LONG_INTEGER = "^[ \t]*[+-]?[0-9]{16,}[ \t]*$"


def may_be_inexact(numbers: pa.ChunkedArray) -> bool:
    """Return whether doubles are so large that an integer may have become another."""
    most = pc.max(pc.abs(numbers)).as_py()
    return most is not None and most >= EXACT_INTEGERS


def exact_column(numbers: pa.ChunkedArray, texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column of doubles, or a mixed one if a text is an integer that its double is not."""
    long = pc.match_substring_regex(texts, LONG_INTEGER).to_pylist()
    integers = [
        _inexact(text) if is_long else None
        for text, is_long in zip(texts.to_pylist(), long, strict=True)
    ]
    if all(each is None for each in integers):
        return numbers
    whole = pa.array(integers, pa.int64())
    doubles = pc.if_else(whole.is_null(), numbers.combine_chunks(), None)
    missing = pc.and_(whole.is_null(), doubles.is_null())
    return pa.chunked_array(
        [pa.StructArray.from_arrays([whole, doubles], fields=[*MIXED], mask=missing)]
    )


def _inexact(text: str) -> int | None:
    """The integer of 64 bits that a text is, if no double is it."""
    value = int(text) if len(text) < 100 else INTEGER_MAX + 1
    return value if INTEGER_MIN <= value <= INTEGER_MAX and float(value) != value else None
