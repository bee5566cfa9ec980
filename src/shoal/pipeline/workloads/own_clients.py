"""A user's own publishers and subscriptions as a workload's tables; missing ones are derived.

A subscription or publisher that names no broker is put at one that the seed and its name decide.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, Row, SparkSession

from shoal.frames.errors import TableError
from shoal.frames.kind_checks import SAMPLE, CheckedKind, complaints
from shoal.frames.mixed_columns import plain_value
from shoal.frames.own_clients import (
    OwnPublisher,
    OwnSubscription,
    read_own_publishers,
    read_own_subscriptions,
)
from shoal.frames.spelling import did_you_mean
from shoal.language import parse
from shoal.model import BrokerId
from shoal.overlays.trace_rows import BrokerPlace
from shoal.pipeline.schemas import OWN_SUBSCRIPTIONS, PUBLISHERS
from shoal.pipeline.workloads.windows import replay_time

# Stands in the tables in place of a rate class of the paper's.
OWN = "own"


class OwnClients(msgspec.Struct):
    """Those in files; None where there is no file, and all are derived.

    Errors name the files.
    """

    subscriptions: list[OwnSubscription] | None
    publishers: Mapping[str, OwnPublisher] | None
    seed: int
    left_out: int = 0
    subscriptions_file: str = "subscriptions"
    publishers_file: str = "publishers"

    @classmethod
    def read(cls, subscriptions: Path | None, publishers: Path | None, seed: int) -> OwnClients:
        """Read the files; TableError names file and row of a fault."""
        return cls(
            None if subscriptions is None else read_own_subscriptions(subscriptions),
            None
            if publishers is None
            else {row.publisher: row for row in read_own_publishers(publishers)},
            seed,
            subscriptions_file=str(subscriptions),
            publishers_file=str(publishers),
        )

    def complaints(self, attributes: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        """Return tests of filters that publications with these attributes cannot pass, a line
        each.
        """
        if self.subscriptions is None:
            return ()
        asked = CheckedKind.of(parse(own.filter) for own in self.subscriptions)
        # One more than are looked at says that there are more.
        some = [
            {name: _plain(value) for name, value in each.items() if value is not None}
            for each in itertools.islice(attributes, SAMPLE + 1)
        ]
        return tuple(complaints(asked, some))

    def of_publishers(self, events: DataFrame) -> DataFrame:
        """The events of these publishers; TableError names one that has none."""
        if self.publishers is None:
            return events
        found = {row[0] for row in events.select("publisher").distinct().collect()}
        return events.where(events["publisher"].isin(self.wanted_publishers(found)))

    def wanted_publishers(self, found: Collection[str]) -> list[str] | None:
        """Return the publishers with events that count, of the existing ones; None: all."""
        if self.publishers is None:
            return None
        for name in self.publishers:
            if name not in found:
                hint = did_you_mean(name, sorted(found))
                raise TableError(
                    f"{self.publishers_file}: {name!r} has no publication in the window{hint}"
                )
        return sorted(self.publishers)

    def publisher_table(self, derived: DataFrame, places: Sequence[BrokerPlace]) -> DataFrame:
        """Return the publishers, with the user's values in place of derived ones."""
        if self.publishers is None:
            return derived
        rows = self.publisher_rows([row.asDict() for row in derived.collect()], places)
        tuples = [tuple(row[name] for name in PUBLISHERS.names) for row in rows]
        return derived.sparkSession.createDataFrame(tuples, PUBLISHERS)

    def publisher_rows(
        self, derived: Sequence[dict[str, Any]], places: Sequence[BrokerPlace]
    ) -> list[dict[str, Any]]:
        """The same of rows, by column."""
        if self.publishers is None:
            return list(derived)
        by_name = {place.broker: place for place in places}
        rows = []
        for row in derived:
            values, own = dict(row), self.publishers[row["publisher"]]
            if own.broker:
                who = f"{self.publishers_file}: {own.publisher!r}"
                place = by_name[_known(own.broker, by_name, who)]
                values |= {
                    "broker": place.broker,
                    "latitude": place.latitude,
                    "longitude": place.longitude,
                }
            if own.advertisement:
                values["advertisement"] = own.advertisement
            rows.append(values)
        return rows

    def subscription_table(
        self,
        spark: SparkSession,
        brokers: Sequence[BrokerId],
        ends: tuple[int, int],
        duration_us: int | None,
    ) -> DataFrame | None:
        """The subscriptions, their times in the replay's; None if they are to be derived.

        Those that come and go outside the events' time are `left_out`.
        """
        rows = self.subscription_rows(brokers, ends, duration_us)
        return None if rows is None else spark.createDataFrame(rows, OWN_SUBSCRIPTIONS)

    def subscription_rows(
        self, brokers: Sequence[BrokerId], ends: tuple[int, int], duration_us: int | None
    ) -> list[tuple[Any, ...]] | None:
        """The rows of that table."""
        if self.subscriptions is None:
            return None
        rows: list[tuple[Any, ...]] = []
        for own in self.subscriptions:
            who = f"{self.subscriptions_file}: {own.id!r}"
            broker = _known(own.broker, brokers, who) if own.broker else ""
            begins, goes = own.interval_us
            if (begins is not None and begins >= ends[1]) or (goes is not None and goes <= ends[0]):
                self.left_out += 1
                continue
            from_us, to_us = (
                None if each is None else replay_time(each, ends, duration_us)
                for each in (begins, goes)
            )
            rows.append(
                (
                    own.id,
                    own.client or f"{own.id}/client",
                    broker or random.Random(f"{self.seed}/broker/{own.id}").choice(brokers),
                    None,
                    OWN,
                    None,
                    None,
                    own.filter,
                    None if from_us is not None and from_us <= 0 else from_us,
                    to_us,
                    own.every or None,
                    own.changed or None,
                )
            )
        if not rows:
            raise TableError(f"{self.subscriptions_file}: all come and go outside the events' time")
        return rows


def _known(broker: str, brokers: Sequence[str] | Mapping[str, object], who: str) -> str:
    if broker not in brokers:
        hint = did_you_mean(broker, list(brokers))
        raise TableError(f"{who}: there is no broker {broker!r}{hint}")
    return broker


def _plain(value: Any) -> Any:
    """The value of a mixed column, which Spark gives as a row."""
    return plain_value(value.asDict() if isinstance(value, Row) else value)
