"""`shoal reproduce bluedove`: from runs to pages; other tests cover the runs."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from shoal.cli import main as cli
from shoal.experiments.bluedove.runs import BlueDoveResult, ClusterRun
from shoal.experiments.studies.runs import write_summary
from shoal.pipeline import session, tasks
from shoal.pipeline.tasks import Progress, TaskOutcome


def reproduce(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(["reproduce", *map(str, arguments)])
    return int(caught.value.code or 0)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs that are made, each at once and with the same figures."""
    names: list[str] = []

    def make(self: ClusterRun) -> None:
        names.append(self.name)
        keys = ("rate_per_s", "subscriptions", "added", "recovered", "recovery_s", "lost_share",
                "slow_s_per_kill", "worst_s", "load_spread", "overhead_bytes_per_s",
                "fallen", "fall_s")  # fmt: skip
        values = dict.fromkeys(keys, 1.0)
        result = BlueDoveResult(key=self.key, name=self.name, values=values, series={})
        write_summary(Path(self.file), result)

    def run_all(spark, runs, costs, show, *more):  # type: ignore[no-untyped-def]
        for run in runs:
            run()
        show(Progress(len(runs), 1.0))
        return [TaskOutcome(None, None) for _ in runs]

    monkeypatch.setattr(ClusterRun, "__call__", make)
    monkeypatch.setattr(session, "spark_session", lambda *args, **options: nullcontext())
    monkeypatch.setattr(tasks, "run_tasks", run_all)
    return names


def test_a_study_has_pages_and_is_continued(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: list[str]
) -> None:
    out = tmp_path / "study"
    assert reproduce("bluedove", "--out", out) == 0
    assert "RESULTS.md" in capsys.readouterr().out
    assert len(made) == len(set(made)) == 143
    text = (out / "RESULTS.md").read_text(encoding="utf-8")
    assert "67 times" in text
    assert "**missed**" in text
    assert (out / "index.html").is_file()
    assert "bluedove" in (out / "what-is-here.txt").read_text(encoding="utf-8")
    (out / "runs" / "faults.json").unlink()
    made.clear()
    assert reproduce("bluedove", "--out", out) == 0
    assert made == ["faults"]


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path, made: list[str]) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    assert reproduce("bluedove", "--out", tmp_path) == 2
    assert made == []


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["bluedove", "--quotes", "q.csv"], "--quotes is not for bluedove"),
        (["bluedove", "--rtt", "r.parquet"], "--rtt is not for bluedove"),
        (["relocation", "--positions", "p.csv"], "--positions is not for relocation"),
        (["bluedove", "--positions", "nowhere.csv"], "nowhere.csv: no such file"),
    ],
)
def test_data_that_are_not_there_or_not_for_this(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    made: list[str],
    options: list[str],
    complaint: str,
) -> None:
    assert reproduce(*options, "--out", tmp_path / "study") == 2
    assert complaint in capsys.readouterr().err
    assert made == []


def test_a_folder_without_positions_is_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: list[str]
) -> None:
    folder = tmp_path / "positions"
    folder.mkdir()
    assert reproduce("bluedove", "--positions", folder, "--out", tmp_path / "study") == 2
    assert capsys.readouterr().err == f"shoal: {folder}: a folder without Parquet files\n"
    assert made == []
