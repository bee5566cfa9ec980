"""Subscriptions that stay a table of Spark's, and the ranges by which they are spread.

Too many to be read by one process, they are checked where they are (a wrong one is named by its
id), and each batch of them says where its subscriptions lie on a dimension.

>>> batch = pa.record_batch({"id": [1, 2, 3], "a.low": [None, 2.0, 4.0], "a.high": [3.0, None, 9]})
>>> rows, low, high = ranges_of_batch(batch, "a", is_text=False)
>>> rows.tolist(), low.tolist(), [min(each, 99) for each in high.tolist()]
([0, 1, 2], [-inf, 2.0, 4.0], [3.0, 99, 9.0])
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DoubleType, FloatType

from shoal.frames.errors import TableError
from shoal.frames.subscriptions import (
    EXPRESSION,
    FILTER,
    SubscriptionFrame,
    check_ids,
    decoded,
    side_of,
)
from shoal.matching.segments import HIGHEST, LOWEST, Dimension
from shoal.pipeline.matching.partition_plan import (
    Doubles,
    Numbers,
    places_of_numbers,
    places_of_strings,
)
from shoal.pipeline.matching.publication_tables import quoted
from shoal.pipeline.matching.subscription_tables import (
    check_subscription_table,
    parsed_subscriptions,
)

# A dimension of strings needs two that differ; where they are does not matter to ranges.
_TEXT_BOUNDS = ("", "~")


class Ranges(NamedTuple):
    """`rows` has the subscription of each range `low` to `high`; a subscription may have several,
    or none.
    """

    rows: Numbers
    low: Doubles
    high: Doubles


class SpreadSubscriptions(NamedTuple):
    """A checked table: `id`, and columns of conjunctions or one of encoded expressions.

    Spark's names for them are plain ones; `names` are those that mean something.
    """

    frame: DataFrame
    names: tuple[str, ...]
    attributes: tuple[str, ...]
    size: int


def spread_subscriptions(table: DataFrame) -> SpreadSubscriptions:
    """Check a table of any size; TableError names an id that is wrong.

    An id that is there twice is noticed where two of it meet: see `subscriptions_of`.
    """
    id = check_subscription_table(table)
    if FILTER in table.columns:
        # Parsed once for all later steps, and kept for as long as it is in use.
        parsed = parsed_subscriptions(table, id).localCheckpoint()
        size = _checked_size(parsed, F.col("wrong"))
        frame = parsed.select("id", EXPRESSION)
        named = frame.mapInArrow(_attributes, "attribute string").distinct().collect()
        asked = tuple(sorted(row[0] for row in named))
        return SpreadSubscriptions(frame, ("id", EXPRESSION), asked, size)
    asked = SubscriptionFrame.of_columns(table.limit(0).toArrow()).attributes
    names = ("id", *(name for name in table.columns if name != id))
    columns = [F.col(quoted(name)) for name in (id, *names[1:])]
    frame = table.select(*(each.alias(f"column{at}") for at, each in enumerate(columns)))
    frame = frame.withColumnRenamed("column0", "id")
    size = _checked_size(frame, *_wrong_numbers(frame, names))
    return SpreadSubscriptions(frame, names, asked, size)


def subscriptions_of(
    batches: Sequence[pa.RecordBatch], attributes: Sequence[str]
) -> SubscriptionFrame:
    """Some of a spread table's rows; ValueError if two have one id."""
    table = pa.Table.from_batches(batches)
    ids = table.column("id").combine_chunks()
    check_ids(ids)
    if EXPRESSION in table.column_names:
        expressions = table.column(EXPRESSION).combine_chunks()
        return SubscriptionFrame(ids, pa.table({}), expressions, attributes)
    return SubscriptionFrame(ids, table.drop_columns(["id"]), None, attributes)


def ranges_of_batch(batch: pa.RecordBatch, attribute: str, *, is_text: bool) -> Ranges:
    """Return the ranges on a dimension that contain the publications of a batch of
    subscriptions.
    """
    if EXPRESSION in batch.schema.names:
        return _ranges_of_expressions(batch.column(EXPRESSION), attribute, is_text=is_text)
    size = batch.num_rows
    low, high = np.full(size, LOWEST), np.full(size, HIGHEST)
    for column, values in zip(batch.schema.names, batch.columns, strict=True):
        side = side_of(column)
        if column == "id" or attribute != (column.rpartition(".")[0] if side else column):
            continue
        places, is_there = _places(values, is_text=is_text)
        if side != "high":
            low[is_there] = np.maximum(low[is_there], places[is_there])
        if side != "low":
            high[is_there] = np.minimum(high[is_there], places[is_there])
    return Ranges(np.arange(size), low, high)


def _places(values: pa.Array, *, is_text: bool) -> tuple[Doubles, npt.NDArray[np.bool_]]:
    """Return the places of values, and a mask of present ones; values of another kind are placed
    like missing ones.

    If such a value is demanded beside a range, low is above high: nothing can match.
    """
    missing = values.is_null().to_numpy(zero_copy_only=False)
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        places = places_of_strings(values.to_pylist()) if is_text else np.full(len(values), LOWEST)
    elif pa.types.is_boolean(kind) or is_text:
        places = np.full(len(values), LOWEST)
    else:
        numbers = values.to_numpy(zero_copy_only=False)
        places = places_of_numbers(numbers, missing)
    return places, ~missing


def _ranges_of_expressions(expressions: pa.Array, attribute: str, *, is_text: bool) -> Ranges:
    dimension = Dimension(attribute=attribute)
    if is_text:
        low, high = _TEXT_BOUNDS
        dimension = Dimension(attribute=attribute, low=low, high=high)
    found = [
        (row, *each)
        for row, filter in enumerate(decoded(expressions))
        for each in dimension.ranges(filter)
    ]
    table = np.array(found, np.float64).reshape(len(found), 3)
    return Ranges(table[:, 0].astype(np.int64), table[:, 1].copy(), table[:, 2].copy())


def _attributes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        names = {name for each in decoded(batch.column(EXPRESSION)) for name in each.attributes}
        yield pa.record_batch([pa.array(sorted(names), pa.string())], ["attribute"])


def _wrong_numbers(frame: DataFrame, names: Sequence[str]) -> Iterator[Column]:
    """Yield conditions of wrong doubles in a row: NaN, and infinity that is no open side."""
    for name, field in zip(names, frame.schema, strict=True):
        if isinstance(field.dataType, DoubleType | FloatType):
            column = F.col(field.name)
            open_side = {"low": -math.inf, "high": math.inf}.get(side_of(name))
            refused = [each for each in (math.nan, math.inf, -math.inf) if each != open_side]
            text = F.concat(F.lit(f"column {name!r}: "), column.cast("string"))
            complaint = F.concat(text, F.lit(" demands what no filter can"))
            yield F.when(column.isin(refused), complaint)


def _checked_size(frame: DataFrame, *complaints: Column) -> int:
    """Return how many rows there are, if nothing is wrong with one."""
    no_id = F.when(F.col("id").isNull(), F.lit("subscriptions: an id is null"))
    named = F.concat(F.lit("subscriptions, id "), F.col("id").cast("string"), F.lit(": "))
    wrong = F.coalesce(no_id, F.concat(named, F.coalesce(F.lit(None), *complaints)))
    size, first, count = frame.agg(F.count("*"), F.min(wrong), F.count(wrong)).collect()[0]
    if first is not None:
        raise TableError(f"{first} (and {count - 1:,} more rows are wrong)" if count > 1 else first)
    return int(size)
