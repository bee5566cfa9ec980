"""Parquet and CSV files as the tables that somebody else made: columns as they are.

The ending of the name decides: a folder or `.parquet` is Parquet, `.csv` (or `.csv.gz`) is CSV
with a header, whose columns get the type that all their values have: integers, doubles, booleans,
else text (dates stay the text that they are).  An empty field of a CSV is a null.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DatetimeType, StringType, StructField, StructType

from shoal.frames.errors import TableError
from shoal.frames.parquet_files import check_parquet

_CSV_OPTIONS = {"header": "true", "quote": '"', "escape": '"', "mode": "FAILFAST"}


def read_table_file(spark: SparkSession, path: Path, *, inside: str) -> DataFrame:
    """The table at `path`, or the one called `inside` in the folder `path`; TableError if none.

    ParquetError names a file that is not Parquet.
    """
    if not path.exists():
        raise TableError(f"{path} does not exist")
    if path.is_dir() and (path / inside).exists():
        path = path / inside
    if path.is_dir() or path.suffix == ".parquet":
        check_parquet(path)
        return spark.read.parquet(str(path))
    return _read_csv(spark, path)


def _read_csv(spark: SparkSession, path: Path) -> DataFrame:
    reader = spark.read.options(**_CSV_OPTIONS)
    inferred = reader.option("inferSchema", "true").csv(str(path)).schema
    reader.options(inferSchema="false")
    return reader.schema(StructType([_without_dates(each) for each in inferred])).csv(str(path))


def _without_dates(field: StructField) -> StructField:
    if isinstance(field.dataType, DatetimeType):
        return StructField(field.name, StringType())
    return field
