"""The examples of the pages that need Spark; see `test_pages.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from tests.docs.reader import Networks, reading
from tests.docs.test_pages import HERE, ONLY_OPTIONS, SPARK_PAGES
from tests.examples import at_length
from tests.pipeline.conftest import spark

__all__ = ["spark"]

POINTS = {"id": ["p1", "p2", "p3"], "price": [1.0, 5.0, 9.0]}
BOXES = {"id": [1, 2], "price.low": [0.0, 4.0], "price.high": [6.0, 8.0]}


@pytest.fixture
def networks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Networks]:
    networks = Networks(tmp_path_factory.mktemp("networks"))
    yield networks
    networks.stop()


# The others take long, and are for `make clusters` and the soak.
QUICK = "docs/tutorials/own-data.md"


@pytest.mark.parametrize("page", [QUICK, *at_length(page for page in SPARK_PAGES if page != QUICK)])
def test_every_example_of_a_page_runs(
    page: str, tmp_path: Path, networks: Networks, spark: SparkSession
) -> None:
    points, boxes = pa.table(POINTS), pa.table(BOXES)
    for name in ("points", "incoming"):
        (tmp_path / name).mkdir()
        pq.write_table(points, tmp_path / name / "1.parquet")
    pq.write_table(points, tmp_path / "events.parquet")
    for name in ("boxes", "subscriptions"):
        pq.write_table(boxes, tmp_path / f"{name}.parquet")
    names = {
        "spark": spark,
        "publications": spark.createDataFrame(points.to_pandas()),
        "subscriptions": spark.createDataFrame(boxes.to_pandas()),
    }
    with reading(tmp_path, networks, names, spark=True) as reader:
        for block in HERE[page]:
            reader.read(block, ONLY_OPTIONS.get(page, {}))
    for table in ("pairs", "spread-pairs", "stream-pairs"):
        if page == "docs/how-to/spark.md":
            assert pq.read_table(tmp_path / table).num_rows == 3
    if page == "docs/tutorials/own-data.md":
        assert "nothing lost" in (tmp_path / "report.html").read_text(encoding="utf-8")
