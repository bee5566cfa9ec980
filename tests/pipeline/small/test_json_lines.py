"""JSON lines are a source like CSV: the same values with Spark and without."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from shoal.cli.main import main
from shoal.frames.reading import read_table_file
from shoal.pipeline.ingest import ingest_mapped, ingest_small
from shoal.pipeline.sources.headers import NOT_UTF_8, SourceError
from shoal.pipeline.sources.json_lines import NOT_JSON
from tests.pipeline.small.test_small_files import tables

MAPPING = """\
publisher = ["site"]
time = { column = "at", format = "iso8601" }
null_values = ["NA"]
[columns]
site = "string"
wind = { type = "double", required = true }
gusts = "integer"
calm = "boolean"
note = "string"
"position.lat" = "double"
"position.deep.lon" = "double"
"""
AT = '"site": "kiel", "at": "2026-01-01T00:00:00Z"'
LATER = '"site": "kiel", "at": "2026-01-01T00:00:01.5+00:00"'
NO_GUSTS = "column 'gusts': '[null, {\"a\": null}]' is not an integer of 64 bits"
# Every oddity that a line can have, and the reason of its rejection, if any.
LINES = [
    (f'{{{AT}, "wind": 2.50, "gusts": 7, "calm": true, "note": "a, b"}}', ""),
    (f'{{{AT}, "wind": 2.50, "gusts": 7, "calm": true, "note": "a, b", "unused": []}}', ""),
    (f'  {{"wind":"3.5",{AT},"gusts":"-7","calm":"no","note":5.10}}  ', ""),
    (f'{{{LATER}, "wind": 1e3, "gusts": null, "note": ""}}', ""),
    (f'{{{LATER}, "wind": 1, "calm": "NA", "note": "say \\"it\\" \\u00fc\\n"}}', ""),
    (f'{{{LATER}, "wind": 1, "note": {{"a": [1, "x"]}}}}', ""),
    (f'{{{LATER}, "wind": 1, "position": {{"lat": 54.30, "deep": {{"lon": 10}}}}}}', ""),
    (f'{{{LATER}, "wind": 1, "position.lat": 1, "position": {{"lat": 2}}}}', ""),
    (f'{{{LATER}, "wind": 1, "position": "here"}}', ""),
    (f'{{{LATER}, "wind": 2, "gusts": NaN, "note": "NaN"}}', ""),
    (f'{{{LATER}, "wind": 1, "wind": 4}}', ""),
    (f'{{{AT}, "wind": NaN}}', "column 'wind' is missing"),
    (f'{{{AT}, "wind": -Infinity}}', "column 'wind': '-Infinity' is not a number"),
    (f'{{{AT}, "wind": [1, 2]}}', "column 'wind': '[1, 2]' is not a number"),
    (
        f'{{{AT}, "wind": true, "gusts": 7.0}}',
        "column 'wind': 'true' is not a number; column 'gusts': '7.0' is not an integer of 64 bits",
    ),
    (f"{{{AT}}}", "column 'wind' is missing"),
    ("{}", "column 'site' is missing; column 'wind' is missing; time column 'at' is missing"),
    (f"{{{AT}, \"wind\": 'x'}}", "column 'wind': ''x'' is not a number"),
    (f'{{{LATER}, "wind": 3, "gusts": nan, "note": "\\ud83d"}}', ""),
    (f'{{{LATER}, "wind": 4, "\\ud83d": -NaN, "gusts": , "note": "a\tb \\ud83d\\ude00"}}\0', ""),
    (f'{{{LATER}, "wind": 5, "unused": 1e400, "gusts": [NaN, {{"a": nan}}]}}', NO_GUSTS),
    (f'{{{AT}, "wind": 1e400}}', "column 'wind': '1e400' is not a number"),
    (f'{{{LATER}, "wind": 6, "position.deep": {{"lon": 3}}, "position": {{"deep.lon": 4}}}}', ""),
    (f'{{{LATER}, "wind": 7, "position.lat": null, "position": {{"lat": 8}}}}', ""),
    (f"{{{AT}, wind: 1}}", NOT_JSON),
    (f'{{{AT}, "wind": 1', NOT_JSON),
    (f'{{{AT}, "wind": 1}} {{}}', NOT_JSON),
    (f'[{{{AT}, "wind": 1}}]', NOT_JSON),
    ("at,site,wind", NOT_JSON),
    ("7", NOT_JSON),
    ("null", NOT_JSON),
    ("", ""),
    ("   ", ""),
]


def write(folder: Path) -> tuple[Path, Path]:
    mapping, data = folder / "sites.toml", folder / "sites.jsonl"
    mapping.write_text(MAPPING)
    text = "\ufeff" + "\r\n".join(line for line, _ in LINES) + "\n"
    latin = f'{{{AT}, "wind": 1, "note": "gr\u00fc\u00dfe"}}'.encode("latin-1")
    data.write_bytes(text.encode() + latin)
    return mapping, data


def test_both_make_the_same_of_every_oddity(spark: SparkSession, tmp_path: Path) -> None:
    mapping, data = write(tmp_path)
    small = ingest_small(mapping, [data], tmp_path / "small")
    found = tables(tmp_path / "small")
    expected = {line: reason for line, (_, reason) in enumerate(LINES, 1) if reason}
    assert {row["line"]: row["reason"] for row in found["rejects"]} == expected | {
        len(LINES) + 1: NOT_UTF_8
    }
    rows = [row["attributes"] for row in found["publications"]]
    assert [row["wind"] for row in rows] == [2.5, 2.5, 3.5, 1000, 1, 1, 1, 1, 1, 2, 4, 3, 4, 6, 7]
    assert rows[2] | {"gusts": -7, "calm": False, "note": "5.10"} == rows[2]
    assert [row["note"] for row in rows[3:6]] == [None, 'say "it" \u00fc\n', '{"a": [1, "x"]}']
    assert [row["position.lat"] for row in rows[6:9]] == [54.3, 1, None]
    assert rows[6]["position.deep.lon"] == 10
    assert (rows[9]["gusts"], rows[9]["note"]) == (None, "NaN")
    assert [(row["gusts"], row["note"]) for row in rows[11:13]] == [
        (None, None), (None, "a\tb \U0001f600")
    ]  # fmt: skip
    assert [(row["position.deep.lon"], row["position.lat"]) for row in rows[13:]] == [
        (3, None), (None, 8)
    ]  # fmt: skip
    assert [row["line"] for row in found["repeats"]] == [2]
    assert small.absent == []
    assert ingest_mapped(spark, mapping, [data], tmp_path / "spark") == small
    assert tables(tmp_path / "spark") == found


def test_what_pandas_and_python_write_is_read(tmp_path: Path) -> None:
    mapping = tmp_path / "m.toml"
    mapping.write_text(MAPPING.replace("iso8601", "epoch_ms"))
    frame = pd.DataFrame(
        {"site": ["kiel"], "at": [pd.Timestamp("2026-01-01", tz="UTC")], "wind": [1.5]}
    )
    frame.to_json(tmp_path / "pandas.jsonl", orient="records", lines=True)
    with gzip.open(tmp_path / "python.jsonl.gz", "wt") as packed:
        packed.write(json.dumps({"site": "kiel", "at": 1_767_225_600_000, "wind": float("nan")}))
    files = [tmp_path / "pandas.jsonl", tmp_path / "python.jsonl.gz"]
    counts = ingest_small(mapping, files, tmp_path / "out")
    assert (counts.kept, counts.reasons) == (1, {"column 'wind' is missing": 1})
    (row,) = read_table_file(tmp_path / "out" / "publications.parquet", inside="").to_pylist()
    assert row["time_us"] == 1_767_225_600_000_000
    assert counts.absent == ["gusts", "calm", "note", "position.lat", "position.deep.lon"]


def test_a_list_over_many_lines_is_refused_with_a_remedy(tmp_path: Path) -> None:
    mapping, _ = write(tmp_path)
    data = tmp_path / "list.json"
    data.write_text('\ufeff [\n  {"site": "kiel"}\n]\n')
    with pytest.raises(SourceError, match=r"list\.json: is one JSON list; .* \(jq -c '\.\[\]'"):
        ingest_small(mapping, [data], tmp_path / "out")


def test_a_line_nested_without_end_is_a_reject(tmp_path: Path) -> None:
    mapping, _ = write(tmp_path)
    data = tmp_path / "deep.jsonl"
    data.write_text('{"position": ' + "[" * 100_000 + "}\n")
    counts = ingest_small(mapping, [data], tmp_path / "out")
    assert counts.reasons == {NOT_JSON: 1}


def test_the_command_names_attributes_that_nobody_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mapping, data = tmp_path / "m.toml", tmp_path / "sites.ndjson"
    mapping.write_text(MAPPING)
    data.write_text(f'{{{AT}, "wind": 2, "gust": 7, "calm": true, "note": "x"}}\n')
    with pytest.raises(SystemExit) as ended:
        main(["ingest", str(mapping), str(data), "--out", str(tmp_path / "out")])
    assert not ended.value.code
    said = capsys.readouterr().err
    assert "warning: no publication has 'gusts', 'position.lat', 'position.deep.lon'" in said
