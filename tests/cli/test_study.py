"""`shoal study`: settings over seeds, continued by the same command; mistakes are one line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from shoal.cli import main as cli
from shoal.experiments.comparisons import data
from shoal.experiments.run_files import read_workload
from shoal.experiments.scenarios.scenario import Scenario
from shoal.pipeline import session, tasks
from shoal.pipeline.tasks import TaskOutcome
from shoal.report import pdf
from tests import flooding
from tests.experiments.test_run_files import write_workload

Run = Callable[..., int]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs each command made; they are made in this process."""
    found: list[int] = []

    def run_here(spark: object, runs: Sequence[Callable[[], Any]], *_: object) -> list[TaskOutcome]:
        found.append(len(runs))
        return [tasks.attempt(run) for run in runs]

    monkeypatch.setattr(session, "spark_session", lambda *args, **options: nullcontext())
    monkeypatch.setattr(tasks, "run_tasks", run_here)
    return found


@pytest.fixture
def study(tmp_path: Path) -> Run:
    write_workload(tmp_path / "workload")
    scenario = tmp_path / "scenario.toml"
    scenario.write_text("name = 's'\nworkload.path = 'workload'\nunderlay.kind = 'constant'\n")

    def run(*arguments: object) -> int:
        with pytest.raises(SystemExit) as caught:
            cli.main(["study", str(scenario), *map(str, arguments)])
        return int(caught.value.code or 0)

    return run


def test_settings_are_compared_over_seeds_and_the_study_goes_on(
    tmp_path: Path,
    study: Run,
    asked: list[int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out"
    vary = ("--vary", "system=tree,flooding", "--vary", "service.processing_us=500,5000")
    assert study(*vary, "--seeds", 2, "--out", out) == 0
    assert asked == [8]
    assert "No delivery of any run is lost" in capsys.readouterr().out
    with (out / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["seed"] for row in rows} == {"1", "2"}
    assert {row["service.processing_us"] for row in rows} == {"500", "5000"}
    transfers = {row["system"]: float(row["value"]) for row in rows if row["metric"] == "transfers"}
    assert transfers["tree"] <= transfers["flooding"]
    text = (out / "RESULTS.md").read_text(encoding="utf-8")
    assert "## Mean delivery delay, ms" in text
    assert "against system=tree" in text
    assert "95 % interval" not in text
    assert "Intervals of 95 % take 6 seeds" in text
    assert "Subscription moves" not in text
    assert "Finding by claim" not in (out / "index.html").read_text(encoding="utf-8")
    assert (out / "figures" / "delay_mean_us.svg").is_file()
    assert r"\toprule" in (out / "tables.tex").read_text(encoding="utf-8")
    # One more seed: of the others nothing runs again.
    capsys.readouterr()
    monkeypatch.setattr(pdf, "can_draw", lambda: False)
    assert study(*vary, "--seeds", 3, "--out", out) == 0
    assert asked == [8, 4]
    assert "figures: no PDF (pip install 'shoal[figures]')" in capsys.readouterr().err


def test_a_changed_file_is_run_again(
    tmp_path: Path, study: Run, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = [row.broker for row in read_workload(tmp_path / "workload").brokers]
    links, module = tmp_path / "links.csv", tmp_path / "flooding.py"
    links.write_text("left,right\n" + "".join(map("{},{}\n".format, brokers, brokers[1:])))
    module.write_text("")
    monkeypatch.setattr(flooding, "__file__", str(module))
    topology = ("--set", "topology.kind=links", "--set", f"topology.path={links}")
    vary = ("--vary", "system=tree,flooding", "--seeds", 1, "--out", tmp_path / "out")
    assert study(*vary, *topology) == 0
    (tmp_path / "workload" / "more.txt").write_text("changed")
    assert study(*vary, *topology) == 0
    links.write_text(f"{links.read_text()}\n")
    assert study(*vary, *topology) == 0
    module.write_text("# changed")
    assert study(*vary, *topology) == 0
    assert asked == [2, 2, 2, 1]


def test_a_run_that_fails_is_named_and_the_others_are_compared(
    tmp_path: Path,
    study: Run,
    asked: list[int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = data.run_and_summarise

    def fails(scenario: Scenario, truth: Path) -> Any:
        if scenario.service.processing_us == 7:
            raise RuntimeError("no memory")
        return measured(scenario, truth)

    monkeypatch.setattr(data, "run_and_summarise", fails)
    vary = ("--vary", "service.processing_us=5,7", "--seeds", 2)
    assert study(*vary, "--set", "system=tree", "--out", tmp_path / "out") == 1
    assert asked == [4]
    printed = capsys.readouterr()
    named = [f"run processing_us7-seed{seed} failed: RuntimeError: no memory" for seed in (1, 2)]
    for line in named:
        assert f"shoal: {line}\n" in printed.err
        assert line in (tmp_path / "out" / "RESULTS.md").read_text(encoding="utf-8")
    assert "2 of 4 runs have not been made" in printed.err
    assert "No delivery of any run is lost" in printed.out
    # The same command runs those again, and no other.
    assert study(*vary, "--set", "system=tree", "--out", tmp_path / "out") == 1
    assert asked == [4, 2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--vary", "system=tree"], "compares two settings or more"),
        (["--vary", "system=tree,oak"], "--vary: system: no system 'oak'"),
        (["--vary", "topolgy.kind=star,line"], "--vary: topolgy: unknown key"),
        (["--vary", "service.processing_us=1,-1"], "--vary: service.processing_us: "),
        (
            ["--set", "servce.processing_us=1", "--vary", "service.matching_us=1,2"],
            "--set: servce: unknown key",
        ),
        (["--vary", "seed"], "write KEY.PATH=VALUE"),
        (["--vary", "workload.path=nowhere,workload"], "nowhere"),
        (
            ["--set", "topology.kind=star", "--vary", "topology.centre=EWR,nowhere"],
            "scenario.toml with topology.centre=nowhere: topology.centre: no broker 'nowhere'",
        ),
        (
            [
                "--vary",
                "system=tree,octopia",
                "--set",
                "membership.joins=[{broker='N1',links=['X9'],at_us=5}]",
            ],
            "scenario.toml with system=tree: membership.joins[0].links: no broker 'X9' in the",
        ),
    ],
)
def test_a_mistake_is_named_and_nothing_is_written(
    tmp_path: Path,
    study: Run,
    asked: list[int],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    assert study(*arguments, "--out", tmp_path / "out") == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert asked == []
    assert not (tmp_path / "out").exists()


def test_a_uri_is_no_folder_of_a_study(study: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert study("--vary", "system=tree,flooding", "--out", "s3://lake/study") == 2
    assert "a study is in a folder of this machine" in capsys.readouterr().err
