"""Results by setting and spread; missing runs give missing values; tables have every row."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from shoal.experiments.relocation.grid import BASELINE, DELAY, LOAD
from shoal.experiments.relocation.measuring.results import (
    TABLES,
    RelocationResults,
    Where,
    tables_of,
)
from shoal.experiments.relocation.measuring.summary import Migration, Moment
from shoal.experiments.studies.study import write_tables
from tests.experiments.relocation.summaries import selection, spec, stand, summary

WHERE = Where("quotes", "wide", "clustered")
RUNS = [
    summary(spec(BASELINE, 16), delay_us=200.0),
    summary(spec(BASELINE, 2), delay_us=100.0),
    summary(spec(LOAD, 2), delay_us=25.0, hops=3.0),
    summary(spec(LOAD, 4), delay_us=25.0),
    summary(spec(BASELINE, study="threshold"), delay_us=7.0),
    summary(spec(BASELINE, study="probe", probe=3), {"stands": {"P": stand("B3", 1, 2)}}),
]


def test_values_come_by_spread_and_only_from_the_grid() -> None:
    results = RelocationResults(RUNS)
    assert results.values(WHERE, BASELINE, "delay_us") == {2: 100.0, 16: 200.0}
    assert list(results.runs(WHERE, BASELINE)) == [2, 16]
    assert results.values(WHERE, DELAY, "delay_us") == {}
    assert results.values(WHERE, LOAD, "hops") == {2: 3.0}
    assert results.values(WHERE._replace(testbed="cluster"), LOAD, "hops") == {}
    assert (len(results.thresholds), len(results.probes)) == (1, 1)
    assert results.datasets == ["quotes"]


def test_a_cut_needs_both_runs() -> None:
    assert RelocationResults(RUNS).cuts(WHERE, LOAD, "delay_us") == {2: 0.75}
    nothing = [summary(spec(setting, 2), overhead=0.0) for setting in (BASELINE, LOAD)]
    assert RelocationResults(nothing).cuts(WHERE, LOAD, "overhead") == {}


def test_every_table_is_written(tmp_path: Path) -> None:
    moment = Moment(since_us=0, message_rate_per_s=1.0, overhead=0.0, delay_us=None, hops=None)
    move = Migration(publisher="P", source="A", target="B", path_hops=2, wait_us=9)
    rows = {"timeline": (moment,), "selections": (selection("P", "A", "B"),), "migrations": (move,)}
    write_tables(tmp_path / "tables", tables_of([*RUNS, summary(spec(DELAY), rows)]))
    found = {name: pq.read_table(tmp_path / "tables" / f"{name}.parquet") for name in TABLES}
    assert {name: len(table) for name, table in found.items()} == {
        "metrics": 6, "timeline": 1, "selections": 1, "migrations": 1, "stands": 1,
    }  # fmt: skip
    (row,) = found["stands"].to_pylist()
    assert (row["publisher"], row["broker"], row["probe"], row["setting"]) == (
        "P", "B3", 3, "baseline",
    )  # fmt: skip
    assert found["timeline"].to_pylist()[0]["delay_us"] is None
    assert {row["spread"] for row in found["metrics"].to_pylist()} == {2, 4, 16}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_nothing_have_their_columns(name: str, tmp_path: Path) -> None:
    write_tables(tmp_path, tables_of([]))
    assert pq.read_table(tmp_path / f"{name}.parquet").column_names == list(TABLES[name])
