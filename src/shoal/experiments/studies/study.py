"""What a paper brings so that its evaluation can be repeated: options, runs, and what they come to.

A study says which options it has, and makes a plan of them: data to be prepared once, runs that are
independent of each other, and a conclusion drawn from those that are done.  Whoever carries a plan
out (`shoal reproduce`) knows no paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.overlays.trace_rows import Columns
from shoal.report.study import Finding, StudyReport
from shoal.runtime.operations.trace_files import schema_of

if TYPE_CHECKING:
    from shoal.experiments.studies.runs import Task
    from shoal.pipeline.session import Spark

ScaleName = Literal["small", "paper"]


class Source(NamedTuple):
    """Data that runs read; `make` prepares them if they are not there, and describes them."""

    title: str
    make: Callable[[Spark], str]


class Rows(NamedTuple):
    """A table of everything measured; without columns they follow from the rows."""

    rows: Sequence[Mapping[str, Any]]
    columns: Columns | None = None


class Conclusion(NamedTuple):
    """What the runs come to: what the pages show, and tables by name."""

    report: StudyReport
    tables: Mapping[str, Rows]

    def of_a_part(self, said: str) -> Conclusion:
        """The same where not all runs are done: what is said of that stands among the facts."""
        report = msgspec.structs.replace(self.report, facts=(*self.report.facts, said))
        return self._replace(report=report)


class Plan(Protocol):
    """A study with its options: what is to be done, in this order."""

    @property
    def sources(self) -> Sequence[Source]:
        """Data to be prepared first."""

    def runs(self) -> Sequence[Task]:
        """All runs, once the data are there."""

    def conclude(self, runs: Sequence[Task]) -> Conclusion:
        """What those runs that are done come to."""


class Study(NamedTuple):
    """A paper's evaluation.

    summary   in a sentence or two, for who wonders what to run
    options   what may be said beside scale and seed; each field has a description
    plan      from options, scale, the study's folder and a seed; ValueError for options that cannot
              be, before anything is written
    """

    name: str
    summary: str
    options: type[msgspec.Struct]
    plan: Callable[[Any, ScaleName, Path, int], Plan]


def write_conclusion(root: Path, conclusion: Conclusion) -> Sequence[Finding]:
    """Write `study.json` and `tables/` into the study's folder; the findings, as they come."""
    report = conclusion.report
    findings = [msgspec.to_builtins(one) for one in report.claims]
    tables = {**conclusion.tables, "claims": Rows(findings)}
    write_tables(root / "tables", tables)
    (root / "study.json").write_bytes(msgspec.json.encode(report))
    return report.claims


def write_tables(folder: Path, tables: Mapping[str, Rows]) -> None:
    """A Parquet file per table; one without columns and rows is none."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        if table.columns is None and not table.rows:
            path.unlink(missing_ok=True)
            continue
        schema = None if table.columns is None else schema_of(table.columns)
        pq.write_table(pa.Table.from_pylist(list(table.rows), schema), path, compression="zstd")
