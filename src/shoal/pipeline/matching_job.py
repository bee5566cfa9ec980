"""Which subscription matches which publication, decided by Spark SQL itself.

Nothing here uses `shoal.matching`: the filters' own texts become conditions (see
`spark_filters`), and Spark evaluates them.  That makes the result an independent judge of our
matchers and of what a network delivered.  A chunk of filters is one projection over the
publications, and the chunks are a union, so that no expression grows beyond what Spark compiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name every Spark user knows
from pyspark.sql.types import LongType, StructType

from shoal.language import FilterSyntaxError
from shoal.model import Attributes
from shoal.pipeline.spark_filters import MEMBER_TYPES, mixed_column, mixed_value, spark_condition

SUBSCRIPTION = "subscription"
# How much one projection holds.  Java compiles no method of more than 8,000 bytes of code; with
# twice as many conditions of the usual length, each took two to three times as long.
FILTERS_PER_PROJECTION = 50
TEXT_PER_PROJECTION = 4_000


def matching_pairs(
    publications: DataFrame,
    subscriptions: Sequence[tuple[str, str]],
    *,
    key_columns: Sequence[str],
    attributes: str = "attributes",
) -> DataFrame:
    """The pairs that match: the publication's key columns and `subscription`.

    `subscriptions` are (id, filter text), each id once; `attributes` names the struct column
    with a field per attribute.  ValueError names the subscription whose filter is wrong.
    """
    columns = publications.schema[attributes].dataType
    if not isinstance(columns, StructType):
        raise ValueError(f"column {attributes!r} is not a struct of attributes")
    if len({id for id, _ in subscriptions}) < len(subscriptions):
        raise ValueError("a subscription id is given twice")
    conditions = [(id, _condition(id, text, columns)) for id, text in subscriptions]
    key = _fresh_name("key", columns.names)
    flat = publications.select(
        F.struct(*key_columns).alias(key), *([f"{attributes}.*"] if columns.names else [])
    )
    matched = [_matched(flat, chunk, key) for chunk in _chunks(conditions)]
    return reduce(DataFrame.union, matched).select(f"{key}.*", SUBSCRIPTION)


def _chunks(conditions: Sequence[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """The conditions in their order, a projection's worth at a time; at least one chunk."""
    chunks: list[list[tuple[str, str]]] = [[]]
    length = 0
    for id, condition in conditions:
        length += len(condition)
        full = len(chunks[-1]) >= FILTERS_PER_PROJECTION or length > TEXT_PER_PROJECTION
        if full and chunks[-1]:
            chunks.append([])
            length = len(condition)
        chunks[-1].append((id, condition))
    return chunks


def _matched(flat: DataFrame, conditions: Sequence[tuple[str, str]], key: str) -> DataFrame:
    """The key and each id whose condition is TRUE."""
    ids = [F.when(F.expr(condition), F.lit(id)) for id, condition in conditions]
    every = F.array(*ids) if ids else F.array().cast("array<string>")
    # A row per condition and then a filter: compiled, while Spark interprets its array filters.
    named = flat.select(key, F.explode(every).alias(SUBSCRIPTION))
    return named.where(F.col(SUBSCRIPTION).isNotNull())


def _condition(id: str, text: str, columns: StructType) -> str:
    try:
        return spark_condition(text, columns)
    except FilterSyntaxError as error:
        raise ValueError(f"subscription {id!r}: {error}") from error


def _fresh_name(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def publications_frame(spark: SparkSession, publications: Sequence[Attributes]) -> DataFrame:
    """A few publications as a table: `number` (from 0) and `attributes`, mixed where they are."""
    types: dict[str, dict[type, None]] = {}
    for attributes in publications:
        for name, value in attributes.items():
            types.setdefault(name, {})[type(value)] = None
    fields = [
        mixed_column(name, [each for each in MEMBER_TYPES if each in found])
        for name, found in types.items()
    ]
    schema = StructType().add("number", LongType()).add("attributes", StructType(fields))
    rows = [
        (number, tuple(mixed_value(attributes, field) for field in fields))
        for number, attributes in enumerate(publications)
    ]
    return spark.createDataFrame(rows, schema)
