"""Publications that keep arriving as Parquet files, matched as they come.

Structured Streaming says which files are new; each micro-batch of them is matched like a table,
and its pairs become one folder, `batch=N`, that appears whole.  A run that was interrupted, and
starts again with the same folder of checkpoints, repeats the batch it was in and replaces that
folder: every publication's pairs are there once, for whoever reads the folder by whatever means.

The subscriptions are read when a run starts; those that change meanwhile count from the next run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from shoal.pipeline.tables import TableError, new_folder, write_table

CHECKPOINTS = "_checkpoints"

Engine = Callable[[DataFrame], DataFrame]


def match_stream(
    spark: SparkSession, publications: Path, engine: Engine, out: Path, *, only_what_is_there: bool
) -> StreamingQuery:
    """Start to match the files of a folder, and those that come into it, with `engine`.

    The pairs go to `out`, with the checkpoints.  The query ends when everything that was there is
    matched, or else goes on until it is stopped.  TableError if there is no file to tell columns.
    """
    stream = read_stream(spark, publications)
    out.mkdir(parents=True, exist_ok=True)
    writer = stream.writeStream.foreachBatch(functools.partial(write_batch, engine, out))
    writer = writer.option("checkpointLocation", str(out / CHECKPOINTS))
    return (writer.trigger(availableNow=True) if only_what_is_there else writer).start()


def read_stream(spark: SparkSession, folder: Path) -> DataFrame:
    """A folder's Parquet files, now and later; all have the columns of those that are there."""
    if not folder.is_dir():
        raise TableError(f"{folder} is not a folder; a stream is read from a folder of Parquet")
    if not any(folder.rglob("*.parquet")):
        raise TableError(f"{folder} has no Parquet file yet, which would tell the columns")
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).parquet(str(folder))


def write_batch(engine: Engine, out: Path, publications: DataFrame, number: int) -> None:
    """Match one micro-batch, and put its pairs in place of what there was of it."""
    publications.persist()
    try:
        with new_folder(out / f"batch={number}", overwrite=True) as folder:
            write_table(engine(publications), folder)
    finally:
        publications.unpersist()
