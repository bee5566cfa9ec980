"""The data source `shoal` as a stream (PySpark 4.2 or later).

The cursor of a named reader moves to a batch's start, not to its end: only then has Spark written
in its checkpoint that all before it is done. No call of Spark's `commit` or `stop` is relied on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar
from urllib.parse import urlencode

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from shoal.log.errors import LogError
from shoal.log.remote import LogAnswerError, LogBounds, RemoteLog, patiently
from shoal.spark.options import EARLIEST, LATEST, Offsets, OptionError, SourceOptions, offsets_in
from shoal.spark.options import time_in as read_time
from shoal.spark.ranges import LogPartition, check_schema, plan, read_partition, resolve

_T = TypeVar("_T")


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans a stream's batches by the ends of all logs."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema)
        starting = options.starting_offsets
        if not options.reader and starting != EARLIEST and offsets_in(starting) is None:
            raise OptionError(
                f"option startingOffsets: a stream from {starting} needs a name (option reader), "
                "which brokers remember: Spark asks again after a restart"
            )
        self._options = options
        self._schema = schema
        self._logs: dict[str, RemoteLog] = {}
        # The offsets at which a trigger "available now" ends.
        self._target: Offsets | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_logs": {}}

    def initialOffset(self) -> Offsets:  # noqa: N802  # Spark's name
        return self._waiting(self._initial)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        return self._waiting(partial(self._latest, start, limit))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._waiting(lambda: resolve("latest", LATEST, self._all_logs()))

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        return self._waiting(partial(self._planned, start, end))

    def _waiting(self, call: Callable[[], _T]) -> _T:
        """The result of a call; a broker that is killed meanwhile is waited for, if it is to be."""
        options = self._options
        return patiently(call, options.patience_s if options.waits_for_brokers else 0.0)

    def _initial(self) -> Offsets:
        logs, options = self._all_logs(), self._options
        starting = options.starting_offsets
        if not options.reader:
            return resolve("startingOffsets", starting, logs)
        given = offsets_in(starting)
        found = {}
        for name, log in logs.items():
            if given is not None:
                at = given.get(name, EARLIEST)
            elif starting in (EARLIEST, LATEST):
                at = starting
            else:
                query = urlencode({"time_us": read_time("startingOffsets", starting)})
                found[name] = log.pin(options.reader, query)
                continue
            found[name] = log.pin(options.reader, urlencode({"from": at}))
        return found

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_rows:
            return ReadMaxRows(self._options.max_rows)
        if self._options.max_bytes:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def _latest(self, start: Offsets, limit: ReadLimit) -> Offsets:
        bounds = self._bounds(start)
        self._move_cursors(start, bounds)
        ends = self._ends(bounds)
        begins = {name: start.get(name, bounds[name].first) for name in bounds}
        # A broker that does not answer waits where it is.
        found = {**start, **{name: max(begins[name], ends[name]) for name in bounds}}
        left = _rows_in(limit, bounds)
        if left is None:
            return found
        behind = [name for name in sorted(bounds) if found[name] > begins[name]]
        for at, name in enumerate(behind):
            share = max(1, left // (len(behind) - at))
            found[name] = min(found[name], begins[name] + share)
            left = max(0, left - (found[name] - begins[name]))
        return found

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802
        try:
            return resolve("latest", LATEST, self._all_logs())
        except LogError:
            return None

    def _planned(self, start: Offsets, end: Offsets) -> list[LogPartition]:
        logs = self._all_logs()
        for name in end:
            if name not in logs and end[name] != start.get(name):
                raise LogError(f"there is no log of {name} any more; {end[name]} is its offset")
        begins = {name: start[name] if name in start else logs[name].bounds().first for name in end}
        changed = {name: offset for name, offset in end.items() if offset != begins[name]}
        if not changed:
            return []
        return plan(logs, begins, changed, self._options, self._schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogPartition)
        return read_partition(partition)

    def _all_logs(self) -> dict[str, RemoteLog]:
        """The logs by broker; those of brokers that joined since are found, too."""
        self._logs = self._options.logs() | self._logs
        return self._logs

    def _bounds(self, start: Offsets) -> dict[str, LogBounds]:
        """Bounds of the logs that answer; LogAnswerError if one does not and it is not to wait."""
        found = {}
        for name, log in self._all_logs().items():
            try:
                found[name] = log.bounds()
            except LogAnswerError:
                if not self._options.waits_for_brokers:
                    raise
        return found

    def _ends(self, bounds: dict[str, LogBounds]) -> Offsets:
        ends = {name: each.next for name, each in bounds.items()}
        if self._target is None:
            return ends
        return {name: min(end, self._target.get(name, 0)) for name, end in ends.items()}

    def _move_cursors(self, start: Offsets, bounds: dict[str, LogBounds]) -> None:
        reader = self._options.reader
        if not reader:
            return
        for name in bounds:
            if name in start:
                self._logs[name].move(reader, start[name])
            else:  # a broker that joined
                self._logs[name].pin(reader, urlencode({"from": EARLIEST}))


def _rows_in(limit: ReadLimit, bounds: dict[str, LogBounds]) -> int | None:
    """How many records a batch may have; None for all."""
    if isinstance(limit, ReadMaxRows):
        return int(limit.max_rows)
    if isinstance(limit, ReadMaxBytes):
        records = sum(each.next - each.first for each in bounds.values())
        size = sum(each.bytes for each in bounds.values())
        return max(1, int(limit.max_bytes) * records // max(1, size))
    return None
