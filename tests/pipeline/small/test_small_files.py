"""Small files need no Spark, and give Spark's results."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from shoal.cli.main import main
from shoal.frames.reading import read_table_file
from shoal.pipeline.ingest import ingest_mapped, ingest_small
from shoal.pipeline.small.tables import NeedsSparkError
from shoal.pipeline.sources import local_rows
from tests.examples import at_length

MAPPING = """\
publisher = ["site", "unit"]
time = { column = "at", format = "%s" }
null_values = ["NA"]
publish = ["wind", "gusts", "calm", "note"]
[columns]
site = "string"
unit = "integer"
wind = { type = "double", required = true }
gusts = "integer"
calm = "boolean"
note = { type = "string", column = "Notes, if any" }
"""
HEADER = 'site,unit,at,wind,gusts,calm,"Notes, if any",unused\n'
# Every oddity that a line can have; %s is a time.
LINES = [
    "kiel,1,%s,2.5,7,true,plain,x",
    "kiel,1,%s,2.5,7,true,plain,y",
    "kiel,1,%s,2.5,7,true,another,y",
    'kiel,+01,%s,-.5e1,-7,N,"a, b",x',
    'kiel,2,%s, 3. ,9223372036854775807,YES,"say ""it""",x',
    "kiel,2,%s,NaN,9223372036854775808,maybe,,",
    "kiel,2,%s,inf,1.0,1,NA,",
    "kiel,2,%s,1d,,t,,",
    "kiel,NA,%s,,NA,NA,NA,NA",
    ",1,%s,1,1,f,,",
    "kiel,1,,1,1,no,,",
    "kiel,1,NA,1,1,0,,",
    "kiel,1,yesterday,1,1,0,,",
    "kiel,1,%s,1,1,0,",
    "kiel,1,%s,1,1,0,,,",
    "",
    "   ",
    'kiel,1,%s,1,1,0,"over two',
    'lines",x',
    "kiel,1,%s,1e400,1,0,tab\there,\r",
    "kiel,1,%s,0,0,TRUE,gr\u00fc\u00dfe,",
    "it's,1,%s,'x',1,0,,",
]
FRACTIONS = ["2026-01-02T03:04:05.6", "2026-01-01T00:00:00.250"]
FORMATS = [
    ("yyyy-MM-dd HH:mm", ["2026-01-02 03:04", "2026-01-01 00:00"], "2026-02-30 00:00"),
    ("epoch_ms", ["1767225600000", " -1 "], "1.5.5"),
    *at_length([("yyyy-MM-dd'T'HH:mm:ss.SSS", FRACTIONS, "2026")]),
]


def write(folder: Path, format: str, times: list[str], wrong: str) -> tuple[Path, Path]:
    mapping, data = folder / "sites.toml", folder / "sites.csv"
    mapping.write_text(MAPPING % format, encoding="utf-8")
    texts = [line % times[0] if "%s" in line else line for line in LINES]
    texts += [LINES[0] % time for time in (times[1], wrong)]
    body = "\n".join(texts).encode()
    latin = f"kiel,1,{times[0]},1,1,0,gr\u00fc\u00dfe,".encode("latin-1")
    data.write_bytes(b"\xef\xbb\xbf" + HEADER.encode() + body + b"\n" + latin)
    return mapping, data


def tables(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: read_table_file(folder / f"{name}.parquet", inside="").to_pylist()
        for name in ("publications", "rejects", "repeats")
    }
    found["publications"].sort(key=lambda row: (row["publisher"], row["sequence"]))
    found["counts"] = json.loads((folder / "_ingest.json").read_text())
    return found


@pytest.mark.parametrize(("format", "times", "wrong"), FORMATS)
def test_both_make_the_same_of_every_oddity(
    spark: SparkSession, tmp_path: Path, format: str, times: list[str], wrong: str
) -> None:
    mapping, data = write(tmp_path, format, times, wrong)
    by_spark = ingest_mapped(spark, mapping, [data], tmp_path / "spark")
    small = ingest_small(mapping, [data], tmp_path / "small")
    assert tables(tmp_path / "small") == tables(tmp_path / "spark")
    assert small == by_spark
    assert (small.kept, small.repeated) == (7, 1)
    kinds = [
        pq.read_schema(next((tmp_path / each / "publications.parquet").glob("*.parquet")))
        for each in ("small", "spark")
    ]
    assert (kinds[0].names, kinds[0].types) == (kinds[1].names, kinds[1].types)


