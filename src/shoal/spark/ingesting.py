"""Ingest in a session: rows of files, or of any table that Spark reads, become publications."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import tomli_w
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from shoal.frames.errors import TableError
from shoal.pipeline.sources.declaration import Mapping as Declaration
from shoal.pipeline.sources.declaration import decode_mapping, load_mapping
from shoal.pipeline.sources.parquet_columns import (
    check_columns,
    column_at,
    json_rows,
    path_of,
)
from shoal.pipeline.sources.publications import (
    numbered_rows,
    parse_rows,
    publications,
    rejects,
    repeats,
    typed_rows,
)
from shoal.pipeline.sources.raw_rows import RawRows, open_source
from shoal.pipeline.sources.row_parser import RowParser
from shoal.spark.places import Place, check_prepared, local_path, read, session_of

MAPPING = "the mapping"


class Ingested(NamedTuple):
    """Three tables, computed when they are used, each from the input.

    publications  `publisher`, `sequence` (from 0, by event time), `time_us` (µs since 1970 UTC),
                  `attributes` (a struct with a field for each)
    rejects       `file`, `line`, `reason`, `text` of each row that is no publication
    repeats       `file`, `line`, `first_file`, `first_line`, `text` of publications that repeat an
                  earlier row
    """

    publications: DataFrame
    rejects: DataFrame
    repeats: DataFrame


def ingest(
    source: Place | Sequence[Place], mapping: str | os.PathLike[str] | Mapping[str, Any]
) -> Ingested:
    """Make publications of the rows of a table or of files, as a mapping says.

    `source` is a DataFrame, a table of the catalog, a URI or a path (`read`); or several paths.
    Paths are read as by `shoal ingest`: CSV, Parquet or JSON lines, also packed, with lines in
    `rejects`; of other tables `file` is the part that Spark gave a task, and `line` the row in it.
    `mapping` is a TOML file, or the same keys as a dictionary; its `[expect]` is left to the
    command. Every row is in `publications` or in `rejects`.

    MappingError for a fault of the mapping, SourceError for a column that is not there,
    SettingError in a session without the settings of `prepare`.
    """
    places = [source] if isinstance(source, DataFrame | str | os.PathLike) else list(source)
    spark = session_of(*places)
    check_prepared(spark, "ingest")
    declared, where = _declared(mapping)
    paths = [path for place in places if (path := local_path(place)) is not None]
    if len(paths) == len(places):
        files = open_source(paths, declared.file_columns, delimiter=declared.delimiter)
        rows = numbered_rows(parse_rows(spark, files, declared, where), files)
    elif len(places) == 1:
        rows = typed_rows(*_table_rows(read(places[0], spark=spark), declared, where)).drop("split")
    else:
        raise TableError("ingest: several inputs are files; unite other tables, and give the union")
    return Ingested(publications(rows), rejects(rows), repeats(rows))


def _declared(mapping: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[Declaration, str]:
    if isinstance(mapping, Mapping):
        return decode_mapping(tomli_w.dumps(mapping), MAPPING), MAPPING
    return load_mapping(Path(mapping)), str(mapping)


def _table_rows(
    table: DataFrame, mapping: Declaration, where: str
) -> tuple[DataFrame, RowParser, Declaration, str]:
    """The rows of a table as `typed_rows` takes them; a part of it stands for a file."""
    parser, needed = RowParser(mapping, where), list(mapping.file_columns)
    arrow = to_arrow_schema(table.schema, timezone="UTC")
    check_columns(Path("the table"), arrow, needed)
    paths = {name: path_of(arrow, name) or [] for name in needed}
    schema = parser.schema.insert(0, pa.field("split", pa.int64()))

    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        number, seen = context.partitionId() if context is not None else 0, 0
        for batch in batches:
            columns = {name: column_at(batch, path) for name, path in paths.items()}
            lines = pa.array(np.arange(seen + 1, seen + 1 + batch.num_rows))
            seen += batch.num_rows
            broken = pa.nulls(batch.num_rows, pa.string())
            raw = RawRows(lines, json_rows(columns), broken, columns, seen)
            rows = parser.parse(raw, f"part {number:05}")
            split = pa.array(np.full(rows.num_rows, number))
            yield pa.RecordBatch.from_arrays([split, *rows.columns], schema=schema)

    chosen = sorted({path[0] for path in paths.values()})
    # An input without columns would not tell how many rows it has.
    narrow = table.select(*(f"`{name.replace('`', '``')}`" for name in chosen)) if chosen else table
    return narrow.mapInArrow(parse, from_arrow_schema(schema)), parser, mapping, where
