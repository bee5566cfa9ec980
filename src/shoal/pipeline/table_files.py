"""Parquet and CSV files of other tools as tables: columns as they are.

The ending of the name decides: a folder or `.parquet` is Parquet, `.csv` (or `.csv.gz`) is CSV with
a header, in which each column gets the type that all its values have: integers, doubles, booleans,
else text (dates stay text); integers that no double equals stay exact beside fractions. An empty
field of a CSV is a null.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DatetimeType, DoubleType, StringType, StructField, StructType

from shoal.frames.errors import TableError
from shoal.frames.exact_numbers import LONG_INTEGER
from shoal.frames.parquet_files import check_parquet
from shoal.pipeline.sources.files import FolderText, read_parquet
from shoal.pipeline.tables import spark_path

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
        table, folders = read_parquet(spark, [path])
        columns = {n: _folder_value(each) for n, each in folders.items() if n not in table.columns}
        return (table.withColumns(columns) if columns else table).drop("_metadata")
    return _read_csv(spark, path)


def _folder_value(folder: FolderText) -> Column:
    return folder.text.cast("bigint") if folder.column.has_integers else folder.text


def _read_csv(spark: SparkSession, path: Path) -> DataFrame:
    reader = spark.read.options(**_CSV_OPTIONS)
    inferred = reader.option("inferSchema", "true").csv(spark_path(path)).schema
    reader.options(inferSchema="false")
    schema = StructType([_without_dates(each) for each in inferred])
    mixed = _inexact_columns(reader.schema(_as_texts(schema)).csv(spark_path(path)), schema)
    if not mixed:
        return reader.schema(schema).csv(spark_path(path))
    kept = StructType([f if f.name not in mixed else _as_text(f) for f in schema])
    return (
        reader.schema(kept)
        .csv(spark_path(path))
        .withColumns({name: _mixed(name) for name in mixed})
    )


def _as_text(field: StructField) -> StructField:
    return StructField(field.name, StringType())


def _as_texts(schema: StructType) -> StructType:
    return StructType([_as_text(each) for each in schema])


def _inexact_columns(texts: DataFrame, schema: StructType) -> list[str]:
    """The columns of doubles that have an integer which no double is."""
    names = [each.name for each in schema if isinstance(each.dataType, DoubleType)]
    if not names:
        return []
    found = texts.agg(*(F.bool_or(_integer(name).isNotNull()) for name in names)).first()
    assert found is not None
    return [name for name, is_inexact in zip(names, found, strict=True) if is_inexact]


def _integer(name: str) -> Column:
    """The integer of 64 bits that a text is, if no double is it."""
    text = _column(name)
    value = F.trim(text).try_cast("bigint")
    is_exact = value.cast("double").cast("decimal(38,0)") == value.cast("decimal(38,0)")
    return F.when(text.rlike(LONG_INTEGER) & ~is_exact, value)


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _mixed(name: str) -> Column:
    """A column of numbers that are all exact, as `spark_filters` has it."""
    integer = _integer(name)
    double = F.when(integer.isNull(), F.trim(_column(name)).try_cast("double"))
    both = F.struct(integer.alias("bigint"), double.alias("double"))
    return F.when(integer.isNotNull() | double.isNotNull(), both)


def _without_dates(field: StructField) -> StructField:
    if isinstance(field.dataType, DatetimeType):
        return StructField(field.name, StringType())
    return field
