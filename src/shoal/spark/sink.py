"""The data source `shoal` as a sink that publishes at once: each row, acknowledged, at least once.

A task or a batch that Spark repeats publishes its rows again; `key_column` names a column by which
subscribers can tell a repeated row: it travels as the user property `key`. Rows of one partition
keep their order. Partitions publish at the brokers in turn. `staged_sink` publishes exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from shoal.client import Client, ClientError
from shoal.spark.sink_rows import SinkOptions, attributes_of, payload_of, topic_of

# Publications of a task that await their acknowledgement.
WINDOW = 500


class PublishedRows(WriterCommitMessage):
    """How many rows a task has published."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class RowWriter(DataSourceArrowWriter):
    """Publishes the rows of a table."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return publish_rows(iterator, self._options)


class RowStreamWriter(DataSourceStreamArrowWriter):
    """Publishes the rows of a stream's batches."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return publish_rows(iterator, self._options)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is left to do: the rows are published."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing can be taken back."""


def publish_rows(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> PublishedRows:
    """Publish the rows of one task; ClientError names the row that a broker refuses."""
    context = TaskContext.get()
    number = context.partitionId() if context is not None else 0
    return PublishedRows(asyncio.run(_publish(batches, options, number)))


async def _publish(batches: Iterator[pa.RecordBatch], options: SinkOptions, number: int) -> int:
    address, count = options.brokers[number % len(options.brokers)], 0
    client = Client(address, username=options.username, password=options.password, tls=options.tls)
    async with client:
        for batch in batches:
            rows = batch.to_pylist()
            for first in range(0, len(rows), WINDOW):
                window = rows[first : first + WINDOW]
                await asyncio.gather(*(_publish_row(client, each, options) for each in window))
                count += len(window)
    return count


async def _publish_row(client: Client, row: dict[str, Any], options: SinkOptions) -> None:
    topic, (payload, content_type) = topic_of(row, options), payload_of(row, options)
    try:
        await client.publish(
            topic,
            payload,
            qos=options.qos,
            retain=options.retain,
            attributes=attributes_of(row, options),
            content_type=content_type,
        )
    except (ClientError, ValueError) as error:
        raise ClientError(f"the row for topic {topic!r}: {error}") from None
