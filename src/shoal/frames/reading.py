"""Parquet and CSV files as tables in memory: columns as they are.

The ending of the name decides: a folder or `.parquet` is Parquet, `.csv` (or `.csv.gz`) is CSV with
a header.  The names of folders in a folder, `code=01001`, are a column: of integers if all are such
without zeros in front, else of texts.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.frames.csv_files import read_csv
from shoal.frames.errors import TableError
from shoal.frames.parquet_files import ParquetError, check_parquet, part_files
from shoal.frames.parquet_folders import FolderColumn, folder_columns, folder_values


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
    folders = folder_columns(path)
    tables = [_read_part(path, file, folders) for file in part_files(path)]
    if not tables:
        raise TableError(f"{path} has no Parquet file")
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise TableError(f"{path}: files of different columns: {error}") from None


def _read_part(path: Path, file: Path, folders: dict[str, FolderColumn]) -> pa.Table:
    try:
        table = pq.ParquetFile(file).read()
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise ParquetError(f"{file} cannot be read ({reason}); mend it or move it away") from None
    # Tables of the same columns are put together by their names.
    _check_names(path, table)
    said = folder_values(path, file)
    for name, column in folders.items():
        if name not in table.column_names:
            text = pa.scalar(said.get(name) or None, pa.string())
            value = text.cast(pa.int64()) if column.has_integers else text
            table = table.append_column(name, pa.repeat(value, table.num_rows))
    return table


def _check_names(path: Path, table: pa.Table) -> None:
    repeated = [name for name, times in Counter(table.column_names).items() if times > 1]
    if repeated:
        raise TableError(f"{path}: there are two columns {repeated[0]!r}")
