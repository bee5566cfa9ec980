"""Odd files given to commands: one sentence with file, place and reason."""

from __future__ import annotations

import gzip
import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.cli.main import main

SUBSCRIPTIONS = "id,filter,broker\nstorm,wind > 10,lyon\nfrost,wind < 2,brest\n"
PUBLICATIONS = "id,wind\np1,12\np2,3\n"
SITES = "broker,latitude,longitude\nbrest,48.4,-4.5\nlyon,45.8,4.8\n"
READINGS = "at,station,wind\n2026-01-01 00:00,Brest,12.5\n2026-01-01 00:10,Lyon,3.0\n"
DECLARATION = """\
publisher = ["station"]
time = { column = "at", format = "yyyy-MM-dd HH:mm" }
[columns]
station = "string"
wind = "double"
"""
LINES = '{"id": "storm", "filter": "wind > 10"}\n'

MATCH_SUBSCRIPTIONS = "match --subscriptions ODD --publications good.csv"
MATCH_PUBLICATIONS = "match --subscriptions good-subscriptions.csv --publications ODD"
INGEST = "ingest stations.toml ODD --out out"
DECLARE = "ingest ODD readings.csv --out out"
BROKERS = "workload in --brokers ODD --subscriptions 2 --out out"
OWN = "workload in --brokers sites.csv --subscriptions ODD --out out"
CHECK = "check ODD"
NETWORK = """
name = "x"
access.anonymous = true
[[brokers]]
name = "B1"
peers = "127.0.0.1:1"
mqtt = "127.0.0.1:2"
"""

SOURCES = {
    MATCH_SUBSCRIPTIONS: SUBSCRIPTIONS.replace(",broker", "")
    .replace(",lyon", "")
    .replace(",brest", ""),
    MATCH_PUBLICATIONS: PUBLICATIONS,
    INGEST: READINGS,
    BROKERS: SITES,
    OWN: SUBSCRIPTIONS,
}


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ingested")
    (folder / "stations.toml").write_text(DECLARATION)
    (folder / "readings.csv").write_text(READINGS)
    arguments = f"ingest {folder}/stations.toml {folder}/readings.csv --out {folder}/in"
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    assert not ended.value.code
    return folder / "in"


