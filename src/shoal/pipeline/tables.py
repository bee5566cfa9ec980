"""Tables come into being whole: written beside their place, then moved into it.

`new_folder` gives a temporary folder next to the wanted one and renames it at the end of the
block; an interrupted or failed block leaves nothing behind and keeps what was there before.
Reading names the missing file or column instead of letting Spark's own words through.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that every Spark user reads
from pyspark.sql.types import StructType

# The one table whose name in a workload's folder has no ending.
EVENTS = "events"


class TableError(ValueError):
    """A table that is missing, in the way, or not of the shape that is needed."""


@contextlib.contextmanager
def new_folder(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to fill, which becomes `target` when the block ends without an error.

    What `overwrite` replaces must be a folder of tables: a mistyped name costs nobody their files.
    """
    if target.exists() and not overwrite:
        raise TableError(f"{target} exists already; give another place, or --overwrite")
    if target.exists() and not _holds_only_tables(target):
        raise TableError(f"{target} holds other files than tables; give another place")
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        filled = work / "new"
        filled.mkdir()
        yield filled
        if target.exists():
            target.rename(work / "old")
        filled.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _holds_only_tables(folder: Path) -> bool:
    return folder.is_dir() and all(
        child.suffix == ".parquet" or child.name == EVENTS or child.name.startswith(("_", "."))
        for child in folder.iterdir()
    )


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
    """The columns of `schema` from the table at `path`; TableError names what is missing.

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
