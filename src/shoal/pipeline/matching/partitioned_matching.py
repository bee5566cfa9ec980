"""Matches publications with subscriptions when no worker could hold all subscriptions.

Both tables are spread over partitions as `partition_plan` says: each publication goes to one, the
cheapest of its candidates, each subscription to all that its ranges meet, and every partition is
matched by an index of its own.  Rows travel through Spark's shuffle as Arrow blobs of thousands,
so that Spark never takes a row apart, and a worker holds one partition at a time.

`match_partitioned(publications, subscriptions)` gives the same pairs as
`compiled_matching.match_tables`; `dimension="price"` spreads by that attribute alone.

Source: Li et al., BlueDove, section III.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DoubleType, LongType, StringType

from shoal.frames.errors import TableError
from shoal.frames.matching import FrameMatcher
from shoal.pipeline.matching.compiled_matching import Narrow, match_tables
from shoal.pipeline.matching.partition_plan import (
    Doubles,
    Numbers,
    PartitionPlan,
    Sampled,
    make_plan,
    places_of_numbers,
    places_of_strings,
)
from shoal.pipeline.matching.subscription_ranges import (
    SpreadSubscriptions,
    ranges_of_batch,
    spread_subscriptions,
    subscriptions_of,
)
from shoal.pipeline.matching.table_checks import warn_of_tables

# A worker's index of so many takes a few hundred megabytes.
SUBSCRIPTIONS_AIM = 1_000_000
# Cost of opening a partition (a task, a worker's call), in subscriptions.
OPENING = 20_000
# Enough of each table to see how it lies: a segment with a hundredth of it is known to 7 %.
SAMPLE_ROWS = 20_000
SAMPLE_SEED = 1
# Rows that are spread together: a partition's share of them is one blob.
SHIPMENT_ROWS = 200_000
# A partition with many more publications is matched in several tasks, if its subscriptions are few.
PUBLICATIONS_AIM = 250_000

# Rows of the job that counts cores: more of them make no difference to the plan.
_MOST_CORES = 10_000
_BLOBS = "slot int, is_publication boolean, payload binary"
_KINDS = {LongType: False, DoubleType: False, StringType: True}


def match_partitioned(
    publications: DataFrame,
    subscriptions: DataFrame,
    *,
    key: Sequence[str] | None = None,
    dimension: str | None = None,
    warn: bool = True,
) -> DataFrame:
    """The pairs that match: the publication's key columns, and `subscription`, the other's id.

    Tables are as for `match_tables`; both are read several times. `dimension` is the one to spread
    by, else the best ones are chosen; where there is nothing to spread by, every worker gets all
    subscriptions. TableError for faults of the tables; TableWarning as from `match_tables`.
    """
    wanted = spread_subscriptions(subscriptions)
    if warn:
        warn_of_tables(publications, subscriptions, key)
    narrow = Narrow.of(publications, wanted.attributes, key)
    dimensions = _dimensions(narrow, dimension)
    if not dimensions:
        return match_tables(publications, subscriptions, key=key, warn=False)
    plan = _plan(narrow, wanted, dimensions)
    spread = PartitionSpread.of(plan, _publications_by_partition(narrow, plan))
    return _matched(narrow, wanted, spread)


class PartitionSpread(NamedTuple):
    """Tasks of the partitions: `tasks[p]` of them from `first[p]` on, none if unused."""

    plan: PartitionPlan
    first: Numbers
    tasks: Numbers

    @classmethod
    def of(cls, plan: PartitionPlan, publications: Mapping[int, int]) -> PartitionSpread:
        """For so many publications in each partition that has any."""
        tasks = np.zeros(len(plan.costs), np.int64)
        for partition, size in publications.items():
            worthwhile = max(1, size // max(int(plan.stored[partition]), 1))
            tasks[partition] = min(-(-size // PUBLICATIONS_AIM), worthwhile)
        return cls(plan, np.cumsum(tasks) - tasks, tasks)

    @property
    def size(self) -> int:
        return int(self.tasks.sum())

    def of_publications(
        self, batch: pa.RecordBatch, columns: Mapping[str, str]
    ) -> tuple[Numbers, Numbers]:
        """Return the rows of a batch with their tasks; `columns` has the dimensions."""
        partitions = self.plan.cheapest(places_of(batch, self.plan, columns))
        tasks = self.tasks[partitions]
        if not tasks.all():
            raise ValueError("the publications changed between two readings; write them first")
        rows: Numbers = np.arange(batch.num_rows)
        slots: Numbers = self.first[partitions] + rows % tasks
        return rows, slots

    def of_subscriptions(self, batch: pa.RecordBatch) -> tuple[Numbers, Numbers]:
        """Rows and tasks: a row is there once for each task that has to have it."""
        rows: list[Numbers] = []
        tasks: list[Numbers] = []
        for dimension in self.plan.dimensions:
            ranges = ranges_of_batch(batch, dimension.attribute, is_text=dimension.is_text)
            whose, partitions = dimension.partitions_met(*ranges, is_used=self.tasks > 0)
            counts = self.tasks[partitions]
            skipped = self.first[partitions] - (np.cumsum(counts) - counts)
            rows.append(np.repeat(whose, counts))
            tasks.append(np.arange(counts.sum()) + np.repeat(skipped, counts))
        return np.concatenate(rows), np.concatenate(tasks)


def places_of(
    batch: pa.RecordBatch, plan: PartitionPlan, columns: Mapping[str, str]
) -> list[Doubles]:
    """Return the places of a batch's publications on each dimension."""
    return [
        _places(batch.column(columns[each.attribute]), is_text=each.is_text)
        for each in plan.dimensions
    ]


