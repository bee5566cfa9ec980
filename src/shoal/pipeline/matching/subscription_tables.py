"""Subscriptions as a Spark table: texts are parsed by its workers, then carried to every worker.

`shoal.frames.subscriptions` describes the columns.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegralType, StringType

from shoal.frames.errors import TableError
from shoal.frames.subscriptions import (
    EXPRESSION,
    FILTER,
    SubscriptionFrame,
    complain,
    encoded,
    id_column,
)
from shoal.pipeline.matching.publication_tables import quoted

# Every Python worker holds its own index of all subscriptions, about 400 bytes for each.
MAX_SUBSCRIPTIONS = 2_000_000


def read_subscriptions(table: DataFrame) -> SubscriptionFrame:
    """The subscriptions of a table; TableError says which row is wrong and why."""
    id = check_subscription_table(table)
    if FILTER not in table.columns:
        read = table.toArrow()
        _check_size(read.num_rows)
        return SubscriptionFrame.of_columns(read)
    _check_size(table.count())  # parsing takes long, so this comes first
    read = parsed_subscriptions(table, id).toArrow()
    complain(read)
    return SubscriptionFrame.of_expressions(
        read.column("id").combine_chunks(), read.column(EXPRESSION).combine_chunks()
    )


def parsed_subscriptions(table: DataFrame, id: str) -> DataFrame:
    """Columns `id`, `EXPRESSION` for `decoded`, and `wrong`: null, or why there is none."""
    columns = table.select(F.col(quoted(id)).alias("id"), F.col(FILTER).alias("text"))
    kind = columns.schema["id"].dataType.simpleString()
    return columns.mapInArrow(_parse, f"id {kind}, `{EXPRESSION}` binary, wrong string")


def check_subscription_table(table: DataFrame) -> str:
    """The name of the id column; TableError if the columns are not those of subscriptions."""
    id = id_column(table.columns)
    kind = table.schema[id].dataType
    if not isinstance(kind, IntegralType | StringType):
        raise TableError(
            f"subscriptions: column {id!r} is {kind.simpleString()}; an id is a string or an "
            "integer"
        )
    if FILTER in table.columns and not isinstance(table.schema[FILTER].dataType, StringType):
        kind = table.schema[FILTER].dataType
        raise TableError(
            f"subscriptions: column {FILTER!r} is {kind.simpleString()}; a filter is a text"
        )
    return id


def _check_size(size: int) -> None:
    if size > MAX_SUBSCRIPTIONS:
        raise TableError(
            f"{size:,} subscriptions are too many for every worker to hold them all "
            f"(at most {MAX_SUBSCRIPTIONS:,}); spread them over workers: --partition auto"
        )


def _parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn texts into encoded expressions, or into their faults."""
    for batch in batches:
        yield encoded(batch.column("id"), batch.column("text").to_pylist())
