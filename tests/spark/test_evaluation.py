"""Ingest, workload, truth, summary and comparison by the front door, as the commands have them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from pyspark.sql import DataFrame, SparkSession

import shoal.spark
from shoal.frames.errors import TableError
from shoal.pipeline.ingest import ingest_small
from shoal.pipeline.schemas import TRUTH
from shoal.pipeline.sources.declaration import MappingError
from shoal.pipeline.sources.headers import SourceError
from shoal.pipeline.summaries import write_summary
from shoal.pipeline.truth import write_truth
from shoal.pipeline.workloads.workload import WorkloadError, write_workload
from tests.pipeline.test_summaries import RUN, TRUTH_ROWS, make_run

MAPPING = {
    "publisher": ["site"],
    "time": {"column": "at", "format": "epoch_s"},
    "columns": {"site": "string", "wind": "double"},
    "derived": {"calm": {"type": "boolean", "expression": "wind < 3"}},
}
SITES = [(f"s{n % 3}", 1_000 + 7 * n % 50, f"{n % 17}.5") for n in range(60)]


def rows(table: DataFrame) -> list[Any]:
    return sorted(map(str, table.collect()))


def sites(folder: Path) -> Path:
    file = folder / "sites.csv"
    with file.open("w") as out:
        csv.writer(out).writerows([("site", "at", "wind"), *SITES, ("s1", "never", 1)])
    return file


def test_files_and_tables_become_the_same_publications(spark: SparkSession, tmp_path: Path) -> None:
    file = sites(tmp_path)
    plain = MAPPING | {"derived": {}}
    (tmp_path / "m.toml").write_text(tomli_w.dumps(plain))
    counts = ingest_small(tmp_path / "m.toml", [file], tmp_path / "ingested")
    made = shoal.spark.ingest(file, tmp_path / "m.toml")
    for name in ("publications", "rejects", "repeats"):
        stored = spark.read.parquet(str(tmp_path / "ingested" / f"{name}.parquet"))
        assert rows(getattr(made, name)) == rows(stored), name
    assert (counts.kept, counts.rejected) == (60, 1)
    # The same rows as a table: typed by Spark, of which the row that is no time is text.
    table = spark.read.option("header", True).csv(str(file)).coalesce(1)
    found = shoal.spark.ingest(table, plain)
    assert rows(found.publications) == rows(made.publications)
    (reject,) = found.rejects.collect()
    assert (reject.file, reject.line) == ("part 00000", 61)
    assert reject.reason == made.rejects.collect()[0].reason
    typed = table.selectExpr("site", "timestamp_seconds(try_cast(at AS bigint)) AS at", "wind")
    by_type = shoal.spark.ingest(typed, MAPPING | {"time": {"column": "at"}})
    assert rows(by_type.publications.select("publisher", "sequence", "time_us")) == rows(
        made.publications.select("publisher", "sequence", "time_us")
    )
    assert by_type.publications.where("attributes.calm").count() == sum(
        float(wind) < 3 for _, _, wind in SITES
    )


def test_faults_of_an_ingest_are_named(spark: SparkSession, tmp_path: Path) -> None:
    table = spark.createDataFrame(SITES, "site string, at bigint, wind string")
    with pytest.raises(SourceError, match="the table: no column 'wind'"):
        shoal.spark.ingest(table.drop("wind"), MAPPING)
    wrong = {"derived": {"calm": {"type": "boolean", "expression": "breeze < 3"}}}
    with pytest.raises(MappingError, match=r"the mapping: derived\.calm"):
        shoal.spark.ingest(table, MAPPING | wrong)
    with pytest.raises(TableError, match="unite other tables"):
        shoal.spark.ingest([table, sites(tmp_path)], MAPPING)
    users = spark.newSession()
    users.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    with pytest.raises(shoal.spark.SettingError, match="timeZone is Asia/Tokyo"):
        shoal.spark.ingest(users.createDataFrame(SITES, table.schema), MAPPING)


def test_a_workload_and_its_truth_are_those_of_the_commands(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = shoal.spark.ingest(sites(tmp_path), MAPPING)
    shoal.spark.write(made.publications, tmp_path / "publications.parquet")
    options = shoal.spark.WorkloadOptions(brokers="3", subscriptions=4, duration_us=60_000_000)
    write_workload(spark, tmp_path, tmp_path / "workload", options)
    found = shoal.spark.workload(tmp_path, options)
    for name, table in found._asdict().items():
        path = tmp_path / "workload" / ("events" if name == "events" else f"{name}.parquet")
        assert rows(table) == rows(spark.read.parquet(str(path))), name
    write_truth(spark, tmp_path / "workload", tmp_path / "truth")
    expected = rows(spark.read.parquet(str(tmp_path / "truth")))
    assert rows(shoal.spark.truth(found.events, found.subscriptions)) == expected
    work = tmp_path / "workload"
    assert rows(shoal.spark.truth(work.as_uri(), work)) == expected
    pairs = shoal.spark.match(found.events, found.subscriptions)
    assert rows(pairs) == expected != []
    with pytest.raises(TableError, match="publications: no column 'sequence'"):
        shoal.spark.workload(made.publications.drop("sequence"), options)
    with pytest.raises(TableError, match="subscriptions: no column 'filter'"):
        shoal.spark.truth(found.events, found.subscriptions.drop("filter"))
    with pytest.raises(WorkloadError, match="the table has no publications"):
        shoal.spark.workload(made.publications.where("false"), options)


def test_runs_are_summarised_and_compared(spark: SparkSession, tmp_path: Path) -> None:
    first, second = (
        make_run(tmp_path / "first", RUN),
        make_run(tmp_path / "second", RUN | {"deliveries": RUN["deliveries"][:1]}),
    )
    shoal.spark.write(spark.createDataFrame(TRUTH_ROWS, TRUTH), tmp_path / "truth")
    write_summary(
        spark, [first, second], tmp_path / "truth", tmp_path / "summary", window_us=5_000_000
    )
    truth = spark.createDataFrame(TRUTH_ROWS, TRUTH)
    for expected in (truth, tmp_path / "truth"):
        found = shoal.spark.summarise([first, second.as_uri()], expected, window_s=5)
        for name, table in found._asdict().items():
            stored = spark.read.parquet(str(tmp_path / "summary" / f"{name}.parquet"))
            assert rows(table) == rows(stored), name
    compared = shoal.spark.compare(found.runs, "first")
    lost = {row.run: tuple(row) for row in compared.where("metric = 'lost'").collect()}
    assert lost == {
        "first": ("first", "lost", 1.0, 1.0, 0.0, 1.0),
        "second": ("second", "lost", 2.0, 1.0, 1.0, 2.0),
    }
    migrated = compared.where("metric = 'phantom' AND run = 'second'").collect()
    assert [(row.value, row.ratio) for row in migrated] == [(0.0, 0.0)]
    assert rows(shoal.spark.compare(tmp_path / "summary", "first")) == rows(compared)
    with pytest.raises(TableError, match="no run 'third'; there are first, second"):
        shoal.spark.compare(found.runs, "third")
    with pytest.raises(TableError, match="as paths"):
        shoal.spark.summarise(["s3a://runs/first"], truth)
