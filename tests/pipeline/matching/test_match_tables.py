"""`shoal match` by Spark: from lines and tables, to lines and tables."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli import test_match
from tests.cli.test_match import Shell, shell
from tests.examples import at_length

__all__ = ["shell"]

PUBLICATIONS = """\
id,carrier,dep_delay,day,remark
7,UA,45,2013-01-01,
8,UA,,2013-01-02,"said ""no"", left"
7,,3.5,2013-01-03,
"""
SUBSCRIPTIONS = """\
id,carrier,dep_delay.low,dep_delay.high
1,UA,,
2,,10,
3,,,10
"""
ANSWERS = """\
{"publication": 7, "subscriptions": [1, 2]}
{"publication": 8, "subscriptions": [1]}
{"publication": 7, "subscriptions": [3]}
"""

pytestmark = pytest.mark.usefixtures("spark")


def tables(shell: Shell, *options: str, engine: str = "spark") -> tuple[int, str, str]:
    return shell.run(
        *("--subscriptions", str(shell.folder / "S.csv")),
        *("--publications", str(shell.folder / "P.csv"), "--engine", engine, *options),
    )


@pytest.fixture
def csv_shell(shell: Shell) -> Shell:
    (shell.folder / "S.csv").write_text(SUBSCRIPTIONS)
    (shell.folder / "P.csv").write_text(PUBLICATIONS)
    return shell


def test_lines_give_what_the_index_gives(shell: Shell) -> None:
    options = ("--engine", "spark")
    found = shell.match(test_match.SUBSCRIPTIONS, test_match.PUBLICATIONS, *options)
    assert found[:2] == (0, test_match.ANSWERS)
    assert shell.match("", "", *options)[:2] == (0, "")


@pytest.mark.parametrize("engine", ["spark", "spark-sql", "index", "naive"])
def test_tables_of_csv_are_printed_in_order(csv_shell: Shell, engine: str) -> None:
    assert tables(csv_shell, engine=engine)[:2] == (0, ANSWERS)


@pytest.mark.parametrize("engine", ["spark", "index", *at_length(["spark-sql"])])
def test_pairs_as_a_table(csv_shell: Shell, engine: str) -> None:
    out = csv_shell.folder / "pairs"
    code, printed, _ = tables(csv_shell, "--out", str(out), engine=engine)
    assert code == 0
    assert [line.split()[1::2] for line in printed.splitlines()[2:-1]] == [
        ["publications", "3"],
        ["subscriptions", "3"],
        ["pairs", "4"],
    ]
    rows = pq.read_table(out).to_pylist()
    assert sorted((row["id"], row["subscription"]) for row in rows) == [
        (7, 1),
        (7, 2),
        (7, 3),
        (8, 1),
    ]
    code, _, complaint = tables(csv_shell, "--out", str(out), engine=engine)
    assert (code, complaint) == (
        2,
        "shoal: pairs exists already; give another --out, or --overwrite\n",
    )
    assert tables(csv_shell, "--out", str(out), "--overwrite", engine=engine)[0] == 0


@pytest.mark.parametrize("engine", ["spark", "index"])
def test_folders_of_parquet_and_lines_together(shell: Shell, tmp_path: Path, engine: str) -> None:
    folder = tmp_path / "ingested" / "publications.parquet"
    folder.mkdir(parents=True)
    rows = [{"publisher": "UA", "sequence": at, "attributes": {"delay": 10 * at}} for at in (3, 4)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "part-0.parquet")
    (tmp_path / "S.jsonl").write_text('{"id": "late", "filter": "delay > 30"}\n')
    found = shell.run(
        *("--subscriptions", str(tmp_path / "S.jsonl")),
        *("--publications", str(tmp_path / "ingested"), "--engine", engine),
    )
    assert found[:2] == (
        0,
        '{"publication": {"publisher": "UA", "sequence": 3}, "subscriptions": []}\n'
        '{"publication": {"publisher": "UA", "sequence": 4}, "subscriptions": ["late"]}\n',
    )


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--only", "3"], "--only is for JSON lines, and S.csv is a table"),
        (["--skip-bad"], "--skip-bad is for JSON lines"),
        (["--syntax", "padres"], "--syntax is for JSON lines"),
        (["--engine", "naive", "--out", "x"], "--explain and --engine naive print"),
        (["--engine", "index", "--stream"], "--stream needs --engine spark"),
        (["--engine", "spark-sql", "--partition", "auto"], "--partition goes with --engine spark"),
        (["--once"], "--once goes with --stream"),
        (["--stream"], "give --out DIR"),
        (["--stream", "--out", "x"], "P.csv: --stream reads a folder of Parquet files"),
        (["--stream", "--out", "x", "--overwrite"], "it cannot --overwrite"),
        (["--source-option", "a=b"], "--source-option goes with --stream"),
    ],
)
def test_options_that_do_not_go(csv_shell: Shell, options: list[str], complaint: str) -> None:
    code, out, err = tables(csv_shell, *options)
    assert (code, out) == (2, "")
    assert complaint in err


@pytest.mark.parametrize("partition", ["auto", *at_length(["carrier"])])
def test_spread_over_partitions(csv_shell: Shell, partition: str) -> None:
    assert tables(csv_shell, "--partition", partition)[:2] == (0, ANSWERS)


@pytest.mark.parametrize("engine", ["spark", "spark-sql", "index", "naive"])
def test_numbers_of_a_csv_are_exact_and_inner_fields_have_names(
    shell: Shell, tmp_path: Path, engine: str
) -> None:
    (shell.folder / "S.csv").write_text(
        "id,filter\nbig,v = 9007199254740993\nlow,v = 9007199254740992\nhalf,v < 1\n"
    )
    values = ("9007199254740993", "9007199254740992", "0.5", "")
    rows = "".join(f"{id},{v}\n" for id, v in enumerate(values, 1))
    (shell.folder / "P.csv").write_text(f"id,v\n{rows}")
    code, out, _ = tables(shell, engine=engine)
    found = [json.loads(line)["subscriptions"] for line in out.splitlines()]
    assert (code, found) == (0, [["big"], ["low"], ["half"], []])
    inner = [{"lat": 50.5, "o": {"x": 1}}, None]
    pq.write_table(pa.table({"id": [1, 2], "at": inner}), tmp_path / "p.parquet")
    wanted = tmp_path / "s.jsonl"
    wanted.write_text('{"id": "a", "filter": "`at.lat` > 20 AND `at.o.x` = 1"}\n')
    code, out, _ = shell.run(
        "--subscriptions", str(wanted), "--publications", str(tmp_path / "p.parquet"),
        "--engine", engine,
    )  # fmt: skip
    assert [json.loads(line)["subscriptions"] for line in out.splitlines()] == [["a"], []]
    for name in ("code=01001/n=1", "code=K%C3%B6ln/n=2"):
        (tmp_path / "by" / name).mkdir(parents=True)
        pq.write_table(pa.table({"id": [1]}), tmp_path / "by" / name / "part.parquet")
    filters = {"a": "code = '01001' AND n < 2", "b": "code = 'Köln'"}
    wanted.write_text(
        "".join(json.dumps({"id": n, "filter": f}) + "\n" for n, f in filters.items())
    )
    words = ("--subscriptions", str(wanted), "--publications", str(tmp_path / "by"))
    code, out, _ = shell.run(*words, "--engine", engine)
    answers = sorted(out.splitlines())  # Spark reads files in the order of their sizes
    assert [json.loads(line)["subscriptions"] for line in answers] == [["a"], ["b"]]
    assert sorted(shell.run(*words)[1].splitlines()) == answers


def test_a_stream_and_its_next_run(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "S.csv").write_text(SUBSCRIPTIONS)
    (tmp_path / "in").mkdir()
    options = (
        *("--subscriptions", str(tmp_path / "S.csv"), "--publications", str(tmp_path / "in")),
        *("--engine", "spark", "--stream", "--once", "--out", str(tmp_path / "out")),
    )
    assert (
        shell.run(*options)[2]
        == "shoal: in has no Parquet file yet, which would tell the columns\n"
    )
    for number, delay in enumerate([45, 3], start=1):
        row = {"id": number, "carrier": "UA", "dep_delay": delay}
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / "in" / f"{number}.parquet")
        code, printed, _ = shell.run(*options)
        assert code == 0
        counts = [line.split()[1::2] for line in printed.splitlines()[2:-1]]
        assert counts == [["batches", str(number)], ["pairs", str(2 * number)]]
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert sorted((row["id"], row["subscription"]) for row in rows) == [
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 3),
    ]


def test_what_is_asked_in_vain_is_said(csv_shell: Shell) -> None:
    publications, subscriptions = csv_shell.folder / "P.csv", csv_shell.folder / "S.csv"
    publications.write_text(PUBLICATIONS.replace("45", "n/a"))
    vain = "shoal: warning: dep_delay is text (in 1 of 2 rows no number: 'n/a'); `{}` compares num"
    assert vain.format("dep_delay.low") in tables(csv_shell)[2]
    subscriptions.write_text("id,filter\n1,dep_delay > 10 AND dep_delay < 90\n2,remarks = 'x'\n")
    err = tables(csv_shell)[2]
    assert vain.format("dep_delay > 10") in err
    assert "no publication has remarks, and `remarks = 'x'` asks for it; did you mean rem" in err
    assert err.count("warning") == 2
    subscriptions.write_text("id,fliter\n1,dep_delay > 10\n")
    assert tables(csv_shell)[2] == (
        "shoal: subscriptions: column 'fliter' demands the attribute 'fliter', which publications "
        "do not have; did you mean filter?\n"
    )
    publications.write_text("id,lat,lon\n1,2.5,3\n")
    subscriptions.write_text("id,latitude.low,gate\n1,2,\n")
    assert (
        "attribute 'latitude', which publications do not have; did you mean lat?"
        in (tables(csv_shell)[2])
    )
    # What asks for nothing need not be there.
    subscriptions.write_text("id,lat.low,gate\n1,2,\n")
    assert tables(csv_shell) == (0, '{"publication": 1, "subscriptions": [1]}\n', "")


def test_a_damaged_file_in_a_stream_is_named_in_one_line(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "S.csv").write_text(SUBSCRIPTIONS)
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / "1.parquet"
    rows = {"id": range(1_000), "carrier": ["UA"] * 1_000, "dep_delay": range(1_000)}
    pq.write_table(pa.table(rows), file, compression="none", use_dictionary=False)
    whole = file.read_bytes()
    # Its end still says what is in it.
    file.write_bytes(whole[:8] + bytes(4_000) + whole[4_008:])
    code, out, err = shell.run(
        *("--subscriptions", str(tmp_path / "S.csv"), "--publications", str(tmp_path / "in")),
        *("--engine", "spark", "--stream", "--once", "--out", str(tmp_path / "out")),
    )
    assert (code, out) == (2, "")
    assert re.fullmatch(
        r"shoal: in/1.parquet cannot be read \(.+\); mend it or move it away\n", err
    )


@pytest.mark.soak
def test_a_stream_of_a_python_data_source(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "S.csv").write_text("id,a.low,a.high\n1,3,4\n")
    count = tmp_path / "count"
    count.write_text("25")
    options = (
        *("--subscriptions", str(tmp_path / "S.csv"), "--engine", "spark"),
        *("--publications", "tests.pipeline.matching.counting_source:Counting"),
    )
    assert "that needs --stream" in shell.run(*options)[2]
    stream = (*options, "--stream", "--once", "--out", str(tmp_path / "out"), "--source-option")
    assert "--source-option file: give KEY=VALUE" in shell.run(*stream, "file")[2]
    code, printed, _ = shell.run(*stream, f"file={count}")
    assert code == 0
    counts = [line.split()[1::2] for line in printed.splitlines()[2:-1]]
    assert counts == [["batches", "1"], ["pairs", "6"]]
    code, _, complaint = shell.run(*stream[:-1], "--publications", "nowhere.at_all:Source")
    assert (code, "cannot be imported" in complaint) == (2, True)


def test_files_that_are_no_tables(csv_shell: Shell) -> None:
    subscriptions, publications = csv_shell.folder / "S.csv", csv_shell.folder / "P.csv"
    subscriptions.write_text("id,filter\n1,dep_delay > 10\n2,dep_delay >\n")
    code, _, err = tables(csv_shell)
    assert code == 2
    assert "subscriptions, row 2 (id 2): filter, line 1, column 12: the filter ends too" in err
    subscriptions.write_text("id,filter\n1,day = '2013-01-01' AND remark IS NULL\n")
    assert '[1]}\n{"publication": 8, "subscriptions": []}' in tables(csv_shell)[1]
    publications.write_text("id,day\n1,2,3\n")
    code, _, err = tables(csv_shell)
    assert code == 2
    assert "warning: day is a number; `day = '2013-01-01'` compares text\n" in err
    assert "shoal: P.csv cannot be read (" in err
    assert "Malformed" in err
    publications.unlink()
    assert tables(csv_shell)[2] == "shoal: P.csv does not exist\n"
    (csv_shell.folder / "P.parquet").write_text("nonsense")
    _, _, err = csv_shell.run(
        *("--subscriptions", str(subscriptions)),
        *("--publications", str(csv_shell.folder / "P.parquet"), "--engine", "spark"),
    )
    assert "P.parquet is not a Parquet file" in err
