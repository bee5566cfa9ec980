"""The runs of the study as tasks: each draws its workload, runs the model, and leaves its costs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np

from shoal.experiments.networks.topologies import random_tree, uniform_tree
from shoal.experiments.self_organising.grid import SHAPES, Part, SelfOrganisingCell
from shoal.experiments.self_organising.modelling.compiled.run import run_compiled
from shoal.experiments.self_organising.modelling.model import ModelOutcome, SelfOrganisingModel
from shoal.experiments.self_organising.modelling.optimum import OptimumProblem, best_known, regret
from shoal.experiments.self_organising.modelling.setting import SelfOrganisingSetting, Shape
from shoal.experiments.self_organising.modelling.workload import ModelWorkload, draw, places_apart
from shoal.experiments.studies.runs import RecordedRun, content_digest, run_key
from shoal.overlays.self_organising.deciding.planner import VARIATION


class ModelCosts(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a run.

    costs    of each kind of message, by window of 1,000 ticks
    counts   see `model.Outcome`
    regret   of the last tree, against the best or, above eight brokers, the best that is known
    """

    key: str
    part: Part
    setting: SelfOrganisingSetting
    costs: dict[str, list[float]]
    counts: dict[str, int]
    regret: float | None = None

    @property
    def windows(self) -> list[float]:
        """All that was spent, by window."""
        return [sum(each) for each in zip(*self.costs.values(), strict=True)]

    @property
    def total(self) -> float:
        return sum(self.windows)


class SelfOrganisingModelRun(RecordedRun[ModelCosts], frozen=True, kw_only=True):
    """One run; `folder` keeps physical networks."""

    name: str
    cost: float
    part: Part
    setting: SelfOrganisingSetting
    folder: str

    summary_type = ModelCosts

    def measure(self) -> ModelCosts:
        setting = self.setting
        workload = draw(setting, places_apart(setting, Path(self.folder)))
        drawn = setting, workload, first_links(setting), broadcast_times(setting)
        # Only the plain model counts the interest of three.
        outcome = SelfOrganisingModel(*drawn).run() if setting.counted else run_compiled(*drawn)
        return ModelCosts(
            key=self.key,
            part=self.part,
            setting=setting,
            costs=outcome.costs,
            counts=outcome.counts,
            regret=self._regret(workload, outcome) if self.part == "regret" else None,
        )

    def _regret(self, workload: ModelWorkload, outcome: ModelOutcome) -> float:
        setting, costs = self.setting, workload.costs[0]
        published = map(len, workload.publications)
        demands = list(zip(workload.members, published, strict=True))
        problem = OptimumProblem(costs.brokers, costs.links, demands)
        # Other runs on this network have the same.
        digest = run_key([costs, [(sorted(members), count) for members, count in demands]])
        file = Path(self.folder) / f"best-{digest}.json"
        if not file.is_file():
            found = best_known(problem, (_first_links(setting, shape) for shape in SHAPES)).cost
            file.parent.mkdir(parents=True, exist_ok=True)
            partial = file.with_suffix(f".{os.getpid()}")
            partial.write_bytes(msgspec.json.encode(found))
            partial.rename(file)
        best = msgspec.json.decode(file.read_bytes(), type=float)
        return regret(problem.cost(outcome.links), best)


def model_runs(cells: Iterable[SelfOrganisingCell], root: Path) -> list[SelfOrganisingModelRun]:
    """The cells of a grid as tasks, below a study's folder."""
    found = []
    digests = {"": ""}
    for cell in cells:
        setting = cell.setting
        for path in {setting.rtt, setting.departures} - digests.keys():
            digests[path] = content_digest(Path(path))
        described = msgspec.structs.replace(
            setting, rtt=digests[setting.rtt], departures=digests[setting.departures]
        )
        found.append(
            SelfOrganisingModelRun(
                key=run_key([cell.part, described]),
                file=str(root / "runs" / f"{cell.name}.json"),
                name=cell.name,
                cost=cell.cost,
                part=cell.part,
                setting=cell.setting,
                folder=str(root / "workloads"),
            )
        )
    return found


def first_links(setting: SelfOrganisingSetting) -> list[tuple[int, int]]:
    """The tree that brokers start with."""
    return _first_links(setting, setting.shape)


def _first_links(setting: SelfOrganisingSetting, shape: Shape) -> list[tuple[int, int]]:
    names = [str(broker) for broker in range(setting.brokers)]
    tree = random_tree if shape == "recursive" else uniform_tree
    return [(int(left), int(right)) for left, right in tree(names, setting.seed)]


def broadcast_times(setting: SelfOrganisingSetting) -> list[list[float]]:
    """Return when each broker broadcasts: not all in one moment, and in intervals as the machines
    do.
    """
    random, interval = np.random.default_rng([setting.seed, 6]), setting.interval
    shape = setting.brokers, math.ceil(setting.ticks / (VARIATION[0] * interval))
    first = random.uniform(0, interval, (setting.brokers, 1))
    times = np.cumsum(np.hstack([first, interval * random.uniform(*VARIATION, shape)]), axis=1)
    return [each[each < setting.ticks].tolist() for each in times]
