"""The data source `shoal` as a sink: each row of a table or a stream is published, acknowledged.

At least once: a task or a batch that Spark repeats publishes its rows again. Rows of one partition
keep their order. Partitions publish at the brokers in turn.

Exactly once needs a place at the brokers where rows wait until Spark commits their batch, and one
broker that decides which attempts count. Until then `key_column` names a column by which
subscribers can tell a repeated row: it travels as the user property `key`.
"""

from __future__ import annotations

import asyncio
import datetime
import decimal
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, StringType, StructType

from shoal.client import Client, ClientError
from shoal.client.endpoint import Tls, read_endpoint
from shoal.log.remote import listeners_in
from shoal.spark.options import OptionError

# Publications of a task that await their acknowledgement.
WINDOW = 500
KEY = "key"
_KNOWN = {
    "network", "brokers", "topic", "topiccolumn", "payloadcolumn", "keycolumn", "qos", "retain",
    "username", "password", "authority", "servername", "checkpointlocation",
}  # fmt: skip


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options; Spark gives them as texts, with names in any case.

    network          a network file that the driver can read, whose brokers take the rows
    brokers          instead: addresses for MQTT clients, with commas between them
    topic            the topic of all rows
    topic_column     instead: the column with each row's topic; `topic`
    payload_column   the column with the payload, text or bytes; without, the payload is a JSON
                     object of all other columns, whose fields filters see
    key_column       a column that identifies a row
    qos, retain      of all publications
    """

    brokers: tuple[str, ...]
    topic: str = ""
    topic_column: str = "topic"
    payload_column: str = ""
    key_column: str = ""
    qos: int = 1
    retain: bool = False
    username: str | None = None
    password: str | None = None
    tls: Tls = Tls()


class PublishedRows(WriterCommitMessage):
    """How many rows a task has published."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


def read_sink_options(given: Mapping[str, str], schema: StructType) -> SinkOptions:
    """Read the options of a writer; OptionError names one that is unknown or wrong."""
    texts = {name.lower(): text for name, text in given.items()}
    network = texts.pop("path", None) or texts.get("network", "")
    if unknown := sorted(set(texts) - _KNOWN):
        raise OptionError(f"option {unknown[0]}: unknown; there are {', '.join(sorted(_KNOWN))}")
    listed = [each.strip() for each in texts.get("brokers", "").split(",") if each.strip()]
    brokers = listed or (client_addresses(Path(network)) if network else [])
    if not brokers:
        raise OptionError("option brokers: name their addresses, or the network file (network)")
    for each in brokers:
        try:
            read_endpoint(each)
        except ValueError as error:
            raise OptionError(f"option brokers: {error}") from None
    qos = texts.get("qos", "1")
    if qos not in ("0", "1", "2"):
        raise OptionError(f"option qos: {qos!r} is not 0, 1 or 2")
    options = SinkOptions(
        brokers=tuple(brokers),
        topic=texts.get("topic", ""),
        topic_column=texts.get("topiccolumn", "topic"),
        payload_column=texts.get("payloadcolumn", ""),
        key_column=texts.get("keycolumn", ""),
        qos=int(qos),
        retain=texts.get("retain", "false").lower() == "true",
        username=texts.get("username"),
        password=texts.get("password"),
        tls=Tls(authority=texts.get("authority", ""), server_name=texts.get("servername", "")),
    )
    _check_columns(options, schema)
    return options


def client_addresses(path: Path) -> list[str]:
    """Addresses of a network file's brokers for MQTT clients; OptionError for a bad file."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"option network: {path}: {error}") from None
    plain, over_tls = (listeners_in(data, key) for key in ("mqtt", "mqtts"))
    found = {name: f"mqtts://{where}" for name, where in over_tls.items()} | plain
    names = (each["name"] for each in data.get("brokers", ()))
    return [found[name] for name in names if name in found]


def _check_columns(options: SinkOptions, schema: StructType) -> None:
    if not options.topic:
        _check(schema, "topicColumn", options.topic_column, (StringType,))
    if options.payload_column:
        _check(schema, "payloadColumn", options.payload_column, (StringType, BinaryType))
    if options.key_column:
        _check(schema, "keyColumn", options.key_column, None)


def _check(schema: StructType, option: str, name: str, kinds: tuple[type, ...] | None) -> None:
    if name not in schema.names:
        raise OptionError(
            f"option {option}: there is no column {name!r}; there are {', '.join(schema.names)}"
        )
    if kinds is not None and not isinstance(schema[name].dataType, kinds):
        kind = schema[name].dataType.simpleString()
        raise OptionError(f"option {option}: column {name} is {kind}, not text")


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
    topic = options.topic or row[options.topic_column]
    key = row[options.key_column] if options.key_column else None
    payload, content_type = payload_of(row, options)
    try:
        await client.publish(
            topic or "",
            payload,
            qos=options.qos,
            retain=options.retain,
            attributes=None if key is None else {KEY: _key(key)},
            content_type=content_type,
        )
    except (ClientError, ValueError) as error:
        raise ClientError(f"the row for topic {topic!r}: {error}") from None


def _key(value: Any) -> bool | int | float | str:
    return value if isinstance(value, bool | int | float | str) else str(value)


def payload_of(row: Mapping[str, Any], options: SinkOptions) -> tuple[bytes, str | None]:
    """The payload of a row, and its content type.

    >>> payload_of({"topic": "t", "x": 1, "y": None}, SinkOptions(brokers=("b",)))
    (b'{"x":1}', 'application/json')
    """
    if options.payload_column:
        value = row[options.payload_column]
        return (value.encode() if isinstance(value, str) else value or b""), None
    own = {options.topic_column} if not options.topic else set[str]()
    fields = {
        name: _json(value)
        for name, value in row.items()
        if name not in own and name != options.key_column and value is not None
    }
    return msgspec.json.encode(fields), "application/json"


def _json(value: Any) -> Any:
    """A value of a column as JSON has it: times as texts, decimals as numbers."""
    match value:
        case decimal.Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case datetime.datetime() | datetime.date():
            return value.isoformat()
        case Mapping():
            return {str(name): _json(each) for name, each in value.items()}
        case bytes():
            return value.hex()
        case str():
            return value
        case Sequence():
            return [_json(each) for each in value]
    return value
