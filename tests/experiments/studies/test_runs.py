"""Runs leave one file each: made once, remade for another key, complete or absent."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from shoal.experiments.studies import runs
from shoal.experiments.studies.runs import RecordedRun, run_key, summaries


class Square(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    value: int


class Squaring(RecordedRun[Square], frozen=True, kw_only=True):
    number: int

    summary_type = Square

    def measure(self) -> Square:
        return Square(key=self.key, value=self.number**2)


def squaring(folder: Path, number: int) -> Squaring:
    return Squaring(key=run_key([number]), file=str(folder / "deep" / "one.json"), number=number)


def test_a_run_is_made_once(tmp_path: Path) -> None:
    run = squaring(tmp_path, 7)
    assert not run.is_done
    assert summaries([run]) == []
    run()
    assert run.summary == Square(key=run.key, value=49)
    assert summaries([run, run]) == [run.summary] * 2
    assert [path.name for path in tmp_path.rglob("*.*")] == ["one.json"]


def test_a_file_of_another_run_or_version_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squaring(tmp_path, 7)()
    assert not squaring(tmp_path, 8).is_done
    monkeypatch.setattr(runs, "VERSION", "another")
    assert not squaring(tmp_path, 7).is_done


def test_a_broken_file_does_not_count(tmp_path: Path) -> None:
    run = squaring(tmp_path, 7)
    run()
    whole = Path(run.file).read_bytes()
    Path(run.file).write_bytes(whole[:-3])
    assert not run.is_done
    run()
    assert Path(run.file).read_bytes() == whole
