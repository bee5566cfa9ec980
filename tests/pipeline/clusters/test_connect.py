"""Spark Connect: all that Spark makes is what is made without it, though there is no context."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from shoal.frames.reading import read_table_file
from tests.pipeline.clusters.on_connect import ENGINES, MATCH, STEPS, exit_code, words
from tests.pipeline.clusters.processes import connect_server, run_script

MAPPING = """\
publisher = ["site"]
time = { column = "at", format = "epoch_s" }
[columns]
site = "string"
wind = "double"
calm = "boolean"
"""
SCENARIO = """\
name = "run"
system = "tree"
[workload]
path = "{workload}"
[topology]
kind = "line"
[underlay]
kind = "constant"
"""
TABLES = {
    "ingested": ["publications", "rejects", "repeats"],
    "workload": ["events", "publishers", "subscriptions", "brokers"],
    "truth": [""],
    "summary": ["runs", "brokers", "timeline", "moves"],
    "index": [""],
}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the inputs, and with what the commands make of them without Spark."""
    folder = tmp_path_factory.mktemp("connect") / "given"
    folder.mkdir()
    rows = [f"s{n % 4},{1_000 + n},{n % 17}.5,{'yes' if n % 3 else 'no'}" for n in range(240)]
    (folder / "sites.toml").write_text(MAPPING)
    (folder / "sites.csv").write_text("\n".join(["site,at,wind,calm", *rows, "s1,never,1,yes"]))
    (folder / "mine.csv").write_text("id,filter\n1,wind > 12\n2,calm AND wind < 3\n3,site = 's1'\n")
    (folder / "scenario.toml").write_text(SCENARIO.format(workload=folder / "workload"))
    for name, step in STEPS.items():
        if name == "summary":
            scenario = [str(folder / "scenario.toml"), "--out", str(folder / "run")]
            assert exit_code(["simulate", *scenario]) == 0
        assert exit_code([*words(step, folder, folder), "--out", str(folder / name)]) == 0
    assert exit_code([*words(MATCH, folder, folder), "--out", str(folder / "index")]) == 0
    return folder


def test_everything_is_made_as_without_spark(given: Path) -> None:
    with connect_server(given.parent / "server") as url:
        module = "tests.pipeline.clusters.on_connect"
        printed = run_script(module, str(given.parent), SPARK_REMOTE=url)
    found = json.loads(printed.splitlines()[-1])
    assert [found.pop(name) for name in (*STEPS, *ENGINES, "stream")] == [0] * 8
    assert found == {
        "is connect": True,
        "view": "5",
        "results": [[2, 1], None, [3, 1], None, None, None],
        "errors": [None, "ZeroDivisionError: integer division or modulo by zero", None],
        "done": [3, 1.0],
    }
    made = given.parent / "made"
    for name, tables in TABLES.items():
        for table in tables:
            assert rows(made / name, table) == rows(given / name, table), (name, table)
    assert rows(made / "stream" / "batch=0", "") == rows(given / "index", "")
    assert rows(made / "sql", "") == rows(made / "spread", "") == rows(given / "index", "")


def rows(folder: Path, table: str) -> list[str]:
    """Return a table's rows, in any order: Spark writes them by partition."""
    path = folder if not table else folder / table
    path = path if path.exists() else folder / f"{table}.parquet"
    read: pa.Table = read_table_file(path, inside="")
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in read.to_pylist())
