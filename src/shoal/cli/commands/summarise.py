"""`shoal summarise`: runs and the truth become metrics."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from shoal.cli.support.errors import UserError
from shoal.cli.support.places import check_exist
from shoal.cli.support.spark import (
    ConfOption,
    EngineOption,
    Making,
    MasterOption,
    MemoryOption,
    OutOption,
    OverwriteOption,
    Place,
)
from shoal.cli.support.table_places import local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def summarise(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="PLACE...", help="The runs' folders; the first is compared."),
    ],
    truth: Annotated[
        str, typer.Option(metavar="PLACE", help="Output of `shoal truth` for their workload.")
    ],
    out: OutOption,
    window_s: Annotated[
        int, typer.Option("--window", min=1, help="Width of the timeline's windows, in seconds.")
    ] = 5,
    overwrite: OverwriteOption = False,
    engine: EngineOption = "auto",
    master: MasterOption = None,
    memory: MemoryOption = None,
    conf: ConfOption = None,
) -> None:
    """Compare runs with the truth and with each other, in the relocation paper's metrics.

    The folder gets five tables: runs, brokers, timeline, moves and costs.  Spark makes them, but
    those of small runs.
    """
    making = Making("summarise", out, overwrite, engine, master, memory, conf or ())
    folders, expected, target = [local(each) for each in runs], making.input(truth), making.output()
    _check(folders, expected)
    window_us = window_s * 1_000_000
    with tempfile.TemporaryDirectory() as scratch:
        made = target if isinstance(target, Path) else Path(scratch) / "summary"
        making.make(
            "comparing deliveries with the truth",
            lambda at: _small(folders, expected, at, window_us, overwrite=overwrite),
            lambda spark: _by_spark(
                spark, folders, expected, made, target, window_us, overwrite=overwrite
            ),
            target,
            inputs=[*folders, expected],
        )
        _show(folders, made, expected)


def _show(runs: Sequence[Path], out: Path, truth: Place) -> None:
    from shoal.cli.support.outcome import outcome_table, verdict_line
    from shoal.cli.support.rows import show_table
    from shoal.pipeline.checks.provenance import SPARK, judge_of
    from shoal.report.comparison import sentences
    from shoal.report.inputs import ReportError, read_runs

    try:
        compared = read_runs(runs, out)
    except ReportError as error:
        raise UserError(str(error)) from None
    judge = judge_of(truth) if isinstance(truth, Path) else SPARK
    console = Console()
    show_table(console, outcome_table(compared))
    for sentence in sentences(compared):
        console.print(sentence, soft_wrap=True, highlight=False)
    console.print(verdict_line(compared, judge), soft_wrap=True)


def _small(
    runs: Sequence[Path], truth: Place, out: Path, window_us: int, *, overwrite: bool
) -> None:
    from shoal.pipeline.summaries import write_small_summary

    assert isinstance(truth, Path)
    write_small_summary(runs, truth, out, window_us=window_us, overwrite=overwrite)


def _by_spark(
    spark: SparkSession,
    runs: Sequence[Path],
    truth: Place,
    made: Path,
    out: Place,
    window_us: int,
    *,
    overwrite: bool,
) -> None:
    """Write the summary into the folder `made`, and from there to a place of Spark's."""
    from shoal.pipeline.summaries import write_summary
    from shoal.spark.steps import truth_table, write_folder

    expected = truth if isinstance(truth, Path) else truth_table(spark, truth.text)
    write_summary(spark, runs, expected, made, window_us=window_us, overwrite=overwrite)
    if not isinstance(out, Path):
        write_folder(spark, made, out.text, overwrite=overwrite)


def _check(runs: Sequence[Path], truth: Place) -> None:
    """UserError when a run or the truth is not there, or they are of different workloads."""
    from shoal.pipeline.checks.provenance import ProvenanceError, check_same_workload

    for run in runs:
        scenario = run / "scenario.toml"
        if not scenario.is_file():
            raise UserError(f"{scenario}: no such file; is {run} a run's folder?")
    if not isinstance(truth, Path):
        return
    check_exist(truth)
    try:
        check_same_workload(truth, runs)
    except ProvenanceError as error:
        raise UserError(str(error)) from None