@pytest.mark.parametrize(
    "changed",
    [
        '[derived]\nhalf = { type = "double", expression = "1 / wind" }\n',
        "format = \"yyyy-MM-dd'T'HH:mm:ssXXX\"",
        'format = "HH:mm"',
        'expression = "timestamp_seconds(wind)"',
    ],
)
def test_what_only_spark_reads_is_left_to_it(tmp_path: Path, changed: str) -> None:
    text = MAPPING % "yyyy-MM-dd HH:mm"
    if changed.startswith("format"):
        text = text.replace('format = "yyyy-MM-dd HH:mm"', changed)
    elif changed.startswith("expression"):
        text = text.replace('column = "at", format = "yyyy-MM-dd HH:mm"', changed)
    else:
        text += changed
    data, mapping = tmp_path / "sites.csv", tmp_path / "sites.toml"
    data.write_text(HEADER)
    mapping.write_text(text)
    with pytest.raises(NeedsSparkError):
        ingest_small(mapping, [data], tmp_path / "out")


def test_zones_and_quotes_within_fields_need_no_spark(spark: SparkSession, tmp_path: Path) -> None:
    data, mapping = tmp_path / "sites.csv", tmp_path / "sites.toml"
    zone = 'format = "yyyy-MM-dd HH:mm", zone = "Europe/Berlin"'
    mapping.write_text((MAPPING % "F").replace('format = "F"', zone))
    # The last two are skipped by the clock, and shown twice.
    times = ["2026-01-01 00:00", "2026-07-01 00:00", "2026-03-29 02:30", "2026-10-25 02:30"]
    utc = [1_767_222_000, 1_782_856_800, 1_774_747_800, 1_792_888_200]
    notes = {'a "quoted" word': 'a "quoted" word', '"a""b"': 'a"b', '"a"b': '"a"b', '""': None}
    pairs = enumerate(zip(times, notes, strict=True))
    lines = [f"kiel,{at},{time},1,1,0,{note}," for at, (time, note) in pairs]
    data.write_text(HEADER + "\n".join(lines))
    small = ingest_small(mapping, [data], tmp_path / "small")
    assert small == ingest_mapped(spark, mapping, [data], tmp_path / "spark")
    found = tables(tmp_path / "small")
    assert found == tables(tmp_path / "spark")
    rows = [(row["time_us"], row["attributes"]["note"]) for row in found["publications"]]
    assert rows == list(zip([second * 1_000_000 for second in utc], notes.values(), strict=True))


def test_the_command_needs_no_spark_and_says_repeats_and_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    importlib.import_module("shoal.cli.matching.tables")  # would keep the name as patched
    monkeypatch.setattr("shoal.cli.support.spark.spark_command", None)
    mapping, data = write(tmp_path, *FORMATS[0])
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as ended:
        main(["ingest", str(mapping), str(data), "--out", str(out)])
    captured = capsys.readouterr()
    assert not ended.value.code
    assert "repeats kept      │  1" in captured.out
    assert "2 rows: the number of columns is not the header's 8" in captured.err
    assert "reasons not shown: " in captured.err
    assert captured.err.startswith("shoal: without Spark: the input is small\n")
    assert tables(out)["counts"]["reasons"]["not UTF-8 text (save the file as UTF-8)"] == 1
    assert f"rows repeat earlier ones exactly; which, and what they repeat: {out}" in captured.err
    (repeat,) = tables(out)["repeats"]
    assert (repeat["line"], repeat["first_line"], repeat["file"]) == (3, 2, str(data))
    monkeypatch.setattr(local_rows, "MOST_BYTES", 10)
    with pytest.raises(TypeError):  # it asks for Spark, which this test took away
        main(["ingest", str(mapping), str(data), "--out", str(tmp_path / "large")])


