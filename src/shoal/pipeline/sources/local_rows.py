"""The same tables as `publications.py` without Spark, since Spark's start alone takes longer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.frames.packed_files import is_gzip
from shoal.frames.parquet_files import check_parquet, part_files
from shoal.pipeline.schemas import ATTRIBUTES, REJECTED_TEXT_CHARACTERS, REPEATS, arrow_schema
from shoal.pipeline.sources.declaration import Mapping
from shoal.pipeline.sources.json_lines import kind_of
from shoal.pipeline.sources.raw_rows import Source
from shoal.pipeline.sources.row_parser import RowParser

# Above these Spark's many cores are worth its start.
MOST_BYTES = 100_000_000
MOST_ROWS = 2_000_000


def are_small(files: Sequence[Path]) -> bool:
    """Return whether the files, which are of one kind, are together small."""
    if kind_of(files) == "Parquet":
        parts = [part for path in files for part in part_files(path)]
        for path in files:
            check_parquet(path)
        is_small = sum(file.stat().st_size for file in parts) <= MOST_BYTES
        return is_small and sum(pq.read_metadata(file).num_rows for file in parts) <= MOST_ROWS
    # A compressed file unpacks to some ten times its size.
    sizes = (file.stat().st_size * (10 if is_gzip(file) else 1) for file in files)
    return all(file.is_file() for file in files) and sum(sizes) <= MOST_BYTES


def local_rows(source: Source, parser: RowParser) -> pa.Table:
    """All rows of a source, as `RowParser` gives them, `line` counted in the file."""
    batches: list[pa.RecordBatch] = []
    lines = 0
    for split in source.splits:
        before = lines = lines if split.start else 0
        for raw in source.read(split):
            rows = parser.parse(raw, split.name)
            batches.append(rows.set_column(1, "line", pc.add(rows["line"], before)))
            lines = before + raw.seen
    return pa.Table.from_batches(batches, parser.schema).combine_chunks()


def local_publications(rows: pa.Table, mapping: Mapping) -> pa.Table:
    """The rows that are publications: publisher, sequence, time_us, attributes."""
    kept = _kept(rows)
    ranks = np.asarray(pc.rank(kept["publisher"], tiebreaker="dense"))
    # Where each publisher's rows begin.
    first = np.searchsorted(ranks, ranks)
    return pa.table(
        {
            "publisher": kept["publisher"],
            "sequence": pa.array(np.arange(len(kept)) - first, pa.int64()),
            "time_us": kept["time_us"],
            ATTRIBUTES: _attributes(kept, mapping),
        }
    )


def local_rejects(rows: pa.Table) -> pa.Table:
    """The rows that are not, by file and line: file, line, reason, text."""
    refused = rows.filter(rows["reason"].is_valid()).sort_by(_ascending("file", "line"))
    return refused.select(["file", "line", "reason"]).append_column("text", _cut(refused["text"]))


def local_repeats(rows: pa.Table, mapping: Mapping) -> pa.Table:
    """Return publications that repeat an earlier row, of one publisher at one time, with that row.

    They are publications all the same.
    """
    kept = _kept(rows)
    values = _attributes(kept, mapping).combine_chunks().flatten()
    # Arrow tells -0.0 from 0.0.
    values = [pc.add(each, 0.0) if pa.types.is_floating(each.type) else each for each in values]
    keys = [kept["publisher"], kept["time_us"], *values]
    names = [f"key{place}" for place in range(len(keys))]
    table = pa.table([*keys, pa.array(np.arange(len(kept)))], names=[*names, "row"])
    groups = table.group_by(names, use_threads=False).aggregate([("row", "list"), ("row", "min")])
    lists = groups["row_list"].combine_chunks()
    firsts = groups["row_min"].take(pc.list_parent_indices(lists))
    alike = pc.list_flatten(lists)
    again = pc.not_equal(alike, firsts)
    later, first = kept.take(alike.filter(again)), kept.take(firsts.filter(again))
    found = pa.table(
        [later["file"], later["line"], first["file"], first["line"], _cut(later["text"])],
        schema=arrow_schema(REPEATS),
    )
    return found.sort_by(_ascending("file", "line"))


def _kept(rows: pa.Table) -> pa.Table:
    kept = rows.filter(rows["reason"].is_null())
    return kept.sort_by(_ascending("publisher", "time_us", "file", "line"))


def _ascending(*names: str) -> list[tuple[str, str]]:
    return [(name, "ascending") for name in names]


def _attributes(kept: pa.Table, mapping: Mapping) -> pa.ChunkedArray:
    names = mapping.published
    columns = [pc.struct_field(kept["columns"], [name]).combine_chunks() for name in names]
    return pa.chunked_array([pa.StructArray.from_arrays(columns, list(names))])


def _cut(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.utf8_slice_codeunits(texts, 0, REJECTED_TEXT_CHARACTERS)
