"""Checks Parquet files before they are read, which takes milliseconds and no Java.

A file that is cut off, or no Parquet at all, is detected by its end, where Parquet has its
metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above


class ParquetError(ValueError):
    """A file that is no Parquet; the message names it."""


def check_parquet(path: Path) -> None:
    """ParquetError for the first file at `path`, or in the folder `path`, that is no Parquet."""
    for file in part_files(path):
        try:
            pq.read_metadata(file)
        except (OSError, pa.ArrowException) as error:
            reason = "it is empty" if not file.stat().st_size else str(error).partition("\n")[0]
            beside = "; mend it or move it away" if path.is_dir() else ""
            raise ParquetError(f"{file} is not a Parquet file{beside} ({reason})") from None


def part_files(path: Path) -> Iterator[Path]:
    """The files that make a table: those that Spark would read, in their order."""
    if not path.is_dir():
        yield path
        return
    for file in sorted(path.rglob("*")):
        hidden = any(part.startswith(("_", ".")) for part in file.relative_to(path).parts)
        if file.is_file() and not hidden:
            yield file
