"""The same tables as `publications.py` without Spark, since Spark's start alone takes longer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.frames.packed_files import is_gzip
from shoal.frames.parquet_files import check_parquet, part_files
from shoal.pipeline.schemas import (
    ATTRIBUTES,
    REJECTED_TEXT_CHARACTERS,
    REJECTS,
    REPEATS,
    arrow_schema,
)
from shoal.pipeline.sources.declaration import Mapping
from shoal.pipeline.sources.json_lines import kind_of
from shoal.pipeline.sources.raw_rows import RowSource
from shoal.pipeline.sources.row_parser import RowParser

# Above these Spark's many cores are worth its start.
MOST_BYTES = 64_000_000
MOST_ROWS = 2_000_000
_ORDER = ("publisher", "time_us", "file", "line")


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


def local_rows(source: RowSource, parser: RowParser) -> pa.Table:
    """All rows of a source, as `RowParser` gives them, `line` counted in the file."""
    batches: list[pa.RecordBatch] = []
    lines = 0
    for split in source.splits:
        before = lines = lines if split.start else 0
        for raw in source.read(split):
            rows = parser.parse(raw, split.name)
            batches.append(rows.set_column(1, "line", pc.add(rows["line"], before)))
            lines = before + raw.seen
    return pa.Table.from_batches(batches, parser.schema)


class LocalTables(NamedTuple):
    """The tables of an ingest, as `publications.py` describes them."""

    publications: pa.Table
    rejects: pa.Table
    repeats: pa.Table


def local_tables(rows: pa.Table, mapping: Mapping) -> LocalTables:
    """Make the tables of what `local_rows` gave."""
    numbered = rows.append_column("row", pa.array(np.arange(len(rows))))
    is_kept = rows["reason"].is_null()
    # Without texts, which would be moved about.
    kept = numbered.select([*_ORDER, "columns", "row"]).filter(is_kept).sort_by(_ascending(_ORDER))
    columns = [
        pc.struct_field(kept["columns"], [name]).combine_chunks() for name in mapping.published
    ]
    attributes = pa.StructArray.from_arrays(columns, list(mapping.published))
    refused = rows.filter(pc.invert(is_kept)).sort_by(_ascending(("file", "line")))
    return LocalTables(
        pa.table(
            {
                "publisher": kept["publisher"],
                "sequence": _sequences(kept["publisher"]),
                "time_us": kept["time_us"],
                ATTRIBUTES: attributes,
            }
        ),
        pa.table(
            [*(refused[name] for name in ("file", "line", "reason")), _cut(refused["text"])],
            schema=arrow_schema(REJECTS),
        ),
        _repeats(kept, columns, rows["text"]),
    )


def _sequences(publishers: pa.ChunkedArray) -> pa.Array:
    """Each publisher's from 0; the publishers are sorted."""
    ranks = np.asarray(pc.rank(publishers, tiebreaker="dense"))
    # The places at which publishers' rows begin.
    first = np.searchsorted(ranks, ranks)
    return pa.array(np.arange(len(ranks)) - first, pa.int64())


def _repeats(kept: pa.Table, columns: Sequence[pa.Array], texts: pa.ChunkedArray) -> pa.Table:
    # Arrow tells -0.0 from 0.0.
    values = [pc.add(each, 0.0) if pa.types.is_floating(each.type) else each for each in columns]
    keys = [kept["publisher"], kept["time_us"], *values]
    names = [f"key{place}" for place in range(len(keys))]
    table = pa.table([*keys, pa.array(np.arange(len(kept)))], names=[*names, "place"])
    groups = table.group_by(names, use_threads=False).aggregate([("place", "list")])
    lists = groups["place_list"].combine_chunks()
    lists = lists.filter(pc.greater(pc.list_value_length(lists), 1))
    # The rows of a group are in order of file and line.
    firsts = pc.list_element(lists, 0).take(pc.list_parent_indices(lists))
    alike = pc.list_flatten(lists)
    again = pc.not_equal(alike, firsts)
    later, first = kept.take(alike.filter(again)), kept.take(firsts.filter(again))
    said = _cut(texts.take(later["row"]))
    found = [later["file"], later["line"], first["file"], first["line"], said]
    return pa.table(found, schema=arrow_schema(REPEATS)).sort_by(_ascending(("file", "line")))


def _ascending(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, "ascending") for name in names]


def _cut(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.utf8_slice_codeunits(texts, 0, REJECTED_TEXT_CHARACTERS)
