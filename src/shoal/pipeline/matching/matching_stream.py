"""Publications that keep arriving, as files or from a Python data source, matched as they come.

Structured Streaming finds new publications; each micro-batch of them is matched like a table, and
its pairs become one folder, `batch=N`, that appears whole. A run that was interrupted, and starts
again with the same folder of checkpoints, repeats its last batch and replaces that folder: every
publication's pairs are there once, for every reader of the folder. A data source has to give the
same publications again for the same offsets, as Spark asks of any.

A batch is matched with the subscriptions as they are when it begins: files that have changed are
read again.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.query import StreamingQuery

from shoal.frames.compaction import compact
from shoal.frames.errors import TableError
from shoal.frames.folders import new_folder
from shoal.frames.parquet_files import check_parquet
from shoal.pipeline.matching.compiled_matching import shared_pairs
from shoal.pipeline.matching.python_sources import as_stream_source
from shoal.pipeline.matching.shared_subscriptions import share
from shoal.pipeline.matching.subscription_tables import read_subscriptions
from shoal.pipeline.session import is_connect
from shoal.pipeline.tables import spark_path, write_table

CHECKPOINTS = "_checkpoints"

Engine = Callable[[DataFrame], DataFrame]


class LatestSubscriptions:
    """Matches batches by the index of subscriptions that may change between them.

    `read` gives their table in a session; `version` tells whether it has changed, without reading
    it. TableError and FilterSyntaxError for a table that cannot be used: the stream ends, and goes
    on with the same batch when it is started again.
    """

    def __init__(
        self,
        spark: SparkSession,
        read: Callable[[SparkSession], DataFrame],
        version: Callable[[], object],
    ) -> None:
        self._read = read
        self._version = version
        self._known = version()
        self._shared = share(spark, read_subscriptions(read(spark)))

    def __call__(self, batch: DataFrame) -> DataFrame:
        version, spark = self._version(), batch.sparkSession
        if version != self._known:
            found = read_subscriptions(self._read(spark))
            self._shared = share(spark, found, with_query=is_connect(spark))
            self._known = version
        return shared_pairs(batch, self._shared)


def files_version(path: Path) -> object:
    """What changes when the files of a table do: their names, times and sizes."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    stats = [(str(each), each.stat()) for each in files if each.is_file()]
    return [(name, stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in stats]


def match_stream(
    publications: DataFrame, engine: Engine, out: Path, *, only_what_is_there: bool
) -> StreamingQuery:
    """Start to match a stream of publications with `engine`.

    The pairs go to `out`, with the checkpoints.  The query ends when everything that was there is
    matched, or else goes on until it is stopped.
    """
    out.mkdir(parents=True, exist_ok=True)
    writer = publications.writeStream.foreachBatch(functools.partial(write_batch, engine, out))
    writer = writer.option("checkpointLocation", spark_path(out / CHECKPOINTS))
    return (writer.trigger(availableNow=True) if only_what_is_there else writer).start()


def read_stream(
    spark: SparkSession, folder: Path, options: Mapping[str, str] | None = None
) -> DataFrame:
    """A folder's Parquet files, now and later; all have the columns of those that are there.

    `options` are Spark's for streams of files, such as `maxFilesPerTrigger` and `latestFirst`.
    TableError if there is no file to tell columns, ParquetError if one is not Parquet.
    """
    if not folder.is_dir():
        raise TableError(f"{folder} is not a folder; a stream is read from a folder of Parquet")
    if not any(folder.rglob("*.parquet")):
        raise TableError(f"{folder} has no Parquet file yet, which would tell the columns")
    check_parquet(folder)
    schema = spark.read.parquet(spark_path(folder)).schema
    reader = spark.readStream.schema(schema).options(**dict(options or {}))
    return reader.parquet(spark_path(folder))


def read_source(spark: SparkSession, name: str, options: Mapping[str, str]) -> DataFrame:
    """The stream of a Python data source, `module:Class`, which workers must be able to import.

    TableError if there is no such module or class, or if it is no `pyspark.sql.DataSource`.
    """
    module, _, kind = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), kind)
    except ImportError as error:
        raise TableError(f"{name}: cannot be imported ({error}); is it on PYTHONPATH?") from error
    except AttributeError:
        raise TableError(f"{name}: module {module} has no class {kind}") from None
    if not (isinstance(found, type) and issubclass(found, DataSource)):
        raise TableError(f"{name}: {kind} is no subclass of pyspark.sql.datasource.DataSource")
    spark.dataSource.register(as_stream_source(found))
    return spark.readStream.format(found.name()).options(**dict(options)).load()


def write_batch(engine: Engine, out: Path, publications: DataFrame, number: int) -> None:
    """Match one micro-batch, and replace its earlier pairs, if there are any."""
    publications.persist()
    try:
        with new_folder(out / f"batch={number}", overwrite=True) as folder:
            write_table(engine(publications), folder)
            # Each task wrote a file, and a stream has many batches.
            compact(folder)
    finally:
        publications.unpersist()
