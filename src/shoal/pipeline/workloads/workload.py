"""From publications to a workload: publishers, subscriptions, brokers and the events to replay.

A publisher advertises the attributes that are constant for every publisher (`carrier = 'UA' AND
origin = 'EWR'`). Its subscriptions are the advertisement, narrowed to about 10 % (low), 50 %
(medium) or 100 % (high) of its events in the window; `measured_selectivity` is their real share.
Everything left to chance comes from the seed and the publisher's name, so that one publisher's
subscriptions do not depend on which others there are.

The paper's two distributions, per publisher:

  random      70 % low, 25 % medium, 5 % high, each at a random one of X brokers
  clustered   95 % low, 5 % high; the high ones at one broker, the low ones over the other X - 1

The X brokers are drawn per publisher: the paper speaks of the subscribers "to each publisher".
Shares are rounded to whole subscriptions, with at least one high-rated.

>>> class_counts("random", 20), class_counts("clustered", 20), class_counts("random", 3)
({'low': 14, 'medium': 5, 'high': 1}, {'low': 19, 'high': 1}, {'low': 2, 'high': 1})

Source: Cheung and Jacobsen, dynamic publisher relocation (POP, GRAPE), section 5.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, LongType, StringType, StructType

from shoal.frames.errors import TableError
from shoal.frames.folders import EVENTS, new_folder
from shoal.frames.kind_checks import SAMPLE
from shoal.overlays.trace_rows import BrokerPlace
from shoal.pipeline.ingest import publications_table
from shoal.pipeline.schemas import (
    ATTRIBUTES,
    BROKERS,
    PUBLICATION_COLUMNS,
    PUBLISHERS,
    SUBSCRIPTIONS,
)
from shoal.pipeline.tables import read_table, spark_path, write_small_table, write_table
from shoal.pipeline.workloads.own_clients import OwnClients
from shoal.pipeline.workloads.places import (
    airport_brokers,
    listed_brokers,
    numbered_brokers,
)
from shoal.pipeline.workloads.publisher_workload import NUMERIC_TYPES, Derivation
from shoal.pipeline.workloads.windows import TimeWindow, bounds, events_within, with_replay_time

Distribution = Literal["random", "clustered"]

# Share of a publisher's subscriptions in each class (section 5.1), the larger classes first.
CLASS_SHARES: dict[Distribution, dict[str, float]] = {
    "random": {"low": 0.70, "medium": 0.25, "high": 0.05},
    "clustered": {"low": 0.95, "high": 0.05},
}
# Our choice: the paper varies X, and its text names only 16 (5.2).
DEFAULT_SPREAD = 8
AIRPORTS = "airports:"
# An attribute of flights that names the airport where the publisher stands.
AIRPORT_HOME = "origin"


class WorkloadError(ValueError):
    """Publications or options from which no workload can be made."""


class WorkloadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `shoal workload`.

    brokers         `63` (named B0, B1, ...), `airports:63` (busiest first), or a CSV file
    subscriptions   per publisher
    spread          X, the brokers over which a publisher's subscriptions are spread; None: eight,
                    or all where there are fewer
    home            the attribute that names a publisher's first broker; otherwise, and where
                    no broker has that name, the first broker is random
    publishers      only this many publishers, those with most events
    aim_at          the attributes for thresholds; all numeric ones if empty
    own_...         files with the user's own, see `shoal.frames.own_clients`
    duration_us     virtual time that the window's events take; None: as long as in reality
    """

    brokers: str
    subscriptions: int = 20
    distribution: Distribution = "random"
    spread: int | None = None
    seed: int = 1
    home: str | None = None
    publishers: int | None = None
    aim_at: tuple[str, ...] = ()
    own_subscriptions: Path | None = None
    own_publishers: Path | None = None
    window: TimeWindow = TimeWindow()
    duration_us: int | None = None


class WorkloadCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the written workload; `selectivity` is the mean measured one of each class.

    `left_out` are own subscriptions that come and go outside the events' time; `complaints` are the
    own filters' tests that the publications cannot pass.
    """

    events: int
    publishers: int
    subscriptions: int
    brokers: int
    selectivity: dict[str, float]
    left_out: int = 0
    complaints: tuple[str, ...] = ()


def class_counts(distribution: Distribution, subscriptions: int) -> dict[str, int]:
    """Return how many of a publisher's subscriptions are of each class."""
    shares = CLASS_SHARES[distribution]
    counts = {name: int(share * subscriptions + 1e-9) for name, share in shares.items()}
    counts["high"] = max(1, counts["high"])
    # The remainder of rounding goes to the classes with the largest gap.
    for _ in range(subscriptions - sum(counts.values())):
        name = max(shares, key=lambda each: shares[each] * subscriptions - counts[each])
        counts[name] += 1
    return {name: count for name, count in counts.items() if count > 0}


