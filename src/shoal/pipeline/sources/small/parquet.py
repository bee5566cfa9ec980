"""Small Parquet files as rows, by Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.frames.parquet_files import check_parquet, part_files
from shoal.frames.parquet_folders import folder_values
from shoal.pipeline.small.tables import NeedsSparkError
from shoal.pipeline.sources.declaration import Mapping
from shoal.pipeline.sources.headers import SourceError
from shoal.pipeline.sources.parquet_columns import check_columns, lacks, path_of
from shoal.pipeline.sources.small.rows import Parsed, SourceRow

# Spark needs some seconds for so many rows; Arrow unpacks columns that take little room on disk.
MOST_ROWS = 300_000
_US_PER = {"s": 1_000_000, "ms": 1_000, "us": 1}


def rows_of(path: Path) -> int:
    """Return how many rows there are in a file, or a folder of them; ParquetError for no
    Parquet.
    """
    check_parquet(path)
    return sum(pq.read_metadata(file).num_rows for file in part_files(path))


def parse_parquet(path: Path, mapping: Mapping) -> Iterator[Parsed]:
    """The rows of a file, or of a folder of files that have the same columns."""
    needed = mapping.file_columns
    files = list(part_files(path))
    schemas = [pq.read_schema(file) for file in files]
    if any(not schema.equals(schemas[0]) for schema in schemas):
        raise NeedsSparkError
    for file, schema in zip(files, schemas, strict=True):
        folders = folder_values(path, file)
        within = [name for name in needed if path_of(schema, name) is not None]
        if missing := [name for name in needed if name not in within and name not in folders]:
            raise SourceError(lacks(file, missing, [*schema.names, *folders]))
        check_columns(file, schema, within)
        yield from _parse_file(file, schema, mapping, folders)


def _parse_file(
    file: Path, schema: pa.Schema, mapping: Mapping, folders: dict[str, str]
) -> Iterator[Parsed]:
    """The rows of a file in `folders` that say this."""
    needed = mapping.file_columns
    paths = {name: path for name in needed if (path := path_of(schema, name)) is not None}
    table = pq.ParquetFile(file).read(columns=sorted({first for first, *_ in paths.values()}))
    columns = {}
    for name in needed:
        if name not in paths:
            columns[name] = pa.chunked_array([pa.repeat(folders[name], table.num_rows)])
            continue
        first, *rest = paths[name]
        column = table.column(first)
        for part in rest:
            column = pa.chunked_array(
                [pc.struct_field(chunk, [part]) for chunk in column.chunks],
                column.type.field(part).type,
            )
        columns[name] = _plain(column)
    row = SourceRow(
        mapping,
        {name: place for place, name in enumerate(needed)},
        {name: column.type for name, column in columns.items()},
    )
    time = str(mapping.time.column)
    shown = [(name, _shown(column).to_pylist()) for name, column in columns.items()]
    fields = [
        [
            "" if value is None or value != value else value  # NaN is missing, too
            for value in _values(column, is_time=name == time)
        ]
        for name, column in columns.items()
    ]
    name = str(file.absolute())
    for line, said in enumerate(zip(*fields, strict=True), 1):
        text = _text({column: values[line - 1] for column, values in shown})
        yield row.parse(name, line, text, said)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without a dictionary."""
    kind = column.type
    return column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column


def _values(column: pa.ChunkedArray, *, is_time: bool) -> list[Any]:
    """A column's values; of the time's column µs since 1970, nanoseconds rounded down."""
    kind = column.type
    if is_time and pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    elif is_time and pa.types.is_timestamp(kind):
        times = column.cast(pa.int64()).to_pylist()
        scale, parts = (1, 1_000) if kind.unit == "ns" else (_US_PER[kind.unit], 1)
        return [None if time is None else time * scale // parts for time in times]
    return list(column.to_pylist())


def _shown(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """As JSON can say it: a time as text."""
    kind = column.type
    return column.cast(pa.string()) if pa.types.is_temporal(kind) else column


def _text(values: dict[str, Any]) -> str:
    """Return a row as JSON, without missing values."""
    said = {name: value for name, value in values.items() if value is not None}
    return msgspec.json.encode(said).decode()
