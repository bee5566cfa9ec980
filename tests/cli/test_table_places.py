"""Commands that read and write places: URIs `file:`, and by Spark tables of its catalog."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.cli.main import main
from shoal.cli.support.table_places import output_folder

MAPPING = """\
publisher = ["site"]
time = { column = "at", format = "epoch_s" }
[columns]
site = "string"
wind = "double"
"""
FILTERS = '{"id": "windy", "filter": "wind > 3"}\n'


def run(*words: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in words])
    assert not ended.value.code


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in words])
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_every_step_takes_file_uris(tmp_path: Path) -> None:
    place = tmp_path / "a place"
    place.mkdir()
    (place / "m.toml").write_text(MAPPING)
    rows = "".join(f"s{n % 2},{1000 + n},{n % 9}.5\n" for n in range(40))
    (place / "sites.csv").write_text(f"site,at,wind\n{rows}")
    (place / "mine.jsonl").write_text(FILTERS)

    def uri(name: str) -> str:
        return (place / name).as_uri()

    run("ingest", place / "m.toml", uri("sites.csv"), "--out", uri("ingested"))
    words = ("--brokers", 2, "--subscriptions", uri("mine.jsonl"), "--duration-s", 30)
    run("workload", uri("ingested"), *words, "--out", uri("workload"))
    run("truth", uri("workload"), "--out", uri("truth"))
    expected = sum(n % 9 + 0.5 > 3 for n in range(40))
    assert pq.read_table(place / "truth").num_rows == expected
    given = ("--subscriptions", uri("mine.jsonl"), "--publications", uri("ingested"))
    run("match", *given, "--out", uri("pairs"))
    assert pq.read_table(place / "pairs").num_rows == expected


def test_other_places_are_named_where_they_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filters = tmp_path / "s.jsonl"
    filters.write_text(FILTERS)
    given = ("match", "--subscriptions", filters, "--publications")
    others = "other URIs, and tables of Spark's catalog, need --engine spark"
    for words in (
        given,
        ("truth", "--out", tmp_path / "t"),
        ("workload", "--brokers", 2, "--out", "w"),
    ):
        for place in ("lake://winds/p", "lake.db.p"):
            assert f"{place} does not exist; {others}" in refused(capsys, *words, place)
    pq.write_table(pa.table({"id": ["p"], "wind": [4.0]}), tmp_path / "p.parquet")
    said = refused(capsys, *given, tmp_path / "p.parquet", "--out", "lake.db.pairs")
    assert f"lake.db.pairs: {others}; a folder is ./lake.db.pairs" in said
    spark = ("--engine", "spark", "--stream", "--out", tmp_path / "out")
    assert "--stream reads and writes folders of this machine" in refused(
        capsys, *given, "lake.db.p", *spark
    )


def test_a_delta_table_is_not_replaced_by_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs" / "_delta_log").mkdir(parents=True)
    (tmp_path / "s.jsonl").write_text(FILTERS)
    pq.write_table(pa.table({"id": ["p"], "wind": [4.0]}), tmp_path / "p.parquet")
    given = ("--subscriptions", tmp_path / "s.jsonl", "--publications", tmp_path / "p.parquet")
    out = ("--out", tmp_path / "pairs", "--overwrite")
    said = refused(capsys, "match", *given, *out)
    assert f"is a Delta table; give delta+{(tmp_path / 'pairs').as_uri()}" in said


def test_a_run_may_be_in_a_folder_whose_name_has_dots() -> None:
    assert output_folder(Path("run.v2"), overwrite=False) == Path("run.v2")
