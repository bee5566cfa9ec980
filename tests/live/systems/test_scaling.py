"""A matcher's process is started under load, takes its part, and ends when the load has gone."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from shoal.cli.main import main
from shoal.client import Client
from shoal.runtime.free_ports import free_ports
from shoal.runtime.network_file import dump_network, load_network, parse_network
from tests.live.processes import Processes, is_running, up
from tests.runtime.forked import Forked
from tests.runtime.live import PATIENCE_S, status_of

COSTLY = 200
# Publications under way at once, under load.
WINDOW = 20
SET = ("saturated=0.6", "idle=0.4", "patience_us=1000000", "settle_us=2000000")
TOPIC = "site/values"


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Processes]:
    settings = [word for each in SET for word in ("--set", f"elasticity.{each}")]
    size = ("--dispatchers", "1", "--matchers", "1", "--spares", "1")
    with up(tmp_path, "--system", "bluedove", *size, *settings) as processes:
        yield processes


class PlainClients:
    """A publisher that never pauses, and a subscriber to all: clients that know only MQTT."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._where = host, int(port)
        self.published = 0
        self.received: list[int] = []
        # The pause between two publications.
        self.pause_s = 0.0
        self._is_over = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with aiomqtt.Client(*self._where) as reader, aiomqtt.Client(*self._where) as writer:
            # Else the dispatcher would need no other subscription than this one.
            await reader.subscribe(f"{TOPIC}?n>=0", qos=1)
            reading = asyncio.create_task(self._read(reader))
            writing = [asyncio.create_task(self._write(writer)) for _ in range(WINDOW)]
            yield
            self._is_over = True
            await asyncio.gather(*writing)
            await until(lambda: len(self.received) >= self.published)
            await asyncio.sleep(0.5)
            reading.cancel()

    async def _read(self, reader: aiomqtt.Client) -> None:
        async for message in reader.messages:
            assert isinstance(message.payload, bytes)
            self.received.append(json.loads(message.payload)["n"])

    async def _write(self, writer: aiomqtt.Client) -> None:
        while not self._is_over:
            number, self.published = self.published, self.published + 1
            values = {"n": number, "x": number * 37 % 1_000, "a": 2**60 + number, "b": 2**61}
            await writer.publish(TOPIC, json.dumps(values), qos=1)
            await asyncio.sleep(self.pause_s)


async def until(holds: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(2 * PATIENCE_S):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.1)


@asynccontextmanager
async def costly_subscriptions(address: str) -> AsyncIterator[None]:
    """Filters that take a matcher a tenth of a millisecond each, and match nothing."""
    chance = random.Random(1)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(address))
        for number in range(COSTLY):
            terms = " + ".join(f"a % {chance.randrange(2, 99)}" for _ in range(30))
            costly = f"CASE WHEN b > {number} THEN {terms} ELSE {number} END > 10000"
            where = f"x >= {number} AND x < {800 + number} AND {costly}"
            topics = f"{TOPIC}?$levels!={number + 1_000}"
            await stack.enter_async_context(client.subscribe(topics, where))
        yield


async def scaled(admin: Any) -> list[tuple[str, str, str]]:
    rows = (await status_of(admin))["shown"]["scalings"]
    return [(row["action"], row["matcher"], row["step"]) for row in rows]


async def _grows_and_shrinks(address: str, admin: Any, spare: Any) -> list[tuple[str, str, str]]:
    """Load rises and falls; the spare's process starts, works and ends; nothing is lost."""
    clients = PlainClients(address)

    async def is_ready() -> bool:
        return bool((await status_of(admin))["ready"])

    await until(is_ready)

    async def is_added() -> bool:
        return ("add", "done") in {(row[0], row[2]) for row in await scaled(admin)}

    async def is_removed() -> bool:
        return ("remove", "done") in {(row[0], row[2]) for row in await scaled(admin)}

    async with clients.running():
        async with costly_subscriptions(address):
            await until(is_added)
            status = await status_of(spare)
            process, sent = status["pid"], status["counts"]["messages_out"]
            assert status["tables"]["rows"] >= COSTLY / 2

            async def takes_its_part() -> bool:
                return (await status_of(spare))["counts"]["messages_out"] > sent + 100

            await until(takes_its_part)
        clients.pause_s = 1.0
        await until(is_removed)
        await until(lambda: not is_running(process))
    assert clients.received == list(range(clients.published))
    return await scaled(admin)


