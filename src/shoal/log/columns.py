"""Records of logs as Arrow tables.

| column | type | |
| --- | --- | --- |
| `broker`, `offset` | string, int64 | where the record is, for ever |
| `time` | timestamp in µs, UTC | when the publication entered, by its broker's clock |
| `publisher`, `key` | string | the client identifier; a name for the publication |
| `topic`, `payload` | string, binary | |
| `attributes` | string | those of payload and user properties, as a JSON object |
| `qos`, `retain`, `content_type` | int8, bool, string | |
| `user_properties` | list of structs `name`, `value` | in their order |

A gap has no row in a table: `shoal log read` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from shoal.log.merging import LoggedRecord
from shoal.log.records import LogRecord, RecordProperties
from shoal.log.rows import json_of_attributes, key_of

Rows = Sequence[tuple[int, LogRecord]]

USER_PROPERTY = pa.struct([("name", pa.string()), ("value", pa.string())])
_NO_PROPERTIES = RecordProperties()


def _user_properties(record: LogRecord) -> list[dict[str, str]]:
    properties = record.properties or _NO_PROPERTIES
    return [{"name": name, "value": value} for name, value in properties.user_properties]


# Columns but for `broker` and `offset`: the type, and the value of a record.
_OF_RECORD: dict[str, tuple[pa.DataType, Callable[[LogRecord], Any]]] = {
    "time": (pa.timestamp("us", tz="UTC"), attrgetter("time_us")),
    "publisher": (pa.string(), attrgetter("publisher")),
    "key": (pa.string(), key_of),
    "topic": (pa.string(), attrgetter("topic")),
    "payload": (pa.binary(), attrgetter("payload")),
    "attributes": (pa.string(), json_of_attributes),
    "qos": (pa.int8(), attrgetter("qos")),
    "retain": (pa.bool_(), attrgetter("retain")),
    "content_type": (
        pa.string(),
        lambda record: (record.properties or _NO_PROPERTIES).content_type,
    ),
    "user_properties": (pa.list_(USER_PROPERTY), _user_properties),
}
SCHEMA = pa.schema(
    [
        pa.field("broker", pa.string()),
        pa.field("offset", pa.int64()),
        *(pa.field(name, kind) for name, (kind, _) in _OF_RECORD.items()),
    ]
)


def column(name: str, broker: str, rows: Rows) -> pa.Array:
    """One column of `SCHEMA` for records of a broker with their offsets."""
    if name == "broker":
        return pa.array([broker] * len(rows), pa.string())
    if name == "offset":
        return pa.array([offset for offset, _ in rows], pa.int64())
    kind, value = _OF_RECORD[name]
    return pa.array([value(record) for _, record in rows], kind)


def to_batch(broker: str, rows: Rows) -> pa.RecordBatch:
    """Records of one broker, with their offsets, as a batch of `SCHEMA`."""
    columns = [column(name, broker, rows) for name in SCHEMA.names]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def to_batches(rows: Iterable[LoggedRecord], most: int) -> Iterator[pa.RecordBatch]:
    """Records of several brokers, in their order, as batches of at most so many rows each."""
    for chunk in batched(rows, most):
        parts = [
            to_batch(broker, [(each.offset, each.record) for each in run])  # type: ignore[misc]
            for broker, run in groupby(chunk, key=attrgetter("broker"))
        ]
        yield pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def batched(rows: Iterable[LoggedRecord], most: int) -> Iterator[list[LoggedRecord]]:
    """Lists of at most so many rows each."""
    source = iter(rows)
    while chunk := list(islice(source, most)):
        yield chunk
