"""`shoal truth`: Spark SQL says who must get what."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.support.errors import UserError
from shoal.cli.support.spark import (
    LOCAL_MASTER,
    LOCAL_MEMORY,
    MasterOption,
    MemoryOption,
    OutOption,
    OverwriteOption,
    print_counts,
    spark_command,
)


def truth(
    workload: Annotated[Path, typer.Argument(help="What `shoal workload` wrote.")],
    out: OutOption,
    overwrite: OverwriteOption = False,
    master: MasterOption = LOCAL_MASTER,
    memory: MemoryOption = LOCAL_MEMORY,
) -> None:
    """Compute with Spark SQL which subscription gets which publication."""
    if not workload.is_dir():
        raise UserError(f"{workload} is not a folder; make one with `shoal workload`")
    with spark_command(
        "truth", out, overwrite=overwrite, master=master, memory=memory, inputs=[workload]
    ) as (spark, status):
        from shoal.pipeline.truth import write_truth

        status.update("judging every publication by every filter")
        counts = write_truth(spark, workload, out, overwrite=overwrite)
    print_counts(
        f"{workload} -> {out}",
        {
            "publications": counts.publications,
            "subscriptions": counts.subscriptions,
            "deliveries expected": counts.expected,
        },
    )
