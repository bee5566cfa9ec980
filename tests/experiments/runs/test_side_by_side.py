"""Runs made together equal the runs made alone; an error in one is reported with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.experiments.run_files import RunFileError
from shoal.experiments.runs.run_folder import RunFolder
from shoal.experiments.runs.runner import run_scenario
from shoal.experiments.runs.side_by_side import simulate_all
from shoal.experiments.scenarios.scenario import Scenario, parse_scenario
from tests.experiments.test_run_files import write_workload


def scenario(name: str, workload: Path) -> Scenario:
    return parse_scenario(
        {"name": name, "workload": {"path": str(workload)}, "underlay": {"kind": "constant"}}
    )


def test_runs_made_together_equal_runs_made_alone(tmp_path: Path) -> None:
    workload = write_workload(tmp_path / "workload")
    alone = scenario("alone", workload)
    with RunFolder(tmp_path / "alone") as folder:
        result = run_scenario(alone, sink=folder.sink)
        folder.finish(result.checks, alone)
    heard: dict[int, float] = {}
    both = [(scenario(name, workload), tmp_path / name) for name in ("one", "two")]
    simulate_all(both, heard.__setitem__, processes=2)
    assert heard == {0: 1.0, 1: 1.0}
    for _, folder in both:
        for file in (tmp_path / "alone").glob("*.parquet"):
            assert (folder / file.name).read_bytes() == file.read_bytes()
        assert (folder / "checks.json").read_bytes() == (
            tmp_path / "alone" / "checks.json"
        ).read_bytes()


def test_an_error_of_one_run_is_reported(tmp_path: Path) -> None:
    workload = write_workload(tmp_path / "workload")
    runs = [
        (scenario("good", workload), tmp_path / "good"),
        (scenario("bad", tmp_path / "nowhere"), tmp_path / "bad"),
    ]
    with pytest.raises(RunFileError, match="nowhere: no such folder"):
        simulate_all(runs, lambda *_: None, processes=1)


def test_an_existing_folder_prevents_all_runs(tmp_path: Path) -> None:
    workload = write_workload(tmp_path / "workload")
    with pytest.raises(RunFileError, match="exists and is no run"):
        simulate_all([(scenario("x", workload), workload)], lambda *_: None)
