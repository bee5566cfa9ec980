"""`shoal summarise`: runs and the truth become metrics."""

from __future__ import annotations

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
)
from shoal.cli.support.table_places import local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def summarise(
    runs: Annotated[list[Path], typer.Argument(help="The runs' folders; the first is compared.")],
    truth: Annotated[Path, typer.Option(help="Output of `shoal truth` for their workload.")],
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

    The folder gets four tables: runs, brokers, timeline and moves.  Spark makes them, but those of
    small runs.
    """
    runs, truth, out = [local(each) for each in runs], local(truth), local(out)
    _check(runs, truth)
    window_us = window_s * 1_000_000
    making = Making("summarise", out, overwrite, engine, master, memory, conf or ())
    making.make(
        "comparing deliveries with the truth",
        lambda: _small(runs, truth, out, window_us, overwrite=overwrite),
        lambda spark: _by_spark(spark, runs, truth, out, window_us, overwrite=overwrite),
        inputs=[*runs, truth],
    )
    from shoal.cli.support.outcome import outcome_table, verdict_line
    from shoal.cli.support.rows import show_table
    from shoal.pipeline.checks.provenance import judge_of
    from shoal.report.comparison import sentences
    from shoal.report.inputs import ReportError, read_runs

    try:
        compared = read_runs(runs, out)
    except ReportError as error:
        raise UserError(str(error)) from None
    console = Console()
    show_table(console, outcome_table(compared))
    for sentence in sentences(compared):
        console.print(sentence, soft_wrap=True, highlight=False)
    console.print(verdict_line(compared, judge_of(truth)), soft_wrap=True)


def _small(
    runs: Sequence[Path], truth: Path, out: Path, window_us: int, *, overwrite: bool
) -> None:
    from shoal.pipeline.summaries import write_small_summary

    write_small_summary(runs, truth, out, window_us=window_us, overwrite=overwrite)


def _by_spark(
    spark: SparkSession,
    runs: Sequence[Path],
    truth: Path,
    out: Path,
    window_us: int,
    *,
    overwrite: bool,
) -> None:
    from shoal.pipeline.summaries import write_summary

    write_summary(spark, runs, truth, out, window_us=window_us, overwrite=overwrite)


def _check(runs: Sequence[Path], truth: Path) -> None:
    """UserError when a run or the truth is not there, or they are of different workloads."""
    from shoal.pipeline.checks.provenance import ProvenanceError, check_same_workload

    for run in runs:
        scenario = run / "scenario.toml"
        if not scenario.is_file():
            raise UserError(f"{scenario}: no such file; is {run} a run's folder?")
    check_exist(truth)
    try:
        check_same_workload(truth, runs)
    except ProvenanceError as error:
        raise UserError(str(error)) from None
