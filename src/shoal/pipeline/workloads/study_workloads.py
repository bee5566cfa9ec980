"""Many workloads of one data set at once, for a study that varies how subscribers are spread.

A variant is a folder as `shoal workload` writes it.  All variants of a study share publishers and
publications: the publishers with most events, each publishing its first ones at a steady rate.
Publishers start at different moments within the interval, as independent machines would; a
publisher's subscribers stand where it stands, whatever brokers they use.  One Spark job derives
the subscriptions of every variant.

Source: the set-up of the relocation paper's experiments (5.1): its publishers send one stock's
quotes in order, and run on one machine with their subscribers. The paper prints no rates.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from shoal.frames.folders import EVENTS, new_folder
from shoal.overlays.trace_rows import BrokerPlace
from shoal.pipeline.ingest import publications_table
from shoal.pipeline.schemas import (
    ATTRIBUTES,
    BROKERS,
    PUBLICATION_COLUMNS,
    SUBSCRIPTIONS,
    arrow_schema,
)
from shoal.pipeline.tables import read_table, write_table
from shoal.pipeline.workloads.publisher_workload import NUMERIC_TYPES, Derivation
from shoal.pipeline.workloads.workload import (
    Distribution,
    WorkloadError,
    class_counts,
    constant_attributes,
    publisher_table,
    sampled_events,
)

# Below this no publisher can be traced and moved within a study.
FEWEST_PUBLISHERS = 2
_NUMBERED = "number"
_VARIANT_SUBSCRIPTIONS = StructType([*SUBSCRIPTIONS.fields]).add("variant", "string")


class StudyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options that all variants share.

    publishers      this many, those with most events; fewer where fewer have enough
    interval_us     from one publication of a publisher to its next
    aim_at          the attributes for thresholds; all numeric ones if empty
    """

    publishers: int
    interval_us: int
    seed: int = 1
    aim_at: tuple[str, ...] = ()


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One workload: numbers of publications and subscriptions of each publisher, and their
    brokers.
    """

    name: str
    distribution: Distribution
    spread: int
    publications: int
    subscriptions: int
    brokers: tuple[BrokerPlace, ...]


class StudyCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the written workloads."""

    publishers: int
    variants: int


def write_study(
    spark: SparkSession,
    publications: Path,
    out: Path,
    options: StudyOptions,
    variants: Sequence[Variant],
    *,
    overwrite: bool = False,
) -> StudyCounts:
    """Write every variant as the folder `out/NAME`, from a publications table."""
    path = publications_table(publications)
    read_table(spark, path, PUBLICATION_COLUMNS)
    every = spark.read.parquet(str(path)).select(*PUBLICATION_COLUMNS.names, ATTRIBUTES)
    longest = max(variant.publications for variant in variants)
    events = _first_events(every, options.publishers, longest).persist()
    try:
        publishers = [row["publisher"] for row in events.select("publisher").distinct().collect()]
        if len(publishers) < FEWEST_PUBLISHERS:
            raise WorkloadError(
                f"{len(publishers)} publishers have the {longest} publications that are needed, "
                f"and a study needs {FEWEST_PUBLISHERS} or more"
            )
        derivations = _derivations(events, constant_attributes(every), options, variants)
        with new_folder(out, overwrite=overwrite) as folder:
            scratch = folder / ".events"
            for count in sorted({variant.publications for variant in variants}):
                replayed = _replayed(events.where(F.col(_NUMBERED) < count), publishers, options)
                write_table(replayed.coalesce(1), scratch / str(count))
            _write_variants(folder, scratch, events, derivations, variants)
            shutil.rmtree(scratch)
    finally:
        events.unpersist()
    return StudyCounts(publishers=len(publishers), variants=len(variants))


def _first_events(publications: DataFrame, publishers: int, count: int) -> DataFrame:
    """The first `count` events of the publishers with most, numbered from 0."""
    busiest = (
        publications.groupBy("publisher")
        .agg(F.count("*").alias("events"))
        .where(F.col("events") >= count)
        .orderBy(F.desc("events"), "publisher")
        .limit(publishers)
    )
    of_publisher = SparkWindow.partitionBy("publisher").orderBy("sequence")
    return (
        publications.join(F.broadcast(busiest.select("publisher")), "publisher", "left_semi")
        .withColumn(_NUMBERED, F.row_number().over(of_publisher) - 1)
        .where(F.col(_NUMBERED) < count)
    )


