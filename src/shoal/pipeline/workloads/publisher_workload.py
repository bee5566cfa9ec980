"""One publisher's advertisement, first broker and subscriptions, from its own events.

These functions run inside Spark's workers, a publisher at a time, over Arrow columns `a0, a1,
...`: first the constant attributes, then the numeric ones.  Chance is seeded by the workload's
seed and the publisher's name alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql.types import DoubleType, LongType

from shoal.language import format_filter
from shoal.model import EVERYTHING, And, Filter, Operator, Predicate, Value, predicate
from shoal.overlays.trace_rows import BrokerPlace
from shoal.pipeline.schemas import PUBLISHERS, SUBSCRIPTIONS, arrow_schema
from shoal.pipeline.workloads.aiming import Numbers, aim

NUMERIC_TYPES = (LongType, DoubleType)
SELECTIVITY = {"low": 0.1, "medium": 0.5, "high": 1.0}
# Thresholds and measures come from at most this many of a publisher's events, evenly chosen: a
# percent is then far above the sampling error, and a worker holds one publisher in memory.
MAX_SAMPLED_EVENTS = 200_000


class Derivation(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters from which every publisher's part of the workload is derived."""

    seed: int
    constants: tuple[str, ...]
    numeric: tuple[str, ...]
    home: str | None
    brokers: tuple[BrokerPlace, ...]
    spread: int
    clustered: bool
    counts: dict[str, int]

    def sampling_condition(self) -> str:
        """Spark SQL over `place` (from 1) and `events`, which keeps few enough of them."""
        return f"place % ceil(events / {MAX_SAMPLED_EVENTS}) = 0"

    def publisher_rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of publishers.parquet from one row of constants per publisher."""
        for batch in batches:
            rows = [self._publisher_row(row) for row in batch.to_pylist()]
            if rows:
                yield pa.RecordBatch.from_pylist(rows, _PUBLISHERS)

    def _publisher_row(self, row: dict[str, Any]) -> dict[str, Any]:
        publisher = row["publisher"]
        place = self._first_broker(publisher, row)
        return {
            "publisher": publisher,
            "advertisement_id": f"{publisher}/advertisement",
            "advertisement": format_filter(_all(self._promise(row))),
            "broker": place.broker,
            "latitude": place.latitude,
            "longitude": place.longitude,
        }

    def _promise(self, row: dict[str, Any]) -> list[Predicate]:
        return [
            predicate(name, Operator.EQ, _value(row[f"a{i}"]))
            for i, name in enumerate(self.constants)
        ]

    def _first_broker(self, publisher: str, row: dict[str, Any]) -> BrokerPlace:
        if self.home is not None:
            home = str(row[f"a{self.constants.index(self.home)}"])
            for place in self.brokers:
                if place.broker == home:
                    return place
        return self._chance(publisher, "first broker").choice(self.brokers)

    def _chance(self, publisher: str, purpose: str) -> random.Random:
        return random.Random(f"{self.seed}/{purpose}/{publisher}")

    def subscription_rows(self, table: pa.Table) -> pa.Table:
        """Rows of subscriptions.parquet from one publisher's events."""
        table = table.sort_by("place")
        first = table.slice(0, 1).to_pylist()[0]
        publisher = first["publisher"]
        promise = self._promise(first)
        offset = len(self.constants)
        numbers = {
            name: _numbers(table.column(f"a{offset + i}")) for i, name in enumerate(self.numeric)
        }
        chance = self._chance(publisher, "subscriptions")
        brokers = self._placed(chance)
        taken: set[tuple[Predicate, ...]] = set()
        rows: list[dict[str, Any]] = []
        for rate_class, count in self.counts.items():
            for _ in range(count):
                share = SELECTIVITY[rate_class]
                aimed = None
                if share < 1:
                    aimed = aim(numbers, table.num_rows, share, chance, taken)
                narrowed = aimed.predicates if aimed else ()
                taken.add(narrowed)
                name = f"{publisher}/{len(rows):04}"
                rows.append(
                    {
                        "subscription": name,
                        "client": f"{name}/client",
                        "broker": brokers[len(rows)],
                        "publisher": publisher,
                        "rate_class": rate_class,
                        "aimed_selectivity": share,
                        "measured_selectivity": aimed.matches / table.num_rows if aimed else 1.0,
                        "filter": format_filter(_all([*promise, *narrowed])),
                    }
                )
        return pa.Table.from_pylist(rows, _SUBSCRIPTIONS)

    def _placed(self, chance: random.Random) -> list[str]:
        """The broker of each subscription, in the order of `counts`."""
        chosen = [place.broker for place in chance.sample(self.brokers, self.spread)]
        placed = []
        for rate_class, count in self.counts.items():
            among = chosen
            if self.clustered and self.spread > 1:
                among = chosen[:1] if rate_class == "high" else chosen[1:]
            placed += [chance.choice(among) for _ in range(count)]
        return placed


def _value(value: Any) -> Value:
    return value  # type: ignore[no-any-return]  # Arrow's Python values of our column types


def _all(predicates: list[Predicate]) -> Filter:
    if not predicates:
        return EVERYTHING
    return Filter(predicates[0] if len(predicates) == 1 else And(tuple(predicates)))


def _numbers(column: pa.ChunkedArray) -> Numbers:
    present = column.is_valid().to_numpy()
    kind = np.int64 if pa.types.is_integer(column.type) else np.float64
    values = np.array(column.fill_null(0).to_numpy(), dtype=kind)
    return Numbers.masked(values, np.array(present, dtype=bool))


_PUBLISHERS = arrow_schema(PUBLISHERS)
_SUBSCRIPTIONS = arrow_schema(SUBSCRIPTIONS)
