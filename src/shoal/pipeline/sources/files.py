"""Columns of folders' names as Spark has them, for tables of Parquet that Spark reads itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from shoal.frames.parquet_files import part_files
from shoal.frames.parquet_folders import NO_VALUE, FolderColumn, folder_columns


class FolderText(NamedTuple):
    """A column of folders' names, as text; and its known properties."""

    text: Column
    column: FolderColumn


def read_parquet(
    spark: SparkSession, files: Sequence[Path]
) -> tuple[DataFrame, dict[str, FolderText]]:
    """The columns of Parquet files or folders, with `_metadata`; and those that are folders' names.

    Spark would make numbers of `code=01001`, and reads escaped characters as Latin-1.
    """
    folders: dict[str, FolderColumn] = {}
    for file in files:
        for name, column in folder_columns(file).items():
            folders.setdefault(name, column).values.update(column.values)
    table = spark.read.parquet(*(str(file) for file in files))
    if not folders:
        return table.select("*", "_metadata"), {}
    parts = (part for file in files for part in part_files(file))
    within = {name for part in parts for name in pq.read_schema(part).names}
    kept = [F.col(_quoted([name])) for name in table.columns if name in within]
    path = _plain_path("_metadata.file_path")
    texts = {name: FolderText(_folder_text(path, each), each) for name, each in folders.items()}
    return table.select(*kept, "_metadata"), texts


def _folder_text(path: Column, column: FolderColumn) -> Column:
    """Return the value of the folder `name=…`, as `folder_values` does."""
    said = F.regexp_extract(path, f".*/{re.escape(column.raw_name)}=([^/]*)/", 1)
    text = F.coalesce(F.try_url_decode(F.replace(said, F.lit("+"), F.lit("%2B"))), said)
    return F.when((said != "") & (said != NO_VALUE), text)


def _quoted(path: Sequence[str]) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in path)


def _plain_path(column: str) -> Column:
    # Spark gives a URI: file:/a%20b.csv.  A plus sign stands for itself there.
    encoded = F.regexp_replace(F.col(column), r"\+", "%2B")
    return F.url_decode(F.regexp_replace(encoded, "^file:/+", "/"))
