"""`shoal record --network`: publications from logs or live, and tables about the network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from shoal.cli.main import main
from shoal.client import Client
from shoal.experiments.networks.underlays import build_underlay
from shoal.experiments.run_files import BrokerRow
from shoal.experiments.scenarios.scenario import Matrix
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.network_file import NetworkFile, dump_network
from tests.runtime.live import PATIENCE_S, on_loop, until
from tests.runtime.log_serving.test_log_serving import logging_network
from tests.runtime.one_service import network, running

BROKERS = ("B1", "B2", "B3")


def shoal(*words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words])
    if ended.value.code:
        raise AssertionError(f"exit code {ended.value.code}")


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(folder / f"{name}.parquet").to_pylist()
    return found


@asynccontextmanager
async def serving(net: NetworkFile, file: Path) -> AsyncIterator[list[BrokerService]]:
    """Brokers of a network, whose file names the ports at which they listen."""
    async with asyncio.timeout(PATIENCE_S), running(net, *BROKERS) as services:
        await until(lambda: not any(each.missing() for each in services))
        listening = {
            each.node.id: {
                key: str(each.listening[key]) for key in ("log", "admin") if key in each.listening
            }
            for each in services
        }
        brokers = tuple(
            msgspec.structs.replace(each, **listening[each.name]) for each in net.brokers
        )
        file.write_text(dump_network(msgspec.structs.replace(net, brokers=brokers)))
        yield services


@asynccontextmanager
async def flights(services: list[BrokerService]) -> AsyncIterator[None]:
    """A dashboard at B2; a radar at B3 has published on a, one at B1 on a and b."""
    where = [str(each.listening["mqtt"]) for each in services]
    async with (
        Client(where[0], "west") as west,
        Client(where[2], "east") as east,
        Client(where[1], "dashboard") as dashboard,
        dashboard.subscribe("flights/#", "delay > 2", qos=1) as subscription,
    ):
        await subscription.granted()
        await west.publish("flights/a", b'{"delay": 1}', qos=1)
        await east.publish("flights/a", b'{"delay": 20}', qos=1)
        await east.publish("flights/a", b'{"delay": 3}', qos=1)
        await west.publish("flights/b", b"", qos=1)
        for _ in range(2):
            await subscription.get()
        yield


@on_loop
async def test_logs_are_read_and_tables_of_the_network_added(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "net.toml", tmp_path / "out"
    net = logging_network(tmp_path, 3)
    async with serving(net, file) as services, flights(services):
        await asyncio.to_thread(shoal, "record", "--network", str(file), "--out", str(out))
    said = capfd.readouterr()
    summary = "4 publications of 2 publishers, 1 subscription at 3 brokers, 3 clients -> "
    assert (said.out, said.err) == (f"{summary}{out}\n", "")
    publications = [
        (each["publisher"], each["client"], each["broker"], each["payload_bytes"])
        for each in rows(out, "publications")
    ]
    assert publications == [
        ("flights/a", "west", "B1", 12),
        ("flights/a", "east", "B3", 13),
        ("flights/a", "east", "B3", 12),
        ("flights/b", "west", "B1", 0),
    ]
    assert rows(out, "publishers") == [
        {"publisher": "flights/a", "broker": "B3"},
        {"publisher": "flights/b", "broker": "B1"},
    ]
    clients = [
        (each["client"], each["broker"], each["subscriptions"], each["published"])
        for each in rows(out, "clients")
    ]
    assert sorted(clients) == [
        ("dashboard", "B2", 1, 0),
        ("east", "B3", 0, 2),
        ("west", "B1", 0, 2),
    ]
    [subscription] = rows(out, "subscriptions")
    assert (subscription["client"], subscription["broker"]) == ("dashboard", "B2")
    assert "delay > 2" in subscription["filter"]
    brokers = rows(out, "brokers")
    assert [each["broker"] for each in brokers] == [*BROKERS]
    assert all(each["service_us"] > 0 for each in brokers)
    first, *lines = (out / "round_trips.csv").read_text().splitlines()
    assert first == "from,to,ms"
    measured = {tuple(line.split(",")[:2]): float(line.split(",")[2]) for line in lines}
    assert measured.keys() == {("B1", "B2"), ("B1", "B3"), ("B2", "B3")}
    assert all(0 < each < 5_000 for each in measured.values())
    # Other commands read the tables.
    underlay = build_underlay(
        Matrix(path=str(out / "round_trips.csv"), local_latency_us=1),
        [BrokerRow(broker=each) for each in BROKERS],
        seed=5,
    )
    for (one, other), ms in measured.items():
        assert underlay.latency_us(one, other) == max(1, round(ms * 500))
    given = [
        option
        for table in ("brokers", "subscriptions", "publishers")
        for option in (f"--{table}", str(out / f"{table}.parquet"))
    ]
    shoal("workload", str(out), *given, "--out", str(tmp_path / "workload"))
    homes = pq.read_table(tmp_path / "workload" / "publishers.parquet").to_pylist()
    found = {each["publisher"]: each["broker"] for each in homes}
    assert found == {"flights/a": "B3", "flights/b": "B1"}
    shoal("plan", "octopia", "--rtt", str(out / "round_trips.csv"))


@on_loop
async def test_logs_that_lack_publications_are_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "net.toml", tmp_path / "out"
    net = logging_network(tmp_path, 3, log={"brokers": ["B3"], "topics": ["flights/#"], "qos": 1})
    async with serving(net, file) as services, flights(services):
        command = ("record", "--network", str(file), "--count", "1", "--out", str(out))
        await asyncio.to_thread(shoal, *command)
    assert [each["client"] for each in rows(out, "publications")] == ["east"]
    warnings = capfd.readouterr().err.splitlines()
    assert warnings == [
        "shoal: warning: the logs have more than --count 1: the rest is left out",
        "shoal: warning: no log has what entered at B1, B2",
        "shoal: warning: the logs keep only publications on flights/# from QoS 1 on",
    ]


@on_loop
@pytest.mark.parametrize("has_log", [False, True])
async def test_a_broker_that_is_named_is_recorded_live(tmp_path: Path, *, has_log: bool) -> None:
    file, out = tmp_path / "net.toml", tmp_path / "out"
    net = logging_network(tmp_path, 3) if has_log else network(3)
    async with serving(net, file) as services:
        where = str(services[1].listening["mqtt"])
        command = ("record", "--network", str(file), "--broker", where, "--count", "4")
        recording = asyncio.create_task(asyncio.to_thread(shoal, *command, "--out", str(out)))
        # B1 and B3 know the recorder's subscription before anything is published.
        clients = services[1].front_end.clients
        await until(lambda: clients.subscriptions.count == 1)
        await until(
            lambda: all(each.node.machine.description["subscriptions"] for each in services)
        )
        async with flights(services):
            await recording
    publications = rows(out, "publications")
    assert sorted(each["payload_bytes"] for each in publications) == [0, 12, 12, 13]
    assert {each["broker"] for each in publications} == {None}
    assert not (out / "publishers.parquet").exists(), "no broker says which client publishes what"
    assert {each["client"]: each["broker"] for each in rows(out, "clients")} == {
        "west": "B1",
        "east": "B3",
        "dashboard": "B2",
    }
    assert len((out / "round_trips.csv").read_text().splitlines()) == 4


def test_contradicting_options_get_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "net.toml"
    file.write_text(dump_network(logging_network(tmp_path, 3)))
    for words, text in (
        (("--to", "-1h"), "--to reads the logs of a network: name it by --network"),
        (
            ("--network", str(file), "--from", "-1h", "--seconds", "3"),
            "--from reads logs, --seconds records what comes: give one",
        ),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["record", "--out", str(tmp_path / "out"), *words])
        assert ended.value.code == 2
        assert text in capsys.readouterr().err
