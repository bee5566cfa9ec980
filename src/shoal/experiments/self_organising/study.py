"""The evaluation of Cost and Interest: its options, and its plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from shoal.experiments.studies.options import Flights, RoundTrips
from shoal.experiments.studies.study import Conclusion, ScaleName, Study, StudySource

if TYPE_CHECKING:
    from shoal.experiments.studies.runs import Task
    from shoal.pipeline.session import Spark


class SelfOrganisingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Distances of brokers, and publishers."""

    rtt: RoundTrips = None
    flights: Flights = False


class SelfOrganisingPlan:
    """The paper's three experiments, and ours."""

    def __init__(
        self, options: SelfOrganisingOptions, scale: ScaleName, root: Path, seed: int
    ) -> None:
        from shoal.experiments.self_organising.grid import SCALES
        from shoal.experiments.self_organising.modelling.workload import check_measured

        self._scale = SCALES[scale]
        self._root = root
        self._seed = seed
        self._flights = options.flights
        self._departures = ""
        self._rtt = None if options.rtt is None else options.rtt.resolve()
        if self._rtt is not None:
            check_measured(self._rtt, brokers=100)

    @property
    def sources(self) -> Sequence[StudySource]:
        return [StudySource("departures of flights", self._prepare)] if self._flights else []

    def _prepare(self, spark: Spark) -> str:
        from shoal.experiments.self_organising.data import prepare_departures

        self._departures = str(prepare_departures(self._root / "workloads"))
        return ""

    def runs(self) -> Sequence[Task]:
        from shoal.experiments.self_organising.grid import grid
        from shoal.experiments.self_organising.runs import model_runs

        rtt = "" if self._rtt is None else str(self._rtt)
        return model_runs(grid(self._scale, self._seed, rtt, self._departures), self._root)

    def conclude(self, runs: Sequence[Task]) -> Conclusion:
        from shoal.experiments.self_organising.page import conclude
        from shoal.experiments.self_organising.runs import SelfOrganisingModelRun

        links = (
            "links cost lengths of ways in transit-stub networks of 10,500 routers, or are drawn"
        )
        if self._rtt is not None:
            links = f"links cost round trips of {self._rtt.name}"
        return conclude(
            [run for run in runs if isinstance(run, SelfOrganisingModelRun)], self._scale, links
        )


SELF_ORGANISING = Study(
    name="self-organising",
    summary="Brokers that exchange links by cost and interest, on trees of 100; links cost what "
    "routers are apart or what is drawn, or with --rtt what was measured; notifications are drawn, "
    "or with --flights real, too.",
    options=SelfOrganisingOptions,
    plan=SelfOrganisingPlan,
)
