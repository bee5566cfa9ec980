"""The example notebook: it is made from its source, has no outputs, and runs."""

from __future__ import annotations

import jupytext  # type: ignore[import-untyped]
import nbformat  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.clusters.processes import ROOT
from tests.spark import cells

SOURCE = ROOT / "examples" / "notebooks" / "live-and-tables.py"
NOTEBOOK = SOURCE.with_suffix(".ipynb")


def test_it_is_made_from_its_source_without_outputs() -> None:
    """`make notebook` makes it anew."""
    notebook, source = nbformat.read(NOTEBOOK, as_version=4), jupytext.read(SOURCE)
    nbformat.validate(notebook)
    cells = [(each.cell_type, each.source) for each in notebook.cells]
    assert cells == [(each.cell_type, each.source) for each in source.cells]
    assert [each for each in notebook.cells if each.get("outputs")] == []


@pytest.mark.soak
def test_every_cell_runs(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the session of all tests, which its last cell would stop; `make clusters` runs it, too."""
    monkeypatch.setattr(SparkSession, "stop", lambda session: None)
    try:
        cells.run(NOTEBOOK)
    finally:
        spark.sql("DROP DATABASE IF EXISTS lake CASCADE")
    printed = capsys.readouterr().out
    for text in (
        "40 publications",
        "36 pairs; 0 that Spark SQL does not find",
        "dep_delay is 12, which is not > 50",
        "36 alerts, then 40",
        "40 alerts published",
    ):
        assert text in printed, printed
