"""Tables at places that Arrow reaches: a store of objects, Delta and Iceberg."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.cli.main import main
from shoal.frames.errors import TableError
from shoal.frames.stores import _write_parts, check_free, fetch, put

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
boto3 = pytest.importorskip("boto3")
pytest.importorskip("moto")
Config = pytest.importorskip("pyiceberg.utils.config").Config

DATA = "at,site,wind\n2026-01-01T00:00:00,A,1.5\n2026-01-01T00:00:01,B,7\n2026-01-01,B,x\n"
MAPPING = """
publisher = ["site"]
time = { column = "at", format = "iso8601" }
[columns]
site = "string"
wind = "double"
"""
WAIT_S = 120.0
TABLES = ["publications", "rejects", "repeats"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A server of S3's protocol with a bucket `lake`, and a catalog `ice` of Iceberg."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = int(listening.getsockname()[1])
    folder = tmp_path_factory.mktemp("ice")
    # A process of its own: deltalake waits for answers while it holds the interpreter.
    command = [sys.executable, "-m", "moto.server", "-p", str(port)]
    quiet = subprocess.DEVNULL
    server = subprocess.Popen(command, stdout=quiet, stderr=quiet)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
            "PYICEBERG_CATALOG__ICE__TYPE": "sql",
            "PYICEBERG_CATALOG__ICE__URI": f"sqlite:///{folder / 'catalog.db'}",
            "PYICEBERG_CATALOG__ICE__WAREHOUSE": (folder / "tables").as_uri(),
            "PYICEBERG_CATALOG__BROKEN__TYPE": "sql",
            "PYICEBERG_CATALOG__BROKEN__URI": f"sqlite:///{folder / 'none' / 'catalog.db'}",
        }.items():
            patch.setenv(name, value)
        # PyIceberg reads the environment when it is imported.
        patch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
        try:
            until = time.monotonic() + WAIT_S
            while not answers(port):
                assert server.poll() is None
                assert time.monotonic() < until
                time.sleep(0.1)
            client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}")
            client.create_bucket(Bucket="lake")
            client.put_object(Bucket="lake", Key="raw/winds.csv", Body=DATA.encode())
            yield
        finally:
            server.kill()
            server.wait()


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("place", ["s3a://lake/{}", "delta+s3://lake/d/{}", "ice.{}", "{}"])
def test_commands_read_and_write_each_kind_of_place(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.toml").write_text(MAPPING)
    inner = "." if place.startswith("ice") else "/"
    names = ("winds", "work", f"of{inner}truth", f"of{inner}pairs")
    winds, work, truth, pairs = map(place.format, names)
    ingest = ("ingest", "m.toml", "s3://lake/raw/winds.csv", "--out", winds)
    assert run(*ingest) == 0
    said = capsys.readouterr()
    assert f"m.toml -> {winds}" in said.out
    assert f"why: {winds}{inner}rejects" in said.err
    assert run(*ingest) == 2
    assert f"{winds} exists already" in capsys.readouterr().err
    assert run(*ingest, "--overwrite") == 0
    assert run("workload", winds, "--brokers", 2, "--subscriptions", 3, "--out", work) == 0
    assert run("truth", work, "--out", truth) == 0
    wanted, given = f"{work}{inner}subscriptions", f"{work}{inner}events"
    if place in ("s3a://lake/{}", "{}"):
        wanted += ".parquet"
    match = ("match", "--subscriptions", wanted, "--publications", given, "--out", pairs)
    assert run(*match) == 0
    capsys.readouterr()
    expected, found = (
        pq.read_table(fetch(each, tmp_path) if place != "{}" else each) for each in (truth, pairs)
    )
    key = ["publisher", "sequence", "subscription"]
    assert found.select(key).sort_by([(name, "ascending") for name in key]) == expected.sort_by(
        [(name, "ascending") for name in key]
    )
    folder = fetch(winds, tmp_path) if place != "{}" else Path(winds)
    assert sorted(each.stem for each in folder.glob("*.parquet")) == TABLES
    rejects = pq.read_table(folder / "rejects.parquet").to_pylist()
    assert [each["file"] for each in rejects] == ["s3://lake/raw/winds.csv"]
    constant = 'underlay.kind = "constant"\n'
    Path("s.toml").write_text(f'name = "one"\nworkload.path = "replayed"\n{constant}')
    (fetch(work, tmp_path) if place != "{}" else Path(work)).rename("replayed")
    simulated = run("simulate", "s.toml", "--out", place.format(f"runs{inner}one"))
    if place not in ("s3a://lake/{}", "{}"):
        assert simulated == 2
        assert "a place of tables; give a folder" in capsys.readouterr().err
        return
    assert simulated == 0
    summary = place.format("summary")
    runs = place.format("runs/one")
    assert run("summarise", runs, "--truth", truth, "--out", summary) == 0
    assert "lost: 0, duplicated: 0, phantom: 0" in capsys.readouterr().out
    assert run("report", runs, "--summary", summary, "--out", "page.html") == 0


@pytest.mark.usefixtures("store")
def test_deleted_rows_of_a_delta_table_are_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its folder still has the files of the deleted rows."""
    import deltalake

    rows = pa.table({"id": ["p1", "p2"], "wind": [5.0, 1.0], "tags": [["a"], ["b"]]})
    winds = tmp_path / "a ü"
    deltalake.write_deltalake(winds.as_uri(), rows)
    deltalake.DeltaTable(winds.as_uri()).delete("wind > 3")
    text = "wind > 0 AND array_contains(tags, 'b')"
    (tmp_path / "s.jsonl").write_text(f'{{"id": "any", "filter": "{text}"}}\n')
    for place in (winds, winds.as_uri()):
        given = ("--subscriptions", tmp_path / "s.jsonl", "--publications", place)
        assert run("match", *given) == 0
        assert capsys.readouterr().out == '{"publication": "p2", "subscriptions": ["any"]}\n'


