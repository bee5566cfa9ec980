"""Common parts of the steps without Spark: their limits, tables read, and tables written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above
from pyspark.sql.types import StructType

from shoal.frames.errors import TableError
from shoal.frames.parquet_files import part_files
from shoal.frames.reading import read_table_file
from shoal.pipeline.schemas import arrow_schema

# Above this Spark's many cores are worth their start.
MOST_BYTES = 10_000_000


class NeedsSparkError(Exception):
    """Something here is too much, or said in a way that only Spark reads; the message says what."""


def are_small(paths: Sequence[Path], most: int = MOST_BYTES) -> bool:
    """Return whether these files and folders of Parquet are together small."""
    files = (file for path in paths for file in part_files(path) if file.exists())
    return sum(file.stat().st_size for file in files) <= most


def read_columns(path: Path, schema: StructType) -> pa.Table:
    """The columns of `schema` from the table at `path`; TableError names a missing column."""
    return columns_of(read_table_file(path, inside=""), schema, path)


def columns_of(table: pa.Table, schema: StructType, path: Path) -> pa.Table:
    """The columns of `schema`, in its types; `path` is where an error says that one is missing."""
    if missing := [name for name in schema.names if name not in table.column_names]:
        raise TableError(
            f"{path} lacks the column {', '.join(map(repr, missing))}; "
            f"it has {', '.join(table.column_names)}"
        )
    try:
        return table.select(schema.names).cast(arrow_schema(schema))
    except pa.ArrowException:
        raise TableError(f"{path}: {_misfit(table, arrow_schema(schema))}") from None


def _misfit(table: pa.Table, schema: pa.Schema) -> str:
    """The first column that cannot have its type, in words."""
    for field in schema:
        column = table.column(field.name)
        try:
            column.cast(field.type)
        except pa.ArrowException:
            return f"column {field.name!r} is {column.type}, not {field.type}"
    return "is not of the columns' types"


def write_part(table: pa.Table, path: Path) -> None:
    """Write a table as Spark would: a folder with one part."""
    path.mkdir()
    pq.write_table(table, path / "part-00000.parquet")
