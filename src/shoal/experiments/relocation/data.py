"""The data sets of the study: where they come from, and the workloads made of them.

Workloads are made once: a note beside them identifies their source, and while that is unchanged
they stay.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from shoal.experiments.studies.data import DataSet, Walks, ingest
from shoal.experiments.studies.options import FLIGHT_ATTRIBUTES

if TYPE_CHECKING:
    from shoal.experiments.relocation.grid import RelocationScale
    from shoal.pipeline.session import Spark
    from shoal.pipeline.workloads.study_workloads import Variant

# The attributes that the paper's example subscriptions test (5.1).
QUOTE_ATTRIBUTES = ("highLow%Diff", "volume", "openClose%Diff")
WALKS = Walks(stocks=50, days=1_500)
NOTE = "made-from.json"


class Prepared(NamedTuple):
    """Workloads on disk, and digests of their sources."""

    folder: Path
    inputs: dict[str, str]
    description: str


def prepare(
    spark: Spark, data: DataSet, scale: RelocationScale, root: Path, geography: bool, seed: int
) -> Prepared:
    """Every workload of a data set that the grid needs, below `root`."""
    from shoal.pipeline.workloads.study_workloads import StudyOptions, write_study

    variants = _variants(data.name, scale, geography, seed)
    options = StudyOptions(
        publishers=scale.publishers,
        interval_us=scale.interval_us,
        seed=seed,
        aim_at=FLIGHT_ATTRIBUTES if data.name == "flights" else QUOTE_ATTRIBUTES,
    )
    described = json.dumps(
        msgspec.to_builtins([data.digest, options, variants, version("shoal")]), sort_keys=True
    )
    digest = hashlib.sha256(described.encode()).hexdigest()
    folder = root / f"{data.name}-{scale.name}"
    note = folder / NOTE
    if not note.is_file() or json.loads(note.read_text(encoding="utf-8"))["digest"] != digest:
        shutil.rmtree(folder, ignore_errors=True)
        publications = root / f"{data.name}-publications"
        ingest(spark, data, publications, seed)
        counts = write_study(spark, publications, folder, options, variants)
        made = {"digest": digest, "publishers": counts.publishers, "workloads": counts.variants}
        note.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    made = json.loads(note.read_text(encoding="utf-8"))
    text = f"{made['workloads']} workloads of {made['publishers']} publishers"
    return Prepared(folder, {"workloads": digest}, text)


def _variants(name: str, scale: RelocationScale, geography: bool, seed: int) -> list[Variant]:
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
