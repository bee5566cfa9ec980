"""OctopiA's evaluation: its options, and its plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from shoal.experiments.studies.options import Flights
from shoal.experiments.studies.study import Conclusion, ScaleName, Study, StudySource

if TYPE_CHECKING:
    from shoal.experiments.studies.data import DataSet
    from shoal.experiments.studies.runs import Task
    from shoal.pipeline.session import Spark


class OctopiaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Source of publications."""

    quotes: Annotated[
        Path | None,
        msgspec.Meta(description="Real stock quotes, as `shoal ingest quotes` reads them."),
    ] = None
    flights: Flights = False


class OctopiaPlan:
    """Section VIII on each data set, and our additions."""

    def __init__(self, options: OctopiaOptions, scale: ScaleName, root: Path, seed: int) -> None:
        from shoal.experiments.octopia.data import WALKS
        from shoal.experiments.octopia.grid import SCALES
        from shoal.experiments.studies.data import data_sets

        self._scale = SCALES[scale]
        self._root = root
        self._seed = seed
        self._data = data_sets(options.quotes, flights=options.flights, walks=WALKS, seed=seed)
        self._files: dict[str, Path] = {}

    @property
    def sources(self) -> Sequence[StudySource]:
        return [
            StudySource(f"publications of {data.name}", partial(self._prepare, data))
            for data in self._data
        ]

    def _prepare(self, data: DataSet, spark: Spark) -> str:
        from shoal.experiments.octopia.data import prepare

        self._files[data.name] = prepare(spark, data, self._root / "workloads", self._seed)
        return data.description

    def runs(self) -> Sequence[Task]:
        from shoal.experiments.octopia.runs import study_runs

        return study_runs(self._scale, self._files, self._root / "runs", self._seed)

    def conclude(self, runs: Sequence[Task]) -> Conclusion:
        from shoal.experiments.octopia.page import conclude

        return conclude(runs, self._scale, {one.name: one.description for one in self._data})


OCTOPIA = Study(
    name="octopia",
    summary="Advertisements, subscriptions and bursts on 70 brokers of OctopiA and of TID.  The "
    "data are quotes, flights, or both; without either, quotes that nobody ever traded.",
    options=OctopiaOptions,
    plan=OctopiaPlan,
)
