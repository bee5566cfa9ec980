"""What a Parquet file's columns are, looked at before Spark, which names neither file nor column.

Times in nanoseconds are what pandas writes by default; Spark reads them only as integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.frames.parquet_files import check_parquet, part_files
from shoal.pipeline.sources.headers import SourceError

# With it Spark takes a time in nanoseconds since 1970 for an integer, not for an error.
NANOSECONDS_AS_INTEGERS = "spark.sql.legacy.parquet.nanosAsLong"


def nanosecond_columns(files: Sequence[Path], needed: Sequence[str]) -> dict[str, bool]:
    """Which of the `needed` columns hold times in nanoseconds; of each, whether they tell a zone.

    SourceError for a column whose values no text, number, truth value or time can be, or that is
    there twice; ParquetError for a file that is no Parquet.
    """
    found: dict[str, bool] = {}
    for path in files:
        check_parquet(path)
        for file in part_files(path):
            schema = pq.read_schema(file)
            for name in needed:
                places = schema.get_all_field_indices(name)
                if len(places) > 1:
                    raise SourceError(f"{file}: there are two columns {name!r}")
                if places and _is_in_nanoseconds(file, schema.field(places[0])):
                    found[name] = schema.field(name).type.tz is not None
    return found


def _is_in_nanoseconds(file: Path, field: pa.Field) -> bool:
    kind = field.type
    if pa.types.is_nested(kind) or pa.types.is_float16(kind):
        raise SourceError(
            f"{file}: column {field.name!r} is {kind}; ingest takes text, numbers, booleans and "
            "times: cast the column, or take a field of it, first"
        )
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")