def _places(values: pa.Array, *, is_text: bool) -> Doubles:
    if is_text:
        return places_of_strings(values.to_pylist())
    missing = values.is_null().to_numpy(zero_copy_only=False)
    return places_of_numbers(values.to_numpy(zero_copy_only=False), missing)


# --- planning -----------------------------------------------------------------------------------


def _dimensions(narrow: Narrow, chosen: str | None) -> dict[str, bool]:
    """Attributes to spread by, and whether they are text."""
    fields = narrow.frame.schema.fields[len(narrow.key) :]
    there = {
        name: _KINDS[type(field.dataType)]
        for name, field in zip(narrow.names, fields, strict=True)
        if type(field.dataType) in _KINDS
    }
    known = ", ".join(map(repr, there)) or "none"
    if chosen is not None and chosen not in there:
        raise TableError(
            f"cannot spread by {chosen!r}; attributes of numbers or strings that publications "
            f"have and subscriptions ask for: {known}"
        )
    return there if chosen is None else {chosen: there[chosen]}


def _plan(
    narrow: Narrow, wanted: SpreadSubscriptions, dimensions: Mapping[str, bool]
) -> PartitionPlan:
    subscriptions = _sample(wanted.frame, wanted.size).rename_columns(list(wanted.names))
    publications = _sample(narrow.frame, narrow.frame.count())
    sampled = [
        Sampled(
            name,
            is_text,
            *ranges_of_batch(subscriptions, name, is_text=is_text),
            _places(publications.column(narrow.column(name)), is_text=is_text),
        )
        for name, is_text in dimensions.items()
    ]
    cores = _cores(narrow.frame.sparkSession)
    return make_plan(
        sampled,
        sample=subscriptions.num_rows,
        subscriptions=wanted.size,
        aim=max(OPENING, min(SUBSCRIPTIONS_AIM, wanted.size // cores)),
        opening=OPENING,
    )


def _cores(spark: SparkSession) -> int:
    """Return over how many tasks Spark spreads a job that says nothing of them: its cores."""
    parts = spark.range(_MOST_CORES).select(F.spark_partition_id())
    return max(1, parts.distinct().count())


def _sample(frame: DataFrame, size: int) -> pa.RecordBatch:
    if size > SAMPLE_ROWS:
        frame = frame.sample(fraction=SAMPLE_ROWS / size, seed=SAMPLE_SEED)
    return _one_batch(frame.toArrow())


def _publications_by_partition(narrow: Narrow, plan: PartitionPlan) -> dict[int, int]:
    """Return how many publications each partition gets, of those that get any."""
    columns = {each.attribute: narrow.column(each.attribute) for each in plan.dimensions}

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = np.zeros(len(plan.costs), np.int64)
        for batch in batches:
            partitions = plan.cheapest(places_of(batch, plan, columns))
            counts += np.bincount(partitions, minlength=len(counts))
        used = np.flatnonzero(counts)
        yield pa.record_batch({"partition": used, "publications": counts[used]})

    places = narrow.frame.select(*columns.values())
    counted = places.mapInArrow(count, "partition bigint, publications bigint")
    totals = counted.groupBy("partition").sum("publications").collect()
    return {row[0]: row[1] for row in totals}


# --- matching -----------------------------------------------------------------------------------


def _matched(narrow: Narrow, wanted: SpreadSubscriptions, spread: PartitionSpread) -> DataFrame:
    keys, names = len(narrow.key), narrow.names
    wanted_names, asked = list(wanted.names), wanted.attributes
    columns = {each.attribute: narrow.column(each.attribute) for each in spread.plan.dimensions}

    def ship_publications(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return shipments(
            batches, lambda batch: spread.of_publications(batch, columns), are_publications=True
        )

    def ship_subscriptions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        named = (batch.rename_columns(wanted_names) for batch in batches)
        return shipments(named, spread.of_subscriptions, are_publications=False)

    def match(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts: list[pa.RecordBatch] = []
        answering: FrameMatcher | None = None
        for is_publication, rows in arrivals(batches):
            if not is_publication:
                parts.append(rows)
                continue
            if answering is None:
                if not parts:
                    return
                answering = FrameMatcher(subscriptions_of(parts, asked), keys, names)
                parts.clear()
            yield from answering.answers(rows)

    blobs = wanted.frame.mapInArrow(ship_subscriptions, _BLOBS).union(
        narrow.frame.mapInArrow(ship_publications, _BLOBS)
    )
    # Subscriptions first: an index is made of all of them before anything is matched.
    together = blobs.repartitionById(max(spread.size, 1), "slot").sortWithinPartitions(
        "is_publication"
    )
    schema = narrow.answers_schema(wanted.frame.schema["id"].dataType)
    return narrow.pairs(together.mapInArrow(match, schema))


def shipments(
    batches: Iterable[pa.RecordBatch],
    assign: Callable[[pa.RecordBatch], tuple[Numbers, Numbers]],
    *,
    are_publications: bool,
) -> Iterator[pa.RecordBatch]:
    """Rows as blobs, one for each task that gets some of those that are spread together."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(each.num_rows for each in held) >= SHIPMENT_ROWS:
            yield _shipment(held, assign, are_publications)
            held.clear()
    if held:
        yield _shipment(held, assign, are_publications)


def _shipment(
    held: Sequence[pa.RecordBatch],
    assign: Callable[[pa.RecordBatch], tuple[Numbers, Numbers]],
    are_publications: bool,
) -> pa.RecordBatch:
    batch = _one_batch(pa.Table.from_batches(held))
    rows, tasks = assign(batch)
    order = np.argsort(tasks, kind="stable")
    sorted_rows = batch.take(pa.array(rows[order]))
    slots, begins = np.unique(tasks[order], return_index=True)
    ends = np.append(begins, len(order))[1:]
    blobs = [
        _packed(sorted_rows.slice(begin, end - begin))
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    return pa.record_batch(
        {
            "slot": pa.array(slots, pa.int32()),
            "is_publication": pa.array([are_publications] * len(blobs), pa.bool_()),
            "payload": pa.array(blobs, pa.binary()),
        }
    )


def arrivals(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[bool, pa.RecordBatch]]:
    """The blobs of a task as rows again, and whether these are publications."""
    for batch in batches:
        flags = batch.column("is_publication").to_pylist()
        for is_publication, payload in zip(flags, batch.column("payload"), strict=True):
            with pa.ipc.open_stream(payload.as_buffer()) as stream:
                for rows in stream:
                    yield is_publication, rows


def _packed(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue())


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
