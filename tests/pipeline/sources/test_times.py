"""What a declaration's `zone` is for: times that do not tell theirs, and no others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from shoal.frames.reading import read_table_file
from shoal.pipeline.ingest import IngestCounts, ingest_mapped, ingest_small
from shoal.pipeline.sources.declaration import decode_mapping
from shoal.pipeline.sources.small.files import parse_files
from tests.examples import at_length

MAPPING = """\
publisher = ["site"]
time = { column = "at", %s }
[columns]
site = "string"
"""
MIDNIGHT_UTC = datetime(2026, 7, 1, tzinfo=UTC)


def moments(folder: Path, counts: IngestCounts) -> list[str]:
    """The times of the publications, by their publishers' names; none was rejected."""
    assert counts.rejected == 0, counts.reasons
    rows = read_table_file(folder / "publications.parquet", inside="").to_pylist()
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    rows.sort(key=lambda row: row["publisher"])
    return [
        (epoch + timedelta(microseconds=row["time_us"])).strftime("%H:%M:%S.%f") for row in rows
    ]


ISO_8601 = (
    "iso8601",
    ["2026-07-01T02:00", "2026-07-01 02:00:00.5Z", "2026-07-01T02:00:00.123456789+01:30"],
    ["00:00:00.000000", "02:00:00.500000", "00:30:00.123456"],
)


@pytest.mark.parametrize(
    ("format", "times", "expected"),
    [
        (
            "yyyy-MM-dd'T'HH:mm[:ss][XXX]",
            [
                "2026-07-01T02:00",
                "2026-07-01T02:00:03",
                "2026-07-01T02:00Z",
                "2026-07-01T02:00:03Z",
            ],
            ["00:00:00.000000", "00:00:03.000000", "02:00:00.000000", "02:00:03.000000"],
        ),
        *at_length([ISO_8601]),
        *at_length([("yyyy-MM-dd' XXX 'HH:mm", ["2026-07-01 XXX 02:00"], ["00:00:00.000000"])]),
        *at_length([("epoch_s", [str(int(MIDNIGHT_UTC.timestamp()))], ["00:00:00.000000"])]),
        *at_length([("yyyy-MM-dd HH:mm", ["2026-07-01 02:00"], ["00:00:00.000000"])]),
        *at_length([("yyyy-MM-dd HH:mmXXX", ["2026-07-01 02:00-05:00"], ["07:00:00.000000"])]),
    ],
)
def test_a_text_that_tells_its_zone_keeps_it(
    spark: SparkSession, tmp_path: Path, format: str, times: list[str], expected: list[str]
) -> None:
    mapping, data = tmp_path / "m.toml", tmp_path / "data.csv"
    mapping.write_text(MAPPING % f'format = "{format}", zone = "Europe/Berlin"')
    data.write_text("at,site\n" + "".join(f"{time},s{at}\n" for at, time in enumerate(times)))
    counts = ingest_mapped(spark, mapping, [data], tmp_path / "out")
    assert moments(tmp_path / "out", counts) == expected


@pytest.mark.parametrize("unit", ["ns", *at_length(["us", "ms"])])
def test_a_parquet_time_with_a_zone_keeps_it_and_one_without_has_the_declared(
    spark: SparkSession, tmp_path: Path, unit: str
) -> None:
    mapping = tmp_path / "m.toml"
    mapping.write_text(MAPPING % 'zone = "Europe/Berlin"')
    paris = datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    for name, kind, moment in (
        ("zoned", pa.timestamp(unit, "Europe/Paris"), paris),
        ("naive", pa.timestamp(unit), datetime(2026, 7, 1, 12)),
        ("date", pa.date32(), MIDNIGHT_UTC.date()),
    ):
        file = tmp_path / f"{name}.parquet"
        table = pa.table({"at": pa.array([moment], kind), "site": [name]})
        pq.write_table(table, file)
        counts = ingest_mapped(spark, mapping, [file], tmp_path / name)
        expected = "22:00:00.000000" if name == "date" else "10:00:00.000000"
        assert moments(tmp_path / name, counts) == [expected], name


ISO = {
    "2026-07-01": "00:00:00.000000",
    "2026-07-01T01": None,
    "2026-07-01T01:02": "01:02:00.000000",
    "2026-07-01 01:02:03": "01:02:03.000000",
    "2026-07-01T01:02:03.000004Z": "01:02:03.000004",
    "2026-07-01T01:02:03.1234567z": None,
    "2026-07-01T01:02:03+01": "00:02:03.000000",
    "2026-07-01T01:02:03+0130": "23:32:03.000000",
    "2026-07-01T01:02:03-01:30": "02:32:03.000000",
    "2026-07-01T01:02:03.": None,
    "2026-07-01T24:00:00": None,
    "2026-02-30": None,
    "2026-07-01T01:02:60Z": None,
    " 2026-07-01": None,
    "01:02:03": None,
    "2026-07-01T01:02:03+19:00": None,
    "yesterday": None,
}


def test_both_read_the_same_of_iso_8601(spark: SparkSession, tmp_path: Path) -> None:
    mapping, data = tmp_path / "m.toml", tmp_path / "data.csv"
    mapping.write_text(MAPPING % 'format = "iso8601"')
    data.write_text("at,site\n" + "".join(f"{time},s{at}\n" for at, time in enumerate(ISO)))
    small = ingest_small(mapping, [data], tmp_path / "small")
    assert small == ingest_mapped(spark, mapping, [data], tmp_path / "spark")
    found: dict[str, str | None] = dict.fromkeys(ISO)
    texts = list(ISO)
    for each in ("small", "spark"):
        rows = read_table_file(tmp_path / each / "publications.parquet", inside="").to_pylist()
        for row in rows:
            moment = datetime(1970, 1, 1) + timedelta(microseconds=row["time_us"])
            found[texts[int(row["publisher"][1:])]] = moment.strftime("%H:%M:%S.%f")
        assert found == ISO, each
    rejects = read_table_file(tmp_path / "small" / "rejects.parquet", inside="").to_pylist()
    assert rejects[0]["reason"] == (
        "time column 'at': '2026-07-01T01' is not a time of the form iso8601"
    )


def test_small_files_of_iso_8601_need_no_spark(tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    data.write_text("at,site\n2026-07-01T01:02:03Z,s\n")
    (row,) = parse_files([data], decode_mapping(MAPPING % 'format = "iso8601"', "m.toml"))
    assert (row.reason, row.time_us) == ("", 1_782_867_723_000_000)
