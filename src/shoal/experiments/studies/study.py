"""Interface of a paper's repeatable evaluation: options, runs, and conclusion.

A study declares its options, and makes a plan of them: data to be prepared once, runs that are
independent of each other, and a conclusion drawn from those that are done. The executor of a plan
(`shoal reproduce`) knows no paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.csv as pa_csv  # type: ignore[import-untyped]  # as above
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.overlays.trace_rows import Columns
from shoal.report.study import StudyFinding, StudyReport
from shoal.runtime.operations.trace_files import schema_of

if TYPE_CHECKING:
    from shoal.experiments.studies.runs import Task
    from shoal.pipeline.session import Spark

ScaleName = Literal["small", "paper"]


class StudySource(NamedTuple):
    """Data that runs read; `make` prepares them if they are not there, and describes them."""

    title: str
    make: Callable[[Spark], str]


class StudyRows(NamedTuple):
    """A table of everything measured; without columns they follow from the rows."""

    rows: Sequence[Mapping[str, Any]]
    columns: Columns | None = None


class Conclusion(NamedTuple):
    """Result of the runs: the content of the pages, and tables by name."""

    report: StudyReport
    tables: Mapping[str, StudyRows]

    def of_a_part(self, said: str, failures: Sequence[str] = ()) -> Conclusion:
        """Return the same for a part of the runs: `said` stands among the facts, and the runs that
        failed stand first among the notes.
        """
        facts, notes = (*self.report.facts, said), (*failures, *self.report.notes)
        report = msgspec.structs.replace(self.report, facts=facts, notes=notes, is_part=True)
        return self._replace(report=report)


class StudyPlan(Protocol):
    """A study with its options: its steps, in this order."""

    @property
    def sources(self) -> Sequence[StudySource]:
        """Data to be prepared first."""

    def runs(self) -> Sequence[Task]:
        """All runs, once the data are there."""

    def conclude(self, runs: Sequence[Task]) -> Conclusion:
        """Draw the conclusion from those runs that are done."""


class Study(NamedTuple):
    """A paper's evaluation.

    summary   in a sentence or two, for the choice of a study
    options   options beside scale and seed; each field has a description
    plan      from options, scale, the study's folder and a seed; ValueError for options that cannot
              be, before anything is written
    """

    name: str
    summary: str
    options: type[msgspec.Struct]
    plan: Callable[[Any, ScaleName, Path, int], StudyPlan]


def write_conclusion(root: Path, conclusion: Conclusion) -> Sequence[StudyFinding]:
    """Write `study.json`, `tables/` and `claims.csv` into the study's folder; the findings."""
    report = conclusion.report
    tables = {**conclusion.tables, "claims": StudyRows(list(map(_claim_row, report.claims)))}
    write_tables(root / "tables", tables)
    write_csv(root / "tables" / "claims.parquet", root / "claims.csv")
    (root / "study.json").write_bytes(msgspec.json.encode(report))
    return report.claims


def _claim_row(one: StudyFinding) -> Mapping[str, Any]:
    """A finding with the bounds of its band as columns."""
    row = msgspec.to_builtins(one)
    limits = row.pop("limits") or {}
    return {**row, "low": limits.get("low"), "high": limits.get("high")}


def write_tables(folder: Path, tables: Mapping[str, StudyRows]) -> None:
    """A Parquet file per table; one without columns and rows is none."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        if table.columns is None and not table.rows:
            path.unlink(missing_ok=True)
            continue
        schema = None if table.columns is None else schema_of(table.columns)
        pq.write_table(pa.Table.from_pylist(list(table.rows), schema), path, compression="zstd")


def write_csv(table: Path, path: Path) -> None:
    """Write a Parquet file again as CSV, if it is there."""
    path.unlink(missing_ok=True)
    if table.exists():
        pa_csv.write_csv(pq.read_table(table), path)
