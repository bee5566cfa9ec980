"""Matches publications with subscriptions by Spark SQL itself.

Nothing here uses `shoal.matching`: the filters' own texts become conditions (see `spark_filters`),
and Spark evaluates them. That makes the result an independent judge of our matchers and of a
network's deliveries. A chunk of filters is one projection, so that no expression grows beyond
Spark's limit for compiled code, and all projections are made of one reading of the publications.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name every Spark user knows
from pyspark.sql.types import LongType, StringType, StructField, StructType

from shoal.frames.subscriptions import FILTER, id_column
from shoal.language import FilterSyntaxError, format_filter
from shoal.model import Attributes
from shoal.pipeline.matching.publication_tables import attributes_frame, key_columns
from shoal.pipeline.matching.spark_expressions import ConditionSizeError
from shoal.pipeline.matching.spark_filters import (
    MEMBER_TYPES,
    mixed_column,
    mixed_value,
    spark_condition,
)
from shoal.pipeline.matching.subscription_tables import read_subscriptions
from shoal.pipeline.matching.table_checks import warn_of_tables
from shoal.pipeline.schemas import ATTRIBUTES

SUBSCRIPTION = "subscription"
# Number of filters in one projection. Java compiles no method of more than 8,000 bytes of code;
# with twice as many conditions of the usual length, each took two to three times as long.
FILTERS_PER_PROJECTION = 50
TEXT_PER_PROJECTION = 4_000

_IDS = "ids"

_Condition = tuple[str | int, str]


def matching_pairs(
    publications: DataFrame,
    subscriptions: Sequence[tuple[str | int, str]],
    *,
    key_columns: Sequence[str],
    attributes: str = ATTRIBUTES,
) -> DataFrame:
    """The pairs that match: the publication's key columns and `subscription`.

    `subscriptions` are (id, filter text), each id once, all strings or all integers; `attributes`
    names the struct column with a field per attribute. ValueError names the subscription with a
    wrong filter.
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
    return _matched(flat, _chunks(conditions), key).select(f"{key}.*", SUBSCRIPTION)


def judged_pairs(
    publications: DataFrame,
    subscriptions: DataFrame,
    *,
    key: Sequence[str] | None = None,
    warn: bool = True,
) -> DataFrame:
    """As `compiled_matching.match_tables`, but Spark SQL decides, by the filters' own texts."""
    checked = read_subscriptions(subscriptions)
    if warn:
        warn_of_tables(publications, subscriptions, key)
    key = key_columns(publications, key)
    if FILTER in subscriptions.columns:
        id = id_column(subscriptions.columns)
        texts = [(row[0], row[1]) for row in subscriptions.select(id, FILTER).collect()]
    else:
        texts = [(id, format_filter(filter)) for id, filter in checked.filters()]
    frame = attributes_frame(publications, key, checked.attributes)
    return matching_pairs(frame, texts, key_columns=key)


def _chunks(conditions: Sequence[_Condition]) -> list[list[_Condition]]:
    """The conditions in their order, a projection's worth at a time; at least one chunk."""
    chunks: list[list[_Condition]] = [[]]
    length = 0
    for id, condition in conditions:
        length += len(condition)
        full = len(chunks[-1]) >= FILTERS_PER_PROJECTION or length > TEXT_PER_PROJECTION
        if full and chunks[-1]:
            chunks.append([])
            length = len(condition)
        chunks[-1].append((id, condition))
    return chunks


def _matched(flat: DataFrame, chunks: Sequence[Sequence[_Condition]], key: str) -> DataFrame:
    """Return the key and each id with a condition that is TRUE."""
    ids: list[Column | str] = [
        _ids_that_match(chunk).alias(f"chunk{at}") for at, chunk in enumerate(chunks)
    ]
    # Spark's `Expand`: a row for each chunk, of one reading of the publications.
    every = flat.unpivot([key], ids, "chunk", _IDS)
    # A row per condition and then a filter: compiled, while Spark interprets its array filters.
    named = every.select(key, F.explode(_IDS).alias(SUBSCRIPTION))
    return named.where(F.col(SUBSCRIPTION).isNotNull())


def _ids_that_match(conditions: Sequence[_Condition]) -> Column:
    """Return an array with the id of each condition that is TRUE, and null for any other."""
    ids = [
        F.when(F.expr(condition), F.lit(id) if isinstance(id, str) else F.lit(id).cast("bigint"))
        for id, condition in conditions
    ]
    return F.array(*ids) if ids else F.array().cast("array<string>")


def _condition(id: str | int, text: str, columns: StructType) -> str:
    try:
        return spark_condition(text, columns)
    except (FilterSyntaxError, ConditionSizeError) as error:
        raise ValueError(f"subscription {id!r}: {error}") from error


def _fresh_name(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def publications_frame(
    spark: SparkSession, publications: Sequence[Attributes], *, ids: Sequence[str] | None = None
) -> DataFrame:
    """A few publications as a table: `attributes`, mixed where they are, and a key.

    The key is `id`, from `ids`, or else `number`, from 0.
    """
    types: dict[str, dict[type, None]] = {}
    for attributes in publications:
        for name, value in attributes.items():
            types.setdefault(name, {})[type(value)] = None
    fields = [
        mixed_column(name, [each for each in MEMBER_TYPES if each in found])
        for name, found in types.items()
    ]
    key = StructField("number", LongType()) if ids is None else StructField("id", StringType())
    schema = StructType([key, StructField(ATTRIBUTES, StructType(fields))])
    rows = [
        (key, tuple(mixed_value(attributes, field) for field in fields))
        for key, attributes in zip(
            range(len(publications)) if ids is None else ids, publications, strict=True
        )
    ]
    return spark.createDataFrame(rows, schema)
