"""A run's folder: whole or not there, in row groups, equal bytes, nothing overwritten."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.experiments.run_files import RUN_TABLES, RunFileError
from shoal.experiments.runs.run_folder import RunFolder
from shoal.experiments.runs.runner import run_scenario
from shoal.experiments.runs.trace_sinks import MemorySink, ParquetSink
from shoal.experiments.scenarios.scenario import Scenario, load_scenario, parse_scenario
from tests.experiments.test_run_files import SUBSCRIPTION, event, write_workload
from tests.experiments.written_runs import write_run


def scenario(tmp_path: Path) -> Scenario:
    return parse_scenario({"name": "run", "workload": {"path": str(tmp_path / "workload")}})


def deliveries(count: int) -> list[tuple[Any, ...]]:
    texts = ("publisher", "subscription", "client", "broker")
    return [
        tuple(f"n{number % 7}" if name in texts else number for name in columns)
        for number in range(count)
        for columns in [RUN_TABLES["deliveries"].names]
    ]


def test_a_run_is_complete_and_reproducible(tmp_path: Path) -> None:
    checks = {"published": 3, "seed": 1}
    for name in ("one", "two"):
        write_run(tmp_path / name, {"deliveries": deliveries(5_000)}, checks, scenario(tmp_path))
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == sorted([*(f"{t}.parquet" for t in RUN_TABLES), "checks.json", "scenario.toml"])
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    table = pq.read_table(tmp_path / "one" / "deliveries.parquet")
    assert table.schema == RUN_TABLES["deliveries"]
    assert table.num_rows == 5_000
    assert pq.read_table(tmp_path / "one" / "migrations.parquet").num_rows == 0
    assert load_scenario(tmp_path / "one" / "scenario.toml") == scenario(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_rows_are_written_in_groups_while_they_come(tmp_path: Path) -> None:
    sink, rows = ParquetSink(tmp_path, group_rows=100), deliveries(250)
    for start in range(0, 250, 60):
        sink.add("deliveries", rows[start : start + 60])
    size = (tmp_path / "deliveries.parquet").stat().st_size
    assert size > 4  # the file has its beginning and two groups
    with pytest.raises(pa.ArrowInvalid):
        pq.ParquetFile(tmp_path / "deliveries.parquet")
    tables = sink.close()
    metadata = pq.ParquetFile(tmp_path / "deliveries.parquet").metadata
    groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert groups == [100, 100, 50]
    columns = tables["deliveries"].values()
    assert list(zip(*columns, strict=True)) == rows
    suspects = {("n3", 10, "n3"), ("n1", 8, "n1")}
    assert suspects <= {*sink.delivered(suspects)}


def test_a_run_in_memory_equals_one_on_disk(tmp_path: Path) -> None:
    """Subscriptions come and go, links lose messages: every table and every check."""
    names = [{**SUBSCRIPTION, "subscription": f"s{n}", "client": f"c{n}"} for n in range(3)]
    names[1] |= {"from_us": 10_000_000, "to_us": 20_000_000}
    workload = write_workload(
        tmp_path / "workload",
        subscriptions=[{"from_us": None, "to_us": None, **each} for each in names],
        events=[event(number, 300_000 * number) for number in range(100)],
    )
    found = parse_scenario(
        {
            "name": "both",
            "system": "grape",
            "workload": {"path": str(workload)},
            "underlay": {"kind": "constant"},
            "faults": {"link_loss": 0.2},
        }
    )
    in_memory = run_scenario(found, sink=MemorySink())
    folder = tmp_path / "tables"
    folder.mkdir()
    on_disk = run_scenario(found, sink=ParquetSink(folder, group_rows=7))
    assert in_memory.checks == on_disk.checks
    assert in_memory.checks["delivered"] == 100 + 33 + 100
    for name in RUN_TABLES:
        kept = {column: list(values) for column, values in in_memory.tables[name].items()}
        assert kept == on_disk.tables[name], name


def test_nothing_is_overwritten_by_accident(tmp_path: Path) -> None:
    run, plan = tmp_path / "run", scenario(tmp_path)
    write_run(run, {}, {"published": 1}, plan)
    with pytest.raises(RunFileError, match="holds a run already"):
        write_run(run, {}, {}, plan)
    write_run(run, {}, {"published": 2}, plan, overwrite=True)
    assert '"published": 2' in (run / "checks.json").read_text()
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").touch()
    with pytest.raises(RunFileError, match="exists and is no run"):
        write_run(precious, {}, {}, plan, overwrite=True)
    assert (precious / "thesis.tex").exists()


def test_a_run_takes_not_the_place_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (Path(), tmp_path):
        with pytest.raises(RunFileError, match="choose another folder than the current one"):
            RunFolder(path)


def test_a_run_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match="table 'links': "):
        write_run(tmp_path / "run", {"links": [(1, "A")]}, {}, scenario(tmp_path))
    with suppress(KeyboardInterrupt), RunFolder(tmp_path / "run") as folder:
        folder.sink.add("links", [("A", "B")])
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from shoal.experiments.runs.run_folder import RunFolder
with RunFolder(Path(sys.argv[1])) as folder:
    folder.sink.add("links", [("A", "B")] * 300_000)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_leaves_no_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(run)], check=False, env=os.environ)
    assert ended.returncode == -signal.SIGKILL
    assert not run.exists()
    for file in (tmp_path / ".run.partial").glob("*.parquet"):
        with pytest.raises(pa.ArrowInvalid):
            pq.ParquetFile(file)
    write_run(run, {}, {"published": 1}, scenario(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["run"]
