"""The truth of a small workload without Spark; the same table that `truth.py` writes.

The definitions judge (`shoal.matching.semantics`), each test once for each value that an attribute
has; the index that brokers match with takes no part.  Spark SQL, which shares not even the reading
of a filter's text with brokers, is asked by `shoal truth --engine spark`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.frames.errors import TableError
from shoal.frames.folders import EVENTS, new_folder
from shoal.frames.reading import read_table_file
from shoal.language import FilterSyntaxError, parse
from shoal.matching.semantics import evaluate_predicate
from shoal.model import And, Constant, Expression, Not, Or, Predicate
from shoal.pipeline.checks.provenance import DEFINITIONS, write_note
from shoal.pipeline.schemas import (
    ATTRIBUTES,
    COMING_AND_GOING,
    PUBLICATION_KEY,
    SUBSCRIPTIONS,
    TRUTH,
    arrow_schema,
)
from shoal.pipeline.small.tables import NeedsSparkError, are_small, columns_of
from shoal.pipeline.truth import TruthCounts

_KINDS = (pa.types.is_string, pa.types.is_int64, pa.types.is_float64, pa.types.is_boolean)
# Publications times subscriptions: seconds, and a table of which memory holds a part at a time.
MOST_PAIRS = 50_000_000

_SAID = {True: 1, None: 0, False: -1}
# What a test says of each publication.
_Answers = npt.NDArray[np.int8]


def write_small_truth(workload: Path, out: Path, *, overwrite: bool = False) -> TruthCounts:
    """The same as `write_truth` without Spark; NeedsSparkError where that must judge."""
    if not are_small([workload]):
        raise NeedsSparkError
    subscriptions = _subscriptions(workload)
    events = _events(workload)
    if events.num_rows * subscriptions.num_rows > MOST_PAIRS:
        raise NeedsSparkError
    columns = {name: events[name] for name in PUBLICATION_KEY}
    times_us = np.asarray(events["replay_us"]) if "replay_us" in events.column_names else None
    judge = _Judge(events[ATTRIBUTES], events.num_rows)
    kind = arrow_schema(TRUTH)
    expected = 0
    with new_folder(out, overwrite=overwrite) as folder:
        with pq.ParquetWriter(folder / "part-00000.parquet", kind) as writer:
            for row in subscriptions.sort_by("subscription").to_pylist():
                matched = judge.matched(row["subscription"], row["filter"])
                if "from_us" in row and times_us is not None:
                    matched &= _during(times_us, row["from_us"], row["to_us"])
                places = pa.array(np.flatnonzero(matched))
                found = {name: column.take(places) for name, column in columns.items()}
                found["subscription"] = pa.repeat(row["subscription"], len(places))
                writer.write_table(pa.table(found).select(kind.names).cast(kind))
                expected += len(places)
        write_note(workload, folder, out, judge=DEFINITIONS)
    return TruthCounts(
        publications=events.num_rows, subscriptions=subscriptions.num_rows, expected=expected
    )


def _subscriptions(workload: Path) -> pa.Table:
    file = workload / "subscriptions.parquet"
    if not workload.is_dir():
        raise TableError(f"{workload} is not a folder; make one with `shoal workload`")
    table = read_table_file(file, inside="")
    comes_and_goes = "from_us" in table.column_names
    return columns_of(table, COMING_AND_GOING if comes_and_goes else SUBSCRIPTIONS, file)


def _events(workload: Path) -> pa.Table:
    """TableError names a column that is missing."""
    path = workload / EVENTS
    table = read_table_file(path, inside="")
    for name in (*PUBLICATION_KEY, ATTRIBUTES):
        if name not in table.column_names:
            raise TableError(f"{path} lacks the column {name!r}")
    return table


def _during(times_us: Any, from_us: int | None, to_us: int | None) -> Any:
    since = times_us >= from_us if from_us is not None else True
    return since & (times_us < to_us) if to_us is not None else since


class _Judge:
    """What filters say of all publications, test by test."""

    def __init__(self, attributes: pa.ChunkedArray, publications: int) -> None:
        self._publications = publications
        self._columns: Mapping[str, Any] = {
            field.name: pc.struct_field(attributes, field.name) for field in attributes.type
        }
        for column in self._columns.values():
            if not any(is_kind(column.type) for is_kind in _KINDS):
                raise NeedsSparkError
        self._coded: dict[str, tuple[list[Any], Any]] = {}
        self._answers: dict[Predicate, _Answers] = {}

    def matched(self, subscription: str, text: str) -> npt.NDArray[np.bool_]:
        """Of which publications a filter is TRUE; TableError names one that is wrong."""
        try:
            expression = parse(text).expression
        except FilterSyntaxError as error:
            raise TableError(f"subscription {subscription!r}: {error}") from error
        return self._evaluate(expression) > 0

    def _evaluate(self, expression: Expression) -> _Answers:
        match expression:
            case Predicate():
                if expression not in self._answers:
                    self._answers[expression] = self._test(expression)
                return self._answers[expression]
            case Constant(value):
                return np.full(self._publications, 1 if value else -1, np.int8)
            case Not(operand):
                return -self._evaluate(operand)
            case And() | Or():
                # Kleene's: the least of all for AND, the greatest for OR.
                join = np.minimum if isinstance(expression, And) else np.maximum
                return reduce(join, map(self._evaluate, expression.operands))

    def _test(self, tested: Predicate) -> _Answers:
        values, codes = self._values(tested.attribute)
        answers = [_SAID[evaluate_predicate(tested, value)] for value in values]
        said_of: _Answers = np.array(answers, np.int8)[codes]
        return said_of

    def _values(self, name: str) -> tuple[list[Any], Any]:
        """The values that an attribute has, and for each publication which; missing ones too."""
        if name not in self._coded:
            if name in self._columns:
                coded = self._columns[name].combine_chunks().dictionary_encode("encode")
                if isinstance(coded, pa.ChunkedArray):
                    coded = coded.combine_chunks()
                self._coded[name] = coded.dictionary.to_pylist(), np.asarray(coded.indices)
            else:
                self._coded[name] = [None], np.zeros(self._publications, np.int64)
        return self._coded[name]
