"""Ranges of brokers' logs: planned by offsets, and read by tasks as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    StructType,
)

from shoal.log.columns import SCHEMA, column
from shoal.log.errors import LogError, OffsetGoneError
from shoal.log.records import LogGap, LogRecord
from shoal.log.remote import LogLogin, RemoteLog, pages
from shoal.log.rows import own_attributes
from shoal.spark.options import (
    EARLIEST,
    LATEST,
    Offsets,
    OptionError,
    SourceOptions,
    offsets_in,
    time_in,
)

FIXED = StructType()
for _field in SCHEMA:
    FIXED.add(_field.name, from_arrow_type(_field.type))
_NUMBERS = (DoubleType, FloatType)
_OF_ATTRIBUTES = (StringType, BooleanType, IntegralType, *_NUMBERS)


class LogRange(NamedTuple):
    """Offsets [begin, end) of one broker's log."""

    broker: str
    url: str
    begin: int
    end: int


class LogPartition(InputPartition):
    """The range that one task reads, with everything that it needs; None reads nothing."""

    def __init__(self, range: LogRange | None, login: LogLogin, query: LogQuery) -> None:
        super().__init__(range)
        self.range = range
        self.login = login
        self.query = query


class LogQuery(NamedTuple):
    """The topics and the content that tasks ask for, and the columns that they give.

    A task waits `patience_s` for a broker that does not answer.
    """

    topics: Sequence[str]
    where: str
    schema: StructType
    wrong_types: str
    fails_on_loss: bool
    patience_s: float


def resolve(option: str, text: str, logs: dict[str, RemoteLog]) -> Offsets:
    """An offset for each log, of a word, a time or JSON."""
    if text in (EARLIEST, LATEST):
        bounds = {name: each.bounds() for name, each in logs.items()}
        return {n: each.first if text == EARLIEST else each.next for n, each in bounds.items()}
    given = offsets_in(text)
    if given is None:
        time_us = time_in(option, text)
        return {name: each.offset_at(time_us) for name, each in logs.items()}
    for name in given:
        if name not in logs:
            raise OptionError(f"option {option}: there is no log of {name!r}")
    return given


def plan(
    logs: dict[str, RemoteLog],
    begins: Offsets,
    ends: Offsets,
    options: SourceOptions,
    schema: StructType,
) -> list[LogPartition]:
    """Partitions for [begin, end) of each broker; one of nothing if there are no records."""
    query = LogQuery(
        options.topics,
        options.where,
        schema,
        options.wrong_types,
        options.fails_on_loss,
        options.patience_s,
    )
    found: list[LogPartition] = []
    for name, end in ends.items():
        begin = begins.get(name, 0)
        if begin > end:
            raise LogError(
                f"the log of {name} ends at {end}, before offset {begin}: an older copy of its "
                "folder was restored, or the offsets are another log's"
            )
        if begin == end:
            continue
        step = records_in(logs[name], options.partition_bytes)
        for at in range(begin, end, step):
            part = LogRange(name, logs[name].url, at, min(end, at + step))
            found.append(LogPartition(part, options.login, query))
    return found or [LogPartition(None, options.login, query)]


def records_in(log: RemoteLog, size: int) -> int:
    """About how many records of a log have so many bytes; at least 1."""
    bounds = log.bounds()
    count = max(1, bounds.next - bounds.first)
    return max(1, size * count // max(1, bounds.bytes))


def read_partition(partition: LogPartition) -> Iterator[pa.RecordBatch]:
    """The records of a range, a batch for each page."""
    part, query = partition.range, partition.query
    if part is None:
        return
    log = RemoteLog(part.url, partition.login)
    begin = part.begin
    read = partial(pages, log, topics=query.topics, where=query.where, patience_s=query.patience_s)
    try:
        while begin < part.end:
            try:
                for page in read(begin, part.end):
                    begin = page.next
                    rows = [
                        (offset, record)
                        for offset, record in page.records
                        if not isinstance(record, LogGap)
                    ]
                    if rows:
                        yield to_batch(part.broker, rows, query)
            except OffsetGoneError as error:
                if query.fails_on_loss:
                    raise LogError(
                        f"records of {part.broker} from offset {begin} on are deleted: {error}; "
                        "to go on without them, set failOnDataLoss to false"
                    ) from None
                begin = max(begin + 1, error.first)
    finally:
        log.close()


def to_batch(broker: str, rows: Sequence[tuple[int, LogRecord]], query: LogQuery) -> pa.RecordBatch:
    """Records as a batch with the columns of a query."""
    schema = query.schema
    asked = [field for field in schema if field.name not in FIXED.names]
    found = [own_attributes(record) for _, record in rows] if asked else []
    arrays = []
    for field in schema:
        kind = to_arrow_type(field.dataType, timezone="UTC")
        if field.name in FIXED.names:
            arrays.append(column(field.name, broker, rows).cast(kind))
            continue
        values = [
            typed(each.get(field.name), field.dataType, field.name, query.wrong_types)
            for each in found
        ]
        arrays.append(pa.array(values, kind))
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def typed(value: Any, kind: DataType, name: str, wrong_types: str) -> Any:
    """An attribute's value for a column of this type; None, or ValueError, for another type."""
    if value is None:
        return None
    if isinstance(kind, StringType) and isinstance(value, str):
        return value
    if isinstance(kind, BooleanType) and isinstance(value, bool):
        return value
    if isinstance(kind, IntegralType) and type(value) is int:
        return value
    if isinstance(kind, _NUMBERS) and type(value) in (int, float):
        return float(value)
    if wrong_types == "null":
        return None
    raise ValueError(f"attribute {name}: {value!r} is no {kind.simpleString()}")


def check_schema(schema: StructType) -> None:
    """SourceError for a column that no record can have."""
    for name in FIXED.names:
        if schema.names.count(name) > 1:
            raise OptionError(f"option attributes: {name} is a column of every log")
    for field in schema:
        if field.name in FIXED.names:
            if field.dataType != FIXED[field.name].dataType:
                wanted = FIXED[field.name].dataType.simpleString()
                raise OptionError(f"column {field.name}: its type is {wanted}")
        elif not isinstance(field.dataType, _OF_ATTRIBUTES):
            raise OptionError(
                f"column {field.name}: an attribute is a STRING, BOOLEAN, BIGINT or DOUBLE, not "
                f"{field.dataType.simpleString()}"
            )
