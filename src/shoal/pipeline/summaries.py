"""From runs and the truth to the paper's metrics, for all runs at once.

Deliveries are compared with the truth pair by pair: lost are expected deliveries that never came,
duplicated are repeated ones, phantom are deliveries without a matching subscription. Load is
counted in the windows in which publications were published, so that the network's set-up before
does not count; `settled_` metrics are those of the last third of that time, when relocation has
done most of its work.

Rates are messages per second of virtual time, averaged over all brokers, in the sense of the
relocation paper (section 5.2) and of its study here: the message rate counts messages that come in,
publications and control messages; the output rate those that go out, deliveries too.  Utilisation
is the share of time in which the input (matching) or output (transmission) is busy; the paper's
input load is the input utilisation.  Message overhead is the share of control messages in all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that every Spark user reads

from shoal.frames.folders import new_folder
from shoal.pipeline import schemas
from shoal.pipeline.runs import SETTLED_FROM, RunInfo, read_runs
from shoal.pipeline.tables import read_table, write_small_table

DELIVERY_KEY = [*schemas.PUBLICATION_KEY, "subscription"]


class TraceTables(NamedTuple):
    """The tables of several runs, each with the column `run`.

    `runs` has a row per run: its size and its period, the windows in which there were
    publications.  `load` is restricted to that period and has the columns of `runs` too.
    """

    runs: DataFrame
    brokers: DataFrame
    publications: DataFrame
    deliveries: DataFrame
    load: DataFrame
    selections: DataFrame
    migrations: DataFrame
    subscriber_selections: DataFrame
    subscriber_moves: DataFrame


_READ = (
    "brokers",
    "publications",
    "deliveries",
    "load",
    "selections",
    "migrations",
    "subscriber_selections",
    "subscriber_moves",
)


def read_trace(spark: SparkSession, runs: Mapping[RunInfo, Path]) -> TraceTables:
    """The tables of these runs; TableError names a missing one."""
    tables = {
        name: reduce(
            DataFrame.union,
            (
                read_table(spark, folder / f"{name}.parquet", schemas.TRACES[name]).withColumn(
                    "run", F.lit(info.name)
                )
                for info, folder in runs.items()
            ),
        )
        for name in _READ
    }
    facts = spark.createDataFrame(
        [tuple(info) for info in runs],
        "run string, system string, window_us bigint, subscriptions bigint",
    )
    described = _described(facts, tables["brokers"], tables["publications"]).cache()
    in_period = (F.col("window_start_us") >= F.col("from_us")) & (
        F.col("window_start_us") < F.col("until_us")
    )
    tables["load"] = tables["load"].join(F.broadcast(described), "run").where(in_period)
    return TraceTables(runs=described, **tables)


def _described(facts: DataFrame, brokers: DataFrame, publications: DataFrame) -> DataFrame:
    """Each run's size and period, in whole windows."""
    sizes = brokers.groupBy("run").agg(F.count("*").alias("brokers"))
    times = publications.groupBy("run").agg(
        F.min("published_us").alias("first_us"), F.max("published_us").alias("last_us")
    )
    width = F.col("window_us")
    from_us = F.floor(F.col("first_us") / width) * width
    until_us = (F.floor(F.col("last_us") / width) + 1) * width
    settled_from_us = F.floor((from_us + (until_us - from_us) * SETTLED_FROM) / width) * width
    return _side_by_side([facts, sizes, times]).select(
        "run",
        "system",
        "brokers",
        "subscriptions",
        from_us.alias("from_us"),
        until_us.alias("until_us"),
        settled_from_us.alias("settled_from_us"),
    )


def run_metrics(trace: TraceTables, truth: DataFrame) -> DataFrame:
    """One row per run: counts, verdict and every metric."""
    parts = [
        _counts(trace),
        _verdict(trace, truth),
        _load_metrics(trace),
        _delivery_metrics(trace),
        _move_metrics(trace),
    ]
    facts = trace.runs.select("run", "system", "brokers", "subscriptions")
    metrics = _side_by_side([facts, *parts])
    counts = ["migrations", "subscriber_moves"]
    return metrics.fillna(0, counts).orderBy("run")


