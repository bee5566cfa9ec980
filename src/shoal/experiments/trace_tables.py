"""Makes a run's tables and counts from the records of a simulated world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from shoal.broker.records import RefusalRecord
from shoal.experiments.run_files import RUN_TABLES, WorkloadFiles
from shoal.matching import matches
from shoal.model import Filter, SubscriptionId
from shoal.overlays.shapes import Link
from shoal.overlays.trace_tables import RECORDS, TRACE_TABLES
from shoal.simulation.judging.checkers import tally
from shoal.simulation.world import World

Tables = Mapping[str, Mapping[str, Sequence[Any]]]
Checks = Mapping[str, int]


def trace_tables(world: World, workload: WorkloadFiles, links: Sequence[Link]) -> Tables:
    """The columns of every table of a run."""
    trace = world.trace
    rows: dict[str, list[tuple[Any, ...]]] = {
        "brokers": [
            (row.broker, row.latitude, row.longitude, row.name) for row in workload.brokers
        ],
        "links": list(links),
        "publications": [
            (
                row.publication.publisher,
                row.publication.sequence,
                row.publication.published_us,
                row.broker,
            )
            for row in trace.published
        ],
        "deliveries": [
            (
                delivery.publication.publisher,
                delivery.publication.sequence,
                subscription,
                delivery.client,
                delivery.broker,
                delivery.publication.published_us,
                delivery.delivered_us,
                delivery.hops,
            )
            for delivery in trace.deliveries
            for subscription in delivery.subscriptions
        ],
        "load": [msgspec.structs.astuple(row) for row in world.load_rows()],
        "conflated": [msgspec.structs.astuple(row) for row in world.conflation.rows()],
        "control": [msgspec.structs.astuple(row) for row in world.control_rows()],
    }
    for name, kind in RECORDS.items():
        if name not in RUN_TABLES:
            continue
        columns = TRACE_TABLES[name]
        records = [record for record in trace.records if isinstance(record, kind)]
        rows[name] = [tuple(getattr(record, column) for column in columns) for record in records]
    return {name: _columns(TRACE_TABLES[name], table) for name, table in rows.items()}


def _columns(names: Iterable[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Sequence[Any]]:
    if not rows:
        return dict.fromkeys(names, ())
    return dict(zip(names, zip(*rows, strict=True), strict=True))


def check_counts(world: World, subscriptions: Mapping[SubscriptionId, Filter], seed: int) -> Checks:
    """Return the checks that a run can make by itself; only the truth can check that all was
    delivered.
    """
    trace = world.trace
    arrived = sorted(trace.deliveries, key=lambda delivery: delivery.delivered_us)
    counts, misplaced = tally(arrived)
    # Keys of a conflated subscription may overtake each other.
    conflated = {row.subscription for row in world.conflation.rows()}
    out_of_order = [each for each in misplaced if each[1] not in conflated]
    phantoms = sum(
        not matches(subscriptions[subscription], delivery.publication.attributes)
        for delivery in arrived
        for subscription in delivery.subscriptions
    )
    return {
        "subscriptions": len(subscriptions),
        "most_by_one_publisher": max(
            Counter(row.publication.publisher for row in trace.published).values(), default=0
        ),
        "published": len(trace.published),
        "delivered": counts.total(),
        "duplicates": counts.total() - len(counts),
        "out_of_order": len(out_of_order),
        "phantoms": phantoms,
        "refused": len(trace.refused)
        + sum(isinstance(record, RefusalRecord) for record in trace.records),
        "seed": seed,
        "under_way": world.under_way,
        "virtual_end_us": world.queue.now_us,
    }
