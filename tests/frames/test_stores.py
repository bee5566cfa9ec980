"""Tables at places that Arrow reaches: a store of objects, Delta and Iceberg."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from shoal.cli.main import main
from shoal.frames.errors import TableError
from shoal.frames.stores import fetch

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
boto3 = pytest.importorskip("boto3")
pytest.importorskip("moto")

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
        }.items():
            patch.setenv(name, value)
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
    import pyarrow as pa

    rows = pa.table({"id": ["p1", "p2"], "wind": [5.0, 1.0]})
    deltalake.write_deltalake(str(tmp_path / "winds"), rows)
    deltalake.DeltaTable(str(tmp_path / "winds")).delete("wind > 3")
    (tmp_path / "s.jsonl").write_text('{"id": "any", "filter": "wind > 0"}\n')
    given = ("--subscriptions", tmp_path / "s.jsonl", "--publications", tmp_path / "winds")
    assert run("match", *given) == 0
    assert capsys.readouterr().out == '{"publication": "p2", "subscriptions": ["any"]}\n'


@pytest.mark.usefixtures("store")
def test_a_place_without_a_table_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, text in (
        ("s3://lake/none", "s3://lake/none does not exist"),
        ("s3://other/none", "s3://other/none"),
        ("delta+s3://lake/raw", "delta+s3://lake/raw: there is no Delta table"),
        ("ice.none", "ice.none: the catalog has no such table"),
    ):
        with pytest.raises(TableError, match=re.escape(text)):
            fetch(place, tmp_path)
        assert run("truth", place, "--out", tmp_path / "out") == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert run("truth", tmp_path, "--out", "s3://lake/raw", "--overwrite") == 2
    assert "s3://lake/raw holds other files than tables" in capsys.readouterr().err
