"""Pairs of publications and subscriptions: those that match, and the reasons of those that do not.

Publications are a table as `shoal.pipeline.matching.publication_tables` describes it, or of the
data source `shoal`. A row of a log is named by `broker` and `offset`; its attributes are the
columns of the option `attributes` and those that brokers make of the topic, `$topic`, `$levels` and
`$topic.0` to `$topic.7`. The other columns of a log are no attributes, as for brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BooleanType, StringType, StructType

from shoal.attributes.topics import (
    LEVELS_ATTRIBUTE,
    MAX_LEVEL_ATTRIBUTES,
    TOPIC_ATTRIBUTE,
    level_attribute,
)
from shoal.frames.errors import TableError
from shoal.frames.publications import SUBSCRIPTION, Publications
from shoal.log.columns import SCHEMA
from shoal.matching import Explanation, FilterVerdict
from shoal.matching import explain as explain_one
from shoal.pipeline.matching.compiled_matching import Narrow, shared_pairs
from shoal.pipeline.matching.matching_job import judged_pairs
from shoal.pipeline.matching.partitioned_matching import match_partitioned
from shoal.pipeline.matching.publication_tables import (
    attribute_columns,
    attribute_types,
    key_columns,
    quoted,
)
from shoal.pipeline.matching.shared_subscriptions import SharedSubscriptions, share
from shoal.pipeline.matching.subscription_tables import read_subscriptions
from shoal.pipeline.matching.table_checks import warn_of_tables
from shoal.pipeline.session import is_connect
from shoal.spark.places import Place, check_prepared, read, session_of

How = Literal["broadcast", "partitioned", "sql"]

PUBLICATIONS, SUBSCRIPTIONS = "publications.parquet", "subscriptions.parquet"
# Pairs that a task explains before it gives them to Spark.
EXPLAINED = 4_096

_LOG_KEY = ("broker", "offset")
_LOG = frozenset(SCHEMA.names)
# Columns by which a table is recognised as one of the data source.
_LOG_ONLY = ("topic", "attributes")
_REASON = (SUBSCRIPTION, "matches", "verdict", "why")


class Compared(NamedTuple):
    """Publications with the key of their rows, and subscriptions."""

    publications: DataFrame
    key: Sequence[str]
    subscriptions: DataFrame

    @classmethod
    def of(cls, publications: Place, subscriptions: Place, key: Sequence[str] | None) -> Compared:
        """Read both; TableError for subscriptions that are a stream."""
        spark = session_of(publications, subscriptions)
        given = read(publications, spark=spark, inside=PUBLICATIONS)
        wanted = read(subscriptions, spark=spark, inside=SUBSCRIPTIONS)
        if wanted.isStreaming:
            raise TableError("subscriptions: a stream; they are read once, so give a table")
        given, key = _of_log(given, key)
        return cls(given, key_columns(given, key), wanted)

    def shared(self) -> SharedSubscriptions:
        """The subscriptions, carried to the workers; TableError names a wrong filter."""
        spark, wanted = session_of(self.publications), read_subscriptions(self.subscriptions)
        with_query = self.publications.isStreaming and is_connect(spark)
        return share(spark, wanted, with_query=with_query)

    def names(self) -> list[str]:
        """All attributes whose columns have a type of attributes' values."""
        names = list(attribute_types(self.publications, self.key))
        return names if self._have(names) else [name for name in names if self._have([name])]

    def _have(self, names: Sequence[str]) -> bool:
        try:
            attribute_columns(self.publications, self.key, names)
        except TableError:
            return False
        return True


def match(
    publications: Place,
    subscriptions: Place,
    *,
    how: How = "broadcast",
    by: str | None = None,
    key: Sequence[str] | None = None,
    warn: bool = True,
) -> DataFrame:
    """The pairs that match: the publication's key columns, and `subscription`, the other's id.

    `publications` have a key (`id`; or `publisher` and `sequence`; or, from a log, `broker` and
    `offset`; or the columns of `key`), and a column for each attribute, null where it is missing.
    `subscriptions` have `id`, and `filter` (the text); or `id` and a conjunction in columns. Each
    is a DataFrame or the place of one (`read`).

    `how` is `"broadcast"` (each worker has all subscriptions, up to 2 million), `"partitioned"`
    (each worker has those that lie together; `by` names the attribute, else it is chosen from the
    data) or `"sql"` (Spark evaluates the filters' texts). All give the same pairs. A stream of
    publications gives a stream of pairs, with `"broadcast"` and `"sql"`; the subscriptions are
    those that the table has when the query is made.

    TableError for a fault of a table, such as a wrong filter, which it names; TableWarning, if
    `warn`, for tests that no publication can pass; SettingError from `"sql"` in a session without
    the settings of `prepare`.
    """
    both = Compared.of(publications, subscriptions, key)
    given, wanted = both.publications, both.subscriptions
    if how not in ("broadcast", "partitioned", "sql"):
        raise ValueError(f"how: {how!r}: use broadcast, partitioned or sql")
    if by is not None and how != "partitioned":
        raise ValueError("by: an attribute to partition by; it goes with how='partitioned'")
    if given.isStreaming and how == "partitioned":
        raise TableError(
            "publications: a stream, which cannot be partitioned; use how='broadcast', or match "
            "its batches in foreachBatch"
        )
    if how == "sql":
        check_prepared(session_of(given), "match")
    if warn:
        warn_of_tables(given, wanted, both.key)
    if how == "broadcast":
        return shared_pairs(given, both.shared(), key=both.key)
    if how == "partitioned":
        return match_partitioned(given, wanted, key=both.key, dimension=by, warn=False)
    return judged_pairs(given, wanted, key=both.key, warn=False)


