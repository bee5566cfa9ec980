"""Tables appear completely, replace only tables, and errors name missing columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from shoal.frames.errors import TableError
from shoal.frames.folders import new_folder
from shoal.pipeline.schemas import TRUTH
from shoal.pipeline.tables import read_table, write_small_table


def test_a_block_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with new_folder(target) as folder:
        (folder / "old.parquet").write_text("old")
    with pytest.raises(FileNotFoundError), new_folder(target, overwrite=True) as folder:
        (folder / "new.parquet").write_bytes((folder / "missing").read_bytes())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (target / "old.parquet").read_text() == "old"


def test_overwriting_must_be_asked_for_and_spares_other_files(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    with pytest.raises(TableError, match="exists already"), new_folder(target):
        pass
    with new_folder(target, overwrite=True) as folder:
        (folder / "a.parquet").write_text("")
    (target / "thesis.tex").write_text("years")
    with pytest.raises(TableError, match="other files"), new_folder(target, overwrite=True):
        pass
    assert (target / "thesis.tex").exists()


def test_reading_names_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="nowhere does not exist"):
        read_table(spark, tmp_path / "nowhere", TRUTH)
    (tmp_path / "text.parquet").write_text("not a table")
    with pytest.raises(TableError, match=r"text\.parquet cannot be read"):
        read_table(spark, tmp_path / "text.parquet", TRUTH)
    path = tmp_path / "small.parquet"
    write_small_table(spark.createDataFrame([("P", 1)], "publisher string, sequence int"), path)
    with pytest.raises(TableError, match="lacks the column 'subscription'; it has publisher, seq"):
        read_table(spark, path, TRUTH)
