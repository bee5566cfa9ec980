"""`shoal truth`: the deliveries that a run must make, computed without brokers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.support.errors import UserError
from shoal.cli.support.spark import (
    ConfOption,
    EngineOption,
    Making,
    MasterOption,
    MemoryOption,
    OutOption,
    OverwriteOption,
    Place,
    print_counts,
)
from shoal.cli.support.table_places import as_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.pipeline.truth import TruthCounts


def truth(
    workload: Annotated[str, typer.Argument(metavar="PLACE", help="Output of `shoal workload`.")],
    out: OutOption,
    overwrite: OverwriteOption = False,
    engine: EngineOption = "auto",
    master: MasterOption = None,
    memory: MemoryOption = None,
    conf: ConfOption = None,
) -> None:
    """Compute which subscription gets which publication, apart from the brokers.

    The filters' definitions judge; Spark SQL does where a workload is above 100 MB or mixes types
    in one attribute, or where `--engine spark` asks it.
    """
    making = Making("truth", out, overwrite, engine, master, memory, conf or ())
    given, target = making.input(workload), making.output()
    if isinstance(given, Path) and not given.is_dir():
        raise UserError(f"{workload} is not a folder; make one with `shoal workload`")
    counts = making.make(
        "judging every publication by every filter",
        (lambda at: _small(given, at, overwrite=overwrite)) if isinstance(given, Path) else None,
        lambda spark: _by_spark(spark, given, target, overwrite=overwrite),
        target,
        inputs=[given],
    )
    print_counts(
        f"{workload} -> {out}",
        {
            "publications": counts.publications,
            "subscriptions": counts.subscriptions,
            "deliveries expected": counts.expected,
        },
    )


def _small(workload: Path, out: Path, *, overwrite: bool) -> TruthCounts:
    from shoal.pipeline.small.truth import write_small_truth

    return write_small_truth(workload, out, overwrite=overwrite)


def _by_spark(spark: SparkSession, workload: Place, out: Place, *, overwrite: bool) -> TruthCounts:
    if isinstance(workload, Path) and isinstance(out, Path):
        from shoal.pipeline.truth import write_truth

        return write_truth(spark, workload, out, overwrite=overwrite)
    from shoal.spark.steps import truth_places

    return truth_places(spark, as_text(workload), as_text(out), overwrite=overwrite)