def explain(
    publications: Place, subscriptions: Place, *, key: Sequence[str] | None = None
) -> DataFrame:
    """A row for each publication and subscription, with the reason why they match or do not.

    Tables are those of `match`; the result has as many rows as both have together multiplied, so
    choose rows first. Columns: the publication's key, `subscription`, `matches` (boolean),
    `verdict` (`TRUE`, `FALSE` or `UNKNOWN`; only TRUE matches) and `why`, the parts of the filter
    that would have to change, each with the value found, in indented lines. TableError as from
    `match`.
    """
    both = Compared.of(publications, subscriptions, key)
    shared, narrow = both.shared(), Narrow.of(both.publications, both.names(), both.key)
    keys, names = len(both.key), narrow.names

    def reasons(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = list(shared.load().filters())
        for batch in batches:
            fields = [f"key{at}" for at in range(keys)]
            named = pa.Table.from_arrays(batch.columns[keys:], list(names))
            given = Publications(pa.Table.from_arrays(batch.columns[:keys], fields), named)
            rows: list[Reason] = []
            for at, (_, attributes) in enumerate(given.rows()):
                for id, filter in wanted:
                    rows.append(Reason(at, id, explain_one(filter, attributes)))
                    if len(rows) == EXPLAINED:
                        yield _explained(batch, keys, rows, id_type)
                        rows = []
            if rows:
                yield _explained(batch, keys, rows, id_type)

    id_type = to_arrow_type(shared.id_type)
    schema = StructType(narrow.frame.schema.fields[:keys])
    schema = schema.add(SUBSCRIPTION, shared.id_type).add("matches", BooleanType())
    schema = schema.add("verdict", StringType()).add("why", StringType())
    found = narrow.frame.mapInArrow(reasons, schema)
    return found.select(*narrow.named_key(), *_REASON)


class Reason(NamedTuple):
    """Why a publication, by its place in a batch, does or does not match a subscription."""

    place: int
    subscription: str | int
    why: Explanation


def _explained(
    batch: pa.RecordBatch, keys: int, rows: Sequence[Reason], id_type: pa.DataType
) -> pa.RecordBatch:
    places = pa.array([each.place for each in rows], pa.int64())
    columns = [column.take(places) for column in batch.columns[:keys]]
    columns.append(pa.array([each.subscription for each in rows], id_type))
    columns.append(pa.array([each.why.verdict is FilterVerdict.TRUE for each in rows]))
    columns.append(pa.array([each.why.verdict.value for each in rows]))
    columns.append(pa.array([each.why.text() for each in rows]))
    return pa.RecordBatch.from_arrays(columns, [*batch.schema.names[:keys], *_REASON])


def _of_log(table: DataFrame, key: Sequence[str] | None) -> tuple[DataFrame, Sequence[str] | None]:
    """A table of the data source as publications, with the attributes of topics; another as it is.

    The JSON column `attributes` has values of any type, which no column could have.
    """
    if not {*_LOG_KEY, *_LOG_ONLY} <= set(table.columns):
        return table, key
    key = _LOG_KEY if key is None else key
    kept = [name for name in table.columns if name in key or name not in _LOG]
    levels = F.split(F.col("topic"), "/")
    topics = {TOPIC_ATTRIBUTE: F.col("topic"), LEVELS_ATTRIBUTE: F.size(levels).cast("bigint")}
    for number in range(MAX_LEVEL_ATTRIBUTES):
        topics[level_attribute(number)] = F.get(levels, F.lit(number))
    return table.select(
        *(F.col(quoted(name)) for name in kept),
        *(column.alias(name) for name, column in topics.items()),
    ), key
