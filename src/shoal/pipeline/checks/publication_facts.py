"""Facts about a table of publications, from its files' statistics and two of its columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types

from shoal.frames.parquet_files import part_files
from shoal.pipeline.schemas import ATTRIBUTES


class PublicationFacts(NamedTuple):
    """`present` counts the publications with each attribute; `lowest` and `highest` are values of
    numeric ones.
    """

    rows: int
    publishers: frozenset[str]
    present: Counter[str]
    lowest: dict[str, float]
    highest: dict[str, float]


def publication_facts(table: Path) -> PublicationFacts:
    """The facts about a table; a large table is not read as a whole."""
    facts = PublicationFacts(0, frozenset(), Counter(), {}, {})
    rows, publishers = 0, set[str]()
    for part in part_files(table):
        with pq.ParquetFile(part, read_dictionary=["publisher"]) as opened:
            rows += opened.metadata.num_rows
            for batch in opened.iter_batches(columns=["publisher"]):
                publishers.update(batch["publisher"].unique().to_pylist())
            for group in range(opened.metadata.num_row_groups):
                _add(facts, opened.metadata.row_group(group))
    return facts._replace(rows=rows, publishers=frozenset(publishers))


def _add(facts: PublicationFacts, group: pq.RowGroupMetaData) -> None:
    for place in range(group.num_columns):
        column = group.column(place)
        first, _, name = column.path_in_schema.partition(".")
        if first != ATTRIBUTES or column.statistics is None:
            continue
        found = column.statistics
        facts.present[name] += group.num_rows - found.null_count
        if found.has_min_max and isinstance(found.min, int | float):
            facts.lowest[name] = min(found.min, facts.lowest.get(name, found.min))
            facts.highest[name] = max(found.max, facts.highest.get(name, found.max))


def event_times(
    table: Path, from_us: int | None = None, to_us: int | None = None
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the publications' times within bounds, some at a time."""
    for part in part_files(table):
        with pq.ParquetFile(part) as opened:
            for batch in opened.iter_batches(columns=["time_us"]):
                times = np.asarray(batch["time_us"])
                if from_us is not None:
                    times = times[times >= from_us]
                if to_us is not None:
                    times = times[times < to_us]
                yield times
