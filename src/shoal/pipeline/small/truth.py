"""The truth of a small workload without Spark; the same table that `truth.py` writes.

The definitions judge (see `judge`); the index that brokers match with takes no part.  Spark SQL,
which shares not even the reading of a filter's text with brokers, is asked by
`shoal truth --engine spark`.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from shoal.model import Expression
from shoal.pipeline.checks.provenance import DEFINITIONS, write_note
from shoal.pipeline.schemas import (
    ATTRIBUTES,
    COMING_AND_GOING,
    PUBLICATION_KEY,
    SUBSCRIPTIONS,
    TRUTH,
    arrow_schema,
)
from shoal.pipeline.small.judge import NOBODY, SmallJudge
from shoal.pipeline.small.tables import NeedsSparkError, are_small, columns_of
from shoal.pipeline.truth import TruthCounts

# Publications times subscriptions: about a second for each thousand million.
MOST_PAIRS = 20_000_000_000
MOST_BYTES = 100_000_000

# Publications that are judged at a time, so that only their results are in memory.
PART = 16_384


def write_small_truth(workload: Path, out: Path, *, overwrite: bool = False) -> TruthCounts:
    """The same as `write_truth` without Spark; NeedsSparkError where that must judge."""
    if not are_small([workload], MOST_BYTES):
        raise NeedsSparkError("the input is above 100 MB")
    subscriptions = _subscriptions(workload)
    events = _events(workload)
    if events.num_rows * subscriptions.num_rows > MOST_PAIRS:
        raise NeedsSparkError("there are too many pairs to judge")
    attributes = events[ATTRIBUTES]
    columns = {field.name: pc.struct_field(attributes, [field.name]) for field in attributes.type}
    judge = SmallJudge(columns, events.num_rows)
    wanted = [
        (row, _expression(row["subscription"], row["filter"]))
        for row in subscriptions.sort_by("subscription").to_pylist()
    ]
    expected = 0
    with new_folder(out, overwrite=overwrite) as folder:
        with pq.ParquetWriter(folder / "part-00000.parquet", arrow_schema(TRUTH)) as writer:
            for first in range(0, events.num_rows, PART):
                part = slice(first, min(first + PART, events.num_rows))
                table = _expected(judge, events, part, wanted)
                writer.write_table(table)
                expected += table.num_rows
        write_note(workload, folder, out, judge=DEFINITIONS)
    return TruthCounts(
        publications=events.num_rows, subscriptions=subscriptions.num_rows, expected=expected
    )


def _expected(
    judge: SmallJudge,
    events: pa.Table,
    part: slice,
    wanted: Sequence[tuple[dict[str, Any], Expression]],
) -> pa.Table:
    """Return the expected deliveries of a part."""
    times_us = np.asarray(events["replay_us"]) if "replay_us" in events.column_names else None
    found: list[npt.NDArray[np.int64]] = []
    for row, expression in wanted:
        rows = judge.matched(expression, part)
        if "from_us" in row and times_us is not None and len(rows):
            rows = rows[_during(times_us[rows], row["from_us"], row["to_us"])]
        found.append(rows)
    table = events.select(PUBLICATION_KEY).take(np.concatenate(found or [NOBODY]))
    names = pa.array([row["subscription"] for row, _ in wanted], pa.string())
    places = np.repeat(np.arange(len(wanted)), [len(rows) for rows in found])
    table = table.append_column("subscription", names.take(pa.array(places)))
    kind = arrow_schema(TRUTH)
    return table.select(kind.names).cast(kind)


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
    stays = np.full(len(times_us), True)
    if from_us is not None:
        stays &= times_us >= from_us
    if to_us is not None:
        stays &= times_us < to_us
    return stays


def _expression(subscription: str, text: str) -> Expression:
    """TableError names a filter that is wrong."""
    try:
        return parse(text).expression
    except FilterSyntaxError as error:
        raise TableError(f"subscription {subscription!r}: {error}") from error
