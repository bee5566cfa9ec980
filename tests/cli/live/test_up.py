"""A network of processes: started by one command, watched, killed in part, stopped by a signal."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from shoal.cli.main import main
from shoal.matching import MatchIndex
from shoal.overlays.self_organising.parameters import Mode, SelfOrganisingParameters
from shoal.runtime.network_file import NetworkFile, load_network
from shoal.runtime.network_sections import BrokerSection
from shoal.runtime.supervisor import get_json
from tests.live.processes import is_running
from tests.runtime.live import PATIENCE_S, status_of
from tests.runtime.processes import wait_until

SHOAL = (sys.executable, "-m", "shoal.cli.main")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NetworkFile, Path]]:
    """Three brokers, started once for this module; that Ctrl-C stops them is checked at its end."""
    folder = tmp_path_factory.mktemp("network")
    command = (*SHOAL, "up", "--brokers", "3", "--port", "0", "--folder", str(folder))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "Ctrl-C stops it" in line:
                break
        network = load_network(folder / "network.toml")
        yield network, folder / "network.toml"
        children = [process_of(network, broker.name) for broker in network.brokers]
        assert len(list((folder / "data").iterdir())) == 3
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "stopped\n"
        assert process.wait(PATIENCE_S) == 0
        assert not any(is_running(child) for child in children)
        assert not (folder / "data").exists()


def statuses(network: NetworkFile) -> dict[str, dict[str, Any]]:
    """What the brokers that answer say."""

    async def ask(broker: BrokerSection) -> dict[str, Any]:
        address = broker.address("admin")
        assert address is not None
        with suppress(OSError):
            return await get_json(address, "/status")
        return {}

    async def ask_all() -> list[dict[str, Any]]:
        return await asyncio.gather(*map(ask, network.brokers))

    found = zip(network.brokers, asyncio.run(ask_all()), strict=True)
    return {broker.name: answer for broker, answer in found if answer}


def process_of(network: NetworkFile, broker: str) -> int:
    return int(asyncio.run(status_of(network.broker(broker).address("admin")))["pid"])


async def through(network: NetworkFile, source: str, target: str, payload: bytes) -> None:
    """Publish at one broker until it arrives at another."""
    one, other = (network.broker(name).address("mqtt") for name in (source, target))
    assert one is not None
    assert other is not None
    async with (
        asyncio.timeout(PATIENCE_S),
        aiomqtt.Client(other.host, other.port) as subscriber,
        aiomqtt.Client(one.host, one.port) as publisher,
    ):
        await subscriber.subscribe("a/b", qos=1)
        arrived = asyncio.create_task(anext(subscriber.messages))
        while not arrived.done():
            await publisher.publish("a/b", payload, qos=1)
            await asyncio.wait([arrived], timeout=0.1)
        assert (await arrived).payload == payload


def test_clients_of_different_processes_talk(network: tuple[NetworkFile, Path]) -> None:
    asyncio.run(through(network[0], "B2", "B3", b"hello"))


def test_status_shows_brokers_links_and_counts(
    network: tuple[NetworkFile, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run(capsys, "status", str(network[1]))
    assert code == 0
    assert re.search(r"B1 +ready +\d+ (s|min) +B2, B3", text)
    code, text = run(capsys, "status", str(network[1]), "--json")
    assert {each["system"] for each in json.loads(text).values()} == {"tree"}


def test_a_broker_that_is_killed_comes_back_and_is_joined_again(
    network: tuple[NetworkFile, Path],
) -> None:
    before = process_of(network[0], "B1")
    os.kill(before, signal.SIGKILL)

    def is_back() -> bool:
        found = statuses(network[0]).values()
        return len(found) == 3 and all(
            not each["missing"] and each["pid"] != before for each in found
        )

    wait_until(is_back)
    asyncio.run(through(network[0], "B3", "B2", b"again"))


def stat_of(process: int) -> list[str]:
    """Its state, its parent and so on."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def parent_of(process: int) -> int:
    return int(stat_of(process)[1])