def write_workload(
    spark: SparkSession,
    publications: Path,
    out: Path,
    options: WorkloadOptions,
    *,
    overwrite: bool = False,
) -> WorkloadCounts:
    """Make the workload folder `out` from a publications table (or the folder that holds one)."""
    check_options(options)
    own = OwnClients.read(options.own_subscriptions, options.own_publishers, options.seed)
    every = _read_publications(spark, publications_table(publications))
    events = _events(every, own, options)
    events.persist()
    try:
        if events.isEmpty():
            raise nothing_published(publications, options)
        with new_folder(out, overwrite=overwrite) as folder:
            tables = _tables(every, events, own, options)
            for name in ("brokers", "publishers", "subscriptions"):
                table, key = getattr(tables, name), "rank" if name == "brokers" else name[:-1]
                write_small_table(table, folder / f"{name}.parquet", key)
            ordered = tables.events.orderBy("replay_us", "publisher", "sequence")
            write_table(ordered, folder / EVENTS)
            names = ("brokers.parquet", "publishers.parquet", "subscriptions.parquet", EVENTS)
            written = (spark.read.parquet(spark_path(folder / name)) for name in names)
            counts = counts_of(WorkloadTables(*written))
            if own.subscriptions is None:
                return counts
            some = events.select(ATTRIBUTES).limit(SAMPLE + 1).collect()
            told = own.complaints(row[0].asDict() for row in some)
            return msgspec.structs.replace(counts, left_out=own.left_out, complaints=told)
    finally:
        events.unpersist()


class WorkloadTables(NamedTuple):
    """The tables of a workload's folder, by their names there."""

    brokers: DataFrame
    publishers: DataFrame
    subscriptions: DataFrame
    events: DataFrame


def workload_tables(publications: DataFrame, options: WorkloadOptions) -> WorkloadTables:
    """The tables that `write_workload` writes, of publications that are a table already.

    WorkloadError for options that do not fit, and if no publication lies in the window.
    """
    check_options(options)
    own = OwnClients.read(options.own_subscriptions, options.own_publishers, options.seed)
    events = _events(publications, own, options)
    if events.isEmpty():
        raise nothing_published("the table", options)
    return _tables(publications, events, own, options)


def _events(every: DataFrame, own: OwnClients, options: WorkloadOptions) -> DataFrame:
    busiest = _of_busiest(events_within(every, options.window), options.publishers)
    return own.of_publishers(busiest)


def _tables(
    every: DataFrame, events: DataFrame, own: OwnClients, options: WorkloadOptions
) -> WorkloadTables:
    spark = every.sparkSession
    places = _places(events, options)
    derivation = _derivation(events, constant_attributes(every), places, options)
    brokers = [(*msgspec.structs.astuple(place), i) for i, place in enumerate(places)]
    names = [place.broker for place in places]
    ends = bounds(events, options.window)
    subscriptions = own.subscription_table(spark, names, ends, options.duration_us)
    if subscriptions is None:
        subscriptions = subscription_table(events, derivation)
    return WorkloadTables(
        spark.createDataFrame(brokers, BROKERS),
        own.publisher_table(publisher_table(events, derivation), places),
        subscriptions,
        with_replay_time(events, options.window, options.duration_us),
    )


