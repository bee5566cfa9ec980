"""The runs of the relocation study as tasks: each simulates, sums up, and leaves one file.

A run's file is named after it and holds a key of everything it depended on: the scenario, the
data, this version of shoal.  A run whose file has the right key is not made again, so a study
that was interrupted goes on where it was.  Files appear whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from shoal.experiments.relocation.grid import (
    PUBLISHING_FROM_US,
    SUBSCRIBING_FROM_US,
    WINDOW_US,
    RunSpec,
    Scale,
    Setting,
    grid,
)
from shoal.experiments.relocation.memory import PeakMemory
from shoal.experiments.relocation.probe import places, summarise_probe
from shoal.experiments.relocation.summary import RunSummary, summarise
from shoal.experiments.run_files import read_workload
from shoal.experiments.runner import run_scenario
from shoal.experiments.scenario import Scenario, parse_scenario, written_form

# One way between two machines of a cluster on 1 Gbit/s Ethernet, with the kernels' part.
CLUSTER_LATENCY_US = 250


class Task(Protocol):
    """Work of the study that leaves one file."""

    @property
    def name(self) -> str: ...

    @property
    def cost(self) -> float: ...

    @property
    def is_done(self) -> bool: ...

    def __call__(self) -> None: ...


class StudyRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to be made; call it, here or on another machine that sees the same folders."""

    spec: RunSpec
    scenario: Scenario
    key: str
    file: str

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def cost(self) -> float:
        return self.spec.cost

    @property
    def is_done(self) -> bool:
        return self.summary is not None

    def __call__(self) -> None:
        write_summary(Path(self.file), self.simulate())

    def simulate(self) -> RunSummary:
        """Run the network and sum it up."""
        workload = read_workload(Path(self.scenario.workload.path))
        if self.spec.probe is None:
            memory = PeakMemory()
            result = run_scenario(self.scenario, observe=memory.observe)
            costs = self.scenario.service
            return summarise(self.spec, self.key, result, workload, costs, memory)
        result = run_scenario(
            self.scenario,
            connect=places(workload, self.spec.probe),
            replay_until_us=self.spec.duration_us,
        )
        return summarise_probe(self.spec, self.key, result)

    @property
    def summary(self) -> RunSummary | None:
        """What an earlier call left, if it was of the very same run."""
        return read_summary(Path(self.file), RunSummary, self.key)


class Keyed(Protocol):
    """A summary that knows what it was made from."""

    @property
    def key(self) -> str: ...


Summary = TypeVar("Summary", bound=Keyed)


def write_summary(path: Path, summary: msgspec.Struct) -> None:
    """Write a summary's file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(msgspec.json.encode(summary))
    partial.rename(path)


def read_summary(path: Path, kind: type[Summary], key: str) -> Summary | None:
    """The summary in a file, if there is a whole one with that key."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return found if found.key == key else None


def study_runs(
    dataset: str,
    scale: Scale,
    workloads: Path,
    runs: Path,
    inputs: Mapping[str, str],
    rtt: Path | None,
    seed: int,
) -> list[StudyRun]:
    """The grid on one data set as tasks; `inputs` are digests of the data it is made from."""
    if rtt is not None:
        inputs = {**inputs, "rtt": hashlib.sha256(rtt.read_bytes()).hexdigest()}
        rtt = rtt.resolve()
    return [study_run(spec, workloads, runs, inputs, rtt, seed) for spec in grid(dataset, scale)]


def study_run(
    spec: RunSpec,
    workloads: Path,
    runs: Path,
    inputs: Mapping[str, str],
    rtt: Path | None,
    seed: int,
) -> StudyRun:
    """The task for a run; `inputs` are digests of the data that it is made from."""
    scenario = scenario_of(spec, workloads / spec.workload, rtt, seed)
    described = written_form(scenario)
    described["workload"] = described["underlay"].pop("path", "")
    return StudyRun(
        spec=spec,
        scenario=scenario,
        key=run_key([described, dict(inputs), msgspec.to_builtins(spec)]),
        file=str(runs / f"{spec.name}.json"),
    )


def run_key(parameters: Sequence[Any]) -> str:
    """A digest of everything that a run depends on, this version of shoal included."""
    text = msgspec.json.encode([*parameters, version("shoal")])
    return hashlib.sha256(text).hexdigest()


def scenario_of(spec: RunSpec, workload: Path, rtt: Path | None, seed: int) -> Scenario:
    """The complete scenario of a run."""
    if spec.testbed == "cluster":
        underlay: dict[str, Any] = {"kind": "constant", "latency_us": CLUSTER_LATENCY_US}
    elif rtt is not None:
        underlay = {"kind": "matrix", "path": str(rtt)}
    else:
        underlay = {"kind": "geography"}
    return parse_scenario(
        {
            "name": spec.name,
            "seed": seed,
            "system": spec.setting.system,
            "workload": {"path": str(workload)},
            "topology": {"kind": "balanced", "fan_out": 2},
            "underlay": underlay,
            "trace": {"window_us": WINDOW_US},
            "run": {
                "subscribe_at_us": SUBSCRIBING_FROM_US,
                "client_spacing_us": 0,
                "settle_us": PUBLISHING_FROM_US - SUBSCRIBING_FROM_US,
            },
            **parameters_of(spec.setting),
        }
    )


def parameters_of(setting: Setting) -> dict[str, dict[str, Any]]:
    """The section of a scenario that makes a setting."""
    if setting.system == "grape":
        section: dict[str, Any] = {"priority": setting.priority, "weight": setting.weight}
        if setting.threshold is not None:
            section["trace_session_length"] = setting.threshold
        return {"grape": section}
    if setting.system == "pop" and setting.threshold is not None:
        # "The maximum number of traceable publications per time window [is] half of P_threshold".
        window = max(1, setting.threshold // 2)
        return {"pop": {"threshold": setting.threshold, "window_publications": window}}
    return {}
