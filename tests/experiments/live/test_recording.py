"""A recording of nothing is a table, too."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from shoal.experiments.live.recording import Recorder


def test_an_hour_in_which_nobody_publishes_is_a_table_without_rows(tmp_path: Path) -> None:
    Recorder().write(tmp_path)
    table = pq.read_table(tmp_path / "publications.parquet")
    assert table.num_rows == 0
    assert [field.name for field in table.schema.field("attributes").type] == ["mqtt_topic"]
