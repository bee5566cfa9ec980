"""A run of a study: simulate, compare with the truth, keep the metrics; its trace is dropped."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from shoal.experiments.comparisons.design import Design, Setting, run_name
from shoal.experiments.run_files import read_workload
from shoal.experiments.scenarios.scenario import PATHS, Scenario, written_form
from shoal.experiments.studies.runs import RecordedRun, content_digest, run_key
from shoal.overlays.registry import MODULES, SYSTEMS

# Metrics of a run beside those of its summary: a run checks order by itself.
OUT_OF_ORDER = "out_of_order"


class ComparedFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of a run by name (`pipeline.summaries`; None where there is none), and its
    messages by phase and kind.
    """

    key: str
    setting: dict[str, str]
    seed: int
    metrics: dict[str, float | None]
    costs: list[dict[str, Any]]


class ComparedRun(RecordedRun[ComparedFigures], frozen=True, kw_only=True):
    """One setting with one seed; `truth` is the folder of the deliveries that it must make."""

    setting: dict[str, str]
    scenario: Scenario
    truth: str
    publications: int

    summary_type = ComparedFigures

    @property
    def name(self) -> str:
        return run_name(self.setting, self.scenario.seed)

    @property
    def rank(self) -> int:
        """A whole round of settings comes before the next seed."""
        return self.scenario.seed

    @property
    def cost(self) -> float:
        """All runs of a workload cost about the same."""
        return float(max(1, self.publications))

    def measure(self) -> ComparedFigures:
        from shoal.experiments.comparisons.data import run_and_summarise

        result, tables = run_and_summarise(self.scenario, Path(self.truth))
        (metrics,) = tables["runs"]
        numbers = {name: value for name, value in metrics.items() if not isinstance(value, str)}
        numbers[OUT_OF_ORDER] = result.checks["out_of_order"]
        return ComparedFigures(
            key=self.key,
            setting=self.setting,
            seed=self.scenario.seed,
            metrics=numbers,
            costs=[
                {name: value for name, value in row.items() if name != "run"}
                for row in tables["costs"]
            ],
        )


def compared_runs(
    design: Design, settings: list[Setting], folder: Path, truths: dict[str, Path]
) -> list[ComparedRun]:
    """A run for each setting and seed; `truths` has the folder of each workload's truth.

    A run's key follows from the scenario, from the files that it names by name, size and time, and
    from the source of a system that is not shoal's.
    """
    found = []
    publications: dict[str, int] = {}
    for setting in settings:
        for scenario in design.scenarios(setting):
            path = scenario.workload.path
            if path not in publications:
                publications[path] = len(read_workload(Path(path)).events)
            key = run_key([written_form(scenario), _files(scenario), own_source(scenario.system)])
            found.append(
                ComparedRun(
                    key=key,
                    file=str(folder / f"{run_name(setting, scenario.seed)}.json"),
                    setting=dict(setting),
                    scenario=scenario,
                    truth=str(truths[path]),
                    publications=publications[path],
                )
            )
    return found


def _files(scenario: Scenario) -> list[list[tuple[str, int, int]]]:
    """The state of each file or folder that a scenario names."""
    form = written_form(scenario)
    named = [form[section].get(key, "") for section, key in PATHS]
    return [workload_state(Path(each)) for each in named if each]


def own_source(system: str) -> list[str]:
    """Digests of the modules that define a system's strategy; none for a system of shoal's."""
    if system in MODULES:
        return []
    strategy = SYSTEMS[system].strategy
    names = dict.fromkeys(each.__module__ for each in getattr(strategy, "__mro__", (strategy,)))
    modules = [sys.modules.get(name) for name in names if name.partition(".")[0] != "shoal"]
    files = [getattr(module, "__file__", None) for module in modules]
    return [content_digest(Path(file)) for file in files if file is not None]


def workload_state(folder: Path) -> list[tuple[str, int, int]]:
    """Names, sizes and times of a workload's files, or of one file."""
    return [
        (each.relative_to(folder).as_posix(), (state := each.stat()).st_size, state.st_mtime_ns)
        for each in (sorted(folder.rglob("*")) if folder.is_dir() else [folder])
        if each.is_file()
    ]
