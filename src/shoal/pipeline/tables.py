"""Tables of Spark, written into a folder that comes into being whole (`shoal.frames.folders`).

Reading names the missing file or column instead of letting Spark's own words through.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that every Spark user reads
from pyspark.sql.types import StructType

from shoal.frames.errors import TableError


def write_table(table: DataFrame, path: Path) -> None:
    """Write a table below, or as, a folder that `new_folder` gave."""
    table.write.mode("append").parquet(str(path))


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
        table = spark.read.parquet(str(path))
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise TableError(f"{path} cannot be read as a Parquet table: {reason}") from error
    missing = [field.name for field in schema if field.name not in table.columns]
    if missing:
        raise TableError(
            f"{path} lacks the column {', '.join(map(repr, missing))}; "
            f"it has {', '.join(table.columns)}"
        )
    return table.select(*(F.col(field.name).cast(field.dataType) for field in schema))
