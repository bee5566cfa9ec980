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
    print_counts,
)
from shoal.cli.support.table_places import local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.pipeline.truth import TruthCounts


def truth(
    workload: Annotated[Path, typer.Argument(help="Output of `shoal workload`.")],
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
    workload, out = local(workload), local(out)
    if not workload.is_dir():
        raise UserError(f"{workload} is not a folder; make one with `shoal workload`")
    making = Making("truth", out, overwrite, engine, master, memory, conf or ())
    counts = making.make(
        "judging every publication by every filter",
        lambda: _small(workload, out, overwrite=overwrite),
        lambda spark: _by_spark(spark, workload, out, overwrite=overwrite),
        inputs=[workload],
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


def _by_spark(spark: SparkSession, workload: Path, out: Path, *, overwrite: bool) -> TruthCounts:
    from shoal.pipeline.truth import write_truth

    return write_truth(spark, workload, out, overwrite=overwrite)
