"""The evaluation of Cost and Interest: what may be said of it, and what is done for that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from shoal.experiments.studies.options import RoundTrips
from shoal.experiments.studies.study import Conclusion, ScaleName, Source, Study

if TYPE_CHECKING:
    from shoal.experiments.studies.runs import Task


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How far brokers are from each other."""

    rtt: RoundTrips = None


class SelfOrganisingPlan:
    """The paper's three experiments, and ours."""

    sources: Sequence[Source] = ()

    def __init__(self, options: Options, scale: ScaleName, root: Path, seed: int) -> None:
        from shoal.experiments.self_organising.grid import SCALES
        from shoal.experiments.self_organising.workload import check_measured

        self._scale = SCALES[scale]
        self._root = root
        self._seed = seed
        self._rtt = None if options.rtt is None else options.rtt.resolve()
        if self._rtt is not None:
            check_measured(self._rtt, brokers=100)

    def runs(self) -> Sequence[Task]:
        from shoal.experiments.self_organising.grid import grid
        from shoal.experiments.self_organising.runs import model_runs

        rtt = "" if self._rtt is None else str(self._rtt)
        return model_runs(grid(self._scale, self._seed, rtt), self._root)

    def conclude(self, runs: Sequence[Task]) -> Conclusion:
        from shoal.experiments.self_organising.page import conclude
        from shoal.experiments.self_organising.runs import ModelRun

        links = "transit-stub networks of 10,500 routers"
        if self._rtt is not None:
            links = f"round trips of {self._rtt.name}"
        return conclude([run for run in runs if isinstance(run, ModelRun)], self._scale, links)


SELF_ORGANISING = Study(
    name="self-organising",
    summary="Brokers that exchange links by cost and interest, on trees of 100; links cost what "
    "routers are apart, or with --rtt what was measured.",
    options=Options,
    plan=SelfOrganisingPlan,
)
