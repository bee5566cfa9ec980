"""Mapped rows: typed publications and reasons, in an order that does not depend on Spark."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from shoal.pipeline.sources import splits
from shoal.pipeline.sources.declaration import MappingError, decode_mapping
from shoal.pipeline.sources.publications import (
    numbered_rows,
    parse_rows,
    publications,
    rejects,
    repeats,
)
from shoal.pipeline.sources.raw_rows import open_source
from tests.pipeline.sources.parsing import spark_rows

MAPPING = """
publisher = ["site", "unit"]
separator = "/"
null_values = ["NA"]
publish = ["site", "count", "share", "open", "doubled"]
time = { column = "at", format = "yyyy-MM-dd HH:mm", zone = "Europe/Berlin" }
[columns]
site = "string"
unit = "integer"
count = { type = "integer", column = "n", required = true }
share = "double"
open = "boolean"
[derived]
doubled = { type = "double", expression = "try_multiply(share, 2)" }
"""
LINES = """at,site,unit,n,share,open
2024-07-01 12:00,kiel,1,5,0.25,true
2024-01-01 12:00,kiel,1,6,NA,
2024-07-01 12:00,kiel,1,9223372036854775807,1e3,no
2024-07-01 12:00,,1,5,0.5,true
2024-07-01 25:00,kiel,1,5,0.5,true
2024-07-01 12:00,kiel,1.5,x,1d,maybe
2024-07-01 12:00,kiel,1,9223372036854775808,NaN,true
,kiel,1,,0.5,true
"""


def test_every_row_is_a_publication_or_has_a_reason(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "sites.csv"
    file.write_text(LINES)
    mapping = decode_mapping(MAPPING, "sites.toml")
    parsed = spark_rows(spark, [file], mapping, "sites.toml")
    kept = publications(parsed).orderBy("sequence").collect()
    summer_us, winter_us = 1_719_828_000_000_000, 1_704_106_800_000_000
    assert [tuple(row) for row in kept] == [
        ("kiel/1", 0, winter_us, ("kiel", 6, None, None, None)),
        ("kiel/1", 1, summer_us, ("kiel", 5, 0.25, True, 0.5)),
        ("kiel/1", 2, summer_us, ("kiel", 2**63 - 1, 1000.0, False, 2000.0)),
    ]
    refused = {row["line"]: row for row in rejects(parsed).collect()}
    form = "is not a time of the form yyyy-MM-dd HH:mm"
    assert {line: row["reason"] for line, row in refused.items()} == {
        5: "column 'site' is missing",
        6: f"time column 'at': '2024-07-01 25:00' {form}",
        7: "column 'unit': '1.5' is not an integer of 64 bits; "
        "column 'n': 'x' is not an integer of 64 bits; "
        "column 'share': '1d' is not a number; column 'open': 'maybe' is not true or false",
        8: "column 'n': '9223372036854775808' is not an integer of 64 bits; "
        "column 'share': 'NaN' is not a number",
        9: "column 'n' is missing; time column 'at' is missing",
    }
    assert refused[5]["file"] == str(file)
    assert refused[5]["text"] == "2024-07-01 12:00,,1,5,0.5,true"


def test_parquet_numbers_keep_their_meaning(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("a", 1.0, float("nan"), 1), ("b", 2.0, 0.5, 2), ("c", 2.5, 0.5, 3)]
    table = spark.createDataFrame(rows, "name string, whole double, part double, s int")
    table.coalesce(1).write.parquet(str(tmp_path / "t"))
    mapping = decode_mapping(
        'publisher = ["name"]\ntime = { column = "s", format = "epoch_s" }\n'
        '[columns]\nname = "string"\nwhole = "integer"\npart = "double"',
        "t.toml",
    )
    parsed = spark_rows(spark, [tmp_path / "t"], mapping, "t.toml")
    assert [tuple(row) for row in publications(parsed).orderBy("time_us").collect()] == [
        ("a", 0, 1_000_000, ("a", 1, None)),
        ("b", 0, 2_000_000, ("b", 2, 0.5)),
    ]
    assert [row["reason"] for row in rejects(parsed).collect()] == [
        "column 'whole': '2.5' is not an integer of 64 bits"
    ]


def test_numbering_does_not_depend_on_the_partitioning(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Equal times throughout: only file and line decide.
    lines = "".join(f"P{i % 3},2024-01-01,{i}\n" for i in range(90))
    for name in ("b.csv", "a.csv"):
        (tmp_path / name).write_text("who,at,i\n" + lines)
    files = [tmp_path / "b.csv", tmp_path / "a.csv"]
    mapping = decode_mapping(
        'publisher = ["who"]\ntime = { column = "at", format = "yyyy-MM-dd" }\n'
        '[columns]\nwho = "string"\ni = "integer"',
        "m.toml",
    )
    answers = []
    for bytes_in_split, shuffled, order in ((600, 5, files), (10_000, 1, files[::-1])):
        other = spark.newSession()
        monkeypatch.setattr(splits, "SPLIT_BYTES", bytes_in_split)
        other.conf.set("spark.sql.shuffle.partitions", str(shuffled))
        parsed = spark_rows(other, order, mapping, "m.toml")
        numbered = publications(parsed).orderBy("publisher", "sequence")
        answers.append([tuple(row) for row in numbered.collect()])
    assert answers[0] == answers[1]
    of_first = [row[3].i for row in answers[0] if row[0] == "P0"]
    assert of_first == [*range(0, 90, 3), *range(0, 90, 3)]


def test_parts_of_one_publishers_time_are_numbered_on(spark: SparkSession, tmp_path: Path) -> None:
    times = [(number * 37) % 101 // 2 for number in range(300)]
    file = tmp_path / "one.csv"
    file.write_text("who,at\n" + "".join(f"{'pq'[time > 40]},{time}\n" for time in times))
    mapping = decode_mapping(
        'publisher = ["who"]\ntime = { column = "at", format = "epoch_s" }\n'
        '[columns]\nwho = "string"\nat = "integer"',
        "m.toml",
    )
    kept = publications(spark_rows(spark, [file], mapping, "m.toml"))
    rows = kept.orderBy("publisher", "sequence").collect()
    for who, of_it in (("p", [at for at in times if at <= 40]), ("q", list(range(41, 51)))):
        found = [row for row in rows if row["publisher"] == who]
        assert [row["sequence"] for row in found] == list(range(len(found)))
        seen = [row["attributes"].at for row in found]
        assert seen == sorted(seen)
        assert set(seen) == set(of_it)
    assert len(rows) == 300


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[derived]", "[derive]"), "derive: unknown key; did you mean derived"),
        (
            ('share = "double"', 'share = "float"'),
            "columns.share: 'float' is no type; use one of st",
        ),
        (('"site", "unit"', '"town"'), "publisher: 'town' is not among the columns; they are site"),
        (('"count", "share"', '"shore"'), "publish: 'shore' is neither a column nor derived"),
        (("required", "needed"), "columns.count.needed: unknown key; known here: type, co"),
        (('column = "at", ', ""), "time: give either `column` or `expression`"),
        (("doubled = {", "open = {"), "derived: 'open' is the name of a column too"),
        (('separator = "/"', "separator = "), "sites.toml: "),
        (('separator = "/"', 'delimiter = "||"'), "delimiter: '||' is not one character"),
    ],
)
def test_a_wrong_mapping_names_the_key(change: tuple[str, str], message: str) -> None:
    assert change[0] in MAPPING
    with pytest.raises(MappingError, match=message.replace("||", r"\|\|")):
        decode_mapping(MAPPING.replace(*change), "sites.toml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("try_multiply(share, 2)", "shore * 2"), "sites.toml: derived.doubled: .*shore"),
        (("try_multiply(share, 2)", "share *"), "sites.toml: derived.doubled: "),
        (('format = "yyyy-MM-dd HH:mm", ', ""), "time.format: column 'at' is text and needs one"),
        (('"yyyy-MM-dd HH:mm"', '"MMMMMM"'), "time.format: 'MMMMMM'"),
        (("Europe/Berlin", "Mars/Base"), "time.zone: 'Mars/Base'"),
    ],
)
def test_what_spark_does_not_accept_names_the_key(
    spark: SparkSession, tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    file = tmp_path / "sites.csv"
    file.write_text(LINES)
    mapping = decode_mapping(MAPPING.replace(*change), "sites.toml")
    with pytest.raises(MappingError, match=message):
        spark_rows(spark, [file], mapping, "sites.toml")


def test_no_step_passes_one_task_and_files_are_read_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "sites.csv"
    file.write_text(LINES)
    monkeypatch.setattr(splits, "SPLIT_BYTES", 64)
    mapping = decode_mapping(MAPPING, "sites.toml")
    source = open_source([file], mapping.file_columns)
    parsed = parse_rows(spark, source, mapping, "sites.toml").persist()
    try:
        rows = numbered_rows(parsed, source)
        assert rows.count() == 8
        for table in (publications(rows), rejects(rows), repeats(rows)):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                table.explain("formatted")
            plan = printed.getvalue()
            assert "SinglePartition" not in plan
            # The files are behind what is persisted.
            assert plan.count("InMemoryTableScan\n") >= 1
            assert "MapInArrow" not in plan.partition("InMemoryRelation")[0]
    finally:
        parsed.unpersist()