def _side_by_side(parts: Sequence[DataFrame]) -> DataFrame:
    """Tables with at most one row per run as one: a union and one grouping, not many joins."""
    together = reduce(lambda one, more: one.unionByName(more, allowMissingColumns=True), parts)
    columns = [name for name in together.columns if name != "run"]
    return together.groupBy("run").agg(*(F.max(name).alias(name) for name in columns))


def _counts(trace: TraceTables) -> DataFrame:
    return trace.publications.groupBy("run").agg(
        F.count_distinct("publisher").alias("publishers"), F.count("*").alias("publications")
    )


def _verdict(trace: TraceTables, truth: DataFrame) -> DataFrame:
    """Expected against delivered; the truth of publications that a run did not have is left out."""
    published = trace.publications.select("run", *schemas.PUBLICATION_KEY)
    expected = published.join(truth, list(schemas.PUBLICATION_KEY)).select(
        "run", *DELIVERY_KEY, F.lit(1).alias("wanted")
    )
    delivered = trace.deliveries.groupBy("run", *DELIVERY_KEY).agg(F.count("*").alias("copies"))
    wanted, copies = F.col("wanted"), F.col("copies")
    return (
        expected.join(delivered, ["run", *DELIVERY_KEY], "full")
        .groupBy("run")
        .agg(
            F.count(wanted).alias("expected"),
            F.coalesce(F.sum(copies), F.lit(0)).alias("delivered"),
            F.count_if(copies.isNull()).alias("lost"),
            F.coalesce(F.sum(copies - 1), F.lit(0)).alias("duplicated"),
            F.count_if(wanted.isNull()).alias("phantom"),
        )
    )


def _load_metrics(trace: TraceTables) -> DataFrame:
    """Rates and utilisation per broker, over the whole period and its settled part."""
    whole_us = F.max(F.col("brokers") * (F.col("until_us") - F.col("from_us")))
    settled_us = F.max(F.col("brokers") * (F.col("until_us") - F.col("settled_from_us")))
    control = F.sum("control_in") + F.sum("control_out")
    settled = trace.load.where(F.col("window_start_us") >= F.col("settled_from_us"))
    whole = trace.load.groupBy("run").agg(
        *_rates(whole_us),
        (control / (F.sum("messages_in") + F.sum("messages_out"))).alias("message_overhead"),
    )
    last = settled.groupBy("run").agg(
        _per_second(F.sum("messages_in"), settled_us).alias("settled_message_rate_per_s")
    )
    return _side_by_side([whole, last])


def _rates(duration_us: Column) -> list[Column]:
    """Return the common rates of a run and a broker, over a time that is summed over brokers."""
    return [
        _per_second(F.sum("messages_in"), duration_us).alias("message_rate_per_s"),
        _per_second(F.sum("messages_out"), duration_us).alias("output_rate_per_s"),
        (F.sum("input_busy_us") / duration_us).alias("input_utilisation"),
        (F.sum("output_busy_us") / duration_us).alias("output_utilisation"),
    ]


def _per_second(count: Column, duration_us: Column) -> Column:
    return count * 1_000_000 / duration_us


def _delivery_metrics(trace: TraceTables) -> DataFrame:
    deliveries = trace.deliveries.join(F.broadcast(trace.runs), "run")
    delay_us = F.col("delivered_us") - F.col("published_us")
    settled = F.col("published_us") >= F.col("settled_from_us")
    return deliveries.groupBy("run").agg(
        F.avg(delay_us).alias("delay_mean_us"),
        F.percentile(delay_us, 0.5).alias("delay_p50_us"),
        F.percentile(delay_us, 0.99).alias("delay_p99_us"),
        F.avg("hops").alias("hops_mean"),
        F.avg(F.when(settled, delay_us)).alias("settled_delay_mean_us"),
        F.avg(F.when(settled, F.col("hops"))).alias("settled_hops_mean"),
    )


def _move_metrics(trace: TraceTables) -> DataFrame:
    waits = trace.migrations.groupBy("run").agg(
        F.count("*").alias("migrations"),
        F.avg(F.col("resumed_us") - F.col("paused_us")).alias("publisher_wait_mean_us"),
    )
    selections = trace.selections.groupBy("run").agg(
        F.avg(F.col("decided_us") - F.col("requested_us")).alias("selection_time_mean_us")
    )
    moves = trace.subscriber_moves.groupBy("run").agg(F.count("*").alias("subscriber_moves"))
    chosen = [
        each.select("run", "weight") for each in (trace.selections, trace.subscriber_selections)
    ]
    weights = chosen[0].union(chosen[1]).groupBy("run").agg(F.avg("weight").alias("weight_mean"))
    return _side_by_side([waits, selections, moves, weights])


