"""Workloads and the evaluation of runs in a session, by the pipeline's own steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import NumericType

from shoal.frames.errors import TableError
from shoal.frames.folders import EVENTS
from shoal.pipeline.schemas import (
    ATTRIBUTES,
    PUBLICATION_COLUMNS,
    PUBLICATION_KEY,
    RUN_METRICS,
    TRUTH,
)
from shoal.pipeline.summaries import summary_tables
from shoal.pipeline.truth import expected_deliveries
from shoal.pipeline.workloads.workload import WorkloadOptions, workload_tables
from shoal.pipeline.workloads.workload import WorkloadTables as Workload
from shoal.spark.places import Place, check_prepared, local_path, read, session_of

__all__ = [
    "Summary", "Workload", "WorkloadOptions", "compare", "summarise", "truth", "workload",
]  # fmt: skip

WINDOW_S = 10


class Summary(NamedTuple):
    """The figures of runs, in five tables.

    runs      a row for each run: deliveries (`expected`, `delivered`, `lost`, `duplicated`,
              `phantom`), rates (messages per second of virtual time, mean of the brokers), delays
              (µs), hops, utilisation (0 to 1)
    brokers   rates and utilisation of each broker
    timeline  rates and delays in windows of virtual time
    moves     publishers that were moved to another broker
    costs     messages of the whole run by phase (set-up, publishing, after) and kind
    """

    runs: DataFrame
    brokers: DataFrame
    timeline: DataFrame
    moves: DataFrame
    costs: DataFrame


def workload(publications: Place, options: WorkloadOptions) -> Workload:
    """An experiment's tables, `brokers`, `publishers`, `subscriptions` and `events`.

    `publications` are those of `ingest`: `publisher`, `sequence`, `time_us`, `attributes`. They are
    read several times, so persist them. `events` have `replay_us`, their time in the replay. The
    same options give the same tables, as `shoal workload` writes them. TableError for a missing
    column, WorkloadError for options that do not fit, SettingError in a session without the
    settings of `prepare`.
    """
    table = read(publications, inside="publications.parquet")
    check_prepared(session_of(table), "workload")
    _check_columns(table, "publications", (*PUBLICATION_COLUMNS.names, ATTRIBUTES))
    return workload_tables(table.select(*PUBLICATION_COLUMNS.names, ATTRIBUTES), options)


def truth(events: Place, subscriptions: Place) -> DataFrame:
    """The expected deliveries: `publisher`, `sequence`, `subscription`, judged by Spark SQL.

    `events` have a publication's key and `attributes`, `subscriptions` have `subscription` and
    `filter`; both are those of `workload`. Subscriptions with `from_us` and `to_us` get what is
    published in that part of the replay. TableError for a missing column and for more than 100,000
    subscriptions, ValueError for a wrong filter, SettingError in a session without the settings of
    `prepare`.
    """
    spark = session_of(events, subscriptions)
    given = read(events, spark=spark, inside=EVENTS)
    wanted = read(subscriptions, spark=spark, inside="subscriptions.parquet")
    check_prepared(spark, "truth")
    _check_columns(given, "events", (*PUBLICATION_KEY, ATTRIBUTES))
    _check_columns(wanted, "subscriptions", ("subscription", "filter"))
    return expected_deliveries(given, wanted)


def summarise(runs: Sequence[str | Path], truth: Place, *, window_s: float = WINDOW_S) -> Summary:
    """The figures of runs that `shoal simulate` or `shoal replay` wrote, a task for each run.

    `runs` are their folders, as paths or URIs `file:`, which workers see too. `truth` is the
    workload's, by `shoal truth` or `truth`; a table that is no path goes through the driver.
    `window_s` is the length of a window of `timeline`, in seconds of virtual time. TableError for a
    folder that is no run, or a missing table.
    """
    spark = session_of(truth)
    folders = [path for run in runs if (path := local_path(run)) is not None]
    if not folders or len(folders) < len(runs):
        raise TableError("runs: give the folders of one run or more, as paths")
    expected = local_path(truth)
    if expected is None:
        table = read(truth, spark=spark)
        _check_columns(table, "truth", TRUTH.names)
        expected = table.select(*TRUTH.names).toArrow()
    found = summary_tables(spark, folders, expected, window_us=int(window_s * 1_000_000))
    return Summary(**{name: spark.createDataFrame(table) for name, table in found.items()})


def compare(runs: Place, baseline: str) -> DataFrame:
    """The figures of runs beside those of one of them, a row for each run and figure.

    `runs` is the table of a `Summary`. Columns: `run`, `metric` (its column there), `value`,
    `reference` (the baseline's value), `difference` (value - reference, in the metric's unit) and
    `ratio` (value / reference; null if that is 0). The baseline has rows, too; figures that a run
    lacks are null. TableError for a table that is none of runs, or has no run of that name.
    """
    table = read(runs, inside="runs.parquet")
    _check_columns(table, "runs", ("run",))
    metrics = [
        field.name
        for field in table.schema
        if isinstance(field.dataType, NumericType) and field.name in RUN_METRICS.names
    ]
    if not metrics:
        raise TableError("runs: there is no figure of a summary among the columns")
    if table.where(F.col("run") == baseline).isEmpty():
        names = ", ".join(sorted(row[0] for row in table.select("run").distinct().collect()))
        raise TableError(f"runs: there is no run {baseline!r}; there are {names}")
    doubles = [F.col(name).cast("double").alias(name) for name in metrics]
    long = table.select("run", *doubles).unpivot("run", [*metrics], "metric", "value")
    reference = long.where(F.col("run") == baseline).select(
        "metric", F.col("value").alias("reference")
    )
    value, other = F.col("value"), F.col("reference")
    return long.join(F.broadcast(reference), "metric").select(
        "run",
        "metric",
        "value",
        "reference",
        (value - other).alias("difference"),
        F.try_divide(value, other).alias("ratio"),
    )


def _check_columns(table: DataFrame, what: str, names: Sequence[str]) -> None:
    """TableError for columns that are not there."""
    if missing := [name for name in names if name not in table.columns]:
        raise TableError(
            f"{what}: no column {', '.join(map(repr, missing))}; there are "
            f"{', '.join(table.columns)}"
        )
