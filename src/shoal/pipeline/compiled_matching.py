"""Which subscription matches which publication, by the compiled index on Spark's workers.

The subscriptions are broadcast, every Python worker makes one index of them, and each Arrow batch
of publications is answered by `MatchIndex.match_batch`: no row becomes a Python object.  The
answer travels back as one list of subscriptions per publication, which Spark turns into pairs.
Subscriptions have to fit a worker; where they do not, see `partitioned_matching`.

In a notebook, with publications (`id`, and a column per attribute) and subscriptions (`id`,
`filter`) as DataFrames: `match_tables(publications, subscriptions).write.parquet("pairs")`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, StructType

from shoal.pipeline.publication_tables import (
    SUBSCRIPTION,
    attribute_columns,
    key_columns,
    quoted,
)
from shoal.pipeline.subscription_tables import Subscriptions, read_subscriptions

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
    return compiled_pairs(publications, read_subscriptions(subscriptions), key=key)


def compiled_pairs(
    publications: DataFrame, subscriptions: Subscriptions, *, key: Sequence[str] | None = None
) -> DataFrame:
    """As `match_tables`, with subscriptions that are read already."""
    key = key_columns(publications, key)
    columns = attribute_columns(publications, key, subscriptions.attributes)
    names = list(columns)
    carried = [F.col(quoted(name)).alias(f"key{at}") for at, name in enumerate(key)]
    asked = [column.alias(f"attribute{at}") for at, column in enumerate(columns.values())]
    narrow = publications.select(*carried, *asked)
    schema = StructType(narrow.schema.fields[: len(key)])
    answers = narrow.mapInArrow(
        _matcher(publications, subscriptions, names, len(key)),
        schema.add(_ANSWERS, ArrayType(from_arrow_type(subscriptions.ids.type))),
    )
    return answers.select(
        *(F.col(f"key{at}").alias(name) for at, name in enumerate(key)),
        F.explode(_ANSWERS).alias(SUBSCRIPTION),
    )


def _matcher(
    publications: DataFrame, subscriptions: Subscriptions, names: list[str], keys: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # A worker keeps what is broadcast until Spark drops it, and with it the index made of it.
    shared = publications.sparkSession.sparkContext.broadcast(subscriptions)

    def match(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = shared.value
        answering = Answering(held, names)
        for batch in batches:
            carried, asked = batch.columns[:keys], batch.columns[keys:]
            for begin, answer in answering.answers(asked, batch.num_rows):
                part = [column.slice(begin, len(answer)) for column in carried]
                fields = [*batch.schema.names[:keys], _ANSWERS]
                yield pa.RecordBatch.from_arrays([*part, answer], fields)

    return match


class Answering:
    """Answers batches of publications, in pieces where the answers are long."""

    def __init__(self, subscriptions: Subscriptions, names: Sequence[str]) -> None:
        self._subscriptions = subscriptions
        self._index = subscriptions.index()
        self._names = names
        self._publications = FIRST_PUBLICATIONS

    def answers(self, columns: Sequence[pa.Array], size: int) -> Iterator[tuple[int, pa.ListArray]]:
        """Pieces of a batch: where one begins, and each publication's list of ids."""
        given = {name: plain_column(each) for name, each in zip(self._names, columns, strict=True)}
        begin = 0
        while begin < size:
            end = min(begin + self._publications, size)
            # Without attributes there is no column to tell how many publications there are.
            asked: Any = {name: each[begin:end] for name, each in given.items()}
            offsets, numbers = self._index.match_batch(asked or [{}] * (end - begin))
            self._publications = max(1, PAIRS_AIM * (end - begin) // max(len(numbers), 1))
            found = self._subscriptions.named(numbers)
            yield begin, pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), found)
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
