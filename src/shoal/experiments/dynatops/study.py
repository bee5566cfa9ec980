"""The evaluation of DYNATOPS: its options, and its plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from shoal.experiments.studies.study import Conclusion, ScaleName, Study, StudySource

if TYPE_CHECKING:
    from shoal.experiments.studies.runs import Task


class DynatopsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Sources of the users' paths in the location model; sources of interests in runs of our
    own.
    """

    checkins: Annotated[
        Path | None,
        msgspec.Meta(
            description="Check-ins (user, week_traj, seq, weekday, minute_of_day, lat, lon); "
            "without, users are drawn."
        ),
    ] = None
    interests: Annotated[
        Path | None,
        msgspec.Meta(
            description="Users' interests (user, symbol, tweets, first, last), in Parquet; "
            "without, runs with them are left out."
        ),
    ] = None
    aircraft: Annotated[
        Path | None,
        msgspec.Meta(
            description="Positions of aircraft (timestamp, icao24, latitude, longitude), in "
            "Parquet; of several recordings (sample) the one with most aircraft. Without, runs "
            "with them are left out."
        ),
    ] = None


class DynatopsPlan:
    """The paper's experiments, and ours."""

    sources: Sequence[StudySource] = ()

    def __init__(self, options: DynatopsOptions, scale: ScaleName, root: Path, seed: int) -> None:
        from shoal.experiments.dynatops.crowds.aircraft import area_of, check_aircraft
        from shoal.experiments.dynatops.crowds.interests import check_interests
        from shoal.experiments.dynatops.crowds.users import check_trace
        from shoal.experiments.dynatops.grid import NO_FILES, SCALES
        from shoal.experiments.dynatops.plans import PLAN_SCALES

        self._scale, self._plans = SCALES[scale], PLAN_SCALES[scale]
        self._root, self._seed = root, seed
        self._trace = "" if options.checkins is None else str(options.checkins.resolve())
        if self._trace:
            check_trace(Path(self._trace))
        self._files = NO_FILES
        if options.interests is not None:
            check_interests(options.interests)
            self._files = self._files._replace(interests=str(options.interests.resolve()))
        if options.aircraft is not None:
            check_aircraft(options.aircraft)
            path, area = str(options.aircraft.resolve()), area_of(options.aircraft)
            self._files = self._files._replace(aircraft=path, area=area)

    def runs(self) -> Sequence[Task]:
        from shoal.experiments.dynatops.grid import grid
        from shoal.experiments.dynatops.plans import plan_runs
        from shoal.experiments.dynatops.runs import model_runs

        cells = grid(self._scale, self._seed, self._trace, self._files)
        plans = plan_runs(self._plans, self._seed, self._root)
        return [*model_runs(cells, self._root), *plans]

    def conclude(self, runs: Sequence[Task]) -> Conclusion:
        from shoal.experiments.dynatops.page import conclude
        from shoal.experiments.dynatops.plans import PlanRun
        from shoal.experiments.dynatops.runs import DynatopsModelRun

        users = "users drawn" if not self._trace else f"users by {Path(self._trace).name}"
        return conclude(
            [run for run in runs if isinstance(run, DynatopsModelRun)],
            [run for run in runs if isinstance(run, PlanRun)],
            self._scale,
            users,
        )


DYNATOPS = Study(
    name="dynatops",
    summary="Topic trees under subscriptions that change: users and brokers that move, against "
    "Bayeux, TCO and GeoPS, in a model by the hour of the functions that brokers decide by.",
    options=DynatopsOptions,
    plan=DynatopsPlan,
)
