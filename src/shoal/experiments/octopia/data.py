"""The publications of the study: of each publisher some, with eight attributes, in its order.

They are made once; a digest in a file's name identifies their source.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # pyarrow ships no types

from shoal.experiments.studies.data import DataSet, Walks, ingest

if TYPE_CHECKING:
    from shoal.pipeline.session import Spark

# The paper's stock notifications have ten (VIII); two of ours are the publisher and the lot.
ATTRIBUTES = 8
# Publishers take turns with their publications when they have published all.
MOST_EACH = 200
WALKS = Walks(stocks=500, days=40)

Rows = list[dict[str, Any]]


def prepare(spark: Spark, data: DataSet, root: Path, seed: int) -> Path:
    """The file that runs read, made if it is not there."""
    digest = hashlib.sha256(f"{data.digest} {version('shoal')}".encode()).hexdigest()[:12]
    file = root / f"{data.name}-{digest}.json"
    if not file.is_file():
        folder = root / f"{data.name}-publications"
        ingest(spark, data, folder, seed)
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(_by_publisher(folder), default=str), encoding="utf-8")
        partial.rename(file)
        shutil.rmtree(folder, ignore_errors=True)
    return file


def read_publishers(file: Path) -> list[Rows]:
    """The attributes of each publisher's publications, those with most of them first."""
    found: list[Rows] = json.loads(file.read_text(encoding="utf-8"))
    return found


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
