"""Checks a Parquet file's columns before Spark reads them, since Spark's errors name neither file
nor column.

pandas writes times in nanoseconds by default; Spark reads them only as integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.frames.parquet_files import check_parquet, part_files
from shoal.frames.spelling import did_you_mean
from shoal.pipeline.sources.headers import SourceError

# With it Spark takes a time in nanoseconds since 1970 for an integer, not for an error.
NANOSECONDS_AS_INTEGERS = "spark.sql.legacy.parquet.nanosAsLong"


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
        if pa.types.is_nested(kind) or pa.types.is_float16(kind):
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


def nanosecond_columns(files: Sequence[Path], needed: Sequence[str]) -> dict[str, bool]:
    """Return those of the `needed` columns that hold times in nanoseconds, each with True if they
    have a zone.

    SourceError for a column that `check_columns` refuses; ParquetError for a file that is no
    Parquet.
    """
    found: dict[str, bool] = {}
    for path in files:
        check_parquet(path)
        for file in part_files(path):
            schema = pq.read_schema(file)
            there = [name for name in needed if path_of(schema, name) is not None]
            check_columns(file, schema, there)
            for name in there:
                kind = kind_of_column(file, schema, name)
                if pa.types.is_timestamp(kind) and kind.unit == "ns":
                    found[name] = kind.tz is not None
    return found


def check_tables(files: Sequence[Path], needed: Sequence[str]) -> None:
    """The same errors, and one for a column that a file lacks; folders may be columns, too."""
    nanosecond_columns(files, needed)
    for path in files:
        if path.is_file():
            check_columns(path, pq.read_schema(path), needed)
