"""Small Parquet files need no Spark, and give Spark's results."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from shoal.frames.parquet_folders import NO_VALUE
from shoal.pipeline.ingest import ingest_mapped, ingest_small
from shoal.pipeline.sources.headers import SourceError
from tests.examples import at_length
from tests.pipeline.small.test_small_files import tables
from tests.pipeline.sources.parsing import parse_files

MAPPING = """\
publisher = ["site", "unit"]
time = { column = "at", format = ["iso8601", "dd.MM.yyyy HH:mm"] }
null_values = ["NA"]
decimal = ","
[columns]
site = "string"
unit = "integer"
price = { type = "double", required = true }
cents = { type = "integer", column = "price" }
whole = "integer"
calm = "boolean"
"place.lat" = "double"
"place.deep.lon" = "double"
typed = "double"
small = "double"
kind = "string"
"""
TIMES = [dt.datetime(2026, 1, 1, 3, 4, 5, 250_000), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)]
PLACES: list[Any] = [
    {"lat": 48.5, "deep": {"lon": 2.0}},
    {"lat": float("nan"), "deep": None},
    None,
    {"lat": None, "deep": {"lon": -1.0}},
    {"lat": 1.0, "deep": {"lon": 0.0}},
]
COLUMNS: dict[str, pa.Array] = {
    "site": pa.array(["a", "b", "NA", None, "a"]).dictionary_encode(),
    "unit": pa.array([1, 2, 3, 4, 1], pa.int16()),
    "price": pa.array([Decimal(each) for each in ("1.00", "12.50", "3.00", "4.00", "1.00")]),
    "whole": pa.array([1.0, 1.5, 2.0**63, float("nan"), -3.0]),
    "calm": pa.array([True, False, None, True, True]),
    "place": pa.array(PLACES),
    "typed": pa.array(["1,5", "NA", "2.5", "x", "-,5e1"]),
    "small": pa.array([1.5, None, 0.0, float("nan"), 0.25], pa.float32()),
    "kind": pa.array(["x", "", "y", "z", "x"], pa.large_string()),
    "unused": pa.array([[1], [], None, [2], [3]]),
}


def write(folder: Path, times: pa.Array) -> tuple[Path, Path]:
    mapping, data = folder / "sites.toml", folder / "sites.parquet"
    mapping.write_text(MAPPING)
    pq.write_table(pa.table(COLUMNS | {"at": times}), data, row_group_size=2)
    return mapping, data


def without_text(folder: Path) -> dict[str, Any]:
    """Rows as JSON have no other form than each writer's own."""
    found = tables(folder)
    for name in ("rejects", "repeats"):
        for row in found[name]:
            del row["text"]
    return found


TEXTS = ["2026-01-31T18:05+01:00", "31.01.2026 17:05", "31/01/2026", "NA", "2026-01-31"]


@pytest.mark.parametrize(
    "times",
    [
        pa.array([*TIMES, None, TIMES[0], TIMES[1]], pa.timestamp("ns")),
        *at_length([pa.array(TEXTS)]),
        *at_length([pa.array([*TIMES, None, TIMES[0], TIMES[1]], pa.timestamp("us", "UTC"))]),
        *at_length([pa.array([each.date() for each in (*TIMES, *TIMES, TIMES[1])], pa.date32())]),
    ],
)
def test_both_make_the_same_of_every_type(
    spark: SparkSession, tmp_path: Path, times: pa.Array
) -> None:
    mapping, data = write(tmp_path, times)
    small = ingest_small(mapping, [data], tmp_path / "small")
    assert ingest_mapped(spark, mapping, [data], tmp_path / "spark") == small
    found = without_text(tmp_path / "small")
    assert found == without_text(tmp_path / "spark")
    assert (small.read, small.rejected) == (5, 3)
    values = {row["publisher"]: row["attributes"] for row in found["publications"]}
    assert values["a-1"]["typed"] in (1.5, -5)
    assert values["a-1"]["place.lat"] in (48.5, 1)


def test_fields_of_structs_and_formats_are_read_as_they_stand(tmp_path: Path) -> None:
    at = pa.array(["2026-01-31T18:05+01:00", *["31.01.2026 17:05"] * 4])
    _, data = write(tmp_path, at)
    rows = parse_files([data], MAPPING)
    assert list(rows[0]["columns"].values())[-5:] == [48.5, 2.0, 1.5, 1.5, "x"]
    assert rows[0]["time_us"] == rows[4]["time_us"] == 1_769_879_100_000_000
    assert rows[1]["reason"] == "column 'price': '12.50' is not an integer of 64 bits; " + (
        "column 'whole': '1.5' is not an integer of 64 bits"
    )


def test_everything_is_a_text_if_that_is_declared_and_lists_are_refused(tmp_path: Path) -> None:
    _, data = write(tmp_path, pa.array([*TIMES, *TIMES, TIMES[0]]))
    for column, texts in (
        ("at", ["2026-01-01 03:04:05.25", "1969-12-31 23:59:59.999999"]),
        ("price", ["1.00", "12.50"]),
        ("small", ["1.5", None]),
        ("whole", ["1.0", "1.5"]),
        ("calm", ["true", "false"]),
    ):
        rule = f'[columns]\nasked = {{ type = "string", column = "{column}" }}'
        rows = parse_files([data], MAPPING.replace("[columns]", rule))
        assert [row["columns"]["asked"] for row in rows[:2]] == texts
    text = MAPPING.replace("[columns]", '[columns]\nunused = "string"')
    with pytest.raises(SourceError, match="column 'unused' is list"):
        parse_files([data], text)