def test_both_read_decimal_commas_and_several_formats_of_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    mapping, data = tmp_path / "sites.toml", tmp_path / "sites.csv"
    mapping.write_text(
        'delimiter = ";"\ndecimal = ","\npublisher = ["site"]\n'
        'time = { column = "at", format = ["dd.MM.yyyy HH:mm", "iso8601", "epoch_s"] }\n'
        '[columns]\nsite = "string"\nwind = "double"\n'
    )
    lines = ["at;site;wind", "01.01.2026 00:00;k\u00f6ln;12,5", "2026-01-01;k\u00f6ln;-,5e1"]
    lines += ["1767225600;k\u00f6ln;7", "01.01.2026 00:00;k\u00f6ln;1.5", "1/1/26;k\u00f6ln;1,2,3"]
    data.write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8")
    small = ingest_small(mapping, [data], tmp_path / "small")
    assert small == ingest_mapped(spark, mapping, [data], tmp_path / "spark")
    found = tables(tmp_path / "small")
    assert found == tables(tmp_path / "spark")
    rows = [(row["time_us"], row["attributes"]["wind"]) for row in found["publications"]]
    assert rows == [(1_767_225_600_000_000, wind) for wind in (12.5, -5, 7)]
    reasons = [row["reason"] for row in found["rejects"]]
    assert reasons[0] == "column 'wind': '1.5' is not a number"
    assert reasons[1].endswith(
        "'1/1/26' is not a time of the form dd.MM.yyyy HH:mm or iso8601 or epoch_s"
    )


def test_both_find_the_same_repeats(spark: SparkSession, tmp_path: Path) -> None:
    mapping = tmp_path / "m.toml"
    mapping.write_text(
        'publisher = ["site"]\ntime = { column = "at", format = "epoch_s" }\n'
        '[columns]\nsite = "string"\n"a.b" = "double"\nnote = "string"\n'
    )
    rows = ["k,1,0,x", "k,1,-0,x", "k,1,0,", "k,1,,x", "k,1,,", "k,1,,x", "l,1,0,x", "k,2,0,x"]
    for name in ("b.csv", "a.csv"):
        (tmp_path / name).write_text("site,at,a.b,note\n" + "\n".join(rows) + "\n")
    files = [tmp_path / "b.csv", tmp_path / "a.csv"]
    small = ingest_small(mapping, files, tmp_path / "small")
    assert small == ingest_mapped(spark, mapping, files, tmp_path / "spark")
    found = tables(tmp_path / "small")
    assert found == tables(tmp_path / "spark")
    repeats = [
        (Path(row["file"]).name, row["line"], Path(row["first_file"]).name, row["first_line"])
        for row in found["repeats"]
    ]
    again = [2, 2, 4, 5, 6, 5, 8, 9]
    assert repeats == [
        *(("a.csv", line, "a.csv", first) for line, first in ((3, 2), (7, 5))),
        *(("b.csv", line, "a.csv", first) for line, first in enumerate(again, 2)),
    ]


NAMES = ("file", "line", "text", "reason", "columns", "publisher", "time_us", "event_time", "split")


@pytest.mark.soak
def test_attributes_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    mapping, data = tmp_path / "m.toml", tmp_path / "data.csv"
    names = "".join(f'{name} = "string"\n' for name in NAMES)
    text = 'publisher = ["text"]\ntime = { column = "line", format = "epoch_s" }\n[columns]\n'
    mapping.write_text(text + names)
    data.write_text(",".join(NAMES) + "\n" + ",".join(str(at) for at in range(len(NAMES))))
    small = ingest_small(mapping, [data], tmp_path / "small")
    assert small == ingest_mapped(spark, mapping, [data], tmp_path / "spark")
    found = tables(tmp_path / "small")
    assert found == tables(tmp_path / "spark")
    (row,) = found["publications"]
    assert (row["publisher"], row["time_us"]) == ("2", 1_000_000)
    assert row["attributes"] == {name: str(at) for at, name in enumerate(NAMES)}
    mapping.write_text(
        text + 'text = "string"\n[derived]\n'
        'time_us = { type = "integer", expression = "unix_micros(event_time) + 1" }\n'
        'event_time = { type = "string", expression = "text" }\n'
    )
    ingest_mapped(spark, mapping, [data], tmp_path / "derived")
    (row,) = tables(tmp_path / "derived")["publications"]
    assert row["attributes"] == {"text": "2", "time_us": 1_000_001, "event_time": "2"}
    assert row["time_us"] == 1_000_000