@pytest.mark.soak
def test_a_spare_of_up_comes_with_the_load_and_goes_with_it(
    network: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    admin, spare = (network.network.broker(name).address("admin") for name in ("D1", "M2"))

    async def knows_a_matcher() -> bool:
        return bool((await status_of(admin))["scaling"]["serving"])

    asyncio.run(until(knows_a_matcher))
    with suppress(SystemExit):
        main(("status", str(network.path)))
    text = capsys.readouterr().out
    assert "all 2 brokers are ready" in text  # a spare that does not run is no fault
    assert "D1 scales: 1 serve (1 or more)" in text
    steps = asyncio.run(_grows_and_shrinks(network.address("D1"), admin, spare))
    assert steps == [
        ("add", "M2", "begun"),
        ("add", "M2", "done"),
        ("remove", "M2", "begun"),
        ("remove", "M2", "done"),
    ]


# A spare's process that a command of the operator's starts and ends.
_COMMAND = """
import os, pathlib, signal, subprocess, sys
order, broker, folder = sys.argv[1:]
pid = pathlib.Path(folder, broker + ".pid")
if broker == "M2":
    sys.exit("M2 has no machine")
if order == "start":
    words = "-m", "shoal.cli.main", "serve", folder + "/network.toml", "-b", broker, "--join", "D1"
    with open(folder + "/" + broker + ".log", "ab") as log:
        child = subprocess.Popen([sys.executable, *words], stdout=log, stderr=log)
    pid.write_text(str(child.pid))
elif pid.exists():
    try:
        os.kill(int(pid.read_text()), signal.SIGTERM)
    except ProcessLookupError:
        pass
"""


@pytest.mark.soak
def test_an_operators_commands_start_and_end_the_spares(tmp_path: Path) -> None:
    """The first spare's command fails, and the second spare comes instead."""
    ports = iter(free_ports("127.0.0.1", 9))
    names = "D1", "M1", "M2", "M3"
    brokers = [
        {"name": name} | {key: f"127.0.0.1:{next(ports)}" for key in ("peers", "admin")}
        for name in names
    ]
    brokers[0]["mqtt"] = f"127.0.0.1:{next(ports)}"
    command = [sys.executable, "-c", _COMMAND]
    elasticity = {"saturated": 0.6, "idle": 0.4, "patience_us": 1_000_000, "settle_us": 2_000_000}
    parameters = {
        "dispatchers": ["D1"],
        "matchers": ["M1"],
        "dimensions": [{"attribute": "x", "high": 1_000}],
        "elastic": True,
        "elasticity": elasticity | {"spares": ["M2", "M3"]},
    }
    data = {
        "name": "n",
        "system": "bluedove",
        "brokers": brokers,
        "access": {"anonymous": True},
        "scaling": {
            "start": [*command, "start", "{broker}", str(tmp_path)],
            "end": [*command, "end", "{broker}", str(tmp_path)],
        },
        "bluedove": parameters,
    }
    path = tmp_path / "network.toml"
    path.write_text(dump_network(parse_network(data)), encoding="utf-8")
    running = [
        Forked(("serve", str(path), "--broker", name), tmp_path / f"{name}.log")
        for name in ("D1", "M1")
    ]
    try:
        network = load_network(path)
        admin, spare = (network.broker(name).address("admin") for name in ("D1", "M3"))
        steps = asyncio.run(_grows_and_shrinks(network.broker("D1").mqtt, admin, spare))
    finally:
        for process in running:
            process.send_signal(signal.SIGKILL)
    assert steps[:4] == [
        ("add", "M2", "begun"),
        ("add", "M2", "failed"),
        ("add", "M3", "begun"),
        ("add", "M3", "done"),
    ]
    assert steps[-2:] == [("remove", "M3", "begun"), ("remove", "M3", "done")]
