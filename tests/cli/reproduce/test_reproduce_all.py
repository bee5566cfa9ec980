"""`shoal reproduce all`: each study in a folder of its own, and one page for all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from shoal.cli import main as cli
from shoal.cli.commands import reproduce as command
from shoal.experiments.registry import STUDIES
from shoal.pipeline import session, tasks
from shoal.pipeline.tasks import TaskOutcome

# Those that need no data of Spark's.
FEW = {name: STUDIES[name] for name in ("self-organising", "dynatops")}


def reproduce(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(["reproduce", "all", *map(str, arguments)])
    return int(caught.value.code or 0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs each study asked for."""
    found: list[int] = []

    def run_none(spark: object, runs: Sequence[object], *more: object) -> list[TaskOutcome]:
        found.append(len(runs))
        return [TaskOutcome(None, None) for _ in runs]

    monkeypatch.setattr(command, "STUDIES", FEW)
    monkeypatch.setattr(session, "spark_session", lambda *args, **options: nullcontext())
    monkeypatch.setattr(tasks, "run_tasks", run_none)
    return found


def test_every_study_has_a_folder_and_a_part_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: list[int]
) -> None:
    out = tmp_path / "studies"
    assert reproduce("--out", out) == 0
    assert len(asked) == 2
    assert all(asked)
    printed = capsys.readouterr()
    assert "self-organising: simulate" in printed.err
    assert "self-organising: " in printed.out
    assert "of the paper's 15 claims 15 not run" in " ".join(printed.out.split())
    assert {path.name for path in out.iterdir()} == {
        "RESULTS.md", "index.html", "what-is-here.txt", *FEW,
    }  # fmt: skip
    text = (out / "RESULTS.md").read_text(encoding="utf-8")
    html = (out / "index.html").read_text(encoding="utf-8")
    for name in FEW:
        assert f"({name}/RESULTS.md)" in text
        assert f'href="{name}/index.html"' in html
        assert (out / name / "index.html").is_file()
    # The folder is known again, and a study's own can be gone on with by itself.
    assert reproduce("--out", out) == 0
    with pytest.raises(SystemExit) as caught:
        cli.main(["reproduce", "dynatops", "--out", str(out / "dynatops")])
    assert not caught.value.code


def test_studies_made_alone_count_for_all_where_nobody_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[int]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        cli.main(["reproduce", "dynatops"])
    assert not caught.value.code
    assert (tmp_path / "reproduction" / "dynatops" / "study.json").is_file()
    assert reproduce() == 0
    assert (tmp_path / "reproduction" / "index.html").is_file()


def test_a_folder_of_another_study_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: list[int]
) -> None:
    out = tmp_path / "studies"
    assert reproduce("--out", out) == 0
    for paper, folder in (("dynatops", out), ("dynatops", out / "self-organising")):
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            cli.main(["reproduce", paper, "--out", str(folder)])
        assert caught.value.code == 2
        said = " ".join(capsys.readouterr().err.split())
        assert "holds another study; give an empty or new folder by --out" in said


def test_options_go_to_whom_they_are_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: list[int]
) -> None:
    out = tmp_path / "studies"
    assert reproduce("--quotes", "q.csv", "--out", out) == 2
    assert "--quotes is not for all" in capsys.readouterr().err
    assert reproduce("--rtt", tmp_path / "nowhere.csv", "--out", out) == 2
    assert "nowhere.csv: no such table" in capsys.readouterr().err
    assert asked == []
    assert not out.exists()