def broker_metrics(trace: TraceTables) -> DataFrame:
    """One row per run and broker; a broker without work has zeros."""
    duration_us = F.max(F.col("until_us") - F.col("from_us"))
    rates = trace.load.groupBy("run", "broker").agg(*_rates(duration_us))
    return (
        trace.brokers.select("run", "broker")
        .join(rates, ["run", "broker"], "left")
        .fillna(0.0)
        .orderBy("run", "broker")
    )


def timeline(trace: TraceTables, window_us: int) -> DataFrame:
    """Return one row per run and window: message rate per broker, delay of publications in it.

    The first and the last window count only the part of them that lies in the run's period. Of
    consecutive windows without events only the first and the last are there, with a rate of 0 and
    without a delay; those between are equal.
    """
    start_us = F.floor(F.col("window_start_us") / window_us) * window_us
    covered_us = F.least("until_us", start_us + window_us) - F.greatest("from_us", start_us)
    broker_us = F.max(F.col("brokers") * covered_us)
    busy = trace.load.groupBy("run", _window("window_start_us", window_us)).agg(
        _per_second(F.sum("messages_in"), broker_us).alias("message_rate_per_s")
    )
    load = (
        _with_neighbours(busy.select("run", "window_start_us"), trace.runs, window_us)
        .join(busy, ["run", "window_start_us"], "left")
        .fillna(0.0, ["message_rate_per_s"])
    )
    delays = trace.deliveries.groupBy("run", _window("published_us", window_us)).agg(
        F.avg(F.col("delivered_us") - F.col("published_us")).alias("delay_mean_us"),
        F.count("*").alias("deliveries"),
    )
    return (
        load.join(delays, ["run", "window_start_us"], "left")
        .withColumn("deliveries", F.coalesce("deliveries", F.lit(0)))
        .orderBy("run", "window_start_us")
    )


def _with_neighbours(windows: DataFrame, runs: DataFrame, window_us: int) -> DataFrame:
    """These windows and those before and after each, as far as they are in the run's period."""
    beside = F.explode(
        F.array(*(F.col("window_start_us") + at for at in (-window_us, 0, window_us)))
    )
    return (
        windows.select("run", beside.alias("window_start_us"))
        .distinct()
        .join(F.broadcast(runs.select("run", "from_us", "until_us")), "run")
        .where(
            (F.col("window_start_us") + window_us > F.col("from_us"))
            & (F.col("window_start_us") < F.col("until_us"))
        )
        .select("run", "window_start_us")
    )


def _window(time_us: str, window_us: int) -> Column:
    return (F.floor(F.col(time_us) / window_us) * window_us).alias("window_start_us")


def moves(trace: TraceTables) -> DataFrame:
    """One row per run and publisher: where it began and ended, and how often it moved."""
    ends = trace.publications.groupBy("run", "publisher").agg(
        F.min_by("first_broker", "sequence").alias("first_broker"),
        F.max_by("first_broker", "sequence").alias("last_broker"),
    )
    waits = trace.migrations.groupBy("run", "publisher").agg(
        F.count("*").alias("moves"),
        F.sum(F.col("resumed_us") - F.col("paused_us")).alias("waited_us"),
    )
    return (
        ends.join(waits, ["run", "publisher"], "left")
        .fillna(0, ["moves", "waited_us"])
        .orderBy("run", "publisher")
    )


def write_summary(
    spark: SparkSession,
    folders: Sequence[Path],
    truth: DataFrame,
    out: Path,
    *,
    window_us: int,
    overwrite: bool = False,
) -> DataFrame:
    """Write the four tables of a summary; the row per run is returned."""
    trace = read_trace(spark, read_runs(folders))
    with new_folder(out, overwrite=overwrite) as folder:
        write_small_table(run_metrics(trace, truth), folder / "runs.parquet")
        write_small_table(broker_metrics(trace), folder / "brokers.parquet")
        write_small_table(timeline(trace, window_us), folder / "timeline.parquet")
        write_small_table(moves(trace), folder / "moves.parquet")
    return spark.read.parquet(str(out / "runs.parquet"))
