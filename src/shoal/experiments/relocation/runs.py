"""The runs of the relocation study as tasks: each simulates a network and sums it up.

A run's file is named after it; its key is of the scenario and the data.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from shoal.experiments.networks.topologies import scenario_links
from shoal.experiments.relocation.grid import (
    PUBLISHING_FROM_US,
    SUBSCRIBING_FROM_US,
    WINDOW_US,
    RelocationScale,
    RelocationSetting,
    RunSpec,
    grid,
)
from shoal.experiments.relocation.loads import at_one_office, service_of
from shoal.experiments.relocation.measuring.memory import PeakMemory
from shoal.experiments.relocation.measuring.probe import places, summarise_probe
from shoal.experiments.relocation.measuring.summary import RunSummary, summarise
from shoal.experiments.runs.flow_runs import has_flows, prepared_workload, run_flows
from shoal.experiments.runs.runner import changed, run_workload
from shoal.experiments.scenarios.scenario import Scenario, parse_scenario, written_form
from shoal.experiments.studies.runs import RecordedRun, content_digest, run_key
from shoal.simulation.collection import without_garbage_collection

# Mean size of a quote's frame between brokers; costs of control messages follow their own size.
PUBLICATION_BYTES = 283
# One way between two machines of a cluster on 1 Gbit/s Ethernet, with the kernels' part.
CLUSTER_LATENCY_US = 250


class StudyRun(RecordedRun[RunSummary], frozen=True, kw_only=True):
    """One simulated network of the grid."""

    spec: RunSpec
    scenario: Scenario

    summary_type = RunSummary

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def cost(self) -> float:
        return self.spec.cost

    @property
    def rank(self) -> int:
        return self.spec.rank

    def measure(self) -> RunSummary:
        """Run the network and sum it up."""
        return self.measure_with(whole=self.spec.study == "whole")

    def measure_with(self, *, whole: bool) -> RunSummary:
        """The same; if `whole`, the brokers' machines handle all publications.

        Otherwise a compiled loop handles most of them, where it can; the figures are the same.
        """
        # A run makes millions of rows and no cycles but its world, which goes afterwards.
        with without_garbage_collection():
            summary = self._measure_with(whole=whole)
        gc.collect()
        return summary

    def _measure_with(self, *, whole: bool) -> RunSummary:
        folder, spec = Path(self.scenario.workload.path), self.spec
        prepared = prepared_workload(folder)
        workload, memory = prepared.files, PeakMemory()
        if spec.probe is not None:
            workload = changed(workload, places(workload, spec.probe), spec.duration_us)
        if spec.office:
            workload = at_one_office(workload, folder)
        if whole or not has_flows(self.scenario, prepared):
            links = scenario_links(self.scenario, workload)
            result = run_workload(self.scenario, workload, links, observe=memory.observe)
        else:
            result = run_flows(self.scenario, workload, prepared, observe=memory.observe)
        if spec.probe is not None:
            return summarise_probe(spec, self.key, result)
        expected = None if prepared.matches is None else prepared.matches.total
        return summarise(spec, self.key, result, workload, memory, expected)


def study_runs(
    dataset: str,
    scale: RelocationScale,
    workloads: Path,
    runs: Path,
    inputs: Mapping[str, str],
    rtt: Path | None,
    seed: int,
) -> list[StudyRun]:
    """The grid on one data set as tasks; `inputs` are digests of the data it is made from."""
    if rtt is not None:
        inputs = {**inputs, "rtt": content_digest(rtt)}
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
            "service": msgspec.to_builtins(service_of(spec, PUBLICATION_BYTES)),
            "run": {
                "subscribe_at_us": SUBSCRIBING_FROM_US,
                "client_spacing_us": 0,
                "settle_us": PUBLISHING_FROM_US - SUBSCRIBING_FROM_US,
            },
            **parameters_of(spec.setting),
        }
    )


def parameters_of(setting: RelocationSetting) -> dict[str, dict[str, Any]]:
    """The section of a scenario that makes a setting: the paper's way, if it does not know room."""
    room: dict[str, Any] = {} if setting.knows_room else {"most_busy_percent": 100}
    if setting.system == "grape":
        section: dict[str, Any] = {"priority": setting.priority, "weight": setting.weight}
        if setting.threshold is not None:
            section["trace_session_length"] = setting.threshold
        return {"grape": section | room}
    if setting.system == "pop" and setting.threshold is not None:
        # "The maximum number of traceable publications per time window [is] half of P_threshold".
        window = max(1, setting.threshold // 2)
        return {"pop": {"threshold": setting.threshold, "window_publications": window} | room}
    return {"pop": room} if setting.system == "pop" else {}
