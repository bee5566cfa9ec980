"""The parts of the demo that need no Spark; the whole of it is a command that CI runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from shoal.cli.demo import NOTES, RUNS, problems, scenario
from shoal.cli.main import main
from shoal.report.inputs import Run, read_runs
from tests.report.fake_runs import make_runs


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = read_runs(*make_runs(tmp_path, names=["load100"]))[0]
    return dataclasses.replace(run, checks={"out_of_order": 0})


def test_the_three_networks_differ_in_what_is_compared_and_nothing_else(tmp_path: Path) -> None:
    scenarios = [scenario(name, tmp_path / "workload", 7) for name in RUNS]
    assert [each.system for each in scenarios] == [
        "tree",
        "grape",
        "grape",
    ]
    assert [each.grape.priority.value for each in scenarios[1:]] == ["load", "delay"]
    alike = [
        msgspec.structs.replace(each, name="", system="tree", grape=scenarios[0].grape)
        for each in scenarios
    ]
    assert alike[0] == alike[1] == alike[2]
    assert alike[0].seed == 7


def test_a_run_as_expected_has_no_problems(run: Run) -> None:
    assert problems(run, 131_072) == []


def test_every_way_to_be_wrong_is_told(run: Run) -> None:
    run.metrics.update(lost=1, duplicated=20, phantom=3_000)
    disordered = dataclasses.replace(run, checks={"out_of_order": 4})
    assert problems(disordered, 131_073) == [
        "load100: 1 lost",
        "load100: 20 duplicated",
        "load100: 3,000 phantom",
        "load100: not every publication was accepted by the network",
        "load100: 4 out of order",
    ]


def test_foreign_files_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "workload").mkdir()
    with pytest.raises(SystemExit) as end:
        main(["demo", "--out", str(tmp_path)])
    assert end.value.code == 2
    assert "holds other files" in capsys.readouterr().err
    assert not (tmp_path / NOTES).exists()
