"""Columns of numbers out of a table: points, as experiments draw messages and ranges from them.

Rows with a missing number are left out.  Of a large table a sample is taken that is the same
however the table is split: by a hash of the values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from shoal.frames.errors import TableError

# As many as a driver holds without notice, and enough to be skewed as the data are.
MOST_POINTS = 200_000
# Numbers beyond are no measurements (NaN is above all).
MOST = 1e300


def points(rows: DataFrame, columns: Sequence[str], name: str) -> npt.NDArray[np.float64]:
    """An array with a row per point; TableError if a column is missing or no row is complete."""
    for column in columns:
        if column not in rows.columns:
            there = ", ".join(rows.columns)
            raise TableError(f"{name}: there is no column {column}; the columns are {there}")
    # A column's own name may hold dots, which Spark would take for a path.
    places = [f"c{number}" for number in range(len(columns))]
    numbers = rows.select(
        *(
            F.col(f"`{column}`").try_cast("double").alias(place)
            for place, column in zip(places, columns, strict=True)
        )
    )
    for place in places:
        numbers = numbers.where(F.col(place).between(-MOST, MOST))
    ordered = numbers.orderBy(F.xxhash64(*places), *places).limit(MOST_POINTS)
    table = ordered.toArrow()
    if not table.num_rows:
        raise TableError(f"{name}: no row has numbers in all of {', '.join(columns)}")
    return np.column_stack([column.to_numpy() for column in table.columns])
