"""Figures of filters over publications: what a filter costs and is worth before it is deployed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from shoal.frames.errors import TableError
from shoal.frames.matching import ANSWERS
from shoal.frames.publications import SUBSCRIPTION
from shoal.frames.subscriptions import id_column
from shoal.pipeline.matching.compiled_matching import Narrow, shared_answers
from shoal.pipeline.matching.publication_tables import attribute_types, quoted
from shoal.pipeline.matching.shared_subscriptions import SharedSubscriptions
from shoal.spark.pairs import Compared
from shoal.spark.places import Place, session_of

_ASKED = "attribute string, filters bigint"
_PRESENT = "attribute string, type string, present bigint, publications bigint"


class FilterProfile(NamedTuple):
    """Three tables, computed when they are used.

    filters       `subscription`, `matches` (publications) and `selectivity` (their share, 0 to 1);
                  a row for each, also for filters that never match
    publications  the key, and `matches` (subscriptions); the highest are hot spots, 0 reaches
                  no subscriber
    attributes    `attribute`, `type`, `present` (publications that have it), `publications` (all),
                  and `filters` (those that test it); an attribute that only filters name has no
                  type
    """

    filters: DataFrame
    publications: DataFrame
    attributes: DataFrame


def profile(
    publications: Place, subscriptions: Place, *, key: Sequence[str] | None = None
) -> FilterProfile:
    """Profile filters over publications: selectivity, hot spots, missing attributes.

    Tables are those of `match`, whose broadcast does the work; publications are read once for each
    table of the profile. TableError as from `match`, and for a stream.
    """
    both = Compared.of(publications, subscriptions, key)
    given = both.publications
    if given.isStreaming:
        raise TableError("publications: a stream; profile its batches in foreachBatch")
    shared = both.shared()
    narrow = Narrow.of(given, shared.attributes, both.key)
    answers = shared_answers(narrow, shared)
    return FilterProfile(
        _filters(answers, both.subscriptions),
        answers.select(*narrow.named_key(), F.size(ANSWERS).cast("bigint").alias("matches")),
        _attributes(both, shared),
    )


def _filters(answers: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """The matches of each filter, and their share in all publications."""
    size = answers.agg(F.count(F.lit(1)).alias("size"))
    counted = answers.select(F.explode(ANSWERS).alias(SUBSCRIPTION)).groupBy(SUBSCRIPTION).count()
    ids = subscriptions.select(F.col(quoted(id_column(subscriptions.columns))).alias(SUBSCRIPTION))
    matches = F.coalesce("count", F.lit(0))
    return (
        ids.join(counted, SUBSCRIPTION, "left")
        .crossJoin(F.broadcast(size))
        .select(
            SUBSCRIPTION,
            matches.alias("matches"),
            F.try_divide(matches.cast("double"), F.col("size")).alias("selectivity"),
        )
    )


def _attributes(both: Compared, shared: SharedSubscriptions) -> DataFrame:
    """How many publications have each attribute, and how many filters test it."""
    types = attribute_types(both.publications, both.key)
    # Without structs, whose fields are attributes of their own.
    plain = {name: types[name] for name in both.names()}
    counts = [F.count(column).alias(f"c{at}") for at, (column, _) in enumerate(plain.values())]
    row = both.publications.agg(F.count(F.lit(1)).alias("size"), *counts)
    present = [
        F.struct(
            F.lit(name).alias("attribute"),
            F.lit(kind.simpleString()).alias("type"),
            F.col(f"c{at}").alias("present"),
            F.col("size").alias("publications"),
        )
        for at, (name, (_, kind)) in enumerate(plain.items())
    ]
    spark = session_of(both.publications)

    def asked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            found = Counter(n for _, filter in shared.load().filters() for n in filter.attributes)
            columns = {
                "attribute": pa.array(found, pa.string()),
                "filters": pa.array(found.values(), pa.int64()),
            }
            yield pa.record_batch(columns)

    tested = spark.range(0, 1, 1, 1).mapInArrow(asked, _ASKED)
    there = spark.createDataFrame([], _PRESENT)
    if present:
        there = row.select(F.inline(F.array(*present)))
    size = row.select(F.col("size").alias("all"))
    return (
        there.join(tested, "attribute", "full")
        .crossJoin(F.broadcast(size))
        .select(
            "attribute",
            "type",
            F.coalesce("present", F.lit(0)).alias("present"),
            F.col("all").alias("publications"),
            F.coalesce("filters", F.lit(0)).alias("filters"),
        )
    )
