"""Splits files into parts that tasks read apart: ranges of bytes, or row groups of Parquet.

Spark's tasks read a split each; without Spark one loop reads them all.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types

from shoal.frames.packed_files import is_gzip, unpacking
from shoal.frames.parquet_files import part_files
from shoal.frames.table_places import named
from shoal.pipeline.sources.headers import SourceError

# Bytes of text, and rows of Parquet, in one split: some seconds of work, so that progress shows.
SPLIT_BYTES = 16 * 1024 * 1024
SPLIT_ROWS = 500_000
# Bytes of text that are parsed at once.
_CHUNK_BYTES = 4 * 1024 * 1024


class FileSplit(NamedTuple):
    """The lines that begin in the bytes, or the row groups, from `start` until before `end`.

    `root` is the file, or folder of Parquet, that was named, `name` stands for the file in tables.
    Paths are absolute: a worker has a folder of its own. Without an `end` it is all that follows.
    """

    root: Path
    file: Path
    name: str
    start: int = 0
    end: int | None = None


def text_splits(files: Sequence[Path], *, name: str = "") -> list[FileSplit]:
    """The splits of text files, in order; a packed file is one.

    `name` stands for a file that is only a temporary copy.
    """
    found = []
    for file in (each.absolute() for each in files):
        plain = name or named(str(file))
        if is_gzip(file):
            found.append(FileSplit(file, file, plain))
            continue
        starts = range(0, max(file.stat().st_size, 1), SPLIT_BYTES)
        found += [FileSplit(file, file, plain, start, start + SPLIT_BYTES) for start in starts]
    return found


def parquet_splits(files: Sequence[Path]) -> list[FileSplit]:
    """The splits of Parquet files, or of folders of them, in order."""
    found = []
    for root in (each.absolute() for each in files):
        for file in part_files(root):
            metadata = pq.read_metadata(file)
            start = rows = 0
            for group in range(metadata.num_row_groups):
                rows += metadata.row_group(group).num_rows
                if rows >= SPLIT_ROWS or group == metadata.num_row_groups - 1:
                    found.append(FileSplit(root, file, named(str(file)), start, group + 1))
                    start, rows = group + 1, 0
    return found


def whole_lines(split: FileSplit) -> Iterator[bytes]:
    """Yield the split's lines, many at a time; SourceError for a packed file that is damaged."""
    opener = gzip.open if is_gzip(split.file) else open
    with unpacking(split.file, SourceError), opener(split.file, "rb") as opened:
        if split.start:
            # The line that goes on here belongs to the split before.
            opened.seek(split.start - 1)
            opened.readline()
        while split.end is None or opened.tell() < split.end:
            most = _CHUNK_BYTES if split.end is None else split.end - opened.tell()
            chunk: bytes = opened.read(min(most, _CHUNK_BYTES))
            if not chunk:
                return
            yield chunk if chunk.endswith(b"\n") else chunk + opened.readline()