def is_at_work(process: int) -> bool:
    """Not once it has ended, whether or not anybody has asked how."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return stat_of(process)[0] != "Z"
    return False


def test_brokers_are_forks_of_one_process_that_may_be_killed(
    network: tuple[NetworkFile, Path],
) -> None:
    """By hand each is found by its name, and no Ctrl-C but the first process's reaches it."""
    names = [broker.name for broker in network[0].brokers]
    before = [process_of(network[0], name) for name in names]
    for name, process in zip(names, before, strict=True):
        title = Path(f"/proc/{process}/cmdline").read_text().rstrip("\0")
        assert title == f"shoal serve {network[1]} --broker {name}"
        assert os.getsid(process) == process
    (server,) = {parent_of(process) for process in before}
    os.kill(server, signal.SIGKILL)

    def are_back() -> bool:
        found = [each for each in statuses(network[0]).values() if each["pid"] not in before]
        return len(found) == 3 and all(not each["missing"] for each in found)

    wait_until(are_back)
    wait_until(lambda: not any(map(is_at_work, before)))
    asyncio.run(through(network[0], "B1", "B3", b"of another"))


def test_publish_and_subscribe(
    network: tuple[NetworkFile, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = (network[0].broker(name).mqtt for name in ("B2", "B3"))
    subscribe = (*SHOAL, "subscribe", "dep_delay > 30", "-t", "flights", "--count", "2", "--json")
    with subprocess.Popen(
        (*subscribe, "--broker", other), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline() == f"subscribed at {other}\n"
        publish = ("publish", "--broker", one, "--retain")
        for minutes in (41, 42):
            # Retained, so that it arrives whether or not B2 has heard of the subscription.
            attribute = f"dep_delay={minutes}"
            assert run(capsys, *publish, "flights", "late", "-a", attribute)[0] == 0
            row = json.loads(process.stdout.readline())
            assert row["attributes"] == {"dep_delay": str(minutes)}
            assert row["payload"] == "late"
        assert process.wait(PATIENCE_S) == 0


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code and what was printed."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    found = capsys.readouterr()
    return int(caught.value.code or 0), found.err + found.out


FILE = """
name = "n"
links = [["B1", "B2"]]
[[brokers]]
name = "B1"
peers = "127.0.0.1:7001"
[[brokers]]
name = "B2"
peers = "127.0.0.1:7002"
"""
# With all listeners that an operator would miss.
WHOLE_FILE = """
name = "n"
links = [["B1", "B2"]]
[[brokers]]
name = "B1"
peers = "127.0.0.1:7001"
mqtt = "127.0.0.1:1883"
admin = "127.0.0.1:8081"
[[brokers]]
name = "B2"
peers = "127.0.0.1:7002"
mqtt = "127.0.0.1:1884"
admin = "127.0.0.1:8082"
[access]
anonymous = true
"""


def test_check_says_which_names_have_no_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "network.toml"
    rules = "[self_organising]\nforbidden = [['B1', 'B22']]"
    path.write_text(f"system = 'self_organising'\n{WHOLE_FILE}{rules}")
    code, text = run(capsys, "check", str(path))
    assert code == 0
    assert "self_organising.forbidden: no broker 'B22'; it has no effect unless one" in text


def test_check_says_what_is_wrong_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "network.toml"
    path.write_text(WHOLE_FILE)
    assert run(capsys, "check", str(path)) == (
        0,
        f"{path}: brokers 2, links 1, system tree: nothing wrong\n"
        "a client may send packets of 1,048,576 bytes, and subscribe to 100,000 topic filters at "
        "a time, with content filters of 4,096 bytes and 1,000 tests together; [limits] changes "
        "that\n",
    )
    path.write_text("plain_links = true\n" + WHOLE_FILE.replace("127.0.0.1:7002", "0.0.0.0:7002"))
    assert (
        "warning: brokers[1].peers: other brokers connect to 0.0.0.0:7002"
        in run(capsys, "check", str(path))[1]
    )
    path.write_text(f"zzz = 1\n{WHOLE_FILE}")
    code, text = run(capsys, "check", str(path))
    assert "zzz: unknown key; known here: name, brokers" in text
    assert "trace, costs, scaling, tree, grape, pop, bluedove" in text
    path.write_text(WHOLE_FILE.replace('"B2"]', '"B7"]').replace("7002", "7001"))
    code, text = run(capsys, "check", str(path))
    assert code == 2
    assert "links[0]: no broker 'B7'" in text
    assert "brokers[1].peers: 127.0.0.1:7001 is brokers[0].peers already" in text
    assert text.endswith("all keys: docs/reference/network-file.md\n")
    path.write_text(WHOLE_FILE.replace("links", "linsk"))
    assert run(capsys, "check", str(path)) == (
        2,
        f"shoal: {path}: linsk: unknown key; did you mean links? "
        "(docs/reference/network-file.md)\n",
    )
    path.write_text("name = x")
    assert "Invalid value (at line 1, column 8)" in run(capsys, "check", str(path))[1]


@contextmanager
def up(*options: str) -> Iterator[Path]:
    """A network for a while; its folder."""
    command = (*SHOAL, "up", "--port", "0", *options)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "Ctrl-C stops it" in line:
                break
        (folder,) = [line.split()[-1] for line in lines if "network file and logs in" in line]
        yield Path(folder)
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "stopped\n"
        assert process.wait(PATIENCE_S) == 0


def test_what_is_kept_is_there_after_a_kill_and_in_the_next_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--brokers", "1", "--data", str(tmp_path / "data"))

    def publish(path: Path, payload: str) -> None:
        where = load_network(path).broker("B1").mqtt
        arguments = ("publish", "a", payload, "--retain", "--broker", where)
        assert run(capsys, *arguments)[0] == 0

    def retained(path: Path) -> str:
        where = load_network(path).broker("B1").mqtt
        subscribe = ("subscribe", "-t", "a", "--count", "1", "--json", "--broker", where)
        code, text = run(capsys, *subscribe)
        assert code == 0
        return str(json.loads(text.splitlines()[-1])["payload"])

    with up(*options) as folder:
        path = folder / "network.toml"
        publish(path, "1")
        pid = process_of(load_network(path), "B1")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: process_of(load_network(path), "B1") != pid)
        assert retained(path) == "1"
        assert re.search(r"on disk +\d+ bytes", run(capsys, "status", str(path), "-d")[1])
        # Nobody else can have it meanwhile.
        code, text = run(capsys, "up", "--port", "0", *options)
        assert code == 2
        assert "is in use by process" in text
        publish(path, "2")
    with up(*options) as folder:
        assert retained(folder / "network.toml") == "2"


def test_brokers_do_not_outlive_who_started_them(tmp_path: Path) -> None:
    """They held their ports and folders, and nobody knew of them."""
    command = (*SHOAL, "up", "--brokers", "2", "--port", "0", "--folder", str(tmp_path))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("Ctrl-C stops it" in line for line in process.stdout)
        network = load_network(tmp_path / "network.toml")
        brokers = [process_of(network, broker.name) for broker in network.brokers]
        process.kill()
    wait_until(lambda: not any(map(is_running, brokers)))


def test_what_sets_the_system_is_in_the_network_file(tmp_path: Path) -> None:
    options = ("--brokers", "2", "--folder", str(tmp_path), "--system", "self_organising")
    settings = ("--set", "mode=exchange", "--set", "self_organising.grape.weight=50")
    with up(*options, *settings, "--set", "pinned=[['B1', 'B2']]"):
        parameters = load_network(tmp_path / "network.toml").system_parameters
    assert isinstance(parameters, SelfOrganisingParameters)
    assert parameters.mode is Mode.EXCHANGE
    assert parameters.grape.weight == 50
    assert parameters.pinned == (("B1", "B2"),)


def test_who_has_left_is_not_started_in_the_next_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was waited for by those that it was to be linked to, until `up` gave up."""
    options = ("--brokers", "3", "--data", str(tmp_path / "data"))
    with up(*options) as folder:
        code, text = run(capsys, "leave", str(folder / "network.toml"), "B1")
        assert (code, text) == (0, "B1 has left\n")
    with up(*options) as folder:
        network = load_network(folder / "network.toml")
        assert statuses(network).keys() == {"B2", "B3"}
        asyncio.run(through(network, "B2", "B3", b"still there"))


def test_a_port_in_use_is_said_with_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ("--brokers", "1", "--port", str(port), "--folder", str(tmp_path))
        code, text = run(capsys, "up", *options)
    assert code == 2
    assert f"shoal: B1: mqtt: cannot listen at 127.0.0.1:{port}" in text
    assert f"B1 did not start, see {tmp_path / 'B1.log'}" in text


def test_a_journal_that_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "network.toml"
    path.write_text(FILE + '[storage]\nfolder = "data"\n')
    journal = tmp_path / "data" / "B1" / "journal-00000001"
    journal.parent.mkdir(parents=True)
    journal.write_text("what is this?")
    for _ in range(2):
        code, text = run(capsys, "serve", str(path), "-b", "B1")
        assert code == 2
        assert f"shoal: B1: {journal}: what begins at byte 0 is damaged" in text
        assert f"move {journal.parent} away" in text
        assert MatchIndex.may_wait  # a broker that is over leaves its process as it was


def test_what_a_user_gets_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "network.toml"
    path.write_text(FILE)
    not_text = tmp_path / "not-text"
    not_text.write_bytes(b"\xff\xfe")
    wrong = [
        (("serve", str(path), "--broker", "B9"), "no broker 'B9'; there are B1, B2"),
        (("serve", str(tmp_path / "none"), "-b", "B1"), "cannot be read: No such file"),
        (("serve", str(path), "-b", "B1", "--log-level", "loud"), "use debug, info, warning or"),
        (("status", str(path)), "no broker has an admin address"),
        (("subscribe", "x >"), "expected"),
        (("subscribe", "--broker", "a b"), "--broker: 'a b' is not host:port"),
        (("publish", "a/#", "x"), "character 3: # is a wildcard"),
        (("subscribe", "-t", "a/#/b"), "--topic: topic filter 'a/#/b', level 2"),
        (
            ("record", "-t", "a/#/b", "--out", str(tmp_path / "new")),
            "--topic: topic filter 'a/#/b', level 2",
        ),
        (
            ("record", "--count", "5000001", "--out", str(tmp_path / "new")),
            "--count 5000001: use 1 to 5000000",
        ),
        (("publish", "t", "p", "-a", "x"), "--attribute x: write NAME=VALUE"),
        (("publish", "t", "not json", "--json"), "--json: not json is not JSON: Expecting value"),
        (("up", "--data", str(path)), f"--data {path}: is a file; give a folder"),
        (("up", "--folder", str(path)), f"--folder {path}: is a file; give a folder"),
        (("up", "--brokers", "0"), "--brokers 0: use 1 to 200"),
        (("up", "--host", "no.invalid"), "--host no.invalid: brokers cannot listen there: "),
        (("password", str(not_text), "ann", "--password", "x"), "byte 0 is not UTF-8 text"),
        (("up", "--system", "bluedove", "--matchers", "0"), "--matchers 0: use 1 to 200"),
        (("up", "--system", "bluedove", "--dimension", "x"), "--dimension x: write NAME=LOW:HIGH"),
        (("up", "--set", "weight"), "--set weight: write key.path=value"),
        (("up", "--system", "grape", "--set", "weight=140"), "weight: 140 is not between 0 and"),
        (("up", "--system", "grape", "--set", "wait=1"), "wait: unknown key; did you mean weight?"),
        (("up", "--port", "65534"), "--port 65534: is not a port that leaves room for 3 brokers"),
        (("up", "--system", "forest"), "--system forest: use one of tree, "),
        (
            ("up", "--system", "bluedove", "--brokers", "3"),
            "--brokers: bluedove does not know it; it starts --dispatchers and --matchers",
        ),
        (("up", "--dispatchers", "3"), "--dispatchers: tree does not know it; it starts --brokers"),
        (("up", "--system", "pop", "--matchers", "3"), "--matchers: pop does not know it"),
        (("up", "--system", "grape", "--dimension", "x=0:1"), "--dimension: grape does not know"),
    ]
    for arguments, problem in wrong:
        code, text = run(capsys, *arguments)
        assert code == 2, arguments
        assert problem in text
