"""Output paths of commands: never over an input, and checked before the work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shoal.cli.main import main
from tests.cli.files.test_odd_files import complaint, ingested, place, ran

__all__ = ["ingested", "place"]

WORKLOAD = "workload in --brokers sites.csv --duration-s 10 --out work"
NOWHERE = "/proc/nowhere/ODD"


@pytest.fixture
def workload(place: Path) -> Path:
    assert ran(WORKLOAD, "") == 0
    return place / "work"


@pytest.mark.parametrize(
    ("command", "read"),
    [
        ("workload in --brokers sites.csv --duration-s 10 --out in --overwrite", "in"),
        ("truth work --out work --overwrite", "work"),
        ("truth work --out ../{name}/work --overwrite", "../{name}/work"),
    ],
)
def test_what_is_read_is_never_overwritten(
    workload: Path, capsys: pytest.CaptureFixture[str], command: str, read: str
) -> None:
    """It was replaced without a word, and the exit code was 0."""
    name = workload.parent.name
    before = sorted(workload.parent.rglob("*"))
    said = complaint(command.format(name=name), "", capsys)
    assert f"{read.format(name=name)} is the input; give another --out" in said
    assert sorted(workload.parent.rglob("*")) == before


def test_a_folder_of_other_tables_is_not_replaced(
    workload: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "holds other tables: publications" in complaint(
        "truth work --out in --overwrite", "", capsys
    )
    assert (workload.parent / "in" / "publications.parquet").exists()
    assert ran("truth work --out truth", "") == 0
    assert ran("truth work --out truth --overwrite", "") == 0
    assert ran(WORKLOAD + " --overwrite --spread 1", "") == 0


def test_a_workload_is_no_publications(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its tables were read as one, and a traceback came of it."""
    assert "work is a workload already" in complaint(
        "workload work --brokers 3 --out other", "", capsys
    )


@pytest.mark.parametrize(
    "command",
    [
        "workload in --brokers 3 --duration-s 10 --out ODD",
        "truth work --out ODD",
        "ingest stations.toml readings.csv --out ODD",
        "match --subscriptions good-subscriptions.csv --publications good.csv --out ODD",
        "record --broker 127.0.0.1:1 --out ODD",
        "replay work --network none.toml --out ODD",
    ],
)
def test_where_nothing_can_be_written_is_said_at_once(
    workload: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """After the work, and with a name that nobody had given."""
    assert f"{NOWHERE} cannot be written: " in complaint(command, NOWHERE, capsys)


def test_figures_are_written_to_a_file(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "in is a folder; give a file" in complaint(
        "replay work --network none.toml --out in", "", capsys
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_output_that_nobody_can_take_is_told_in_a_line(place: Path) -> None:
    words = ["match", "--subscriptions", "good-subscriptions.csv", "--publications", "good.csv"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "shoal.cli.main", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == ["shoal: cannot write the output: No space left on device"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--once", "--once needs --engine spark"),
        ("--overwrite", "--overwrite goes with --out"),
    ],
)
def test_options_without_effect_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    command = f"match --subscriptions good-subscriptions.csv --publications good.csv {words}"
    assert said in complaint(command, "", capsys)


def test_a_report_about_a_run_that_is_not_there_says_so(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["report", "none"])
    assert "none does not exist" in capsys.readouterr().err
