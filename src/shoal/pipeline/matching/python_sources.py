"""Python data sources for streams that end when all that is there is read.

With the trigger "available now" Spark asks a source once, at its start, where the data ends. A
reader without support for that trigger is asked from its *initial* offset, not from where the last
run ended: a simple reader, and any other that gives a bounded number of rows at a time, names the
end of its first batch again, and no later row is ever read. `as_stream_source` supports the trigger
for such readers: they are asked from the end of the last batch on, until they have nothing more.

| reader | its batches with "available now" |
| --- | --- |
| `SimpleDataSourceStreamReader` | one for each `read`, until `read` does not move on |
| `DataSourceStreamReader` | all that is there at the start in one batch |
| either with `SupportsTriggerAvailableNow` | as the reader says |

Spark's tasks read the rows of a simple reader, by `readBetweenOffsets`; the rows that its `read`
gives beside the offset are not used.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

Offset = dict[str, Any]

# Questions about the end at one place: a source that grows faster than it answers has no end.
_MOST_STEPS = 1_000


def as_stream_source(source: type[DataSource]) -> type[DataSource]:
    """Return a data source of the same name, whose streams support "available now"."""

    class Adapted(source):  # type: ignore[misc,valid-type]
        @classmethod
        def name(cls) -> str:
            return source.name()

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
            return adapted_reader(super(), schema)

    return Adapted


def adapted_reader(source: Any, schema: Any) -> DataSourceStreamReader:
    """Return the reader of a data source, or a reader around it that supports the trigger."""
    try:
        reader: DataSourceStreamReader = source.streamReader(schema)
    except PySparkNotImplementedError:
        simple = source.simpleStreamReader(schema)
        if isinstance(simple, SupportsTriggerAvailableNow):
            raise  # Spark then takes the simple reader itself
        return _Steps(simple)
    supports = isinstance(reader, SupportsTriggerAvailableNow)
    return reader if supports else _ToTheEnd(reader)


class _Span(InputPartition):
    """The rows between two offsets."""

    def __init__(self, start: Offset, end: Offset) -> None:
        self.start = start
        self.end = end


class _Steps(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A simple reader, a batch for each step that it takes."""

    def __init__(self, simple: SimpleDataSourceStreamReader) -> None:
        self._simple = simple

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Nothing: the end is where a step does not move on."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def initialOffset(self) -> Offset:  # noqa: N802
        return self._simple.initialOffset()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        _, end = self._simple.read(start)
        return end

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return [_Span(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, _Span)
        return self._simple.readBetweenOffsets(partition.start, partition.end)

    def commit(self, end: Offset) -> None:
        self._simple.commit(end)


class _ToTheEnd(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that, with the trigger, gives everything up to the end that it has at its start."""

    def __init__(self, reader: DataSourceStreamReader) -> None:
        self._reader = reader
        # A method of Spark 4.1 and before, without parameters.
        self._knows_no_start = not inspect.signature(reader.latestOffset).parameters
        self._is_bounded = False
        self._end: Offset | None = None
        self._is_final = False

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._is_bounded = True

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return self._reader.getDefaultReadLimit()

    def initialOffset(self) -> Offset:  # noqa: N802
        return self._reader.initialOffset()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        if not self._is_bounded:
            return self._ask(start, limit)
        if self._end is None or not (self._is_final or _are_one(start, self._end)):
            self._find_end(start)
        elif not self._is_final:
            self._find_end(self._end)
        assert self._end is not None
        return self._end

    def _ask(self, start: Offset, limit: ReadLimit) -> Offset:
        if self._knows_no_start:
            return self._reader.latestOffset()  # type: ignore[call-arg]
        return self._reader.latestOffset(start, limit)

    def _find_end(self, start: Offset) -> None:
        """Ask again from each answer on: a reader may name a bounded number of rows at a time."""
        self._end = start
        if self._knows_no_start:
            self._end, self._is_final = self._ask(start, ReadAllAvailable()), True
            return
        for _ in range(_MOST_STEPS):
            further = self._ask(self._end, ReadAllAvailable())
            self._is_final = _are_one(further, self._end)
            if self._is_final:
                return
            self._end = further

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        return self._reader.reportLatestOffset()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return self._reader.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._reader.read(partition)

    def commit(self, end: Offset) -> None:
        self._reader.commit(end)

    def stop(self) -> None:
        self._reader.stop()


def _are_one(first: Offset, second: Offset) -> bool:
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
