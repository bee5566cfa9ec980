"""Tables of Spark, written into a folder that comes into being whole (`shoal.frames.folders`).

Spark's tasks write a table's files where they run, and the driver then moves them to their place as
it sees them. On a disk that the two do not share there is nothing to move, and Spark reports no
error: so `write_table` first asks the workers whether they see the folder, and at the end compares
the rows that Spark wrote with those of the files that are there.

Reading names the missing file or column instead of letting Spark's own words through.
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that every Spark user reads
from pyspark.sql.types import StructType

from shoal.frames.compaction import rows_in
from shoal.frames.errors import TableError
from shoal.pipeline.session import is_local

# Rows of the job that asks workers what they see: Spark spreads it over all cores that it has.
_ASKED = 1_000
_ROWS = "rows"
# Spark counts with the job, and tells right after it.
_TOLD_WITHIN_S = 60.0


def spark_path(path: Path) -> str:
    """Return a path as Spark on this machine or another understands it: from the root."""
    return str(path.absolute())


def write_table(table: DataFrame, path: Path) -> None:
    """Write a table below, or as, a folder that `new_folder` gave.

    TableError if the workers do not see that folder, or if rows that they wrote are not there.
    """
    before = rows_in(path)
    check_is_shared(table.sparkSession, path)
    observed = Observation()
    counted = table.observe(observed, F.count(F.lit(1)).alias(_ROWS))
    counted.write.mode("append").parquet(spark_path(path))
    written, there = _rows_of(observed), rows_in(path) - before
    if written is not None and written != there:
        raise TableError(
            f"{path}: Spark's workers wrote {written:,} rows, but {there:,} are there; {_SHARED}"
        )


def _rows_of(observed: Observation) -> int | None:
    """Return the rows that Spark counted; None if an overloaded Spark dropped the message."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(observed.get[_ROWS]), daemon=True)
    thread.start()
    thread.join(_TOLD_WITHIN_S)
    return found[0] if found else None


_SHARED = (
    "give a folder on a disk that this machine and all workers share, under one name, or let "
    "--master 'local[*]' work on this machine alone"
)


def check_is_shared(spark: SparkSession, path: Path) -> None:
    """TableError if a worker does not see the folder `path`, or the one that it is to be in."""
    if is_local(spark):
        return
    place = path.absolute()
    folder = next(each for each in (place, *place.parents) if each.is_dir())
    token = folder / f".shoal-{secrets.token_hex(8)}"
    name, here = str(token), socket.gethostname()

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            if not Path(name).exists():
                yield pa.record_batch({"host": pa.array([socket.gethostname()], pa.string())})

    token.touch()
    try:
        blind = spark.range(_ASKED).mapInArrow(look, "host string").distinct().collect()
    finally:
        token.unlink()
    if blind:
        hosts = ", ".join(sorted(row[0] for row in blind))
        raise TableError(
            f"{path} is on a disk of this machine ({here}), which Spark's workers ({hosts}) do not "
            f"see: their rows would be lost; {_SHARED}"
        )


def write_small_table(table: DataFrame, path: Path, *order: str) -> None:
    """Write a table that fits one file (a row per broker, say) as a folder with one part.

    Rows are sorted by the columns of `order`, if given: in the one part, which spares Spark the
    second pass over everything that a sort over many parts needs.
    """
    one = table.repartition(1).sortWithinPartitions(*order) if order else table.coalesce(1)
    write_table(one, path)


def read_table(spark: SparkSession, path: Path, schema: StructType) -> DataFrame:
    """The columns of `schema` from the table at `path`; TableError names a missing column.

    Number columns may be stored in any width; they come back in the schema's type.
    """
    if not path.exists():
        raise TableError(f"{path} does not exist")
    try:
        table = spark.read.parquet(spark_path(path))
        columns = table.columns
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise TableError(f"{path} cannot be read as a Parquet table: {reason}") from error
    missing = [field.name for field in schema if field.name not in columns]
    if missing:
        raise TableError(
            f"{path} lacks the column {', '.join(map(repr, missing))}; it has {', '.join(columns)}"
        )
    return table.select(*(F.col(field.name).cast(field.dataType) for field in schema))
