"""Sinks take the rows of a run while it runs: into memory, or into Parquet files.

>>> sink = MemorySink()
>>> sink.add("links", [("A", "B"), ("B", "C")])
>>> sink.close()["links"]
{'left': ('A', 'B'), 'right': ('B', 'C')}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above
import pyarrow.dataset as ds  # type: ignore[import-untyped]  # as above
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.experiments.run_files import RUN_TABLES, RunFileError
from shoal.simulation.judging.running_judge import DeliveredKey

# The columns of a run's tables, by table.
Tables = Mapping[str, Mapping[str, Sequence[Any]]]
TraceRow = tuple[Any, ...]
# Rows of one table in memory until they are written: some 40 MB of deliveries.
GROUP_ROWS = 131_072
_KEY = ("publisher", "sequence", "subscription")


class TraceSink(Protocol):
    """Takes rows in the order of `RUN_TABLES`' columns."""

    def add(self, table: str, rows: Sequence[TraceRow]) -> None:
        """Add rows of a table; a sink keeps no reference to the sequence."""

    def close(self) -> Tables:
        """All rows have come: the tables, each with all columns."""

    def delivered(self, suspects: set[DeliveredKey]) -> Iterator[DeliveredKey]:
        """After `close`: the keys of deliveries, at least of all that are suspects."""


class MemorySink:
    """Keeps all rows; for runs that are measured at once, and dropped."""

    def __init__(self) -> None:
        self._rows: dict[str, list[TraceRow]] = {name: [] for name in RUN_TABLES}

    def add(self, table: str, rows: Sequence[TraceRow]) -> None:
        self._rows[table] += rows

    def close(self) -> Tables:
        return {name: _columns(name, rows) for name, rows in self._rows.items()}

    def delivered(self, suspects: set[DeliveredKey]) -> Iterator[DeliveredKey]:
        places = [RUN_TABLES["deliveries"].names.index(name) for name in _KEY]
        for row in self._rows["deliveries"]:
            publisher, sequence, subscription = (row[place] for place in places)
            yield publisher, sequence, subscription


class ParquetSink:
    """Writes `<table>.parquet` into a folder, in row groups of `group_rows`.

    A file is readable once the sink is closed.
    """

    def __init__(self, folder: Path, group_rows: int = GROUP_ROWS) -> None:
        self._folder = folder
        self._group_rows = group_rows
        self._rows: dict[str, list[TraceRow]] = {name: [] for name in RUN_TABLES}
        self._writers = {
            name: pq.ParquetWriter(
                self._path(name), schema, compression="zstd", compression_level=3
            )
            for name, schema in RUN_TABLES.items()
        }

    def _path(self, table: str) -> Path:
        return self._folder / f"{table}.parquet"

    def add(self, table: str, rows: Sequence[TraceRow]) -> None:
        waiting = self._rows[table]
        waiting += rows
        while len(waiting) >= self._group_rows:
            self._write(table, waiting[: self._group_rows])
            del waiting[: self._group_rows]

    def _write(self, table: str, rows: Sequence[TraceRow]) -> None:
        self._writers[table].write_table(_arrow_table(table, rows))

    def close(self) -> Tables:
        for name, rows in self._rows.items():
            if rows:
                self._write(name, rows)
                rows.clear()
            self._writers[name].close()
        return StoredTables(self._folder)

    def abandon(self) -> None:
        """Close the files; what they hold is not whole."""
        for writer in self._writers.values():
            writer.close()

    def delivered(self, suspects: set[DeliveredKey]) -> Iterator[DeliveredKey]:
        names = pa.array(sorted({subscription for _, _, subscription in suspects}), pa.string())
        sequences = pa.array(sorted({sequence for _, sequence, _ in suspects}), pa.int64())
        with pq.ParquetFile(self._path("deliveries")) as file:
            for batch in file.iter_batches(columns=list(_KEY)):
                is_near = pc.and_(
                    pc.is_in(batch["subscription"], names), pc.is_in(batch["sequence"], sequences)
                )
                found = batch.filter(is_near)
                yield from zip(*(found[name].to_pylist() for name in _KEY), strict=True)


class StoredTables(Mapping[str, Mapping[str, Sequence[Any]]]):
    """The tables of a run's folder; each is read whole when it is looked up."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, table: str) -> Mapping[str, Sequence[Any]]:
        if table not in RUN_TABLES:
            raise KeyError(table)
        columns: Mapping[str, Sequence[Any]] = (
            ds.dataset(self._folder / f"{table}.parquet").to_table().to_pydict()
        )
        return columns

    def __iter__(self) -> Iterator[str]:
        return iter(RUN_TABLES)

    def __len__(self) -> int:
        return len(RUN_TABLES)


def _arrow_table(name: str, rows: Sequence[TraceRow]) -> Any:
    """Rows of a table of a run; RunFileError if they have other types."""
    try:
        return pa.table(dict(_columns(name, rows)), schema=RUN_TABLES[name])
    except (pa.ArrowException, TypeError) as error:
        raise RunFileError(f"table {name!r}: {error}") from None


def _columns(table: str, rows: Sequence[TraceRow]) -> Mapping[str, Sequence[Any]]:
    names = RUN_TABLES[table].names
    if not rows:
        return dict.fromkeys(names, ())
    return dict(zip(names, zip(*rows, strict=True), strict=True))