def test_a_time_is_a_number_of_seconds_if_that_is_declared(tmp_path: Path) -> None:
    times = [dt.datetime(1969, 12, 31, 23, 59, 58, 500_000), dt.datetime(1500, 1, 1), None]
    _, data = write(tmp_path, pa.array([*times, *times[:2]], pa.timestamp("ms", "UTC")))
    rule = '[columns]\nwhole_s = { type = "integer", column = "at" }\n'
    rule += 's = { type = "double", column = "at" }'
    rows = parse_files([data], MAPPING.replace("[columns]", rule))
    found = [(row["columns"]["whole_s"], row["columns"]["s"]) for row in rows[:3]]
    assert found == [(-2, -1.5), (-14_831_769_600, -14_831_769_600.0), (None, None)]


def test_a_folder_is_one_table(tmp_path: Path) -> None:
    mapping = tmp_path / "m.toml"
    mapping.write_text(
        'publisher = ["site"]\ntime = { column = "at", format = "epoch_s" }\n'
        '[columns]\nsite = "string"\n'
    )
    for site in ("kiel", "bonn"):
        pq.write_table(pa.table({"site": [site], "at": [1]}), tmp_path / f"{site}.parquet")
    parts = [tmp_path / "kiel.parquet", tmp_path / "bonn.parquet"]
    folder = tmp_path / "plain"
    folder.mkdir()
    for part in parts:
        part.rename(folder / part.name)
    counts = ingest_small(mapping, [folder], tmp_path / "a")
    assert (counts.kept, counts.publishers) == (2, 2)


# What a folder is called, and the text that its column has.
FOLDERS = {
    "code=01001": "01001", "code=02002": "02002", "code=1e5": "1e5", "code=K%C3%B6ln": "Köln",
    "code=a%2Fb": "a/b", "code=a b+c": "a b+c", "code=50%": "50%", "code=Köln=3": "Köln=3",
    "code=2026-01-31": "2026-01-31", f"code={NO_VALUE}": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("folders", "wanted"),
    [(FOLDERS, {*FOLDERS.values()} - {None}),
     *at_length([({"code=01001": "", "code=2": ""}, {"01001", "2"})]),
     *at_length([({"code=2026-01-31": "", "code=2026-02-01": ""}, {"2026-01-31", "2026-02-01"})])],
)  # fmt: skip
@pytest.mark.soak
def test_the_names_of_folders_are_texts(
    spark: SparkSession, tmp_path: Path, folders: dict[str, str], wanted: set[str]
) -> None:
    mapping = tmp_path / "m.toml"
    mapping.write_text(
        'publisher = ["code"]\ntime = { column = "at", format = "epoch_s" }\n'
        '[columns]\ncode = "string"\n"stra\u00dfe" = "integer"\n',
        encoding="utf-8",
    )
    for name in folders:
        folder = tmp_path / "x=1" / "by" / name / "stra%C3%9Fe=007"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"at": [1]}), folder / "part.parquet")
    data = tmp_path / "x=1" / "by"
    small = ingest_small(mapping, [data], tmp_path / "small")
    assert small == ingest_mapped(spark, mapping, [data], tmp_path / "spark")
    assert without_text(tmp_path / "small") == without_text(tmp_path / "spark")
    rows = tables(tmp_path / "small")["publications"]
    assert {row["publisher"] for row in rows} == wanted
    assert all(row["attributes"] == {"code": row["publisher"], "straße": 7} for row in rows)
    with pytest.raises(SourceError, match=r"no column 'other'; the table has 'at', 'code'"):
        parse_files([data], OTHER)


OTHER = 'publisher = ["other"]\ntime.column = "at"\n[columns]\nother = "string"\n'


@pytest.mark.soak
def test_a_day_that_is_a_folder_is_a_time(spark: SparkSession, tmp_path: Path) -> None:
    mapping, data = tmp_path / "m.toml", tmp_path / "days"
    mapping.write_text(
        'publisher = ["site"]\ntime.column = "day"\n[columns]\nsite = "string"\nday = "string"\n'
    )
    for day in ("1970-01-01", "1970-01-02"):
        (data / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"site": [day]}), data / f"day={day}" / "part.parquet")
    small = ingest_small(mapping, [data], tmp_path / "small")
    assert small == ingest_mapped(spark, mapping, [data], tmp_path / "out")
    rows = tables(tmp_path / "out")["publications"]
    assert rows == tables(tmp_path / "small")["publications"]
    assert [(r["time_us"], r["attributes"]["day"]) for r in rows] == [
        (0, "1970-01-01"), (86_400_000_000, "1970-01-02")
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["groups.parquet", "header.csv", *at_length(["empty.parquet", "empty.jsonl"])]
)
def test_a_file_without_rows_gives_empty_tables(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    mapping, data = tmp_path / "m.toml", tmp_path / name
    mapping.write_text(
        'publisher = ["site"]\ntime = { column = "at", format = "epoch_s" }\n'
        '[columns]\nsite = "string"\nwind = "double"\n'
    )
    kind = pa.schema({"at": pa.int64(), "site": pa.string(), "wind": pa.float64()})
    if name == "empty.parquet":
        pq.ParquetWriter(data, kind).close()
    elif name == "groups.parquet":
        pq.write_table(kind.empty_table(), data)
    else:
        data.write_text("at,site,wind\n" if name.endswith("csv") else "")
    small = ingest_small(mapping, [data], tmp_path / "small")
    assert small == ingest_mapped(spark, mapping, [data], tmp_path / "spark")
    found = tables(tmp_path / "small")
    assert found == tables(tmp_path / "spark")
    assert (small.read, found["publications"]) == (0, [])
