"""A recording has what it can have: of nothing it is a table, too; what it cannot say it names."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from shoal.experiments.live.recording import Recorder, write_clients
from shoal.language import format_filter, parse
from shoal.mqtt.door.network import network_filter


def test_an_hour_in_which_nobody_publishes_is_a_table_without_rows(tmp_path: Path) -> None:
    Recorder().write(tmp_path)
    table = pq.read_table(tmp_path / "publications.parquet")
    assert table.num_rows == 0
    assert [field.name for field in table.schema.field("attributes").type] == ["mqtt_topic"]


def test_a_filter_that_is_granted_and_too_deep_when_written_out_takes_no_other_with_it(
    tmp_path: Path,
) -> None:
    deep = "NOT (n = 1 AND " * 50 + "n NOT BETWEEN 7 AND 8" + ")" * 50
    rows = [
        {
            "client": name,
            "broker": "B1",
            "topic_filter": "a/#",
            "filter": format_filter(network_filter("a/#", parse(text))),
        }
        for name, text in (("odd", deep), ("plain", "n > 1"))
    ]
    count, [said] = write_clients(tmp_path, rows, ["B1"])
    table = pq.read_table(tmp_path / "subscriptions.parquet")
    assert (count, table.column("client").to_pylist()) == (1, ["plain"])
    assert said.startswith("odd's to a/#: parentheses and NOT nest deeper than")
