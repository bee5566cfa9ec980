"""The runs of the slot model as tasks: each draws its users, and records the results of each
hour.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from shoal.experiments.dynatops.crowds.aircraft import read_aircraft
from shoal.experiments.dynatops.crowds.interests import read_interests
from shoal.experiments.dynatops.crowds.users import draw_crowd
from shoal.experiments.dynatops.grid import DynatopsCell, Part
from shoal.experiments.dynatops.model import DynatopsModel, Slot
from shoal.experiments.dynatops.setting import DynatopsSetting
from shoal.experiments.studies.runs import RecordedRun, content_digest, run_key


class Hours(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a run, hour by hour."""

    key: str
    part: Part
    setting: DynatopsSetting
    slots: list[Slot]

    def sum(self, field: str) -> float:
        return float(sum(getattr(slot, field) for slot in self.slots))

    @property
    def delay(self) -> float:
        """The mean delay of a delivery, from the root to the user: hops, or mean round trips."""
        return (self.sum("waiting") + self.sum("reaching")) / self.sum("deliveries")

    @property
    def overhead(self) -> float:
        """Messages for each publication."""
        return self.sum("messages") / self.sum("events")

    @property
    def deviation(self) -> float:
        return self.sum("deviation") / len(self.slots)


class DynatopsModelRun(RecordedRun[Hours], frozen=True, kw_only=True):
    """One run."""

    name: str
    cost: float
    part: Part
    setting: DynatopsSetting

    summary_type = Hours

    def measure(self) -> Hours:
        readers = {"interests": read_interests, "aircraft": read_aircraft}
        crowd = readers.get(self.setting.users_are, draw_crowd)(self.setting)
        slots = DynatopsModel(self.setting, crowd).run()
        return Hours(key=self.key, part=self.part, setting=self.setting, slots=slots)


def model_runs(cells: Iterable[DynatopsCell], root: Path) -> list[DynatopsModelRun]:
    """The cells of a grid as tasks, below a study's folder."""
    found = []
    digests = {"": ""}
    for cell in cells:
        path = cell.setting.trace
        if path not in digests:
            digests[path] = content_digest(Path(path))
        described = msgspec.structs.replace(cell.setting, trace=digests[path])
        found.append(
            DynatopsModelRun(
                key=run_key([cell.part, described]),
                file=str(root / "runs" / f"{cell.name}.json"),
                name=cell.name,
                cost=cell.cost,
                part=cell.part,
                setting=cell.setting,
            )
        )
    return found
