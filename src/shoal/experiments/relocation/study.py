"""The relocation paper's evaluation: its options, and its plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from shoal.experiments.studies.options import Flights, RoundTrips
from shoal.experiments.studies.study import Conclusion, ScaleName, Study, StudySource

if TYPE_CHECKING:
    from shoal.experiments.relocation.data import Prepared
    from shoal.experiments.studies.data import DataSet
    from shoal.experiments.studies.runs import Task
    from shoal.pipeline.session import Spark


class RelocationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The data to run on, and how far brokers are from each other."""

    quotes: Annotated[
        Path | None,
        msgspec.Meta(description="Real stock quotes, as `shoal ingest quotes` reads them."),
    ] = None
    flights: Flights = False
    rtt: RoundTrips = None


class RelocationPlan:
    """The grid on each data set, and networks of growing size."""

    def __init__(self, options: RelocationOptions, scale: ScaleName, root: Path, seed: int) -> None:
        from shoal.experiments.networks.underlays import check_matrix
        from shoal.experiments.relocation.data import WALKS
        from shoal.experiments.relocation.grid import BROKERS, SCALES
        from shoal.experiments.studies.data import data_sets

        self._scale = SCALES[scale]
        self._root = root
        self._seed = seed
        self._rtt = options.rtt
        self._data = data_sets(options.quotes, flights=options.flights, walks=WALKS, seed=seed)
        self._prepared: dict[str, Prepared] = {}
        if options.rtt is not None:
            check_matrix(options.rtt, BROKERS["wide"])

    @property
    def sources(self) -> Sequence[StudySource]:
        return [
            StudySource(f"workloads of {data.name}", partial(self._prepare, data))
            for data in self._data
        ]

    def _prepare(self, data: DataSet, spark: Spark) -> str:
        from shoal.experiments.relocation.data import prepare

        folder, is_geography = self._root / "workloads", self._rtt is None
        made = prepare(spark, data, self._scale, folder, is_geography, self._seed)
        self._prepared[data.name] = made
        return made.description

    def runs(self) -> Sequence[Task]:
        from shoal.experiments.relocation.networks import network_runs
        from shoal.experiments.relocation.runs import study_runs

        folder = self._root / "runs"
        found: list[Task] = [*network_runs(self._scale, folder, self._seed)]
        for name, made in self._prepared.items():
            found += study_runs(
                name, self._scale, made.folder, folder, made.inputs, self._rtt, self._seed
            )
        return found

    def conclude(self, runs: Sequence[Task]) -> Conclusion:
        from shoal.experiments.relocation.page import conclude

        latency = "great circles between airports"
        if self._rtt is not None:
            latency = f"round trips of {self._rtt.name}"
        return conclude(runs, self._scale, [*(one.description for one in self._data), latency])


RELOCATION = Study(
    name="relocation",
    summary="POP and GRAPE on networks of 63 and 127 brokers.  The data are quotes, flights, or "
    "both; without either, quotes that nobody ever traded.",
    options=RelocationOptions,
    plan=RelocationPlan,
)
