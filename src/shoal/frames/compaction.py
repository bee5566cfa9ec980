"""Merges the small files of a folder of Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types

# Rows of a merged file; of pairs, which are two or three columns, some MB.
FILE_ROWS = 1_000_000


def rows_in(path: Path) -> int:
    """Return how many rows the Parquet files of a folder have together, by their footers."""
    files = path.glob("*.parquet") if path.is_dir() else ()
    return sum(pq.read_metadata(file).num_rows for file in files)


def compact(folder: Path, most: int = FILE_ROWS) -> None:
    """Merge neighbouring files while they have at most `most` rows together.

    Readers must not see the folder meanwhile. Rows keep the order of the files.
    """
    for group in _groups(folder, most):
        merged = folder / f"{group[0].stem}.merging"
        with pq.ParquetWriter(merged, pq.read_schema(group[0])) as writer:
            for file in group:
                with pq.ParquetFile(file) as opened:
                    for batch in opened.iter_batches():
                        writer.write_batch(batch)
        for file in group:
            file.unlink()
            # Spark's checksum of a file that is gone.
            (folder / f".{file.name}.crc").unlink(missing_ok=True)
        merged.rename(group[0])


def _groups(folder: Path, most: int) -> Iterator[list[Path]]:
    """Yield neighbours that become one file."""
    group: list[Path] = []
    rows = 0
    for file in sorted(folder.glob("*.parquet")):
        number = pq.read_metadata(file).num_rows
        if group and rows + number > most:
            if len(group) > 1:
                yield group
            group, rows = [], 0
        group.append(file)
        rows += number
    if len(group) > 1:
        yield group
