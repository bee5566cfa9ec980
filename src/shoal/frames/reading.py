"""Parquet and CSV files as tables in memory: columns as they are.

The ending of the name decides: a folder or `.parquet` is Parquet, `.csv` (or `.csv.gz`) is CSV with
a header, whose columns get the type that all their values have: integers, doubles, booleans, else
text (dates stay the text that they are).  An empty field of a CSV is a null.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.csv as pc  # type: ignore[import-untyped]  # as above
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.frames.errors import TableError
from shoal.frames.parquet_files import check_parquet, part_files

# What counts as a boolean; others beside these are texts.
_TRUE, _FALSE = ["true", "True", "TRUE"], ["false", "False", "FALSE"]


def read_table_file(path: Path, *, inside: str) -> pa.Table:
    """The table at `path`, or the one called `inside` in the folder `path`; TableError if none.

    ParquetError names a file that is not Parquet.
    """
    if not path.exists():
        raise TableError(f"{path} does not exist")
    if path.is_dir() and (path / inside).exists():
        path = path / inside
    if path.is_dir() or path.suffix == ".parquet":
        return _read_parquet(path)
    return _read_csv(path)


def _read_parquet(path: Path) -> pa.Table:
    check_parquet(path)
    tables = [pq.ParquetFile(file).read() for file in part_files(path)]
    if not tables:
        raise TableError(f"{path} has no Parquet file")
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise TableError(f"{path}: files of different columns: {error}") from None


def _read_csv(path: Path) -> pa.Table:
    types: dict[str, pa.DataType] = {}
    try:
        table = _parse_csv(path, types)
        # Dates and times are the text that they are in the file.
        types = {each.name: pa.string() for each in table.schema if _is_other(each.type)}
        return _parse_csv(path, types) if types else table
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"{path}: not a CSV file: {error}") from None


def _parse_csv(path: Path, types: dict[str, pa.DataType]) -> pa.Table:
    return pc.read_csv(
        path,
        parse_options=pc.ParseOptions(newlines_in_values=True),
        convert_options=pc.ConvertOptions(
            column_types=types,
            null_values=[""],
            true_values=_TRUE,
            false_values=_FALSE,
            strings_can_be_null=True,
            timestamp_parsers=[],
        ),
    )


def _is_other(kind: pa.DataType) -> bool:
    plain = (pa.types.is_null, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    return not (any(is_plain(kind) for is_plain in plain) or pa.types.is_string(kind))
