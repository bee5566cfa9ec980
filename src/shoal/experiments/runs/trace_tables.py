"""Turns the records of a simulated world into rows, while it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from shoal.broker.records import RefusalRecord
from shoal.experiments.run_files import RUN_TABLES, WorkloadFiles
from shoal.experiments.runs.run_totals import RunTotals
from shoal.experiments.runs.trace_sinks import TraceSink
from shoal.experiments.scenarios.generated_changes import Spell
from shoal.model import ClientId, Filter, SubscriptionId
from shoal.overlays.shapes import Link
from shoal.overlays.trace_tables import RECORDS, TRACE_TABLES
from shoal.simulation.judging.running_judge import RunningJudge
from shoal.simulation.trace import DeliveryEvent, Published
from shoal.simulation.world import World

Checks = Mapping[str, int]

Item = TypeVar("Item")

# The time of a subscription that is never there.
_NEVER: Spell = (0, 0)
# Rows of load that brokers keep before they are written.
LOAD_ROWS = 65_536


class RunTrace:
    """Hands over to a sink, and to a judge, all that a world has recorded since the last time.

    A delivery to a subscription counts only while it is there; the replay begins at `start_us`.
    """

    def __init__(
        self,
        world: World,
        workload: WorkloadFiles,
        links: Sequence[Link],
        filters: Mapping[SubscriptionId, Filter],
        start_us: int,
        sink: TraceSink,
        spells: Mapping[SubscriptionId, Sequence[Spell]],
    ) -> None:
        self.totals = RunTotals()
        self._world = world
        self._sink = sink
        self._start_us = start_us
        self._filters = filters
        conflated = {row.subscription for row in world.conflation.rows()}
        # Keys of a conflated subscription may overtake each other.
        self._judge = RunningJudge(filters, conflated)
        self._guests: dict[SubscriptionId, Sequence[Spell]] = {
            row.subscription: ((row.from_us or 0, row.to_us),)
            for row in workload.subscriptions
            if row.from_us is not None or row.to_us is not None
        }
        self._guests.update(spells)
        self._refused = 0
        self._by_publisher: Counter[ClientId] = Counter()
        self._add(
            "brokers",
            [(row.broker, row.latitude, row.longitude, row.name) for row in workload.brokers],
        )
        self._add("links", links)
        self._add(
            "subscribed",
            [
                (name, start_us + from_us, None if until_us is None else start_us + until_us)
                for name, times in spells.items()
                for from_us, until_us in times or [_NEVER]
            ],
        )

    def _add(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self.totals.add(table, rows)
        self._sink.add(table, rows)

    def take(self, now_us: float) -> None:
        """Hand over the world's records; all that happens later is at `now_us` or after it."""
        trace = self._world.trace
        self._publications(_emptied(trace.published))
        self._deliveries(_emptied(trace.deliveries), now_us)
        self._records(_emptied(trace.records))
        self._refused += len(_emptied(trace.refused))
        meters = self._world.meters
        if sum(len(meter.rows) for meter in meters) >= LOAD_ROWS:
            for meter in meters:
                self._add("load", _tuples(meter.rows))
                self._add("control", _tuples(meter.control_rows))
                meter.rows.clear()
                meter.control_rows.clear()

    def _publications(self, published: Sequence[Published]) -> None:
        self._by_publisher.update(row.publication.publisher for row in published)
        self._add(
            "publications",
            [
                (
                    row.publication.publisher,
                    row.publication.sequence,
                    row.publication.published_us,
                    row.broker,
                )
                for row in published
            ],
        )

    def _deliveries(self, deliveries: Sequence[DeliveryEvent], now_us: float) -> None:
        if self._guests:
            deliveries = _in_time(deliveries, self._guests, self._start_us)
        self._judge.take(deliveries, now_us)
        self._add(
            "deliveries",
            [
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
                for delivery in deliveries
                for subscription in delivery.subscriptions
            ],
        )

    def _records(self, records: Sequence[msgspec.Struct]) -> None:
        if not records:
            return
        self._refused += sum(isinstance(record, RefusalRecord) for record in records)
        for name, kind in RECORDS.items():
            if name in RUN_TABLES:
                columns = TRACE_TABLES[name]
                self._add(
                    name,
                    [
                        tuple(getattr(record, column) for column in columns)
                        for record in records
                        if isinstance(record, kind)
                    ],
                )

    def finish(self) -> None:
        """The run is over: hand over the rest."""
        world = self._world
        self.take(float("inf"))
        self._add("load", _tuples(world.load_rows()))
        self._add("conflated", _tuples(world.conflation.rows()))
        self._add("control", _tuples(world.control_rows()))

    def checks(self, seed: int) -> Checks:
        """The checks that a run can make by itself, once its sink is closed; only the truth can
        check that all was delivered.
        """
        judge = self._judge
        suspects = self._sink.delivered(judge.suspects) if judge.suspects else ()
        return {
            "subscriptions": len(self._filters),
            "most_by_one_publisher": max(self._by_publisher.values(), default=0),
            "published": self.totals.rows["publications"],
            "delivered": judge.delivered,
            "duplicates": judge.duplicates(suspects),
            "out_of_order": judge.out_of_order,
            "phantoms": judge.phantoms,
            "refused": self._refused,
            "seed": seed,
            "under_way": self._world.under_way,
            "virtual_end_us": self._world.queue.now_us,
        }


def _emptied(rows: list[Item]) -> list[Item]:
    """All items of a list, which is empty afterwards."""
    found = rows[:]
    rows.clear()
    return found


def _tuples(rows: Iterable[msgspec.Struct]) -> list[tuple[Any, ...]]:
    return [msgspec.structs.astuple(row) for row in rows]


def _in_time(
    deliveries: Sequence[DeliveryEvent],
    guests: Mapping[SubscriptionId, Sequence[Spell]],
    start_us: int,
) -> list[DeliveryEvent]:
    """Deliveries without those to subscriptions that had not come yet, or had gone."""
    kept = []
    for delivery in deliveries:
        replay_us = delivery.publication.published_us - start_us
        waiting = tuple(
            name
            for name in delivery.subscriptions
            if name not in guests or _is_there(guests[name], replay_us)
        )
        if waiting:
            kept.append(msgspec.structs.replace(delivery, subscriptions=waiting))
    return kept


def _is_there(times: Sequence[Spell], replay_us: int) -> bool:
    """Whether a subscription gets publications of that time, if they match."""
    return any(
        from_us <= replay_us and (until_us is None or replay_us < until_us)
        for from_us, until_us in times
    )
