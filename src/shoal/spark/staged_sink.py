"""Rows that are published exactly once: tasks stage them at brokers, and the batch commits them.

`shoal.log.staging` says why this holds. A stream's batch is named by Spark's query and batch ids,
which its tasks find among their properties; a new checkpoint is a new query. A table has no such
ids: `write_id` and `batch` name it, so that a repeated write publishes nothing, else each write
publishes its rows, all of them or, if it fails, none.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from shoal.client import ClientError
from shoal.client.publishing import make_publish
from shoal.log.remote import LogAnswerError, RemoteLog
from shoal.log.staging.parts import Attempt
from shoal.log.staging.remote import RemoteStaging, commit_batch
from shoal.log.staging.staged_rows import StagedRow
from shoal.spark.options import OptionError
from shoal.spark.sink_rows import SinkOptions, attributes_of, payload_of, topic_of

_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


class StagedAttempt(WriterCommitMessage):
    """A task's attempt, of a query's batch; without rows there is none."""

    def __init__(self, query: str, batch: int, attempt: Attempt | None) -> None:
        self.query = query
        self.batch = batch
        self.attempt = attempt


class StagedTableWriter(DataSourceArrowWriter):
    """Publishes the rows of a table when all its tasks have staged theirs."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._is_named = bool(options.write_id)
        self._query = options.write_id or f"write-{uuid.uuid4().hex}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return stage_rows(iterator, self._options, self._query, self._options.batch)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        brokers = _brokers(self._options)
        commit_batch(brokers, self._query, self._options.batch, _attempts(messages))
        if not self._is_named:
            _forget(brokers, self._query)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if not self._is_named:
            _forget(_brokers(self._options, patience_s=0.0), self._query)


class StagedStreamWriter(DataSourceStreamArrowWriter):
    """Publishes the rows of a stream's batches, each batch once."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        query, batch = (context.getLocalProperty(key) for key in (_QUERY_ID, _BATCH_ID))
        if not query or batch is None:
            raise OptionError(
                "option delivery: this Spark does not name the query to its tasks; say "
                "delivery = at_least_once"
            )
        return stage_rows(iterator, self._options, query, int(batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        named = [each for each in messages if isinstance(each, StagedAttempt)]
        if named:
            commit_batch(_brokers(self._options), named[0].query, batchId, _attempts(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing: Spark names no attempts here; the query's next list clears them, or age."""


def stage_rows(
    batches: Iterator[pa.RecordBatch], options: SinkOptions, query: str, batch: int
) -> StagedAttempt:
    """Stage the rows of one task; LogAnswerError names the row that a broker refuses."""
    context = TaskContext.get()
    number, attempt = (
        (0, 0) if context is None else (context.partitionId(), context.attemptNumber())
    )
    rows = _rows(batches, options)
    first = next(rows, None)
    if first is None:
        return StagedAttempt(query, batch, None)
    name = f"{number:05}-{attempt}-{uuid.uuid4().hex[:12]}"
    broker, staging = _reachable(options, number)
    count = staging.stage(query, batch, name, _chain(first, rows))
    return StagedAttempt(query, batch, Attempt(broker, name, count))


def _reachable(options: SinkOptions, number: int) -> tuple[str, RemoteStaging]:
    """The staging area for a partition: brokers in turn, but for those that do not answer."""
    names = sorted(options.logs)
    turn = [names[(number + each) % len(names)] for each in range(len(names))]
    for name in turn:
        try:
            RemoteLog(options.logs[name], options.login).bounds()
        except LogAnswerError as error:
            if error.is_refusal:
                raise
        else:
            return name, _staging(options, name)
    return turn[0], _staging(options, turn[0])


def _staging(options: SinkOptions, name: str, patience_s: float | None = None) -> RemoteStaging:
    log = RemoteLog(options.logs[name], options.login)
    return RemoteStaging(log, options.patience_s if patience_s is None else patience_s)


def _brokers(options: SinkOptions, patience_s: float | None = None) -> dict[str, RemoteStaging]:
    return {name: _staging(options, name, patience_s) for name in options.logs}


def _attempts(messages: Sequence[WriterCommitMessage | None]) -> list[Attempt]:
    return [
        each.attempt
        for each in messages
        if isinstance(each, StagedAttempt) and each.attempt is not None
    ]


def _forget(brokers: Mapping[str, RemoteStaging], query: str) -> None:
    for broker in brokers.values():
        try:
            broker.forget(query)
        except LogAnswerError:  # it has nothing of it, or forgets with age
            continue


def _rows(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> Iterator[StagedRow]:
    for batch in batches:
        for row in batch.to_pylist():
            topic, (payload, content_type) = topic_of(row, options), payload_of(row, options)
            try:
                packet = make_publish(
                    *(topic, payload, options.qos, options.retain),
                    attributes=attributes_of(row, options),
                    content_type=content_type,
                )
            except ValueError as error:
                raise ClientError(f"the row for topic {topic!r}: {error}") from None
            properties = packet.properties.user_properties
            yield StagedRow(
                *(topic, payload, options.qos, options.retain, content_type, properties)
            )


def _chain(first: StagedRow, rows: Iterator[StagedRow]) -> Iterator[StagedRow]:
    yield first
    yield from rows