def _replayed(events: DataFrame, publishers: Sequence[str], options: StudyOptions) -> DataFrame:
    phases = [
        (name, Random(f"{options.seed}/phase/{name}").randrange(options.interval_us))
        for name in sorted(publishers)
    ]
    table = events.sparkSession.createDataFrame(phases, "publisher string, phase_us bigint")
    replay_us = F.col(_NUMBERED) * options.interval_us + F.col("phase_us")
    return events.join(F.broadcast(table), "publisher").select(
        "publisher", "sequence", "time_us", ATTRIBUTES, replay_us.alias("replay_us")
    )


def _derivations(
    events: DataFrame,
    constants: Sequence[str],
    options: StudyOptions,
    variants: Sequence[Variant],
) -> dict[str, Derivation]:
    schema = events.schema[ATTRIBUTES].dataType
    assert isinstance(schema, StructType)
    numeric = [field.name for field in schema if isinstance(field.dataType, NUMERIC_TYPES)]
    for name in options.aim_at:
        if name not in numeric:
            raise WorkloadError(f"aim_at: {name!r} is none of {', '.join(numeric)}")
    for variant in variants:
        if not 1 <= variant.spread <= len(variant.brokers):
            raise WorkloadError(f"spread: {variant.spread} of {len(variant.brokers)} brokers")
    return {
        variant.name: Derivation(
            seed=options.seed,
            constants=tuple(constants),
            numeric=options.aim_at or tuple(numeric),
            home=None,
            brokers=variant.brokers,
            spread=variant.spread,
            clustered=variant.distribution == "clustered",
            counts=class_counts(variant.distribution, variant.subscriptions),
        )
        for variant in variants
    }


def _write_variants(
    folder: Path,
    scratch: Path,
    events: DataFrame,
    derivations: Mapping[str, Derivation],
    variants: Sequence[Variant],
) -> None:
    subscriptions = _subscription_table(events, derivations, variants).toArrow()
    publishers: dict[tuple[BrokerPlace, ...], Any] = {}
    for variant in variants:
        target = folder / variant.name
        target.mkdir(parents=True)
        if variant.brokers not in publishers:
            table = publisher_table(events, derivations[variant.name]).toArrow()
            publishers[variant.brokers] = table.sort_by("publisher")
        own = publishers[variant.brokers]
        pq.write_table(own, target / "publishers.parquet")
        first = dict(zip(own["publisher"].to_pylist(), own["broker"].to_pylist(), strict=True))
        brokers = [
            {**msgspec.to_builtins(place), "rank": rank}
            for rank, place in enumerate(variant.brokers)
        ]
        pq.write_table(
            pa.Table.from_pylist(brokers, arrow_schema(BROKERS)), target / "brokers.parquet"
        )
        rows = subscriptions.filter(pa.compute.field("variant") == variant.name)
        places = pa.array([first[name] for name in rows["publisher"].to_pylist()], pa.string())
        rows = rows.drop_columns("variant").append_column("place", places)
        pq.write_table(rows.sort_by("subscription"), target / "subscriptions.parquet")
        shutil.copytree(scratch / str(variant.publications), target / EVENTS)


def _subscription_table(
    events: DataFrame, derivations: Mapping[str, Derivation], variants: Sequence[Variant]
) -> DataFrame:
    """The subscriptions of every variant, told apart by the column `variant`."""

    def derive(table: pa.Table) -> pa.Table:
        table = table.sort_by("place")
        parts = []
        for variant in variants:
            part = derivations[variant.name].subscription_rows(table.slice(0, variant.publications))
            name = pa.array([variant.name] * len(part), pa.string())
            parts.append(part.append_column("variant", name))
        return pa.concat_tables(parts)

    any_one = next(iter(derivations.values()))
    sampled = sampled_events(events, any_one)
    return sampled.groupBy("publisher").applyInArrow(derive, _VARIANT_SUBSCRIPTIONS)