def check_options(options: WorkloadOptions) -> None:
    """WorkloadError for a number below 1."""
    for name in ("subscriptions", "spread", "publishers", "duration_us"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise WorkloadError(f"{name}: {value} is less than 1")


def nothing_published(publications: Path | str, options: WorkloadOptions) -> WorkloadError:
    """Return the error about a workload without events."""
    if options.window != TimeWindow():
        return WorkloadError("no publication lies in the window; see --month, --from, --to")
    if options.own_publishers is not None:
        return WorkloadError(f"{publications} has no publication of these publishers")
    return WorkloadError(f"{publications} has no publications")


def _read_publications(spark: SparkSession, path: Path) -> DataFrame:
    read_table(spark, path, PUBLICATION_COLUMNS)
    table = spark.read.parquet(str(path))
    if ATTRIBUTES not in table.columns:
        raise TableError(f"{path} lacks the column {ATTRIBUTES!r}")
    return table.select(*PUBLICATION_COLUMNS.names, ATTRIBUTES)


def _of_busiest(events: DataFrame, publishers: int | None) -> DataFrame:
    if publishers is None:
        return events
    busiest = events.groupBy("publisher").count().orderBy(F.desc("count"), "publisher")
    return events.join(F.broadcast(busiest.limit(publishers)), "publisher", "left_semi")


def constant_attributes(publications: DataFrame) -> list[str]:
    """The attributes that each publisher always has, with always the same value."""
    schema = publications.schema[ATTRIBUTES].dataType
    assert isinstance(schema, StructType)
    names = [
        field.name
        for field in schema
        if isinstance(field.dataType, StringType | LongType | BooleanType)
    ]
    if not names:
        return []
    columns = [F.col(ATTRIBUTES).getField(name) for name in names]
    per_publisher = publications.groupBy("publisher").agg(
        *(
            ((F.count(column) == F.count("*")) & (F.min(column) == F.max(column))).alias(f"c{i}")
            for i, column in enumerate(columns)
        )
    )
    found = per_publisher.agg(*(F.min(f"c{i}").alias(f"c{i}") for i in range(len(names)))).first()
    return [name for i, name in enumerate(names) if found is not None and found[f"c{i}"]]


def _places(events: DataFrame, options: WorkloadOptions) -> Sequence[BrokerPlace]:
    brokers = options.brokers
    count = brokers.removeprefix(AIRPORTS)
    if not count.isdigit():
        if brokers.startswith(AIRPORTS):
            raise WorkloadError(f"brokers: {brokers!r}: after {AIRPORTS} there must be a number")
        return listed_brokers(Path(brokers))
    if brokers.startswith(AIRPORTS):
        return airport_brokers(events, int(count))
    return numbered_brokers(int(count))


def _derivation(
    events: DataFrame,
    constants: Sequence[str],
    places: Sequence[BrokerPlace],
    options: WorkloadOptions,
) -> Derivation:
    schema = events.schema[ATTRIBUTES].dataType
    assert isinstance(schema, StructType)
    numeric = [field.name for field in schema if isinstance(field.dataType, NUMERIC_TYPES)]
    return derivation_of(numeric, constants, places, options)


def derivation_of(
    numeric: Sequence[str],
    constants: Sequence[str],
    places: Sequence[BrokerPlace],
    options: WorkloadOptions,
) -> Derivation:
    """Return the parameters from which workloads are derived; WorkloadError for options that do not
    fit the attributes.
    """
    for name in options.aim_at:
        if name not in numeric:
            raise WorkloadError(
                f"aim_at: {name!r} is not a numeric attribute; there are {', '.join(numeric)}"
            )
    home = options.home
    if home is None and options.brokers.startswith(AIRPORTS):
        home = AIRPORT_HOME
    if home is not None and home not in constants:
        raise WorkloadError(
            f"home: {home!r} is not constant for every publisher; "
            f"such are {', '.join(constants) or 'none'}"
        )
    spread = min(DEFAULT_SPREAD, len(places)) if options.spread is None else options.spread
    if spread > len(places):
        raise WorkloadError(f"spread: {spread} of {len(places)} brokers is too many")
    return Derivation(
        seed=options.seed,
        constants=tuple(constants),
        numeric=tuple(options.aim_at or numeric),
        home=home,
        brokers=tuple(places),
        spread=spread,
        clustered=options.distribution == "clustered",
        counts=class_counts(options.distribution, options.subscriptions),
    )


def publisher_table(events: DataFrame, derivation: Derivation) -> DataFrame:
    """One row per publisher: its advertisement and its first broker."""
    first = (
        events.where("sequence IS NOT NULL")
        .groupBy("publisher")
        .agg(
            F.min_by(F.struct(*_attribute_columns(derivation.constants)), "sequence").alias(
                "constant"
            )
        )
    )
    rows = first.select("publisher", *_member_columns("constant", len(derivation.constants)))
    return rows.mapInArrow(derivation.publisher_rows, PUBLISHERS)


def subscription_table(events: DataFrame, derivation: Derivation) -> DataFrame:
    """The subscriptions of every publisher, `derivation.counts` of each class."""
    # Spark counts a bound method's `self` among the arguments that it fills.
    return (
        sampled_events(events, derivation)
        .groupBy("publisher")
        .applyInArrow(lambda table: derivation.subscription_rows(table), SUBSCRIPTIONS)
    )


def sampled_events(events: DataFrame, derivation: Derivation) -> DataFrame:
    """Return the input of `Derivation.subscription_rows`, a publisher at a time; `place` counts
    from 1.
    """
    of_publisher = Window.partitionBy("publisher")
    columns = [*derivation.constants, *derivation.numeric]
    return (
        events.withColumn("events", F.count("*").over(of_publisher))
        .withColumn("place", F.row_number().over(of_publisher.orderBy("sequence")))
        .where(derivation.sampling_condition())
        .select("publisher", "place", *_attribute_columns(columns))
    )


def _attribute_columns(names: Sequence[str]) -> list[Column]:
    # By position: attributes may be called like the columns of the table.
    return [F.col(ATTRIBUTES).getField(name).alias(f"a{i}") for i, name in enumerate(names)]


def _member_columns(struct: str, count: int) -> list[Column]:
    return [F.col(f"{struct}.a{i}").alias(f"a{i}") for i in range(count)]


def counts_of(written: WorkloadTables) -> WorkloadCounts:
    """The counts of a workload's tables, which were written."""
    per_class = (
        written.subscriptions.groupBy("rate_class")
        .agg(F.count("*").alias("count"), F.avg("measured_selectivity").alias("mean"))
        .orderBy("mean")
        .collect()
    )
    return WorkloadCounts(
        events=written.events.count(),
        publishers=written.publishers.count(),
        subscriptions=sum(row["count"] for row in per_class),
        brokers=written.brokers.count(),
        selectivity={
            row["rate_class"]: row["mean"] for row in per_class if row["mean"] is not None
        },
    )
