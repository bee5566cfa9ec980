"""`shoal simulate` writes and summarises a run; mistakes are one line and exit code 2."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from shoal.cli import main as cli
from shoal.experiments.run_files import RUN_TABLES
from shoal.experiments.runs import runner
from shoal.experiments.runs.run_totals import RunTotals
from shoal.experiments.runs.trace_sinks import TraceSink
from shoal.experiments.scenarios.scenario import Scenario, load_scenario
from tests.experiments.test_run_files import event, write_workload


@pytest.fixture
def short_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the simulator: a run of two deliveries."""

    def run_scenario(
        scenario: Scenario, progress: runner.Progress, sink: TraceSink
    ) -> runner.RunResult:
        progress(0, 0, 0)
        progress(500_000, 1_000_000, 0)
        row = {"broker": "C", "at_us": 1, "outcome": "advised", "reason": "", "left": "A"}
        row |= {"right": "C", "old_left": "A", "old_right": "B", "hops": 2}
        row |= {"cost_now": 120.0, "cost_then": 80.0}
        delivered = dict.fromkeys(("publisher", "subscription", "client", "broker"), "x")
        first = {"sequence": 0, "published_us": 0, "delivered_us": 4_000, "hops": 1}
        second = {"sequence": 1, "published_us": 1_000, "delivered_us": 7_000, "hops": 2}
        totals = RunTotals()
        for table, rows in {
            "deliveries": [delivered | first, delivered | second],
            "links": [{"left": "A", "right": "B"}, {"left": "B", "right": "C"}],
            "proposals": [row],
        }.items():
            found = [tuple(each[name] for name in RUN_TABLES[table].names) for each in rows]
            totals.add(table, found)
            sink.add(table, found)
        checks = {
            "published": 2,
            "delivered": 2,
            "seed": scenario.seed,
            "virtual_end_us": 1_500_000,
        }
        return runner.RunResult(tables=sink.close(), checks=checks, totals=totals)

    monkeypatch.setattr(runner, "run_scenario", run_scenario)


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.toml"
    path.write_text("name = 'short'\nworkload.path = 'workload'\n")
    return path


def simulate(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(["simulate", *map(str, arguments)])
    return int(caught.value.code or 0)


@pytest.mark.usefixtures("short_run")
def test_a_run_is_written_and_summed_up(
    scenario_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs" / "short"
    assert simulate(scenario_file, "--out", out, "--set", "seed=7") == 0
    printed = capsys.readouterr().out
    assert "mean delivery delay (ms)" in printed
    assert "5.0" in printed
    assert "1.50" in printed
    assert f"run written to {out}" in printed
    assert json.loads((out / "checks.json").read_text())["seed"] == 7
    assert load_scenario(out / "scenario.toml").seed == 7
    assert simulate(scenario_file, "--out", out) == 2
    assert "holds a run already" in capsys.readouterr().err
    assert simulate(scenario_file, "--out", out, "--overwrite") == 0


@pytest.mark.usefixtures("short_run")
def test_recommended_links_are_printed_as_a_network_file_has_them(
    scenario_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "advised"
    assert simulate(scenario_file, "--out", out, "--set", "system=self_organising") == 0
    printed = capsys.readouterr().out
    assert "# A - C instead of A - B: 33 % less over 2 links" in printed
    assert tomllib.loads(printed[printed.index("# A - C") :]) == {"links": [["A", "C"], ["B", "C"]]}


def test_brokers_that_fall_behind_are_told_of_at_once_and_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [event(number, 100_000 * number) for number in range(100)]
    write_workload(tmp_path / "workload", events=events)
    path = tmp_path / "scenario.toml"
    path.write_text(
        f"name = 'slow'\nworkload.path = '{tmp_path / 'workload'}'\nunderlay.kind = 'constant'\n"
        "system = 'tree'\nservice.processing_us = 500_000\nrun.drain_us = 1_000_000\n"
    )
    assert simulate(path, "--out", tmp_path / "run") == 0
    printed = capsys.readouterr()
    assert printed.err.count("behind: more is published than it can handle") == 1
    assert "brokers could not keep up: one was " in printed.out
    assert "copies of publications were still under way 1.00 s after the last event" in printed.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "sed=7"], "shoal: --set: sed: unknown key; did you mean seed?"),
        (["--set", "grape.weight=7000"], "grape.weight: 7000 is not between"),
        ([], "workload: no such folder; make a workload with `shoal workload`"),
    ],
)
def test_mistakes(
    scenario_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    assert simulate(scenario_file, "--out", tmp_path / "run", *arguments) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_broker_that_the_workload_lacks_is_named_with_the_file(
    scenario_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_workload(tmp_path / "workload")
    crash = "faults.crashes=[{broker='X9',at_us=1,back_us=2}]"
    assert simulate(scenario_file, "--out", tmp_path / "run", "--set", crash) == 2
    message = f"shoal: {scenario_file}: faults.crashes[0].broker: no broker 'X9'"
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_missing_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(tmp_path / "none.toml", "--out", tmp_path / "run") == 2
    assert "none.toml: cannot be read: No such file" in capsys.readouterr().err
