"""The data source `shoal`: the logs of a network's brokers as a table, or as a stream.

Partitions are ranges of one broker's offsets; tasks ask the brokers for them in pages, and give
Arrow batches. Offsets of a stream are `{broker: next offset}`. A range of offsets always has the
same records, so Spark may read it again after any failure; records that retention has deleted
meanwhile are an error, never fewer rows.

Two variants were weighed for a stream's beginning. Spark asks for the initial offset again after a
restart until its first batch is done, so "latest" must be remembered somewhere: in the checkpoint,
which no source can see, or at the brokers. They have named readers anyway, to hold back deletion.
So a stream that does not begin at the earliest record needs a name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from shoal.spark.options import OptionError, SourceOptions, read_options
from shoal.spark.ranges import FIXED, LogPartition, check_schema, plan, read_partition, resolve
from shoal.spark.sink import RowStreamWriter, RowWriter
from shoal.spark.sink_rows import read_sink_options
from shoal.spark.staged_sink import StagedStreamWriter, StagedTableWriter


class Source(DataSource):
    """Registered by `spark.dataSource.register(shoal.spark.Source)`; options in `SourceOptions`.

    Columns are `broker`, `offset`, `time`, `publisher`, `key`, `topic`, `payload`, `attributes`
    (JSON), `qos`, `retain`, `content_type`, `user_properties`, then those of the option
    `attributes`. `.schema(…)` names all columns instead, of either kind, and tasks give no others.

    As a sink it publishes each row exactly once, or at least once; options in `SinkOptions`.
    """

    @classmethod
    def name(cls) -> str:
        return "shoal"

    def schema(self) -> str:
        # As a text: Spark alone can read types, and not in this process.
        columns = [f"{field.name} {field.dataType.simpleString()}" for field in FIXED]
        attributes = read_options(self.options).attributes
        return ", ".join([*columns, attributes] if attributes else columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        return LogTableReader(read_options(self.options), schema)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802  # Spark's name
        try:
            from shoal.spark.stream import LogStreamReader
        except ImportError:
            raise OptionError("reading a stream needs PySpark 4.2 or later") from None
        return LogStreamReader(read_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise OptionError('a network cannot be overwritten; say mode("append")')
        options = read_sink_options(self.options, schema)
        is_staged = options.delivery == "exactly_once"
        return StagedTableWriter(options) if is_staged else RowWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        if overwrite:
            raise OptionError('a network cannot be overwritten; say outputMode("append")')
        options = read_sink_options(self.options, schema)
        is_staged = options.delivery == "exactly_once"
        return StagedStreamWriter(options) if is_staged else RowStreamWriter(options)


class LogTableReader(DataSourceReader):
    """Reads the ranges between two points as they are when the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema)
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        options, logs = self._options, self._options.logs()
        begins = resolve("startingOffsets", options.starting_offsets, logs)
        ends = resolve("endingOffsets", options.ending_offsets, logs)
        return plan(logs, begins, ends, options, self._schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogPartition)
        return read_partition(partition)
