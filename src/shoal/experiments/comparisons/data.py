"""The truth of a workload, and the summary of a run beside it: made by the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from shoal.experiments.runs.run_folder import RunFolder
from shoal.experiments.runs.runner import RunResult, run_scenario
from shoal.experiments.scenarios.scenario import Scenario
from shoal.pipeline.small.tables import NeedsSparkError
from shoal.pipeline.small.truth import write_small_truth
from shoal.pipeline.summaries import summarise_run
from shoal.pipeline.truth import write_truth

if TYPE_CHECKING:
    from shoal.pipeline.session import Spark


def make_truth(workload: Path, out: Path, spark: Spark) -> str:
    """Write the deliveries that a workload's runs must make, if they are not there; in words."""
    if out.is_dir():
        return "was there already"
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        counts = write_small_truth(workload, out)
    except NeedsSparkError:
        counts = write_truth(spark, workload, out)
    return f"{counts.expected:,} deliveries expected"


def run_and_summarise(scenario: Scenario, truth: Path) -> tuple[RunResult, Mapping[str, list[Any]]]:
    """A run, and the rows of its tables of metrics, by table; its trace is dropped."""
    with TemporaryDirectory() as root:
        folder = Path(root) / "run"
        with RunFolder(folder) as run:
            result = run_scenario(scenario, sink=run.sink)
            run.finish(result.checks, scenario)
        tables = {name: each.to_pylist() for name, each in summarise_run(folder, truth).items()}
    return result, tables
