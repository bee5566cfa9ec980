"""Matches publications with subscriptions by the compiled index on Spark's workers.

The subscriptions travel as one file to every worker (`shared_subscriptions`), every Python worker
makes one index of them, and each Arrow batch of publications is answered by
`MatchIndex.match_batch`: no row becomes a Python object. The answer travels back as one list of
subscriptions per publication, which Spark turns into pairs. Subscriptions have to fit a worker;
otherwise see `partitioned_matching`.

In a notebook, with publications (`id`, and a column per attribute) and subscriptions (`id`,
`filter`) as DataFrames: `match_tables(publications, subscriptions).write.parquet("pairs")`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, StructType

from shoal.frames.matching import ANSWERS, FrameMatcher
from shoal.frames.publications import SUBSCRIPTION
from shoal.pipeline.matching.publication_tables import (
    attribute_columns,
    key_columns,
    quoted,
)
from shoal.pipeline.matching.shared_subscriptions import SharedSubscriptions, share
from shoal.pipeline.matching.subscription_tables import read_subscriptions
from shoal.pipeline.matching.table_checks import warn_of_tables


def match_tables(
    publications: DataFrame,
    subscriptions: DataFrame,
    *,
    key: Sequence[str] | None = None,
    warn: bool = True,
) -> DataFrame:
    """The pairs that match: the publication's key columns, and `subscription`, the other's id.

    Tables are as `publication_tables` and `subscription_tables` say; `key` names other columns than
    theirs. TableError, before any matching, for faults of the tables; TableWarning, if `warn`, for
    tests that no publication can pass.
    """
    shared = share(publications.sparkSession, read_subscriptions(subscriptions))
    if warn:
        warn_of_tables(publications, subscriptions, key)
    return shared_pairs(publications, shared, key=key)


def shared_pairs(
    publications: DataFrame,
    subscriptions: SharedSubscriptions,
    *,
    key: Sequence[str] | None = None,
) -> DataFrame:
    """As `match_tables` without its warnings, for one table after another of publications."""
    narrow = Narrow.of(publications, subscriptions.attributes, key)
    return narrow.pairs(shared_answers(narrow, subscriptions))


def shared_answers(narrow: Narrow, subscriptions: SharedSubscriptions) -> DataFrame:
    """A row for each publication: its narrow key, and the list `ANSWERS` of its subscriptions."""
    keys, names = len(narrow.key), narrow.names

    def match(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        answering = FrameMatcher(subscriptions.load(), keys, names)
        for batch in batches:
            yield from answering.answers(batch)

    return narrow.frame.mapInArrow(match, narrow.answers_schema(subscriptions.id_type))


class Narrow(NamedTuple):
    """Publications without unused attributes: their keys, then their attributes, by number."""

    frame: DataFrame
    key: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, publications: DataFrame, asked: Sequence[str], key: Sequence[str] | None) -> Narrow:
        key = key_columns(publications, key)
        columns = attribute_columns(publications, key, asked)
        carried = [F.col(quoted(name)).alias(f"key{at}") for at, name in enumerate(key)]
        values = [column.alias(f"attribute{at}") for at, column in enumerate(columns.values())]
        return cls(publications.select(*carried, *values), key, tuple(columns))

    def column(self, name: str) -> str:
        """Return the column name of an attribute here."""
        return f"attribute{self.names.index(name)}"

    def answers_schema(self, id_type: DataType) -> StructType:
        """Return the schema of `FrameMatcher.answers`, for ids of this type."""
        schema = StructType(self.frame.schema.fields[: len(self.key)])
        return schema.add(ANSWERS, ArrayType(id_type))

    def pairs(self, answers: DataFrame) -> DataFrame:
        """Answers as pairs, with the keys under their names."""
        return answers.select(*self.named_key(), F.explode(ANSWERS).alias(SUBSCRIPTION))

    def named_key(self) -> list[Column]:
        """The columns of the key, under the names that the publications have for them."""
        return [F.col(f"key{at}").alias(name) for at, name in enumerate(self.key)]
