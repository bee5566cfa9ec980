"""Raw rows: numbered lines from many blocks, broken lines marked, Parquet rows counted."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from shoal.pipeline.sources.files import csv_rows, numbered_lines, table_rows
from shoal.pipeline.sources.headers import SourceError


def listed(table: DataFrame, *columns: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in table.select(*columns).orderBy(*columns).collect()]


def test_lines_are_numbered_through_the_blocks_of_several_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    expected = []
    files = []
    for number, name in enumerate(("first.csv", "with space + plus.csv", "zipped.csv.gz")):
        lines = [f"{name} {line}" if line % 7 else "" for line in range(30 + number)]
        text = ("\r\n" if number else "\n").join(lines).encode()
        file = tmp_path / name
        file.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        files.append(file)
        expected += [(str(file), n, line) for n, line in enumerate(lines, 1) if line]
    small = spark.newSession()
    small.conf.set("spark.sql.files.maxPartitionBytes", "150")
    small.conf.set("spark.sql.files.openCostInBytes", "1")
    numbered = numbered_lines(small, files)
    assert numbered.rdd.getNumPartitions() > len(files)
    assert listed(numbered, "file", "line", "text") == sorted(expected)


def test_broken_lines_are_marked_and_others_are_not(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "broken.csv"
    file.write_text('\ufeffa,b\n1,2\n\n"x, ""y""",\n1,2,3\nonly\n"two\nlines",2\n')
    rows = csv_rows(spark, [file], ["a", "b"])
    quote, width = "unbalanced quote", "the number of columns is not the header's 2"
    found = listed(rows, "line", "row.a", "row.b", "broken")
    assert [row[:3] for row in found[:2]] == [(2, "1", "2"), (4, 'x, "y"', None)]
    reasons = {row[0]: str(row[3]) for row in found[2:]}
    assert reasons.keys() == {5, 6, 7, 8}
    assert reasons[5] == reasons[6] == width
    assert quote in reasons[7]
    assert quote in reasons[8]


def test_files_may_order_their_columns_differently(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a;b\n1;2\n")
    (tmp_path / "2.csv").write_text("b;junk;a;junk\n4;;3;\n")
    rows = csv_rows(spark, [tmp_path / "1.csv", tmp_path / "2.csv"], ["a", "b"], delimiter=";")
    assert listed(rows, "row.a", "row.b", "broken") == [("1", "2", None), ("3", "4", None)]


def test_rows_of_parquet_are_numbered_too(spark: SparkSession, tmp_path: Path) -> None:
    table = spark.createDataFrame([(f"n{i}", i) for i in range(5)], "name string, i int")
    table.coalesce(1).write.parquet(str(tmp_path / "table"))
    rows = table_rows(spark, [tmp_path / "table"], ["i"])
    assert listed(rows, "line", "row.i", "text")[1:3] == [(2, 1, '{"i":1}'), (3, 2, '{"i":2}')]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("a,c\n1,2\n", "no column 'b'; the header has 'a', 'c'"),
        ("a,b,a\n1,2,3\n", "has the column 'a' more than once"),
        ("", "line 1: there must be a header"),
    ],
)
def test_a_wrong_header_is_an_error(
    spark: SparkSession, tmp_path: Path, header: str, message: str
) -> None:
    file = tmp_path / "wrong.csv"
    file.write_text(header)
    with pytest.raises(SourceError, match=f"wrong.csv.*{message}"):
        csv_rows(spark, [file], ["a", "b"])


def test_missing_and_mixed_files_are_errors(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"nowhere\.csv does not exist"):
        table_rows(spark, [tmp_path / "nowhere.csv"], ["a"])
    with pytest.raises(SourceError, match="no input file"):
        table_rows(spark, [], ["a"])
    (tmp_path / "a.csv").write_text("a\n")
    (tmp_path / "a.parquet").mkdir()
    with pytest.raises(SourceError, match="cannot be mixed"):
        table_rows(spark, [tmp_path / "a.csv", tmp_path / "a.parquet"], ["a"])
