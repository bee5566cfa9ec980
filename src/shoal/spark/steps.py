"""The commands' steps between places that are not all paths, each by the function of its name.

Spark reads the inputs where they are and writes the tables to where they shall be. The counts come
from the tables that were written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DoubleType, LongType, StructType

from shoal.frames.errors import TableError
from shoal.frames.folders import EVENTS, new_folder
from shoal.frames.table_places import is_uri, named
from shoal.pipeline.checks.lineage import FileRecord, Lineage
from shoal.pipeline.checks.publication_facts import PublicationFacts
from shoal.pipeline.ingest import (
    PUBLICATIONS,
    REJECTS,
    REPEATS,
    IngestCounts,
    checked_counts,
    write_counts,
)
from shoal.pipeline.schemas import ATTRIBUTES, TRUTH
from shoal.pipeline.sources.declaration import load_mapping
from shoal.pipeline.tables import write_table
from shoal.pipeline.truth import TruthCounts
from shoal.pipeline.workloads.workload import (
    WorkloadCounts,
    WorkloadOptions,
    WorkloadTables,
    counts_of,
)
from shoal.spark.evaluation import truth, workload
from shoal.spark.ingesting import Ingested, ingest
from shoal.spark.places import local_path, read, table_exists, write

At = str | Path


def ingest_places(
    spark: SparkSession, source: Path, places: Sequence[At], out: At, *, overwrite: bool
) -> IngestCounts:
    """Publications, rejects and repeats of a source into a folder, a URI or a schema.

    `source` is a mapping's file, or `flights` or `quotes`. ExpectationError, before anything is
    written, for publications that are not as the mapping expects.
    """
    if str(source) in ("flights", "quotes"):
        raise TableError(f"{out}: {source} are written to a path; a mapping's tables to any place")
    mapping = load_mapping(source)
    check_free(spark, out, (PUBLICATIONS, REJECTS, REPEATS), overwrite=overwrite)
    found = Ingested(*(each.persist() for each in ingest(places, source)))
    try:
        facts = _facts(found.publications)
        counts = checked_counts(
            facts,
            _reasons(found.rejects),
            found.repeats.count(),
            mapping,
            lambda: iter([np.asarray(found.publications.select("time_us").toArrow()["time_us"])]),
            str(source),
        )
        tables = {PUBLICATIONS: found.publications, REJECTS: found.rejects, REPEATS: found.repeats}
        write_all(spark, tables, out, overwrite=overwrite)
    finally:
        for each in found:
            each.unpersist()
    if (path := local_path(out)) is not None:
        files = [FileRecord(named(str(each)), 0, "") for each in places]
        origin = Lineage(
            shoal=metadata.version("shoal"), declaration=named(str(source)), files=files
        )
        write_counts(counts, path, origin)
    return counts


def workload_places(
    spark: SparkSession, publications: At, out: At, options: WorkloadOptions, *, overwrite: bool
) -> WorkloadCounts:
    """The tables of a workload into a folder, a URI or a schema."""
    names = dict.fromkeys(WorkloadTables._fields)
    files = [name if name == EVENTS else f"{name}.parquet" for name in names]
    check_free(spark, out, files, overwrite=overwrite)
    given = read(publications, spark=spark, inside=PUBLICATIONS).persist()
    try:
        tables = workload(given, options)
        write_all(spark, dict(zip(files, tables, strict=True)), out, overwrite=overwrite)
    finally:
        given.unpersist()
    return counts_of(WorkloadTables(*(read(out, spark=spark, inside=each) for each in files)))


def truth_places(spark: SparkSession, workload: At, out: At, *, overwrite: bool) -> TruthCounts:
    """The truth of a workload's folder, URI or schema into a table."""
    events = read(workload, spark=spark, inside=EVENTS)
    subscriptions = read(workload, spark=spark, inside="subscriptions.parquet")
    write(truth(events, subscriptions), out, mode="overwrite" if overwrite else "error")
    return TruthCounts(
        publications=events.count(),
        subscriptions=subscriptions.count(),
        expected=read(out, spark=spark).count(),
    )


def truth_table(spark: SparkSession, place: str) -> pa.Table:
    """The truth at a place, for tasks that summarise."""
    return read(place, spark=spark).select(*TRUTH.names).toArrow()


def write_folder(spark: SparkSession, folder: Path, out: str, *, overwrite: bool) -> None:
    """Write a folder of small tables to a URI or a schema."""
    tables = {
        each.name: spark.createDataFrame(pq.read_table(each)) for each in sorted(folder.iterdir())
    }
    check_free(spark, out, list(tables), overwrite=overwrite)
    write_all(spark, tables, out, overwrite=overwrite)


def check_free(spark: SparkSession, out: At, names: Sequence[str], *, overwrite: bool) -> None:
    """TableError if one of these tables is in a schema already, which is made if it is not there.

    Spark refuses a URI itself.
    """
    if local_path(out) is not None or is_uri(str(out)):
        return
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {out}")
    for name in names if not overwrite else ():
        if table_exists(spark, place := inside(str(out), name)):
            raise TableError(f"{place} exists already; give another place, or --overwrite")


def write_all(
    spark: SparkSession, tables: Mapping[str, DataFrame], out: At, *, overwrite: bool
) -> None:
    """Write several tables, by their names in a folder, to a folder, a URI or a schema."""
    if (path := local_path(out)) is not None:
        with new_folder(path, overwrite=overwrite) as folder:
            for name, table in tables.items():
                write_table(table, folder / name)
        return
    for name, table in tables.items():
        write(table, inside(str(out), name), mode="overwrite" if overwrite else "error")


def inside(out: str, name: str) -> str:
    """The place of one of several tables.

    >>> inside("s3a://lake/w", "brokers.parquet"), inside("lake.w", "brokers.parquet")
    ('s3a://lake/w/brokers.parquet', 'lake.w.brokers')
    """
    if is_uri(out):
        return f"{out.rstrip('/')}/{name}"
    return f"{out}.{name.removesuffix('.parquet')}"


def _facts(publications: DataFrame) -> PublicationFacts:
    """The facts of `publication_facts`, of a table of Spark."""
    kind = publications.schema[ATTRIBUTES].dataType
    assert isinstance(kind, StructType)
    numeric = [f.name for f in kind if isinstance(f.dataType, LongType | DoubleType)]
    columns = {name: F.col(ATTRIBUTES).getField(name) for name in kind.names}
    row = publications.agg(
        F.count(F.lit(1)),
        *(F.count(column) for column in columns.values()),
        *(function(columns[name]) for name in numeric for function in (F.min, F.max)),
    ).collect()[0]
    bounds = dict(zip(numeric, zip(*[iter(row[1 + len(columns) :])] * 2, strict=True), strict=True))
    found = {name: each for name, each in bounds.items() if each[0] is not None}
    publishers = publications.select("publisher").distinct().toArrow()["publisher"].to_pylist()
    return PublicationFacts(
        row[0],
        frozenset(publishers),
        Counter(dict(zip(columns, row[1:], strict=False))),
        {name: low for name, (low, _) in found.items()},
        {name: high for name, (_, high) in found.items()},
    )


def _reasons(rejects: DataFrame) -> dict[str, int]:
    """The reasons in the order in which they stand there first, and how often."""
    grouped = rejects.groupBy("reason").agg(
        F.count(F.lit(1)).alias("rows"), F.min(F.struct("file", "line")).alias("first")
    )
    return {row["reason"]: row["rows"] for row in grouped.orderBy("first").collect()}
