"""Raw rows: numbered lines from many splits, broken lines marked, Parquet rows counted."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from shoal.cli.main import main
from shoal.pipeline.sources import splits
from shoal.pipeline.sources.declaration import decode_mapping
from shoal.pipeline.sources.headers import SourceError
from shoal.pipeline.sources.raw_rows import open_source
from tests.examples import at_length
from tests.pipeline.sources.parsing import parse_files, raw_rows, spark_rows

MAPPING = """
publisher = ["a"]
time = { column = "a", format = "epoch_s" }
columns = { a = "string" }
"""


def listed(rows: list[dict[str, Any]], *columns: str) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in columns) for row in rows]


@pytest.mark.parametrize("split_bytes", [150, *at_length([1, 10**6])])
def test_lines_are_numbered_through_the_splits_of_several_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split_bytes: int
) -> None:
    expected, files = [], []
    count = 4 if split_bytes == 1 else 30
    for number, name in enumerate(("first.csv", "with space + plus.csv", "zipped.csv.gz")):
        lines = ["a", *(f"{name} {line}" if line % 7 else "" for line in range(count + number))]
        text = ("\r\n" if number else "\n").join(lines).encode()
        file = tmp_path / name
        file.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        files.append(file)
        expected += [(str(file), n, line) for n, line in enumerate(lines, 1) if line and n > 1]
    monkeypatch.setattr(splits, "SPLIT_BYTES", split_bytes)
    assert listed(parse_files(files, MAPPING), "file", "line", "text") == expected
    # Each split is a task of Spark.
    monkeypatch.setattr(splits, "SPLIT_BYTES", max(split_bytes, 11))
    rows = spark_rows(spark, files, decode_mapping(MAPPING, "m.toml"), "m.toml")
    found = rows.select("file", "line", "text").orderBy("file", "line").collect()
    assert [tuple(row) for row in found] == expected


def test_broken_lines_are_marked_and_others_are_not(tmp_path: Path) -> None:
    file = tmp_path / "broken.csv"
    file.write_text('\ufeffa,b\n1,2\n\n"x, ""y""",\n1,2,3\nonly\n"two\nlines",2\n')
    rows = raw_rows(open_source([file], ["a", "b"]))
    quote, width = "unbalanced quote", "the number of columns is not the header's 2"
    assert listed(rows[:2], "line", "a", "b", "broken") == [
        (2, "1", "2", None),
        (4, 'x, "y"', "", None),
    ]
    reasons = {row["line"]: str(row["broken"]) for row in rows[2:]}
    assert reasons.keys() == {5, 6, 7, 8}
    assert reasons[5] == reasons[6] == width
    assert quote in reasons[7]
    assert quote in reasons[8]


def test_files_may_order_their_columns_differently(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a;b\n1;2\n")
    (tmp_path / "2.csv").write_text("b;junk;a;junk\n4;;3;\n")
    files = [tmp_path / "1.csv", tmp_path / "2.csv"]
    rows = raw_rows(open_source(files, ["a", "b"], delimiter=";"))
    assert listed(rows, "a", "b", "broken") == [("1", "2", None), ("3", "4", None)]


def test_rows_of_parquet_are_numbered_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "table.parquet"
    pq.write_table(pa.table({"i": range(5)}), file, row_group_size=2)
    monkeypatch.setattr(splits, "SPLIT_ROWS", 3)
    source = open_source([file], ["i"])
    assert [(split.start, split.end) for split in source.splits] == [(0, 2), (2, 3)]
    assert listed(raw_rows(source), "line", "i", "text")[1:3] == [
        (2, 1, '{"i":1}'),
        (3, 2, '{"i":2}'),
    ]
    text = MAPPING.replace('"a"', '"i"').replace("a =", "i =")
    assert [row["line"] for row in parse_files([file], text)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("a,c\n1,2\n", "no column 'b'; the header has 'a', 'c'"),
        ("a,b,a\n1,2,3\n", "has the column 'a' more than once"),
        ("", "line 1: there must be a header"),
    ],
)
def test_a_wrong_header_is_an_error(tmp_path: Path, header: str, message: str) -> None:
    file = tmp_path / "wrong.csv"
    file.write_text(header)
    with pytest.raises(SourceError, match=f"wrong.csv.*{message}"):
        open_source([file], ["a", "b"])


def test_missing_and_mixed_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"nowhere\.csv does not exist"):
        open_source([tmp_path / "nowhere.csv"], ["a"])
    with pytest.raises(SourceError, match="no input file"):
        open_source([], ["a"])
    (tmp_path / "a.csv").write_text("a\n")
    (tmp_path / "a.parquet").mkdir()
    with pytest.raises(SourceError, match="cannot be mixed"):
        open_source([tmp_path / "a.csv", tmp_path / "a.parquet"], ["a"])


@pytest.mark.parametrize("engine", ["auto", "spark"])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_packed_file_that_was_cut_off_is_named(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    ending: str,
    engine: str,
) -> None:
    mapping, data = tmp_path / "m.toml", tmp_path / f"cut.{ending}.gz"
    mapping.write_text(MAPPING)
    lines = [f'{{"a": {n}}}' if ending == "jsonl" else f"{n * 7919 % 10007}" for n in range(9_999)]
    packed = gzip.compress("\n".join(["a", *lines]).encode())
    data.write_bytes(packed[: len(packed) // 2])
    words = ["ingest", str(mapping), str(data), "--out", str(tmp_path / "out"), "--engine", engine]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    said = capsys.readouterr().err.strip()
    assert said == f"shoal: {data}: ends too early; it was cut off, or is still being written"
    assert not (tmp_path / "out").exists()
