"""Numbers from tables: complete rows, the same for every split of the table."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql import SparkSession

from shoal.frames.errors import TableError
from shoal.pipeline import points as module
from shoal.pipeline.points import points

ROWS = [("1", 2.0), (None, 3.0), ("NA", 4.0), ("5", float("nan")), ("6.5", 7.0), ("8", None)]


def test_complete_rows_are_points(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = spark.createDataFrame(ROWS, "`a.b` string, y double")
    found = points(rows, ("a.b", "y"), "rows")
    assert sorted(found.tolist()) == [[1.0, 2.0], [6.5, 7.0]]
    assert np.array_equal(points(rows.repartition(3), ("a.b", "y"), "rows"), found)
    monkeypatch.setattr(module, "MOST_POINTS", 1)
    assert points(rows, ("a.b", "y"), "rows").shape == (1, 2)


def test_what_is_missing_is_named(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("NA", 1.0)], "x string, y double")
    with pytest.raises(TableError, match="there is no column z; the columns are x, y"):
        points(rows, ("x", "z"), "rows")
    with pytest.raises(TableError, match="no row has numbers in all of x, y"):
        points(rows, ("x", "y"), "rows")
