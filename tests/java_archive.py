"""An archive of the classes that Spark loads, which each Java of the tests maps into memory.

Loading and checking classes is two fifths of a short Spark's processor time, and the tests start
some twenty. `make test` makes the archive once: `python -m tests.java_archive`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

from shoal.pipeline.java import JavaNotFoundError, find_java

OPTIONS = "SPARK_SUBMIT_OPTS"
_MAPS = "-XX:SharedArchiveFile"
# Jobs of a second do not repay Java's second compiler, nor several threads that collect garbage.
LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Compiled code has 48 MB by default: in a long run it was thrown out, and compiled again.
ROOM_FOR_CODE = "-XX:ReservedCodeCacheSize=240m"


def quick_java(*more: str) -> str:
    """Options of a Java that does little, with those that this process was started with."""
    return " ".join([os.environ.get(OPTIONS, ""), LIGHT_JAVA, *more]).strip()


def archive() -> Path | None:
    """The place of the archive for this Java and this PySpark; None without a Java."""
    try:
        java = find_java()
    except JavaNotFoundError:
        return None
    changed = java.executable.resolve().stat().st_mtime_ns
    return Path(sys.prefix) / f"spark-classes-{java.version}-{changed}-{version('pyspark')}.jsa"


def use_archive() -> None:
    """Let each Spark that this process or its children start map the archive, if it is there."""
    if _MAPS in os.environ.get(OPTIONS, ""):
        return  # a child
    found = archive()
    if found is not None and found.exists():
        # An archive that does not fit is passed over in silence.
        words = f"{_MAPS}={found} -Xlog:cds=off -Xlog:cds+dynamic=off"
        os.environ[OPTIONS] = f"{words} {os.environ.get(OPTIONS, '')}".strip()


def make_archive(place: Path) -> None:
    """Run a small Spark job of each kind, and archive the classes that it loaded."""
    from pyspark import SparkContext

    from shoal.pipeline.session import spark_session

    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        made = Path(folder) / "classes.jsa"
        options = {OPTIONS: f"{LIGHT_JAVA} -XX:ArchiveClassesAtExit={made} -Xlog:cds=off"}
        with (
            mock.patch.dict(os.environ, options),
            spark_session("archive", master="local[2]", memory="1g", shuffle_partitions=1) as spark,
        ):
            table = Path(folder) / "table"
            rows = spark.range(10).selectExpr("id", "cast(id AS string) AS text")
            rows.repartition(2).write.parquet(str(table))
            read = spark.read.parquet(str(table))
            read.groupBy("text").count().join(rows, "text").orderBy("id").collect()
            read.mapInArrow(lambda batches: batches, "id bigint, text string").collect()
            spark.read.csv(str(table), "id bigint", mode="PERMISSIVE").collect()
        gateway: Any = SparkContext._gateway
        gateway.proc.stdin.close()  # Java ends, and writes the archive
        gateway.proc.wait()
        made.rename(place)


if __name__ == "__main__":
    there = archive()
    if there is not None and not there.exists():
        make_archive(there)
