"""Which subscription matches which publication, by the compiled index on Spark's workers.

The subscriptions are broadcast, every Python worker makes one index of them, and each Arrow batch
of publications is answered by `MatchIndex.match_batch`: no row becomes a Python object.  The
answer travels back as one list of subscriptions per publication, which Spark turns into pairs.
Subscriptions have to fit a worker; where they do not, see `partitioned_matching`.

In a notebook, with publications (`id`, and a column per attribute) and subscriptions (`id`,
`filter`) as DataFrames: `match_tables(publications, subscriptions).write.parquet("pairs")`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.core.broadcast import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, DataType, StructType

from shoal.pipeline.matching.publication_tables import (
    SUBSCRIPTION,
    attribute_columns,
    key_columns,
    quoted,
)
from shoal.pipeline.matching.subscription_tables import Subscriptions, read_subscriptions

# An answer of this many pairs is some 10 MB: enough for a batch not to count, little enough for
# two workers and Spark's side of them to hold several.
PAIRS_AIM = 1_000_000
# How many publications are asked about first, when nothing is known about their matches.
FIRST_PUBLICATIONS = 1_024

_ANSWERS = "answers"


def match_tables(
    publications: DataFrame, subscriptions: DataFrame, *, key: Sequence[str] | None = None
) -> DataFrame:
    """The pairs that match: the publication's key columns, and `subscription`, the other's id.

    Tables are as `publication_tables` and `subscription_tables` say; `key` names other columns
    than theirs.  TableError, before any matching, for what is wrong with the tables.
    """
    shared = share(publications.sparkSession, read_subscriptions(subscriptions))
    return shared_pairs(publications, shared, key=key)


def share(spark: SparkSession, subscriptions: Subscriptions) -> Broadcast[Subscriptions]:
    """Subscriptions for every worker, which keeps them, and the index made of them."""
    return spark.sparkContext.broadcast(subscriptions)


def shared_pairs(
    publications: DataFrame,
    subscriptions: Broadcast[Subscriptions],
    *,
    key: Sequence[str] | None = None,
) -> DataFrame:
    """As `match_tables`, for one table after another of publications."""
    narrow = Narrow.of(publications, subscriptions.value.attributes, key)
    keys, names = len(narrow.key), narrow.names

    def match(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        answering = Answering(subscriptions.value, keys, names)
        for batch in batches:
            yield from answering.answers(batch)

    id_type = from_arrow_type(subscriptions.value.ids.type)
    return narrow.pairs(narrow.frame.mapInArrow(match, narrow.answers_schema(id_type)))


class Narrow(NamedTuple):
    """Publications without what nobody asks for: their keys, then their attributes, by number."""

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
        """What the column of an attribute is called here."""
        return f"attribute{self.names.index(name)}"

    def answers_schema(self, id_type: DataType) -> StructType:
        """What `Answering.answers` gives, for ids of this type."""
        schema = StructType(self.frame.schema.fields[: len(self.key)])
        return schema.add(_ANSWERS, ArrayType(id_type))

    def pairs(self, answers: DataFrame) -> DataFrame:
        """Answers as pairs, with the keys under their names."""
        return answers.select(
            *(F.col(f"key{at}").alias(name) for at, name in enumerate(self.key)),
            F.explode(_ANSWERS).alias(SUBSCRIPTION),
        )


class Answering:
    """Answers batches of narrow publications, in pieces where the answers are long."""

    def __init__(self, subscriptions: Subscriptions, keys: int, names: Sequence[str]) -> None:
        self._subscriptions = subscriptions
        self._index = subscriptions.index()
        self._keys = keys
        self._names = names
        self._publications = FIRST_PUBLICATIONS

    def answers(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The keys, and a list of subscriptions for each publication."""
        columns = map(plain_column, batch.columns[self._keys :])
        given = dict(zip(self._names, columns, strict=True))
        fields = [*batch.schema.names[: self._keys], _ANSWERS]
        begin = 0
        while begin < batch.num_rows:
            end = min(begin + self._publications, batch.num_rows)
            # Without attributes there is no column to tell how many publications there are.
            asked: Any = {name: each[begin:end] for name, each in given.items()}
            offsets, numbers = self._index.match_batch(asked or [{}] * (end - begin))
            self._publications = max(1, PAIRS_AIM * (end - begin) // max(len(numbers), 1))
            found = self._subscriptions.named(numbers)
            answer = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), found)
            keys = [column.slice(begin, end - begin) for column in batch.columns[: self._keys]]
            yield pa.RecordBatch.from_arrays([*keys, answer], fields)
            begin = end


def plain_column(values: pa.Array) -> Any:
    """A column as `match_batch` takes it: numbers masked where null, all else as objects."""
    kind = values.type
    if pa.types.is_struct(kind):
        members = [member.to_pylist() for member in values.flatten()]
        mixed = [
            next((v for v in row if v is not None), None) for row in zip(*members, strict=True)
        ]
        return np.fromiter(mixed, object, len(mixed))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        if not values.null_count:
            return values.to_numpy(zero_copy_only=False)
        missing = values.is_null().to_numpy(zero_copy_only=False)
        return np.ma.MaskedArray(values.fill_null(0).to_numpy(zero_copy_only=False), missing)
    plain = values.to_numpy(zero_copy_only=False)
    return plain if plain.dtype.kind == "b" else plain.astype(object)
