"""Small files need no Spark, and give Spark's results."""

from __future__ import annotations

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
from shoal.pipeline.sources.declaration import decode_mapping
from shoal.pipeline.sources.small import files as small_files
from shoal.pipeline.sources.small.files import parse_files
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
    ("changed", "line"),
    [
        ('[derived]\nhalf = { type = "double", expression = "1 / wind" }\n', ""),
        ("format = \"yyyy-MM-dd'T'HH:mm:ssXXX\"", ""),
        ('format = "HH:mm"', ""),
        ('zone = "Europe/Berlin"', ""),
        ("", 'kiel,1,2026-01-01 00:00,1,1,0,a "quoted" word,'),
    ],
)
def test_what_only_spark_reads_is_left_to_it(tmp_path: Path, changed: str, line: str) -> None:
    text = MAPPING % "yyyy-MM-dd HH:mm"
    if changed.startswith("format"):
        text = text.replace('format = "yyyy-MM-dd HH:mm"', changed)
    elif changed.startswith("zone"):
        text = text.replace(" }\nnull", f", {changed} }}\nnull")
    else:
        text += changed
    data = tmp_path / "sites.csv"
    data.write_text(HEADER + line)
    with pytest.raises(NeedsSparkError):
        list(parse_files([data], decode_mapping(text, "sites.toml")))


def test_the_command_needs_no_spark_and_says_repeats_and_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setattr(small_files, "MOST_BYTES", 10)
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
