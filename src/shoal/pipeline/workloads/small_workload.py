"""A workload of few publications without Spark; the same tables that `workload.py` writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above
from pyspark.sql.types import StructType

from shoal.frames.errors import TableError
from shoal.frames.folders import EVENTS, new_folder
from shoal.frames.kind_checks import SAMPLE
from shoal.frames.reading import read_table_file
from shoal.overlays.trace_rows import BrokerPlace
from shoal.pipeline.ingest import PUBLICATIONS
from shoal.pipeline.schemas import (
    ATTRIBUTES,
    BROKERS,
    OWN_SUBSCRIPTIONS,
    PUBLICATION_COLUMNS,
    PUBLISHERS,
    arrow_schema,
)
from shoal.pipeline.small.tables import NeedsSparkError, are_small, columns_of, write_part
from shoal.pipeline.workloads.own_clients import OwnClients
from shoal.pipeline.workloads.places import listed_brokers, numbered_brokers
from shoal.pipeline.workloads.publisher_workload import MAX_SAMPLED_EVENTS, Derivation
from shoal.pipeline.workloads.windows import TimeWindow, replay_time
from shoal.pipeline.workloads.workload import (
    AIRPORTS,
    WorkloadCounts,
    WorkloadOptions,
    check_options,
    derivation_of,
    nothing_published,
)


def write_small_workload(
    publications: Path, out: Path, options: WorkloadOptions, *, overwrite: bool = False
) -> WorkloadCounts:
    """The same as `write_workload` without Spark; NeedsSparkError where that must read."""
    inside = publications / PUBLICATIONS
    path = inside if inside.exists() else publications
    if not are_small([path]) or options.brokers.startswith(AIRPORTS):
        raise NeedsSparkError("the input is above 10 MB, or brokers are airports")
    check_options(options)
    own = OwnClients.read(options.own_subscriptions, options.own_publishers, options.seed)
    every = _read(publications)
    events = _of_busiest(_within(every, options.window), options.publishers)
    names = own.wanted_publishers(set(events["publisher"].to_pylist()))
    if names is not None:
        events = events.filter(pc.is_in(events["publisher"], pa.array(names, pa.string())))
    if not events.num_rows:
        raise nothing_published(publications, options)
    ends = _bounds(events, options.window)
    places = _places(options.brokers)
    attributes = every.schema.field(ATTRIBUTES).type
    numeric = [field.name for field in attributes if _is_number(field.type)]
    derivation = derivation_of(numeric, _constants(every), places, options)
    chosen = [*derivation.constants, *derivation.numeric]
    sampled = list(_sampled(events, chosen))
    publishers = _publishers(derivation, own, places, sampled)
    rows = own.subscription_rows([place.broker for place in places], ends, options.duration_us)
    if rows is None:
        subscriptions = pa.concat_tables(derivation.subscription_rows(each) for each in sampled)
    else:
        subscriptions = _table(rows, OWN_SUBSCRIPTIONS)
    brokers = [(*msgspec.structs.astuple(place), rank) for rank, place in enumerate(places)]
    times = [replay_time(each, ends, options.duration_us) for each in events["time_us"].to_pylist()]
    replayed = events.append_column("replay_us", pa.array(times, pa.int64())).sort_by(
        [(name, "ascending") for name in ("replay_us", "publisher", "sequence")]
    )
    with new_folder(out, overwrite=overwrite) as folder:
        for name, table in (
            ("brokers.parquet", _table(brokers, BROKERS)),
            ("publishers.parquet", publishers.sort_by("publisher")),
            ("subscriptions.parquet", subscriptions.sort_by("subscription")),
            (EVENTS, replayed),
        ):
            write_part(table, folder / name)
    return WorkloadCounts(
        events=events.num_rows,
        publishers=publishers.num_rows,
        subscriptions=subscriptions.num_rows,
        brokers=len(brokers),
        selectivity=_selectivity(subscriptions),
        left_out=own.left_out,
        complaints=own.complaints(events[ATTRIBUTES].slice(0, SAMPLE + 1).to_pylist()),
    )


def _read(publications: Path) -> pa.Table:
    """TableError names a column that is missing."""
    table = read_table_file(publications, inside=PUBLICATIONS)
    if ATTRIBUTES not in table.column_names:
        there = ", ".join(table.column_names)
        raise TableError(f"{publications} lacks the column {ATTRIBUTES!r}; it has {there}")
    columns = columns_of(table, PUBLICATION_COLUMNS, publications)
    return columns.append_column(ATTRIBUTES, table[ATTRIBUTES])


def _within(publications: pa.Table, window: TimeWindow) -> pa.Table:
    if window.from_us is not None:
        publications = publications.filter(pc.field("time_us") >= window.from_us)
    if window.to_us is not None:
        publications = publications.filter(pc.field("time_us") < window.to_us)
    return publications


def _of_busiest(events: pa.Table, publishers: int | None) -> pa.Table:
    if publishers is None:
        return events
    counted = events["publisher"].value_counts().to_pylist()
    counts = [(-each["counts"], each["values"]) for each in counted]
    busiest = [name for _, name in sorted(counts)[:publishers]]
    return events.filter(pc.is_in(events["publisher"], pa.array(busiest, pa.string())))


def _bounds(events: pa.Table, window: TimeWindow) -> tuple[int, int]:
    """Return begin and end of the replay, in event time."""
    found = pc.min_max(events["time_us"]).as_py()
    low = found["min"] if window.from_us is None else window.from_us
    return low, found["max"] + 1 if window.to_us is None else window.to_us


def _places(brokers: str) -> Sequence[BrokerPlace]:
    return numbered_brokers(int(brokers)) if brokers.isdigit() else listed_brokers(Path(brokers))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int64(kind) or pa.types.is_float64(kind))


def _constants(publications: pa.Table) -> list[str]:
    """The attributes that each publisher always has, with always the same value."""
    found = []
    for field in publications.schema.field(ATTRIBUTES).type:
        kind = field.type
        if not (pa.types.is_string(kind) or pa.types.is_int64(kind) or pa.types.is_boolean(kind)):
            continue
        values = pc.struct_field(publications[ATTRIBUTES], [field.name])
        table = pa.table({"publisher": publications["publisher"], "value": values})
        grouped = table.group_by("publisher").aggregate(
            [("value", "count"), ("value", "count_distinct"), ([], "count_all")]
        )
        always = pc.equal(grouped["value_count"], grouped["count_all"])
        one = pc.equal(grouped["value_count_distinct"], 1)
        if pc.all(pc.and_(always, one)).as_py():
            found.append(field.name)
    return found


def _sampled(events: pa.Table, names: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the input of `Derivation.subscription_rows`, a publisher at a time; `place` counts from
    1.
    """
    ordered = events.sort_by([("publisher", "ascending"), ("sequence", "ascending")])
    columns = {
        f"a{place}": pc.struct_field(ordered[ATTRIBUTES], [name])
        for place, name in enumerate(names)
    }
    wide = pa.table({"publisher": ordered["publisher"], **columns}).combine_chunks()
    first = 0
    for run in pc.run_end_encode(wide["publisher"].combine_chunks()).run_ends.to_pylist():
        part, step = wide.slice(first, run - first), -(-(run - first) // MAX_SAMPLED_EVENTS)
        places = range(step, run - first + 1, step)
        part = part.take(pa.array([place - 1 for place in places], pa.int64()))
        yield part.add_column(1, "place", pa.array(places, pa.int64()))
        first = run


def _publishers(
    derivation: Derivation,
    own: OwnClients,
    places: Sequence[BrokerPlace],
    sampled: Sequence[pa.Table],
) -> pa.Table:
    """One row per publisher, of the constants of its first event."""
    first = [each.slice(0, 1).drop_columns("place") for each in sampled]
    batches = pa.concat_tables(first).combine_chunks().to_batches()
    rows = pa.Table.from_batches(derivation.publisher_rows(iter(batches))).to_pylist()
    return pa.Table.from_pylist(own.publisher_rows(rows, places), arrow_schema(PUBLISHERS))


def _table(rows: Sequence[tuple[Any, ...]], schema: StructType) -> pa.Table:
    kind = arrow_schema(schema)
    return pa.Table.from_pylist([dict(zip(kind.names, row, strict=True)) for row in rows], kind)


def _selectivity(subscriptions: pa.Table) -> dict[str, float]:
    """The mean that was measured, of each class that has one, the lowest first."""
    grouped = subscriptions.group_by("rate_class").aggregate([("measured_selectivity", "mean")])
    rows = [
        (each["measured_selectivity_mean"], each["rate_class"])
        for each in grouped.to_pylist()
        if each["measured_selectivity_mean"] is not None
    ]
    return {name: mean for mean, name in sorted(rows)}
