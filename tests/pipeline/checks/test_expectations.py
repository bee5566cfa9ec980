"""An ingest that is not as its declaration expects fails, with the figures, and writes nothing."""

from __future__ import annotations

import hashlib
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from shoal.cli.main import main
from shoal.pipeline.checks.expectations import ExpectationError
from shoal.pipeline.ingest import ingest_mapped, ingest_small
from shoal.pipeline.sources.declaration import MappingError, decode_mapping
from tests.pipeline.small.test_small_files import tables

MAPPING = """
publisher = ["site"]
time = { column = "at", format = "epoch_s" }
columns = { site = "string", wind = "double", gusts = "integer" }
[expect]
"""
LINES = "site,at,wind,gusts\nkiel,100,2.5,-7\nkiel,100,2.5,-7\nbonn,200,60.5,\nkiel,3,calm,\n"


def write(folder: Path, expect: str) -> tuple[Path, Path]:
    mapping, data = folder / "m.toml", folder / "data.csv"
    mapping.write_text(MAPPING + expect)
    data.write_text(LINES)
    return mapping, data


@pytest.mark.parametrize(
    ("expect", "complaint"),
    [
        (
            "rejects = 0.1",
            "expect.rejects: 1 of 4 rows were rejected (25 %), and 10 % may be; one reason: column "
            "'wind': 'calm' is not a number",
        ),
        (
            "repeats = 0",
            "expect.repeats: 1 of 3 publications are repeats (33.3 %), and 0 % may be",
        ),
        ("publications = 1_000", "expect.publications: there are 3, and must be 1,000"),
        ('publishers = ["bonn", "ulm"]', "expect.publishers: no publication is of 'ulm'"),
        (
            "ranges.wind = [0, 60]",
            "expect.ranges.wind: the values are from 2.5 to 60.5, and may be from 0 to 60",
        ),
        (
            "ranges.gusts = [0, 60]",
            "expect.ranges.gusts: the values are from -7 to -7, and may be from 0 to 60",
        ),
    ],
)
def test_what_is_not_as_expected_is_said_with_figures(
    tmp_path: Path, expect: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mapping, data = write(tmp_path, expect)
    with pytest.raises(SystemExit) as ended:
        main(["ingest", str(mapping), str(data), "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert capsys.readouterr().err.strip() == f"shoal: {mapping}: {complaint}"
    assert not (tmp_path / "out").exists()


def test_the_newest_may_be_so_old(spark: SparkSession, tmp_path: Path) -> None:
    mapping, data = write(tmp_path, "newest_within_s = 3600")
    stale = r"the newest publication is of 1970-01-01 00:03:20 UTC, [0-9,]+ s ago, and may be 3,600"
    with pytest.raises(ExpectationError, match=stale):
        ingest_small(mapping, [data], tmp_path / "out")
    with pytest.raises(ExpectationError, match=stale):
        ingest_mapped(spark, mapping, [data], tmp_path / "out")
    data.write_text(LINES + f"kiel,{int(time.time())},1,\n")
    assert ingest_small(mapping, [data], tmp_path / "out").kept == 4
    data.write_text(LINES.partition("\n")[0] + "\n")
    with pytest.raises(ExpectationError, match="there are no publications"):
        ingest_small(mapping, [data], tmp_path / "none")


def test_what_is_as_expected_is_written(spark: SparkSession, tmp_path: Path) -> None:
    expect = 'rejects = 0.25\nrepeats = 0.5\npublishers = ["kiel"]\nranges.wind = [2.5, 60.5]\n'
    mapping, data = write(tmp_path, expect)
    small = ingest_small(mapping, [data], tmp_path / "small")
    assert small == ingest_mapped(spark, mapping, [data], tmp_path / "spark")


@pytest.mark.parametrize(
    ("expect", "complaint"),
    [
        ("rejects = 5", "expect.rejects: 5 is no share; write 0.01 for 1 %"),
        ("ranges.site = [0, 1]", "'site' is no number that is published; there are wind, gusts"),
        ("ranges.wind = [2, 1]", "expect.ranges.wind: write the lowest and the highest"),
        ("reject = 0.1", "expect.reject: unknown key; did you mean rejects"),
    ],
)
def test_a_wrong_expectation_names_the_key(expect: str, complaint: str) -> None:
    with pytest.raises(MappingError, match=rf"^m\.toml: .*{complaint}"):
        decode_mapping(MAPPING + expect, "m.toml")


def record(file: Path) -> dict[str, Any]:
    content = file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return {"file": str(file), "bytes": len(content), "sha256": digest}


def test_the_lineage_stands_beside_the_tables(spark: SparkSession, tmp_path: Path) -> None:
    mapping, _ = write(tmp_path, "")
    folder = tmp_path / "table"
    for site in ("kiel", "bonn"):
        (folder / f"site={site}").mkdir(parents=True)
        table = pa.table({"at": [1], "wind": [1.5], "gusts": [2]})
        pq.write_table(table, folder / f"site={site}" / "part.parquet")
    ingest_small(mapping, [folder], tmp_path / "small")
    ingest_mapped(spark, mapping, [folder], tmp_path / "spark")
    for each in ("small", "spark"):
        assert tables(tmp_path / each)["counts"]["lineage"] == {
            "shoal": metadata.version("shoal"),
            "declaration": record(mapping),
            "files": [record(folder / f"site={s}" / "part.parquet") for s in ("bonn", "kiel")],
        }
