"""BlueDove's evaluation: its options, and its plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from shoal.experiments.studies.options import Flights
from shoal.experiments.studies.study import Conclusion, ScaleName, Study, StudySource

if TYPE_CHECKING:
    from shoal.experiments.bluedove.data import PointSet
    from shoal.experiments.bluedove.grid import DataFile
    from shoal.experiments.studies.runs import Task
    from shoal.pipeline.session import Spark


class BlueDoveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Real data to run on beside synthetic load."""

    flights: Flights = False
    positions: Annotated[
        Path | None,
        msgspec.Meta(
            description="Real aircraft positions (latitude, longitude, altitude, groundspeed): "
            "Parquet or CSV."
        ),
    ] = None


class BlueDovePlan:
    """Clusters under synthetic load, and under that of real data."""

    def __init__(self, options: BlueDoveOptions, scale: ScaleName, root: Path, seed: int) -> None:
        from shoal.experiments.bluedove.data import point_sets
        from shoal.experiments.bluedove.grid import SCALES

        self._scale = SCALES[scale]
        self._root = root
        self._seed = seed
        self._chosen = point_sets(options.positions, flights=options.flights)
        self._files: list[DataFile] = []

    @property
    def sources(self) -> Sequence[StudySource]:
        return [
            StudySource(f"numbers of {chosen.name}", partial(self._prepare, chosen))
            for chosen in self._chosen
        ]

    def _prepare(self, chosen: PointSet, spark: Spark) -> str:
        from shoal.experiments.bluedove.data import prepare_points

        self._files.append(prepare_points(spark, chosen, self._root / "workloads"))
        return ""

    def runs(self) -> Sequence[Task]:
        from shoal.experiments.bluedove.grid import grid

        return grid(self._scale, self._root / "runs", self._seed, self._files)

    def conclude(self, runs: Sequence[Task]) -> Conclusion:
        from shoal.experiments.bluedove.page import conclude
        from shoal.experiments.bluedove.runs import ClusterRun

        clusters = [run for run in runs if isinstance(run, ClusterRun)]
        return conclude(clusters, self._scale, [each.name for each in self._files])


BLUEDOVE = Study(
    name="bluedove",
    summary="Dispatchers and matchers under synthetic load; with --flights and --positions under "
    "that of real data, too.",
    options=BlueDoveOptions,
    plan=BlueDovePlan,
)
