"""A declaration's `zone` applies to times without a zone of their own only."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from shoal.frames.reading import read_table_file
from shoal.pipeline.ingest import IngestCounts, ingest_mapped, ingest_small
from tests.examples import at_length
from tests.pipeline.sources.parsing import parse_files

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


def test_formats_are_tried_in_order(spark: SparkSession, tmp_path: Path) -> None:
    mapping, data = tmp_path / "m.toml", tmp_path / "data.csv"
    mapping.write_text(MAPPING % 'format = ["d MMM yyyy", "iso8601", "d/M/yyyy H:mm", "epoch_s"]')
    times = ["1 Jul 2026", "2026-07-01T01:00", "1/7/2026 2:03", "1782867840.5"]
    data.write_text("at,site\n" + "".join(f"{time},s{at}\n" for at, time in enumerate(times)))
    counts = ingest_mapped(spark, mapping, [data], tmp_path / "out")
    clock = ["00:00:00.000000", "01:00:00.000000", "02:03:00.000000", "01:04:00.500000"]
    assert moments(tmp_path / "out", counts) == clock
    # A time of Parquet needs none of them.
    pq.write_table(pa.table({"at": [MIDNIGHT_UTC], "site": ["s"]}), tmp_path / "data.parquet")
    counts = ingest_mapped(spark, mapping, [tmp_path / "data.parquet"], tmp_path / "typed")
    assert moments(tmp_path / "typed", counts) == ["00:00:00.000000"]


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


# What `epoch_s` makes of a text, in microseconds.
SECONDS = {
    "1700000000.5": 1_700_000_000_500_000,
    "1700000001.0": 1_700_000_001_000_000,
    "1.7E9": 1_700_000_000_000_000,
    "1700000000": 1_700_000_000_000_000,
    "+17e8": 1_700_000_000_000_000,
    "1700000000.1234567": 1_700_000_000_123_456,
    "1700000000.1234569999999999": 1_700_000_000_123_456,
    "1700000000.12345699999999999999": 1_700_000_000_123_457,
    " 1700000000.25\t": 1_700_000_000_250_000,
    ".5": 500_000,
    "-1.5": -1_500_000,
    "-0.0000001": -1,
    "-0": 0,
    "9223372036854.775807": 2**63 - 1,
    "9223372036854.775808": None,
    "1e400": None,
    "1e-400": 0,
    "1e99999999999": None,
    "1,5": None,
    "NaN": None,
    "0x10": None,
    "1700000000.5s": None,
    "1.5.5": None,
}


def test_seconds_since_1970_may_have_a_fraction(spark: SparkSession, tmp_path: Path) -> None:
    lines = "".join(f'"{text}",s{at}\n' for at, text in enumerate(SECONDS))
    found = of_both(spark, tmp_path, "csv", lines, 'format = "epoch_s"')
    assert found == dict(enumerate(SECONDS.values()))


def test_parts_of_seconds_and_decimal_commas(spark: SparkSession, tmp_path: Path) -> None:
    lines = "1700000000500;5,s0\n1700000000500,s1\n".replace(",", "|").replace(";", ",")
    lines = lines.replace("|", ";")
    found = of_both(spark, tmp_path, "csv", lines, 'format = "epoch_ms"', SEMICOLONS)
    assert found == {0: 1_700_000_000_500_500, 1: 1_700_000_000_500_000}
    times = '{"at": 1700000000500000.9, "site": "s0"}\n{"at": "1.7e15", "site": "s1"}\n'
    found = of_both(spark, tmp_path, "jsonl", times, 'format = "epoch_us"')
    assert found == {0: 1_700_000_000_500_000, 1: 1_700_000_000_000_000}


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (pa.array([1700000000.5, 1700000000.123457, None]), ["0.500000", "0.123457"]),
        (pa.array([Decimal("1700000000.25"), Decimal("1700000000.00")]), ["0.250000", "0.000000"]),
        *at_length([(pa.array([1.5, 2.25], pa.float32()), ["1.500000", "2.250000"])]),
        *at_length([(pa.array([1700000000, 1700000001]), ["0.000000", "1.000000"])]),
    ],
)
def test_numbers_of_parquet_may_have_a_fraction(
    spark: SparkSession, tmp_path: Path, times: pa.Array, expected: list[str]
) -> None:
    found = of_both(spark, tmp_path, "parquet", times, 'format = "epoch_s"')
    assert [f"{us % 1_700_000_000_000_000 / 1e6:.6f}" for us in found.values() if us] == expected


SEMICOLONS = 'delimiter = ";"\ndecimal = ","\n'


def of_both(
    spark: SparkSession, folder: Path, ending: str, said: str | pa.Array, time: str, more: str = ""
) -> dict[int, int | None]:
    """What both engines make of the times of publishers s0, s1 and so on, in microseconds."""
    mapping, data = folder / "m.toml", folder / f"data.{ending}"
    mapping.write_text(more + MAPPING % time)
    if isinstance(said, str):
        header = ("at;site\n" if more else "at,site\n") if ending == "csv" else ""
        data.write_text(header + said)
    else:
        names = [f"s{at}" for at in range(len(said))]
        pq.write_table(pa.table({"at": said, "site": names}), data)
    out = folder / f"{ending}-out"
    small = ingest_small(mapping, [data], out / "small")
    assert small == ingest_mapped(spark, mapping, [data], out / "spark")
    found = []
    for each in ("small", "spark"):
        rows = read_table_file(out / each / "publications.parquet", inside="").to_pylist()
        found.append({int(row["publisher"][1:]): row["time_us"] for row in rows})
    assert found[0] == found[1]
    return {at: found[0].get(at) for at in range(small.read)}


def test_small_files_of_iso_8601_need_no_spark(tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    data.write_text("at,site\n2026-07-01T01:02:03Z,s\n")
    (row,) = parse_files([data], MAPPING % 'format = "iso8601"')
    assert (row["reason"], row["time_us"]) == (None, 1_782_867_723_000_000)
