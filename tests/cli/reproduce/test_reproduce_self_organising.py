"""`shoal reproduce self-organising`: from runs to pages; other tests cover the runs."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from shoal.cli import main as cli
from shoal.experiments.self_organising.runs import SelfOrganisingModelRun
from shoal.pipeline import session, tasks
from shoal.pipeline.tasks import TaskOutcome


def reproduce(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(["reproduce", "self-organising", *map(str, arguments)])
    return int(caught.value.code or 0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[SelfOrganisingModelRun]:
    """The runs that were to be made; none is."""
    found: list[SelfOrganisingModelRun] = []

    def run_none(spark, runs, costs, show, *more):  # type: ignore[no-untyped-def]
        found.extend(runs)
        assert costs == sorted(costs, reverse=True)
        return [TaskOutcome(None, None) for _ in runs]

    monkeypatch.setattr(session, "spark_session", lambda *args, **options: nullcontext())
    monkeypatch.setattr(tasks, "run_tasks", run_none)
    return found


def test_every_claim_is_there_without_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: list[SelfOrganisingModelRun]
) -> None:
    assert reproduce("--out", tmp_path / "study") == 0
    assert {run.part for run in asked} >= {"adaptivity", "hops", "alpha", "regret"}
    assert "of the paper's 15 claims 15 not run" in " ".join(capsys.readouterr().out.split())
    text = (tmp_path / "study" / "RESULTS.md").read_text(encoding="utf-8")
    assert "| CI performs better than both others | lowest |" in text
    assert (tmp_path / "study" / "index.html").is_file()


def test_each_seed_has_its_runs(tmp_path: Path, asked: list[SelfOrganisingModelRun]) -> None:
    folder = tmp_path / "study"
    assert reproduce("--out", folder, "--seeds", 2) == 0
    places = [Path(run.file).relative_to(folder).parts[0] for run in asked]
    assert places.count("runs") == places.count("seed-1001") == len(places) / 2
    assert len({run.key for run in asked}) == len(asked)
    assert "claims over seeds 1, 1001" in (folder / "RESULTS.md").read_text(encoding="utf-8")


def test_round_trips_of_too_few_hosts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: list[SelfOrganisingModelRun]
) -> None:
    rtt = tmp_path / "rtt.csv"
    rtt.write_text("src,dst,rtt_ms\n0,1,5\n")
    assert reproduce("--rtt", rtt, "--out", tmp_path / "study") == 2
    assert "2 hosts have a round trip to each other, and 100" in capsys.readouterr().err
    assert reproduce("--quotes", "q.csv", "--out", tmp_path / "study") == 2
    assert "--quotes is not for self-organising" in capsys.readouterr().err
    assert asked == []
    assert not (tmp_path / "study").exists()