@pytest.mark.usefixtures("store")
def test_an_input_in_a_store_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.toml").write_text(MAPPING)
    pq.write_table(pa.table({"at": ["2026-01-01"], "site": ["A"], "wind": [1.0]}), "part.parquet")
    for place, inner in (("s3://lake/kept", "/part.parquet"), ("ice.kept.raw", "")):
        Path("raw").mkdir()
        shutil.copy("part.parquet", "raw")
        put(Path("raw"), place)
        shutil.rmtree("raw")
        out = place.replace("s3:", "s3a:")
        words = ("ingest", "m.toml", f"{place}{inner}", "--out", out, "--overwrite")
        assert run(*words) == 2
        assert f"{out} is the input; give another --out" in capsys.readouterr().err
        assert pq.read_table(fetch(place, tmp_path)).num_rows == 1


@pytest.mark.usefixtures("store")
def test_a_secret_in_a_uri_is_not_shown_nor_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("maps").mkdir()
    Path("maps/m.toml").write_text(MAPPING)
    put(Path("maps"), mapping := "s3://lake/maps")
    mapping += "/m.toml"
    server = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
    options = f"?region=us-east-1&scheme=http&endpoint_override={server}"
    given = f"s3://key:hidden@lake/raw/winds.csv{options}"
    assert run("ingest", mapping, given, "--out", "winds") == 0
    assert run("ingest", mapping, f"s3://key:hidden@lake/none{options}", "--out", "none") == 2
    said = capsys.readouterr()
    assert "s3://***@lake/none" in said.err
    note = Path("winds/_ingest.json").read_text()
    assert f'"{mapping}"' in note
    assert "hidden" not in said.out + said.err + note


def test_tables_of_lists_have_plain_types(tmp_path: Path) -> None:
    texts = pa.large_list(pa.large_string())
    kind = pa.struct([("tags", texts)])
    table = pa.table({"attributes": pa.array([{"tags": ["a"]}], kind)})
    _write_parts(table.to_reader(), tmp_path / "t")
    found = pq.read_table(tmp_path / "t")
    assert found.schema.field("attributes").type.field("tags").type == pa.list_(pa.string())
    assert found.to_pylist() == table.to_pylist()


@pytest.mark.usefixtures("store")
def test_a_place_without_a_table_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, text in (
        ("s3://lake/none", "s3://lake/none does not exist"),
        ("s3://other/none", "s3://other/none"),
        ("delta+s3://lake/raw", "delta+s3://lake/raw: there is no Delta table"),
        ("ice.none", "ice.none: the catalog has no such table"),
        ("broken.db.none", "broken.db.none: (sqlite3.OperationalError)"),
    ):
        with pytest.raises(TableError, match=re.escape(text)):
            fetch(place, tmp_path)
        assert run("truth", place, "--out", tmp_path / "out") == 2
        assert capsys.readouterr().err.count("\n") == 1
    (tmp_path / "pairs").mkdir()
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"id": ["p"]}), tmp_path / "t" / "part-0.parquet")
    with pytest.raises(TableError, match=re.escape("ice.alone: a schema; name a table in it")):
        put(tmp_path / "pairs", "ice.alone")
    put(tmp_path / "t", "delta+s3://lake/delta")
    with pytest.raises(TableError, match=re.escape("is a Delta table; give delta+s3://lake/delta")):
        check_free("s3://lake/delta", overwrite=True)
    assert run("truth", tmp_path, "--out", "s3://lake/raw", "--overwrite") == 2
    assert "s3://lake/raw holds other files than tables" in capsys.readouterr().err
