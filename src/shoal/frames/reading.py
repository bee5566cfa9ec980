"""Parquet and CSV files as tables in memory: columns as they are.

The ending of the name decides: a folder or `.parquet` is Parquet, `.csv` (or `.csv.gz`) is CSV with
a header.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.frames.csv_files import read_csv
from shoal.frames.errors import TableError
from shoal.frames.parquet_files import ParquetError, check_parquet, part_files


def read_table_file(path: Path, *, inside: str) -> pa.Table:
    """The table at `path`, or the one called `inside` in the folder `path`; TableError if none.

    ParquetError names a file that is not Parquet.
    """
    if not path.exists():
        raise TableError(f"{path} does not exist")
    if path.is_dir() and (path / inside).exists():
        path = path / inside
    is_parquet = path.is_dir() or path.suffix == ".parquet"
    table = _read_parquet(path) if is_parquet else read_csv(path)
    _check_names(path, table)
    return table


def _read_parquet(path: Path) -> pa.Table:
    check_parquet(path)
    tables = [_read_part(path, file) for file in part_files(path)]
    if not tables:
        raise TableError(f"{path} has no Parquet file")
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise TableError(f"{path}: files of different columns: {error}") from None


def _read_part(path: Path, file: Path) -> pa.Table:
    try:
        table = pq.ParquetFile(file).read()
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise ParquetError(f"{file} cannot be read ({reason}); mend it or move it away") from None
    # Tables of the same columns are put together by their names.
    _check_names(path, table)
    return table


def _check_names(path: Path, table: pa.Table) -> None:
    repeated = [name for name, times in Counter(table.column_names).items() if times > 1]
    if repeated:
        raise TableError(f"{path}: there are two columns {repeated[0]!r}")
