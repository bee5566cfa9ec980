"""Events of a cluster's brokers in a report."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.overlays.bluedove.records import DeathRecord, ScaleRecord, ServedRecord
from shoal.report.inputs import read_runs
from shoal.report.page import render
from tests.report.fake_runs import make_runs
from tests.report.test_page import Page

WHAT = "Events that brokers report"


def test_deaths_and_additions_are_in_the_report(tmp_path: Path) -> None:
    (path,), summary = make_runs(tmp_path, names=("cluster",))
    assert WHAT not in Page(render(read_runs([path], summary))).text
    runs = pq.read_table(summary / "runs.parquet")
    at = runs.column_names.index("system")
    cluster = runs.set_column(at, "system", pa.array(["bluedove"]))
    pq.write_table(cluster, summary / "runs.parquet")
    tables: dict[str, list[msgspec.Struct]] = {
        "deaths": [DeathRecord(matcher="M1", dead="M2", at_us=20_000_000)],
        "scalings": [
            ScaleRecord(dispatcher="D1", action="add", matcher=None, at_us=30_000_000),
            ScaleRecord(dispatcher="D1", action="add", matcher="M5", at_us=40_000_000),
        ],
        "served_segments": [
            ServedRecord(matcher="M5", dimension=0, low=25.5, high=math.inf, at_us=45_000_000)
        ],
    }
    for name, rows in tables.items():
        table = pa.Table.from_pylist([msgspec.structs.asdict(row) for row in rows])
        pq.write_table(table, path / f"{name}.parquet")
    text = Page(render(read_runs([path], summary))).text
    said = text[text.index(WHAT) :]
    expected = [
        "M1 took M2 for dead",
        "D1 would add a matcher, but none is ready",
        "D1 adds M5",
        "M5 serves, of dimension 1, from 25.5 on",
    ]
    places = [said.index(each) for each in expected]
    assert places == sorted(places)
