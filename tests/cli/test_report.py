from pathlib import Path

import msgspec
import pytest

from shoal.cli.main import main
from tests.report.fake_runs import make_runs
from tests.report.test_replays import GRAPE


def shoal(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    assert isinstance(end.value.code, int)
    return end.value.code


def test_a_report_is_written_where_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, summary = make_runs(tmp_path)
    out = tmp_path / "new" / "page.html"
    assert shoal("report", *runs, "--summary", summary, "--out", out, "--title", "Hello") == 0
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert f"{out}: 3 runs" in capsys.readouterr().out


def test_a_missing_summary_is_a_message_not_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, _ = make_runs(tmp_path)
    assert shoal("report", runs[0], "--summary", tmp_path / "none") == 2
    message = capsys.readouterr().err
    assert "runs.parquet: no such table" in message
    assert "Traceback" not in message


def test_the_summary_beside_the_runs_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, summary = make_runs(tmp_path / "runs")
    out = tmp_path / "page.html"
    assert shoal("report", *runs, "--out", out) == 0
    summary.rename(tmp_path / "summary")
    assert shoal("report", *runs, "--out", out) == 0
    (tmp_path / "summary").rename(tmp_path / "elsewhere")
    assert shoal("report", *runs, "--out", out) == 2
    assert "make one with `shoal summarise`" in capsys.readouterr().err


def test_replays_of_live_networks_are_a_part_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, _ = make_runs(tmp_path / "runs")
    out, live = tmp_path / "page.html", tmp_path / "live.json"
    live.write_bytes(msgspec.json.encode(GRAPE))
    assert shoal("report", *runs, "--replay", live, "--out", out) == 0
    assert '<section id="live">' in out.read_text(encoding="utf-8")
    live.write_text("[]")
    assert shoal("report", *runs, "--replay", live, "--out", out) == 2
    assert "live.json: is no replay: Expected `object`" in capsys.readouterr().err
