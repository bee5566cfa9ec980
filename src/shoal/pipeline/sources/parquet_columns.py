"""Checks and reads the columns of Parquet files; an error names file and column."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.frames.parquet_files import check_parquet, part_files
from shoal.frames.parquet_folders import folder_values
from shoal.frames.spelling import did_you_mean
from shoal.pipeline.sources.headers import SourceError
from shoal.pipeline.sources.splits import FileSplit

BATCH_ROWS = 20_000
_TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
)
_REFUSED = (
    pa.types.is_nested,
    pa.types.is_float16,
    pa.types.is_time,
    pa.types.is_duration,
    pa.types.is_fixed_size_binary,
    pa.types.is_decimal256,
)


def path_of(schema: pa.Schema | pa.StructType, name: str) -> list[str] | None:
    """Return the path of a column: its own name, or a field within structs, `position.lat`.

    >>> position = pa.struct([("lat", pa.float64())])
    >>> path_of(pa.schema([("position", position)]), "position.lat")
    ['position', 'lat']
    """
    if name in schema.names:
        return [name]
    first, dot, rest = name.partition(".")
    if not dot or first not in schema.names:
        return None
    kind = schema.field(first).type
    within = path_of(_Fields(kind), rest) if pa.types.is_struct(kind) else None
    return None if within is None else [first, *within]


class _Fields:
    """A struct's fields, found as a schema's are."""

    def __init__(self, kind: pa.StructType) -> None:
        self.names = [kind.field(place).name for place in range(kind.num_fields)]
        self.field = kind.field


def check_columns(file: Path, schema: pa.Schema, needed: Sequence[str]) -> None:
    """SourceError for a column that is missing, is there twice, or has values that are no text,
    number, truth value or time.
    """
    if missing := [name for name in needed if path_of(schema, name) is None]:
        raise SourceError(lacks(file, missing, schema.names))
    for name in needed:
        kind = kind_of_column(file, schema, name)
        if any(is_refused(kind) for is_refused in _REFUSED):
            raise SourceError(
                f"{file}: column {name!r} is {kind}; ingest takes text, numbers, booleans, "
                f"times and fields of structs ({name}.FIELD): cast the column first"
            )


def lacks(file: Path, missing: Sequence[str], names: Sequence[str]) -> str:
    """Return the message about columns that a table lacks."""
    near = did_you_mean(missing[0], list(names))
    return (
        f"{file}: no column {', '.join(map(repr, missing))}{near if '?' in near else ''}; "
        f"the table has {', '.join(map(repr, names))}"
    )


def kind_of_column(file: Path, schema: pa.Schema, name: str) -> pa.DataType:
    """A column's type; SourceError if there are two of that name."""
    first, *rest = path_of(schema, name) or [name]
    if len(schema.get_all_field_indices(first)) > 1:
        raise SourceError(f"{file}: there are two columns {first!r}")
    kind = schema.field(first).type
    for part in rest:
        kind = kind.field(part).type
    return kind


def check_tables(files: Sequence[Path], needed: Sequence[str]) -> None:
    """SourceError for a column that `check_columns` refuses, or that no file of a table has;
    ParquetError for a file that is no Parquet.

    The names of folders are columns, too.
    """
    for root in files:
        check_parquet(root)
        found: set[str] = set()
        names: dict[str, None] = {}
        for file in part_files(root):
            schema = pq.read_schema(file)
            within = [name for name in needed if path_of(schema, name) is not None]
            check_columns(file, schema, within)
            folders = folder_values(root, file)
            found.update(within, folders)
            names |= dict.fromkeys([*schema.names, *folders])
        if missing := [name for name in needed if name not in found]:
            raise SourceError(lacks(root, missing, list(names)))


class ParquetColumns:
    """Reads the `needed` columns of a split: texts, numbers, truth values, dates, and times in
    microseconds; a column that only other files of the folder have is null.

    The folders' names are texts, those of the columns `dates` are dates.
    """

    def __init__(self, split: FileSplit, needed: Sequence[str], dates: Container[str]) -> None:
        self._split = split
        self._needed = needed
        self._dates = dates
        self._folders = folder_values(split.root, split.file)

    def batches(self) -> Iterator[tuple[dict[str, pa.Array], pa.Array]]:
        """Yield the columns of some rows, and the rows as JSON without missing values."""
        start, end = self._split.start, self._split.end
        with pq.ParquetFile(self._split.file) as opened:
            paths = {name: path_of(opened.schema_arrow, name) for name in self._needed}
            for batch in opened.iter_batches(
                BATCH_ROWS,
                range(start, opened.num_row_groups if end is None else end),
                sorted({path[0] for path in paths.values() if path is not None}),
            ):
                columns = {name: self._column(batch, name, path) for name, path in paths.items()}
                yield columns, json_rows(columns)

    def _column(self, batch: pa.RecordBatch, name: str, path: list[str] | None) -> pa.Array:
        if path is not None:
            return column_at(batch, path)
        said = pa.scalar(self._folders.get(name) or None, pa.string())
        return pa.repeat(said.cast(pa.date32()) if name in self._dates else said, len(batch))


def column_at(batch: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    """The column at a path of `path_of`, in one type for each meaning."""
    column = batch.column(path[0])
    for part in path[1:]:
        column = pc.struct_field(column, [part])
    return plain(column)


def plain(column: pa.Array) -> pa.Array:
    """A column without a dictionary, in one type for each meaning.

    >>> plain(pa.array([-1, 1999], pa.timestamp("ns"))).cast(pa.int64()).to_pylist()
    [-1, 1]
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return plain(column.dictionary_decode())
    if _is_text(kind):
        return column.cast(pa.string())
    if pa.types.is_uint64(kind):
        return column.cast(pa.decimal128(20, 0))
    if pa.types.is_date64(kind):
        return column.cast(pa.date32())
    if not pa.types.is_timestamp(kind):
        return column
    if kind.unit == "ns":
        parts = column.cast(pa.int64()).fill_null(0).to_numpy() // 1_000
        whole = pa.array(parts, mask=np.asarray(column.is_null()))
        return whole.cast(pa.timestamp("us", kind.tz))
    return column.cast(pa.timestamp("us", kind.tz))


def _is_text(kind: pa.DataType) -> bool:
    """Return whether the values are text, however Arrow keeps it; old writers call it binary."""
    return any(is_kind(kind) for is_kind in _TEXTS)


def json_rows(columns: dict[str, pa.Array]) -> pa.Array:
    """Rows as JSON, without their missing values."""
    names = list(columns)
    values = [
        (column.cast(pa.string()) if pa.types.is_temporal(column.type) else column).to_pylist()
        for column in columns.values()
    ]
    encode = msgspec.json.Encoder().encode
    rows = [
        encode({name: value for name, value in zip(names, row, strict=True) if value is not None})
        for row in zip(*values, strict=True)
    ]
    return pa.array(rows, pa.binary()).cast(pa.string())
