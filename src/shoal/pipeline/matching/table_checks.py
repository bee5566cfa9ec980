"""Checks that tables of publications and subscriptions go together, before they are matched.

Spark knows the columns' types; if filters compare a text column with numbers, its first rows are
searched for texts that are no numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    BooleanType,
    DataType,
    NumericType,
    StringType,
)

from shoal.frames.errors import TableError, TableWarning
from shoal.frames.kind_checks import NOUNS, PLURALS, SAMPLE, CheckedKind
from shoal.frames.spelling import did_you_mean
from shoal.frames.subscriptions import FILTER, ID_COLUMNS, attribute_of, id_column
from shoal.language import FilterSyntaxError, parse
from shoal.model import Filter, Kind
from shoal.pipeline.matching.publication_tables import attribute_types, key_columns, quoted

# Parsed here, one by one: fewer of them than rows are looked at.
FILTERS = 1_000


def demands(
    subscriptions: DataFrame, known: Collection[str], *, is_strict: bool = True
) -> CheckedKind:
    """Return the tests of a table's filters.

    TableError, if `is_strict`, for a column that demands an attribute which is not among the
    `known` ones of the publications, if these have any.
    """
    id = id_column(subscriptions.columns)
    if FILTER in subscriptions.columns:
        texts = subscriptions.select(FILTER).limit(FILTERS).collect()
        return CheckedKind.of(_parsed(row[0] for row in texts))
    tests = CheckedKind()
    for field in subscriptions.schema:
        kind, attribute = _kind(field.dataType), attribute_of(field.name)
        if field.name == id or kind is None:
            continue
        if known and attribute not in known:
            if not _has_values(subscriptions, field.name):
                continue  # it asks for nothing
            if not is_strict:
                tests.add(attribute, kind, field.name)
                continue
            hint = did_you_mean(attribute, known, (FILTER, *ID_COLUMNS))
            raise TableError(
                f"subscriptions: column {field.name!r} demands the attribute {attribute!r}, which "
                f"publications do not have{hint}"
            )
        tests.add(attribute, kind, field.name)
    return tests


def warn_of_tables(
    publications: DataFrame, subscriptions: DataFrame, key: Sequence[str] | None = None
) -> None:
    """Warn the caller's caller of each test that the publications cannot pass: TableWarning."""
    for complaint in table_complaints(publications, subscriptions, key, is_strict=False):
        warnings.warn(complaint, TableWarning, stacklevel=3)


def table_complaints(
    publications: DataFrame,
    subscriptions: DataFrame,
    key: Sequence[str] | None = None,
    *,
    is_strict: bool = True,
) -> Iterator[str]:
    """Yield the tests that the publications cannot pass, a line per attribute.

    TableError as from `demands`, and for publications without a key.
    """
    types = attribute_types(publications, key_columns(publications, key))
    tests = demands(subscriptions, types, is_strict=is_strict)
    for attribute, asked in sorted(tests.by_attribute.items()):
        yield from _complaint(publications, types, attribute, asked)


def _parsed(texts: Iterator[str | None]) -> Iterator[Filter]:
    """Yield filters that parse; a caller that needs them all reports the others."""
    for text in texts:
        try:
            yield parse(text or "TRUE")
        except FilterSyntaxError:
            continue


def _has_values(table: DataFrame, column: str) -> bool:
    return bool(table.where(F.col(quoted(column)).isNotNull()).limit(1).count())


def _complaint(
    publications: DataFrame,
    types: Mapping[str, tuple[Column, DataType]],
    attribute: str,
    asked: Mapping[Kind, str],
) -> Iterator[str]:
    if attribute not in types:
        test = next(iter(asked.values()))
        hint = did_you_mean(attribute, types)
        yield f"no publication has {attribute}, and `{test}` asks for it{hint}"
        return
    column, data_type = types[attribute]
    found = _kind(data_type)
    for kind, test in asked.items():
        if found is None or found is kind:
            continue
        why = ""
        if found is Kind.STRING and kind is Kind.NUMBER and not publications.isStreaming:
            why = _not_numbers(publications, column)
        yield f"{attribute} is {NOUNS[found]}{why}; `{test}` compares {PLURALS[kind]}"
        return


def _not_numbers(publications: DataFrame, column: Column) -> str:
    """Return those of the first values of a text column that are no numbers."""
    values = publications.select(column.alias("value")).limit(SAMPLE)
    wrong = F.col("value").isNotNull() & F.col("value").try_cast("double").isNull()
    row = values.agg(
        F.count("value").alias("rows"),
        F.count_if(wrong).alias("wrong"),
        F.first(F.when(wrong, F.col("value")), ignorenulls=True).alias("first"),
    ).first()
    if row is None or not row["wrong"]:
        return ""
    return f" (in {row['wrong']:,} of {row['rows']:,} rows no number: {row['first']!r})"


def _kind(data_type: DataType) -> Kind | None:
    """The kind of a column's values; None where rows may differ, or nothing compares."""
    match data_type:
        case StringType():
            return Kind.STRING
        case BooleanType():
            return Kind.BOOLEAN
        case NumericType():
            return Kind.NUMBER
    return None
