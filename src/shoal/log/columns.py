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

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from shoal.log.merging import LoggedRecord
from shoal.log.records import LogRecord, RecordProperties
from shoal.log.rows import json_of_attributes, key_of

USER_PROPERTY = pa.struct([("name", pa.string()), ("value", pa.string())])
SCHEMA = pa.schema(
    [
        pa.field("broker", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("time", pa.timestamp("us", tz="UTC")),
        pa.field("publisher", pa.string()),
        pa.field("key", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("payload", pa.binary()),
        pa.field("attributes", pa.string()),
        pa.field("qos", pa.int8()),
        pa.field("retain", pa.bool_()),
        pa.field("content_type", pa.string()),
        pa.field("user_properties", pa.list_(USER_PROPERTY)),
    ]
)
_NO_PROPERTIES = RecordProperties()


def to_batch(broker: str, rows: Sequence[tuple[int, LogRecord]]) -> pa.RecordBatch:
    """Records of one broker, with their offsets, as a batch of `SCHEMA`."""
    records = [record for _, record in rows]
    properties = [each.properties or _NO_PROPERTIES for each in records]
    pairs = [
        [{"name": name, "value": value} for name, value in each.user_properties]
        for each in properties
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([broker] * len(rows), pa.string()),
            pa.array([offset for offset, _ in rows], pa.int64()),
            pa.array([each.time_us for each in records], pa.timestamp("us", tz="UTC")),
            pa.array([each.publisher for each in records], pa.string()),
            pa.array(map(key_of, records), pa.string()),
            pa.array([each.topic for each in records], pa.string()),
            pa.array([each.payload for each in records], pa.binary()),
            pa.array(map(json_of_attributes, records), pa.string()),
            pa.array([each.qos for each in records], pa.int8()),
            pa.array([each.retain for each in records], pa.bool_()),
            pa.array([each.content_type for each in properties], pa.string()),
            pa.array(pairs, pa.list_(USER_PROPERTY)),
        ],
        schema=SCHEMA,
    )


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
