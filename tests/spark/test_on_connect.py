"""The data source and the functions of `shoal.spark` by Spark Connect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipeline.clusters.processes import connect_server, run_script
from tests.spark.conftest import Start
from tests.spark.test_source import flights


@pytest.mark.soak
def test_a_log_is_read_and_matched(start: Start, tmp_path: Path) -> None:
    brokers = start(2)
    brokers.publish("B1", "flights/UA", *flights(9))
    brokers.publish("B2", "flights/AA", *flights(2))
    folder = tmp_path / "made"
    folder.mkdir()
    with connect_server(tmp_path / "server") as url:
        printed = run_script(
            "tests.spark.on_connect", str(brokers.file), str(folder), SPARK_REMOTE=url
        )
    found = json.loads(printed.splitlines()[-1])
    assert found.pop("module").startswith("pyspark.sql.connect")
    assert found.pop("rows") == 11
    pairs = [
        *(["B1", at, "first"] for at in (1, 4, 7)),
        *(["B1", at, "late"] for at in (7, 8)),
        ["B2", 1, "first"],
    ]
    pairs.sort()
    for name in ("broadcast", "partitioned", "sql", "written", "streamed"):
        assert found[name] == pairs, name
    assert found["profile"] == [["first", 4, 4 / 11], ["late", 2, 2 / 11], ["never", 0, 0.0]]
    why = "FALSE    delay > 6: delay is 0, which is not > 6"
    assert found["why"] == [["B2", 0, "late", False, "FALSE", why]]
    topics = ["stream/C1", "stream/C2", "table/C1", "table/C2"]
    assert found["published"] == [[topic, 1] for topic in topics]
    assert found["ingested"] == [
        *(["B1", at, at] for at in range(9)),
        *(["B2", at, at] for at in range(2)),
    ]
