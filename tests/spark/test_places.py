"""Places of tables: paths, URIs and Spark's catalog."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import shoal.spark
from shoal.cli.main import main
from shoal.frames.errors import TableError


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A database of the session's catalog, with its tables in a folder."""
    spark.sql(f"CREATE DATABASE lake LOCATION '{tmp_path / 'lake'}'")
    yield "lake"
    spark.sql("DROP DATABASE lake CASCADE")


def test_a_table_is_written_and_read_at_each_kind_of_place(
    spark: SparkSession, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = spark.createDataFrame([("p1", 45), ("p2", 2)], "id string, delay bigint")
    places = (
        tmp_path / "by path",
        str(tmp_path / "by text"),
        (tmp_path / "by%URI").as_uri(),
        f"{lake}.pairs",
        f"spark_catalog.{lake}.`of_all`",
    )
    for place in places:
        shoal.spark.write(table, place)
        assert sorted(shoal.spark.read(place).collect()) == sorted(table.collect()), place
        with pytest.raises((TableError, AnalysisException), match=r"already exists|exists already"):
            shoal.spark.write(table, place)
        shoal.spark.write(table.limit(1), place, mode="overwrite")
        assert shoal.spark.read(place).count() == 1, place
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        *("by path", "by text", "by%URI", "lake"),
    ]
    assert spark.table("lake.pairs").count() == 1
    monkeypatch.chdir(tmp_path)
    assert shoal.spark.read("by path", spark=spark).count() == 1
    assert shoal.spark.read(table) is table


def test_another_uri_goes_to_spark_as_it_is(spark: SparkSession) -> None:
    table = spark.range(3)
    with pytest.raises(Exception, match='No FileSystem for scheme "lake"'):
        shoal.spark.write(table, "lake://bucket/pairs")
    with pytest.raises(Exception, match='No FileSystem for scheme "lake"'):
        shoal.spark.read("lake://bucket/pairs")


def test_tables_are_appended_to_and_folders_are_not(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    table = spark.range(3)
    for _ in range(2):
        shoal.spark.write(table, f"{lake}.numbers", mode="append")
    assert shoal.spark.read(f"{lake}.numbers").count() == 6
    with pytest.raises(TableError, match="a folder is written whole"):
        shoal.spark.write(table, tmp_path / "numbers", mode="append")
    with pytest.raises(TableError, match="shoal writes Parquet there"):
        shoal.spark.write(table, tmp_path / "numbers", format="csv")


def test_a_place_without_a_table_is_named(spark: SparkSession, tmp_path: Path) -> None:
    for place, text in (
        (tmp_path / "none", "none does not exist"),
        ("none.parquet", "none.parquet does not exist"),
        ("file://elsewhere/none", "a file of the machine 'elsewhere'"),
        ("db.none", "db.none: there is no such file, and no such table"),
        ("none", "none: there is no such file, and no such table"),
    ):
        with pytest.raises(TableError, match=text):
            shoal.spark.read(place, spark=spark)


def command(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words), "--engine", "spark"])
    return int(ended.value.code or 0)


MAPPING = """
publisher = ["site"]
time = { column = "at", format = "epoch_s" }
[columns]
site = "string"
wind = "double"
[expect]
publishers = ["a"]
"""


def test_every_step_reads_and_writes_the_catalog(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same tables as at paths."""
    (tmp_path / "m.toml").write_text(MAPPING)
    rows = [("a", 1000 + n, 9.0 - n) for n in range(9)] + [("b", 1000, 1.0), ("b", None, 2.0)]
    spark.createDataFrame(rows, "site string, at bigint, wind double").write.parquet(
        str(tmp_path / "raw.parquet")
    )
    spark.sql("CREATE DATABASE places")
    spark.read.parquet(str(tmp_path / "raw.parquet")).write.saveAsTable("places.raw")
    (tmp_path / "s.csv").write_text("id,filter\nwindy,wind > 3\ncalm,wind < 3\n")
    name = "spark_catalog.{}".format
    words = ("--brokers", 2, "--subscriptions", tmp_path / "s.csv")
    figures = []
    try:
        for raw, at in (("places.raw", name), (tmp_path / "raw.parquet", tmp_path.joinpath)):
            inner = name("judged.truth") if at is name else tmp_path / "truth"
            spark.sql("CREATE DATABASE IF NOT EXISTS judged")
            capsys.readouterr()
            assert command("ingest", tmp_path / "m.toml", raw, "--out", at("winds")) == 0
            said = capsys.readouterr()
            figures.append(said.out.partition("\n")[2])
            assert "1 row: time column 'at' is missing" in said.err
            assert command("workload", at("winds"), *words, "--out", at("work")) == 0
            assert command("truth", at("work"), "--out", inner) == 0
        assert figures[0] == figures[1]
        for table in ("winds.publications", "winds.rejects", "work.events", "work.subscriptions"):
            found = spark.table(name(table)).collect()
            schema, _, inside = table.partition(".")
            place = tmp_path / schema / (inside if inside == "events" else f"{inside}.parquet")
            expected = spark.read.parquet(str(place)).collect()
            if inside == "rejects":
                found, expected = ([row["reason"] for row in each] for each in (found, expected))
            assert sorted(found, key=str) == sorted(expected, key=str), table
        expected = spark.read.parquet(str(tmp_path / "truth"))
        assert expected.count() == 9
        assert spark.table("judged.truth").exceptAll(expected).isEmpty()
        # Files that are new are links to Spark.
        assert command("truth", tmp_path / "work", "--out", tmp_path / "grown", "--add") == 0
        assert spark.read.parquet(str(tmp_path / "grown" / "part=0")).exceptAll(expected).isEmpty()
        capsys.readouterr()
        assert command("ingest", tmp_path / "m.toml", "places.raw", "--out", name("winds")) == 2
        assert "spark_catalog.winds.publications exists already" in capsys.readouterr().err
        (tmp_path / "m.toml").write_text(MAPPING.replace('["a"]', '["c"]'))
        assert command("ingest", tmp_path / "m.toml", "places.raw", "--out", name("other")) == 2
        assert "expect.publishers: no publication is of 'c'" in capsys.readouterr().err
        assert not spark.catalog.listTables("other")
    finally:
        for schema in ("places", "winds", "work", "judged", "other"):
            spark.sql(f"DROP DATABASE IF EXISTS {schema} CASCADE")


def test_the_match_command_reads_and_writes_the_catalog(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS places")
    rows = [("p1", 4.0), ("p2", 1.0)]
    spark.createDataFrame(rows, "id string, wind double").write.saveAsTable("places.publications")
    (tmp_path / "s.csv").write_text("id,filter\nwindy,wind > 3\ncalm,wind < 3\n")

    match = functools.partial(command, "match")
    given = ("--subscriptions", tmp_path / "s.csv", "--publications")
    try:
        # A schema stands for the folder of several tables.
        for place in ("places.publications", "places", "spark_catalog.places.publications"):
            assert match(*given, place, "--out", "places.pairs", "--overwrite") == 0
            # The command has a session of its own, and this one remembers the former files.
            spark.catalog.refreshTable("places.pairs")
            found = sorted(map(tuple, spark.table("places.pairs").collect()))
            assert found == [("p1", "windy"), ("p2", "calm")]
        assert match(*given, "places.publications", "--out", "places.pairs") == 2
        assert "already exists" in capsys.readouterr().err
        assert match(*given, "places.none") == 2
        assert "no such table in Spark's catalog" in capsys.readouterr().err
    finally:
        spark.sql("DROP DATABASE places CASCADE")
