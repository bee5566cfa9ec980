"""The steps of `shoal study`: the truth of each workload, the runs, and the conclusion."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.experiments.comparisons.design import Design, DesignError, Setting, label
from shoal.experiments.comparisons.runs import workload_state
from shoal.experiments.studies.runs import digest
from shoal.experiments.studies.study import Conclusion, StudySource

if TYPE_CHECKING:
    from shoal.experiments.run_files import WorkloadFiles
    from shoal.experiments.scenarios.scenario import Scenario
    from shoal.experiments.studies.runs import Task
    from shoal.pipeline.session import Spark


class ComparisonPlan:
    """One design in a folder; DesignError, or what a scenario's file has, before it is written."""

    def __init__(self, design: Design, root: Path) -> None:
        self._design = design
        self._root = root
        self._settings = design.settings()
        found = [(setting, design.scenarios(setting)) for setting in self._settings]
        scenarios = [each for _, of_setting in found for each in of_setting]
        for path in dict.fromkeys(each.workload.path for each in scenarios):
            if not Path(path).is_dir():
                raise DesignError(f"{path} is not a folder; make a workload by `shoal workload`")
        for setting, (first, *_) in found:
            _check(design.scenario_file, setting, first)
        self._truths = {
            path: root / "truth" / digest([path, workload_state(Path(path))])[:16]
            for path in dict.fromkeys(each.workload.path for each in scenarios)
        }

    @property
    def sources(self) -> Sequence[StudySource]:
        return [
            StudySource(
                f"truth of {Path(workload).name}", partial(self._prepare, Path(workload), out)
            )
            for workload, out in self._truths.items()
        ]

    def _prepare(self, workload: Path, out: Path, spark: Spark) -> str:
        from shoal.experiments.comparisons.data import make_truth

        return make_truth(workload, out, spark)

    def runs(self) -> Sequence[Task]:
        from shoal.experiments.comparisons.runs import compared_runs

        return compared_runs(self._design, self._settings, self._root / "runs", self._truths)

    def conclude(self, runs: Sequence[Task]) -> Conclusion:
        from shoal.experiments.comparisons.page import conclude

        return conclude(runs, self._design, self._settings)


def _check(file: Path, setting: Setting, scenario: Scenario) -> None:
    """DesignError for a setting whose workload cannot serve it, before hours of other runs."""
    from shoal.experiments.run_files import RunFileError
    from shoal.experiments.runs.runner import check_scenario

    try:
        check_scenario(scenario, _workload(scenario.workload.path))
    except RunFileError:
        raise  # It names the file of the workload.
    except ValueError as error:
        raise DesignError(f"{file} with {label(setting)}: {error}") from None


@lru_cache(1)
def _workload(path: str) -> WorkloadFiles:
    """The workload in a folder; settings in a row mostly have the same."""
    from shoal.experiments.run_files import read_workload

    return read_workload(Path(path))
