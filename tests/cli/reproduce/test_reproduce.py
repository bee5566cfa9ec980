"""`shoal reproduce`: a tiny study end to end, continued, and mistakes in one line."""

from __future__ import annotations

import csv
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from shoal.cli import main as cli
from shoal.experiments.relocation import data as study_data
from shoal.experiments.relocation import grid as grids
from shoal.experiments.relocation import runs
from shoal.experiments.relocation.grid import SCALES, RelocationScale, RunSpec
from shoal.experiments.studies.data import Walks
from tests.pipeline import conftest

SECOND_US = 1_000_000
# One Spark for both studies.
spark = conftest.spark
LABELS = ("baseline", "pop", "load100")


def reproduce(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(["reproduce", *map(str, arguments)])
    return int(caught.value.code or 0)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid of three networks, two probes and no large networks, each half a minute long."""
    scale = msgspec.structs.replace(
        SCALES["small"],
        publishers=2,
        subscriptions=3,
        duration_us=30 * SECOND_US,
        threshold_duration_us=30 * SECOND_US,
        probe_duration_us=20 * SECOND_US,
        network_sizes=(),
    )
    whole: Callable[[str, RelocationScale], list[RunSpec]] = grids.grid

    def few(dataset: str, scale: RelocationScale) -> list[RunSpec]:
        found = [
            run
            for run in whole(dataset, scale)
            if (run.study, run.testbed, run.distribution, run.spread)
            == ("grid", "wide", "clustered", 16)
            and run.setting.label in LABELS
        ]
        return found + [run for run in whole(dataset, scale) if run.probe in (0, 1)][:2]

    monkeypatch.setattr(grids, "grid", few)
    monkeypatch.setattr(runs, "grid", few)
    monkeypatch.setitem(SCALES, "small", scale)
    monkeypatch.setattr(study_data, "WALKS", Walks(stocks=4, days=100))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studies") / "prepared"


@pytest.fixture
def out(tmp_path: Path, prepared: Path, tiny: None, spark: SparkSession) -> Iterator[Path]:
    """Where a study is to be; its workloads are there once a test has made them."""
    folder = tmp_path / "study"
    if prepared.exists():
        shutil.copytree(prepared, folder)
    yield folder
    if not prepared.exists() and folder.exists():
        shutil.copytree(folder, prepared, ignore=lambda _, names: {"runs", "tables"} & set(names))


def test_a_study_end_to_end_is_continued(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce("relocation", "--out", out) == 0
    first = capsys.readouterr()
    assert "5 networks" in first.err
    assert f"{out}/RESULTS.md\n{out}/index.html" in first.out
    assert {path.name for path in out.iterdir()} == {
        "RESULTS.md", "claims.csv", "figures", "index.html", "runs", "study.json", "tables",
        "tables.tex", "what-is-here.txt", "workloads",
    }  # fmt: skip
    metrics = pq.read_table(out / "tables" / "metrics.parquet").to_pylist()
    assert {row["setting"] for row in metrics} == set(LABELS)
    assert len({(row["run"], row["metric"]) for row in metrics}) == len(metrics)
    stands = pq.read_table(out / "tables" / "stands.parquet").to_pylist()
    assert len(stands) == 2 * 2
    claims = json.loads((out / "study.json").read_text())["claims"]
    by_id = {claim["id"]: claim for claim in claims}
    assert by_id["exactly-once"]["verdict"] == "met"
    assert "0 lost, 0 duplicated" in by_id["exactly-once"]["ours"]
    assert by_id["random-pop-delay"]["verdict"] == "not run"
    rows = {row["id"]: row for row in csv.DictReader((out / "claims.csv").open(encoding="utf-8"))}
    assert rows.keys() == by_id.keys()
    row = rows["pop-overhead"]
    assert [float(row[bound]) for bound in ("low", "high")] == pytest.approx([0.288, 0.325])
    assert (row["unit"], row["half"]) == ("%", "")
    assert row["ours"] == by_id["pop-overhead"]["ours"]

    # One run is missing: that one alone is made again.
    before = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*.json")}
    gone = next(path for path in before if path.stem == "load100")
    gone.unlink()
    assert reproduce("relocation", "--out", out) == 0
    assert "simulate 1 networks: 4 were there already" in capsys.readouterr().err
    after = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*.json")}
    assert before.keys() == after.keys()
    assert {path for path in before if before[path] != after[path]} == {gone}


def test_an_interrupt_leaves_what_is_done_and_pages_may_be_of_a_part(
    out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from shoal.pipeline import tasks

    def interrupted(session: object, todo: list[runs.StudyRun], *more: object) -> None:
        todo[0]()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(tasks, "run_tasks", interrupted)
        assert reproduce("relocation", "--out", out) == 130
    assert len(list((out / "runs").rglob("*.json"))) == 1
    said = "4 of 5 runs have not been made"
    assert said in (out / "RESULTS.md").read_text()
    assert "interrupted; the same command goes on" in capsys.readouterr().err
    (out / "RESULTS.md").unlink()
    assert reproduce("relocation", "--out", out, "--minutes", 0) == 0
    assert f"{said}; the same command goes on with them" in capsys.readouterr().err
    assert said in (out / "RESULTS.md").read_text()
    assert len(list((out / "runs").rglob("*.json"))) == 1


def test_a_study_without_time_for_its_workloads_has_a_page(
    tmp_path: Path,
    tiny: None,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from shoal.experiments.relocation import data

    def never(spark: SparkSession, *_: object) -> None:
        spark.range(1).rdd.foreach(lambda _: time.sleep(300))

    monkeypatch.setattr(data, "prepare", never)
    began = time.monotonic()
    assert reproduce("relocation", "--out", tmp_path, "--minutes", 0.1) == 0
    assert time.monotonic() - began < 120
    assert "the workloads have not been made" in (tmp_path / "RESULTS.md").read_text()


def test_what_python_could_not_do_in_spark_is_said(
    out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What happened is the last line of a traceback."""
    from pyspark.errors import PythonException

    from shoal.pipeline import tasks

    def failed(*_: object) -> NoReturn:
        raise PythonException("Traceback (most recent call last):\n  File ...\nKeyError: 'x'")

    monkeypatch.setattr(tasks, "run_tasks", failed)
    assert reproduce("relocation", "--out", out) == 2
    assert "shoal: Spark could not do this: KeyError: 'x'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("relocations",), "'relocations' is not"),
        (("relocation", "--scale", "huge"), "'huge' is not one of 'small', 'paper'"),
        (("relocation", "--quotes", "nowhere.csv"), "nowhere.csv: no such file"),
        (("relocation", "--rtt", "nowhere.csv"), "nowhere.csv: no such table"),
        (("relocation", "--seed", "-1"), "'--seed'"),
        (("relocation", "--seeds", "101"), "'--seeds': use 100 or less"),
    ],
)
def test_mistakes(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert reproduce(*arguments) == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_something_else_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").touch()
    assert reproduce("relocation", "--out", tmp_path) == 2
    assert "holds other files; give an empty or new folder" in capsys.readouterr().err
    assert reproduce("relocation", "--out", tmp_path / "thesis.tex") == 2
    assert "is a file; give a folder by --out" in capsys.readouterr().err


def test_round_trips_of_too_few_hosts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rtt = tmp_path / "rtt.csv"
    rtt.write_text("src,dst,rtt_ms\n0,1,5\n")
    assert reproduce("relocation", "--rtt", rtt, "--out", tmp_path / "out") == 2
    assert "63 places, but the matrix has 2 hosts" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
