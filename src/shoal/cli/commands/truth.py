"""`shoal truth`: the deliveries that a run must make, computed without brokers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.support.errors import UserError
from shoal.cli.support.spark import (
    AddOption,
    ConfOption,
    EngineOption,
    Making,
    MasterOption,
    MemoryOption,
    OutOption,
    OverwriteOption,
    Place,
    adding_errors,
    print_counts,
)
from shoal.cli.support.table_places import as_text
from shoal.frames.folders import EVENTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.pipeline.truth import TruthCounts


def truth(
    workload: Annotated[str, typer.Argument(metavar="PLACE", help="Output of `shoal workload`.")],
    out: OutOption,
    overwrite: OverwriteOption = False,
    add: AddOption = False,
    engine: EngineOption = "auto",
    master: MasterOption = None,
    memory: MemoryOption = None,
    conf: ConfOption = None,
) -> None:
    """Compute which subscription gets which publication, apart from the brokers.

    With --add, DIR gets a folder part=N with the deliveries of the files that are new in the
    workload's events and subscriptions; together they are those of the whole workload.

    The filters' definitions judge; Spark SQL does where a workload is above 100 MB or mixes types
    in one attribute, or where `--engine spark` asks it.
    """
    making = Making("truth", out, overwrite, engine, master, memory, conf or ())
    given, target = making.input(workload), making.output()
    if isinstance(given, Path) and not given.is_dir():
        raise UserError(f"{workload} is not a folder; make one with `shoal workload`")
    if add:
        _add(making, given, target)
        return
    counts = _judge(making, given, target)
    print_counts(
        f"{workload} -> {out}",
        {
            "publications": counts.publications,
            "subscriptions": counts.subscriptions,
            "deliveries expected": counts.expected,
        },
    )


def _judge(making: Making, given: Place, out: Place) -> TruthCounts:
    overwrite = making.overwrite
    return making.make(
        "judging every publication by every filter",
        (lambda at: _small(given, at, overwrite=overwrite)) if isinstance(given, Path) else None,
        lambda spark: _by_spark(spark, given, out, overwrite=overwrite),
        out,
        inputs=[given],
    )


def _add(making: Making, workload: Place, out: Place) -> None:
    """Add the deliveries of new events and subscriptions to a folder of parts."""
    from shoal.frames.increments import additions
    from shoal.pipeline.checks.provenance import judge_of, write_note

    workload, out = making.check_adds(workload, out)
    inputs = [(name, workload / name) for name in (EVENTS, "subscriptions.parquet")]
    found, judge = 0, judge_of(out)
    with adding_errors(), additions(out, *inputs) as todo:
        for each in todo:
            found += _judge(making, each.inputs[EVENTS].parent, each.target).expected
            judge = judge_of(each.target)
    write_note(workload, out, out, judge=judge)
    print_counts(f"{workload} -> {out}", {"deliveries added": found})


def _small(workload: Path, out: Path, *, overwrite: bool) -> TruthCounts:
    from shoal.pipeline.small.truth import write_small_truth

    return write_small_truth(workload, out, overwrite=overwrite)


def _by_spark(spark: SparkSession, workload: Place, out: Place, *, overwrite: bool) -> TruthCounts:
    if isinstance(workload, Path) and isinstance(out, Path):
        from shoal.pipeline.truth import write_truth

        return write_truth(spark, workload, out, overwrite=overwrite)
    from shoal.spark.steps import truth_places

    return truth_places(spark, as_text(workload), as_text(out), overwrite=overwrite)
