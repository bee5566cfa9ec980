"""`shoal log` against brokers that log: reading, following, readers, folders."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.cli.main import main
from shoal.client import Client
from shoal.log.remote import RemoteLog
from shoal.log.staging.parts import Attempt
from shoal.log.staging.remote import RemoteStaging, commit_batch
from shoal.log.staging.staged_rows import StagedRow
from shoal.runtime.network_file import dump_network
from tests.runtime.live import PATIENCE_S, on_loop, until
from tests.runtime.log_serving.test_log_serving import logging_network, remote
from tests.runtime.one_service import running

SHOAL = (sys.executable, "-m", "shoal.cli.main")


def shoal(*words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["log", *words])
    if ended.value.code:
        raise AssertionError(f"exit code {ended.value.code}")


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["log", *words])
    assert ended.value.code == 2
    return capsys.readouterr().err


@on_loop
async def test_a_network_is_read_by_time_as_lines_and_tables(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    net = logging_network(tmp_path, 2)
    async with asyncio.timeout(PATIENCE_S), running(net, "B1", "B2") as services:
        await until(lambda: not any(each.missing() for each in services))
        listening = {
            each.node.id: {key: str(each.listening[key]) for key in ("log", "admin")}
            for each in services
        }
        brokers = tuple(
            msgspec.structs.replace(each, **listening[each.name]) for each in net.brokers
        )
        file = tmp_path / "net.toml"
        file.write_text(dump_network(msgspec.structs.replace(net, brokers=brokers)))
        async with (
            Client(str(services[0].listening["mqtt"]), "a") as one,
            Client(str(services[1].listening["mqtt"]), "b") as other,
        ):
            for number in range(6):
                client = (one, other)[number % 2]
                await client.publish(f"t/{number}", b'{"x": %d}' % number, qos=1)

        def play() -> None:
            shoal("read", str(file))
            rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
            assert [row["attributes"]["x"] for row in rows] == [*range(6)]
            assert [row["broker"] for row in rows] == ["B1", "B2"] * 3
            assert rows[0].keys() >= {"offset", "time", "publisher", "key", "topic", "payload"}
            shoal("read", str(file), "-t", "t/+", "--where", "x >= 4", "--from", "-1h")
            rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
            assert [row["payload"] for row in rows] == ['{"x": 4}', '{"x": 5}']
            shoal("read", str(file), "--without", "B2")
            assert len(capfd.readouterr().out.splitlines()) == 3
            shoal("read", str(file), "--to", "2020-01-01")
            assert capfd.readouterr().out == ""
            shoal("read", str(file), "--format", "parquet", "--out", str(tmp_path / "t.parquet"))
            table = pq.read_table(tmp_path / "t.parquet")
            assert table["topic"].to_pylist() == [f"t/{number}" for number in range(6)]
            assert json.loads(table["attributes"][5].as_py())["x"] == 5
            shoal("read", str(file), "--format", "arrow", "--out", str(tmp_path / "t.arrow"))
            assert pa.ipc.open_stream(tmp_path / "t.arrow").read_all().equals(table)
            out = str(tmp_path / "recorded")
            command = ["record", "--network", str(file), "--from", "-1h", "--levels", "1"]
            with pytest.raises(SystemExit) as ended:
                main([*command, "-t", "t/+", "--out", out])
            assert not ended.value.code
            recorded = pq.read_table(Path(out) / "publications.parquet")
            assert recorded["publisher"].to_pylist() == ["t"] * 6
            assert recorded["sequence"].to_pylist() == [*range(6)]
            assert [row["x"] for row in recorded["attributes"].to_pylist()] == [*range(6)]
            assert recorded["time_us"].to_pylist() == table["time"].cast("int64").to_pylist()

        await asyncio.to_thread(play)


@on_loop
async def test_readers_are_listed_and_forgotten(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with asyncio.timeout(PATIENCE_S), running(logging_network(tmp_path), "B1") as (service,):
        url = remote(service).url

        def play() -> None:
            shoal("readers", url)
            assert capfd.readouterr().out == "there are no named readers\n"
            remote(service).pin("job", "from=earliest")
            shoal("readers", url)
            assert "job" in capfd.readouterr().out
            shoal("forget", url, "job")
            assert capfd.readouterr().out == "forgot reader job at 1 brokers\n"
            assert remote(service).readers() == []

        await asyncio.to_thread(play)


@on_loop
async def test_a_folder_is_read_and_served_without_its_broker(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        running(logging_network(tmp_path), "B1") as (service,),
        Client(str(service.listening["mqtt"]), "a") as client,
    ):
        await client.publish("t", b"kept", qos=1)
    folder = str(tmp_path / "log" / "B1")
    shoal("read", folder)
    assert json.loads(capfd.readouterr().out)["payload"] == "kept"
    environment = dict(os.environ)
    with subprocess.Popen(
        [*SHOAL, "log", "serve", folder], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        broker, key, address = process.stdout.readline().split()
        assert (broker, key) == ("B1", "log")
        shoal("read", f"http://{address}")
        assert json.loads(capfd.readouterr().out)["payload"] == "kept"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def test_mistakes_get_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "has no log" in refused(capsys, "read", str(tmp_path))
    missing = str(tmp_path / "x.toml")
    cannot = f"shoal: {missing}: cannot be read: No such file or directory\n"
    assert refused(capsys, "read", missing) == cannot
    url = "http://127.0.0.1:9"
    assert "does not answer" in refused(capsys, "read", url)
    for words, text in (
        (("--from", "yesterday"), "--from: 'yesterday': write earliest"),
        (("--where", "x >"), "x >"),
        (("-t", "a/#/b"), "a/#/b"),
        (("--format", "parquet"), "--format parquet needs --out FILE"),
        (("--follow", "--to", "-1h"), "--follow goes with neither"),
    ):
        assert text in refused(capsys, "read", url, *words)
    assert "which reader?" in refused(capsys, "forget", url)
    assert "is no folder" in refused(capsys, "serve", missing)
    assert "open to other machines" in refused(
        capsys, "serve", str(tmp_path), "--listen", "0.0.0.0:0"
    )


@on_loop
async def test_staged_rows_are_listed_and_dropped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = {"folder": str(tmp_path / "data"), "sync": "never"}
    net = logging_network(tmp_path, storage=storage)
    async with asyncio.timeout(PATIENCE_S), running(net, "B1") as (service,):
        url = f"http://{service.listening['log']}"

        def play() -> None:
            shoal("staged", url)
            assert capsys.readouterr().out == "there are no staged rows\n"
            rows = (StagedRow("t", b"x") for _ in range(7))
            staging = RemoteStaging(RemoteLog(url))
            count = staging.stage("job-1", 3, "a", rows)
            shoal("staged", url)
            assert "job-1" in (printed := capsys.readouterr().out)
            assert "7" in printed
            commit_batch({"B1": staging}, "job-1", 3, [Attempt("B1", "a", count)])
            shoal("staged", url)
            (line,) = (each for each in capsys.readouterr().out.splitlines() if "job-1" in each)
            assert line.replace("│", " ").split() == ["job-1", "B1", "3", "7", "7", "0"]
            assert "unstage: which query?" in refused(capsys, "unstage", url)
            assert "there is no query job-2" in refused(capsys, "unstage", url, "job-2")
            shoal("unstage", url, "job-1")
            assert capsys.readouterr().out == "dropped query job-1 at 1 brokers\n"
            shoal("staged", url)
            assert capsys.readouterr().out == "there are no staged rows\n"

        await asyncio.to_thread(play)
