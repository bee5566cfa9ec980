"""Matches publications with subscriptions, table against table, in this process.

>>> publications = pa.table({"id": [1, 2], "carrier": ["UA", "DL"], "delay": [45, None]})
>>> subscriptions = pa.table({"id": ["late", "any"], "filter": ["delay > 30", "TRUE"]})
>>> match_frame(publications, subscriptions).to_pydict()
{'id': [1, 1, 2], 'subscription': ['late', 'any', 'any']}
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from shoal.frames.columns import integers
from shoal.frames.errors import TableError, TableWarning
from shoal.frames.kind_checks import SAMPLE, CheckedKind, complaints
from shoal.frames.publications import SUBSCRIPTION, Publications
from shoal.frames.subscriptions import SubscriptionFrame

# An answer of this many pairs is some 10 MB: enough for a batch not to count, little enough for
# two of Spark's workers and its side of them to hold several.
PAIRS_AIM = 1_000_000
# Size of the first batch, while the number of matches is unknown.
FIRST_PUBLICATIONS = 1_024

# So many publications times subscriptions are matched one publication at a time: batches import
# numba and read compiled kernels, half a second, and take as long as the others only from here on.
SINGLY = 2_000_000

ANSWERS = "answers"


def match_frame(
    publications: Any, subscriptions: Any, *, key: Sequence[str] | None = None, warn: bool = True
) -> Any:
    """The pairs that match, as an Arrow table: the publication's key, and `subscription`.

    Both are tables that Arrow can take: pandas, Polars, PyArrow, DuckDB, anything that speaks
    Arrow's interface; a lazy table of Polars is collected. Publications have a column `id` (or
    `publisher` and `sequence`, or those of `key`) and a column per attribute, null where one is
    missing; subscriptions a column `id`, and `filter` with its text, or a conjunction in columns
    (`symbol`, `price.low`, `price.high`). TableError names the fault of
    either; TableWarning, if `warn`, a test that no publication can pass. Pairs come in the order of
    the publications.
    """
    wanted = SubscriptionFrame.of_table(_table(subscriptions, "subscriptions"))
    given = Publications.of(_table(publications, "publications"), wanted, key)
    if warn:
        tests = CheckedKind.of(filter for _, filter in wanted.filters(SAMPLE))
        rows = [attributes for _, attributes in given.first(SAMPLE).rows()]
        for complaint in complaints(tests, rows, given.known):
            warnings.warn(complaint, TableWarning, stacklevel=2)
    return pa.Table.from_batches(pairs(given, wanted), pair_schema(given, wanted))


def _table(given: Any, what: str) -> pa.Table:
    """As an Arrow table; TableError for no table, and for objects without a type together."""
    if hasattr(given, "toArrow"):
        raise TableError(f"{what}: a table of Spark; match those by `match_tables`")
    if hasattr(given, "collect") and not hasattr(given, "__arrow_c_stream__"):
        given = given.collect()
    try:
        return pa.table(given)
    except TypeError:
        kind = f"{type(given).__module__}.{type(given).__qualname__}"
        raise TableError(f"{what}: {kind} is no table that Arrow can take") from None
    except pa.ArrowException as error:
        raise TableError(f"{what}: {'; '.join(map(str, error.args))}") from None


def answers(
    publications: Publications, subscriptions: SubscriptionFrame
) -> Iterator[pa.RecordBatch]:
    """Batches of the keys, and of a list of subscriptions for each publication (`ANSWERS`)."""
    if len(publications) * len(subscriptions) <= SINGLY:
        yield _answers_singly(publications, subscriptions)
        return
    names = publications.names
    answering = FrameMatcher(subscriptions, len(publications.key_fields), names)
    for batch in publications.batches():
        yield from answering.answers(batch)


def _answers_singly(publications: Publications, subscriptions: SubscriptionFrame) -> pa.RecordBatch:
    """As `answers`, in one batch."""
    index = subscriptions.index()
    found = [sorted(index.match(attributes)) for _, attributes in publications.rows()]
    offsets = np.zeros(len(found) + 1, np.int32)
    np.cumsum([len(each) for each in found], out=offsets[1:])
    numbers = np.fromiter(itertools.chain.from_iterable(found), np.int64, offsets[-1])
    answer = pa.ListArray.from_arrays(integers(offsets), subscriptions.named(numbers))
    keys = [column.combine_chunks() for column in publications.keys.columns]
    fields = [*map(str, range(len(keys))), ANSWERS]
    return pa.RecordBatch.from_arrays([*keys, answer], fields)


def pair_schema(publications: Publications, subscriptions: SubscriptionFrame) -> pa.Schema:
    """Return the schema of a table of pairs: the publication's key, and `subscription`."""
    return pa.schema([*publications.key_fields, (SUBSCRIPTION, subscriptions.ids.type)])


def pairs(publications: Publications, subscriptions: SubscriptionFrame) -> Iterator[pa.RecordBatch]:
    """A row for each subscription of each publication, in batches."""
    schema = pair_schema(publications, subscriptions)
    for answer in answers(publications, subscriptions):
        found = answer.column(ANSWERS)
        rows = found.value_parent_indices()
        keys = [column.take(rows) for column in answer.columns[:-1]]
        yield pa.RecordBatch.from_arrays([*keys, found.flatten()], schema=schema)


class FrameMatcher:
    """Answers batches of narrow publications, in pieces where the answers are long."""

    def __init__(self, subscriptions: SubscriptionFrame, keys: int, names: Sequence[str]) -> None:
        self._subscriptions = subscriptions
        self._index = subscriptions.index()
        self._keys = keys
        self._names = names
        self._publications = FIRST_PUBLICATIONS

    def answers(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The keys, and a list of subscriptions for each publication."""
        columns = map(plain_column, batch.columns[self._keys :])
        given = dict(zip(self._names, columns, strict=True))
        fields = [*batch.schema.names[: self._keys], ANSWERS]
        begin = 0
        while begin < batch.num_rows:
            end = min(begin + self._publications, batch.num_rows)
            # Without attributes there is no column to tell how many publications there are.
            asked: Any = {name: each[begin:end] for name, each in given.items()}
            offsets, numbers = self._index.match_batch(asked or [{}] * (end - begin))
            self._publications = max(1, PAIRS_AIM * (end - begin) // max(len(numbers), 1))
            found = self._subscriptions.named(numbers)
            answer = pa.ListArray.from_arrays(integers(offsets.astype(np.int32)), found)
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