@pytest.fixture
def place(tmp_path: Path, ingested: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where all is as it should be, but for what a test writes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stations.toml").write_text(DECLARATION)
    (tmp_path / "readings.csv").write_text(READINGS)
    (tmp_path / "sites.csv").write_text(SITES)
    (tmp_path / "good.csv").write_text(PUBLICATIONS)
    (tmp_path / "good-subscriptions.csv").write_text(SOURCES[MATCH_SUBSCRIPTIONS])
    shutil.copytree(ingested, tmp_path / "in")
    return tmp_path


def ran(command: str, odd: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([odd if word == "ODD" else word for word in command.split()])
    return int(ended.value.code or 0)


def complaint(command: str, odd: str, printed: pytest.CaptureFixture[str]) -> str:
    """What is said of a file that cannot be used: with exit code 2, and nothing else."""
    code = ran(command, odd)
    out, err = printed.readouterr()
    assert (code, out) == (2, ""), err
    assert "Traceback" not in err
    return err


def with_row(text: str, row: bytes) -> bytes:
    return text.encode() + row + b"\n"


TEXTS = [
    (MATCH_SUBSCRIPTIONS, b"", "odd.csv: is empty"),
    (MATCH_SUBSCRIPTIONS, b"\n\n", "odd.csv: is empty"),
    (MATCH_SUBSCRIPTIONS, with_row(SOURCES[MATCH_SUBSCRIPTIONS], b"a"), "odd.csv, row 3: expected"),
    (MATCH_SUBSCRIPTIONS, with_row(SUBSCRIPTIONS, b"\xe9,x,y"), "odd.csv, line 4: not UTF-8 text"),
    (MATCH_SUBSCRIPTIONS, b"\x00\xff\x01", "odd.csv, line 1: not UTF-8 text"),
    (MATCH_SUBSCRIPTIONS, SUBSCRIPTIONS.encode("utf-16"), "odd.csv: is UTF-16"),
    (MATCH_SUBSCRIPTIONS, gzip.compress(b"id,filter\n", mtime=0), "odd.csv: is packed by gzip"),
    (MATCH_SUBSCRIPTIONS, b"id;filter\na;b\n", "odd.csv: there is no column 'id'"),
    (MATCH_SUBSCRIPTIONS, b"id,filter,id\na,x > 1,b\n", "odd.csv: there are two columns 'id'"),
    (MATCH_SUBSCRIPTIONS, b"id,filter\na,x > 1\n,x > 2\n", "odd.csv, row 2: the id is null"),
    (MATCH_SUBSCRIPTIONS, b"id,filter\na,x >\n", "odd.csv, row 1 (id 'a'): filter, "),
    (MATCH_PUBLICATIONS, b"id,wind,wind\na,1,2\n", "odd.csv: there are two columns 'wind'"),
    (MATCH_PUBLICATIONS, b"a;b\n1;2\n", "odd.csv: there is no column 'id'"),
    (INGEST, READINGS.replace("\n", "\r").encode(), "odd.csv: its lines end in CR alone"),
    (INGEST, gzip.compress(READINGS.encode(), mtime=0), "odd.csv: is packed by gzip"),
    (DECLARE, b"publisher = '\xff'", "byte 13 is not UTF-8 text"),
    (BROKERS, b"", "odd.csv: the header has no column 'broker'"),
    (BROKERS, b"broker,latitude,longitude\n", "odd.csv: has no rows"),
    (BROKERS, with_row(SITES, b"Orl\xe9ans,,"), "odd.csv, line 4: not UTF-8 text"),
    (BROKERS, SITES.encode("utf-16"), "odd.csv, line 1: not UTF-8 text"),
    (BROKERS, with_row(SITES, b"x" * 1_000_000), "odd.csv, line 4: field larger than"),
    (BROKERS, with_row(SITES, b"a,1,2,3"), "odd.csv, line 4: the number of columns"),
    (BROKERS, b"broker,broker\na,b\n", "odd.csv: there are two columns 'broker'"),
    (OWN, with_row(SUBSCRIPTIONS, b"a,b"), "odd.csv, row 3: expected 3 columns, got 2"),
    (OWN, with_row(SUBSCRIPTIONS, b"\xe9,x > 1,lyon"), "odd.csv, line 4: not UTF-8 text"),
    (OWN, b"id,filter,id\na,x > 1,b\n", "odd.csv: there are two columns 'id'"),
]


@pytest.mark.parametrize(("command", "text", "said"), TEXTS)
def test_a_text_that_cannot_be_read_is_named_with_the_place(
    place: Path, capsys: pytest.CaptureFixture[str], command: str, text: bytes, said: str
) -> None:
    odd = "odd.toml" if command in (DECLARE, CHECK) else "odd.csv"
    (place / odd).write_bytes(text)
    assert said in complaint(command, odd, capsys)


@pytest.mark.parametrize("command", [OWN, "match --subscriptions ODD --publications good.csv"])
def test_lines_of_json_that_are_no_text_are_named(
    place: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (place / "odd.jsonl").write_bytes(LINES.encode() + b'{"id": "\xe9", "filter": "wind > 1"}\n')
    text = complaint(command, "odd.jsonl", capsys)
    assert "odd.jsonl" in text
    assert "2: not UTF-8" in text


COMMANDS = [MATCH_SUBSCRIPTIONS, MATCH_PUBLICATIONS, INGEST, DECLARE, BROKERS, OWN, CHECK]
OTHERS = ["simulate ODD --out out", "bridge --check ODD", "status ODD", "password ODD ann"]


def ending(command: str) -> str:
    return ".csv" if command in SOURCES else ".toml"


@pytest.mark.parametrize("command", [*COMMANDS, *OTHERS])
@pytest.mark.parametrize("what", ["missing", "folder", "forbidden"])
def test_what_is_no_file_to_read_is_named(
    place: Path, capsys: pytest.CaptureFixture[str], command: str, what: str
) -> None:
    odd = place / f"odd{ending(command)}"
    if what == "folder":
        odd.mkdir()
    elif what == "forbidden":
        odd.touch(0)
    if command.startswith("password"):
        if what == "missing":
            pytest.skip("password makes its file")
        command += " --password x"
    user = os.geteuid()
    try:
        if what == "forbidden" and user == 0:
            # Root may read everything.
            for folder in (place, *place.parents[:3]):
                folder.chmod(0o755)
            os.seteuid(65534)
        assert odd.name in complaint(command, odd.name, capsys)
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("name", ["odd.jsonl", "odd.json"])
def test_a_folder_of_the_name_of_lines_is_named(
    place: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (place / name).mkdir()
    assert f"{name}: cannot be read (Is a directory)" in complaint(OWN, name, capsys)


def test_quotes_without_a_header_are_told_before_spark_is_started(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.pipeline.session.spark_session", None)
    (place / "empty.csv").touch()
    said = complaint("ingest quotes ODD --out out", "empty.csv", capsys)
    assert "empty.csv, line 1: there must be a header with the column names" in said
    (place / "other.csv").write_text("a,b\n1,2\n")
    said = complaint("ingest quotes ODD --out out", "other.csv", capsys)
    assert "other.csv: no column 'close', 'date'" in said


@pytest.mark.parametrize("name", ["odd.jsonl", "odd.json", "odd.ndjson"])
def test_lines_of_json_are_a_source_but_no_quotes(
    place: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (place / name).write_text('{"at": "2026-01-01 00:00", "station": "Brest", "wind": 12.5}\n')
    said = complaint("ingest quotes ODD --out out", name, capsys)
    assert f"{name}: quotes are no JSON; declare them (docs/tutorials/own-data.md)" in said
    assert ran(INGEST, name) == 0


def test_tables_of_two_kinds_are_not_mixed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "odd.jsonl").write_text("{}\n")
    said = complaint("ingest stations.toml readings.csv ODD --out out", "odd.jsonl", capsys)
    assert "CSV and JSON files cannot be mixed in one command" in said


@pytest.mark.parametrize("command", [MATCH_SUBSCRIPTIONS, MATCH_PUBLICATIONS, BROKERS, OWN])
def test_a_header_that_is_no_text_is_named(
    place: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (place / "odd.csv").write_bytes(b"i\xb7d,filter\ns,wind > 1\n")
    said = complaint(command, "odd.csv", capsys)
    assert "odd.csv, line 1: " in said
    assert "not UTF-8 text" in said


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "workload in --brokers airports:x --out out",
            "--brokers airports:x: say how many, such as airports:63",
        ),
        ("workload in --brokers airports:0 --out out", "--brokers airports:0: say how many"),
        (
            "workload in --brokers 2 --duration-s 1e300 --out out",
            "--duration-s 1e+300: a replay takes some seconds",
        ),
        ("up --brokers 2 --folder readings.csv", "--folder readings.csv: is a file; give a folder"),
        ("password users ann --password=", "no password: it is empty"),
    ],
)
def test_values_that_make_no_sense_are_refused_at_once(
    place: Path, capsys: pytest.CaptureFixture[str], command: str, said: str
) -> None:
    assert said in complaint(command, "", capsys)
    assert not (place / "users").exists()


@pytest.mark.parametrize("command", list(SOURCES))
@pytest.mark.parametrize("how", ["byte order mark", "CRLF", "no last line end"])
def test_what_is_only_unusual_is_read(
    place: Path, capsys: pytest.CaptureFixture[str], command: str, how: str
) -> None:
    text = SOURCES[command]
    data = {
        "byte order mark": text.encode("utf-8-sig"),
        "CRLF": text.replace("\n", "\r\n").encode(),
        "no last line end": text.rstrip("\n").encode(),
    }[how]
    (place / "odd.csv").write_bytes(data)
    assert ran(command, "odd.csv") == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (CHECK, NETWORK),
        (DECLARE, DECLARATION),
        ("bridge --check ODD", '[here]\naddress="a:1"\n[there]\naddress="b:1"\n[[in]]\ntopic="t"'),
    ],
)
def test_toml_with_a_byte_order_mark_is_read(place: Path, command: str, text: str) -> None:
    (place / "odd.toml").write_text(
        'name = "n"\n' + text if "bridge" in command else text, "utf-8-sig"
    )
    assert ran(command, "odd.toml") == 0


@pytest.mark.parametrize(
    ("command", "text"), [(each, text) for each, text in SOURCES.items() if each != INGEST]
)
def test_a_pipe_is_read(place: Path, command: str, text: str) -> None:
    odd = place / "odd.csv"
    os.mkfifo(odd)
    feeding = threading.Thread(target=odd.write_text, args=[text], daemon=True)
    feeding.start()
    assert ran(command, "odd.csv") == 0
    feeding.join()


def test_ingest_refuses_a_pipe_that_it_would_read_twice(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(place / "odd.csv")
    assert "odd.csv: is no file on disk" in complaint(INGEST, "odd.csv", capsys)


def test_a_header_alone_is_no_subscription(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "odd.csv").write_text("id,filter\n")
    assert ran(MATCH_SUBSCRIPTIONS, "odd.csv") == 0
    assert capsys.readouterr().out.count('"subscriptions": []') == 2


def test_a_row_longer_than_a_block_is_read(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "odd.csv").write_text(f"id,wind,note\np1,12,{'x' * 3_000_000}\np2,1,y\n")
    assert ran(MATCH_PUBLICATIONS, "odd.csv") == 0
    assert '"p2", "subscriptions": ["frost"]' in capsys.readouterr().out


def parquet(place: Path, **columns: Sequence[object] | pa.Array) -> None:
    pq.write_table(pa.table(columns), place / "odd.parquet")


@pytest.mark.parametrize("command", [MATCH_SUBSCRIPTIONS, MATCH_PUBLICATIONS, BROKERS, OWN])
def test_parquet_that_is_broken_in_the_middle_is_named(
    place: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    parquet(place, id=["a", "b"], filter=["wind > 1", "wind > 2"], broker=["lyon", "brest"])
    whole = (place / "odd.parquet").read_bytes()
    (place / "odd.parquet").write_bytes(whole[:8] + b"\xff" * 60 + whole[68:])
    assert "odd.parquet cannot be read" in complaint(command, "odd.parquet", capsys)


@pytest.mark.parametrize("kind", [pa.dictionary(pa.int32(), pa.string()), pa.string_view()])
def test_ids_and_filters_may_be_categories_and_views(
    place: Path, capsys: pytest.CaptureFixture[str], kind: pa.DataType
) -> None:
    ids, filters = pa.array(["a", "b"]), pa.array(["wind > 10", "wind > 1"])
    parquet(place, id=ids.cast(kind), filter=filters.cast(kind))
    assert ran(MATCH_SUBSCRIPTIONS, "odd.parquet") == 0
    assert '"p1", "subscriptions": ["a", "b"]' in capsys.readouterr().out


def test_a_type_that_no_attribute_has_is_named_with_its_file(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parquet(place, id=["a"], wind=[{"speed": 3}])
    assert "odd.parquet: attribute 'wind' is struct" in complaint(
        MATCH_PUBLICATIONS, "odd.parquet", capsys
    )


def test_ingest_names_a_folder_without_parquet(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "odd").mkdir()
    assert "odd has no Parquet file" in complaint(INGEST, "odd", capsys)


@pytest.mark.parametrize(
    ("wind", "said"),
    [
        (pa.array([{"a": 1.0}]), "column 'wind' is struct"),
        (pa.array([[1.0]]), "column 'wind' is list"),
        (pa.array([1.0], pa.float32()).cast(pa.float16()), "column 'wind' is halffloat"),
    ],
)
def test_ingest_names_a_column_of_parquet_that_it_cannot_take(
    place: Path, capsys: pytest.CaptureFixture[str], wind: pa.Array, said: str
) -> None:
    parquet(place, at=["2026-01-01 00:00"], station=["Brest"], wind=wind)
    text = complaint(INGEST, "odd.parquet", capsys)
    assert "odd.parquet" in text
    assert said in text


def test_ingest_names_a_column_that_is_there_twice(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = [pa.array(["2026-01-01 00:00"]), pa.array(["Brest"]), pa.array([1.0])]
    table = pa.Table.from_arrays([*columns, columns[2]], ["at", "station", "wind", "wind"])
    pq.write_table(table, place / "odd.parquet")
    assert "there are two columns 'wind'" in complaint(INGEST, "odd.parquet", capsys)


@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_ingest_reads_times_in_nanoseconds_as_pandas_writes_them(
    place: Path, zone: str | None
) -> None:
    """To the microsecond, before 1970 too."""
    times = [1_767_225_600_123_456_789, -1]
    parquet(
        place,
        at=pa.array(times, pa.timestamp("ns", tz=zone)),
        station=["Brest", "Lyon"],
        wind=[1.0, 2.0],
    )
    # Spark may have started in another folder.
    whole = INGEST.replace("--out out", f"--out {place / 'out'}")
    assert ran(whole, str(place / "odd.parquet")) == 0
    table = pq.read_table(place / "out" / "publications.parquet")
    assert sorted(table["time_us"].to_pylist()) == [-1, 1_767_225_600_123_456]


def test_a_run_whose_tables_are_of_other_types_is_named(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "scenario.toml").write_text(
        'name = "s"\nworkload.path = "w"\nunderlay.kind = "constant"\n'
    )
    for command in (
        "workload in --brokers 2 --subscriptions 1 --duration-s 5 --out w",
        "truth w --out truth",
        "simulate scenario.toml --set system=tree --out run",
    ):
        assert ran(command, "") == 0
    capsys.readouterr()
    for table, column in (("load", "broker"), ("links", "left")):
        file = place / "run" / f"{table}.parquet"
        before = file.read_bytes()
        rows = pq.read_table(file)
        lists = pa.array([[1]] * len(rows))
        pq.write_table(rows.set_column(rows.column_names.index(column), column, lists), file)
        assert ran("summarise run --truth truth --out summary", "") == 2
        said = capsys.readouterr().err
        assert f"run/{table}.parquet: column '{column}'" in said
        file.write_bytes(before)
        for old in (place / "summary").rglob("*"):
            if old.is_file():
                old.unlink()
