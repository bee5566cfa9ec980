"""Columns of attributes with values of several types: a struct with a member per type.

The members are called as Spark calls their types, and of each row at most one is not null
(`shoal.pipeline.matching.spark_filters` reads them).

>>> column = mixed_column([21.5, "ON", None, 2**53 + 1])
>>> [field.name for field in column.type]
['bigint', 'double', 'string']
>>> is_mixed(column.type), [plain_value(row) for row in column.to_pylist()]
(True, [21.5, 'ON', None, 9007199254740993])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from shoal.model import Value

_MEMBERS: dict[str, tuple[type, pa.DataType]] = {
    "boolean": (bool, pa.bool_()),
    "bigint": (int, pa.int64()),
    "double": (float, pa.float64()),
    "string": (str, pa.string()),
}


def mixed_column(values: Sequence[Value | None]) -> pa.Array:
    """The column of an attribute: plain where one type has all values, else mixed.

    Integers among doubles become doubles if these equal them exactly.
    """
    found = {type(value) for value in values if value is not None}
    if {int, float} <= found and all(float(v) == v for v in values if type(v) is int):
        values = [float(v) if type(v) is int else v for v in values]
        found.discard(int)
    members = {name: each for name, each in _MEMBERS.items() if each[0] in found}
    if len(members) == 1:
        ((_, kind),) = members.values()
        return pa.array(values, kind)
    columns = [
        pa.array([value if type(value) is python else None for value in values], kind)
        for python, kind in members.values()
    ]
    missing = pa.array([value is None for value in values], pa.bool_())
    fields = [pa.field(name, kind) for name, (_, kind) in members.items()]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=missing)


def is_mixed(kind: pa.DataType) -> bool:
    """Return whether a column has a member for each type of its values."""
    return bool(
        pa.types.is_struct(kind)
        and kind.num_fields
        and all(each.name in _MEMBERS and _MEMBERS[each.name][1] == each.type for each in kind)
    )


def plain_value(value: Any) -> Any:
    """The value of a row of a mixed column, or of any other."""
    if isinstance(value, dict):
        return next((each for each in value.values() if each is not None), None)
    return value
