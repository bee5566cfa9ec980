"""Bridges between a shoal network and another broker: mosquitto, or another shoal network.

Without Debian's mosquitto those tests are skipped. Every process is killed except mosquitto, which
writes its state only when it is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from shoal.client import Client, Keep
from shoal.client.bridges.bridge_file import parse_bridge
from shoal.runtime.addresses import Address
from shoal.runtime.free_ports import free_ports
from shoal.typed_toml import TomlError
from tests.live.neighbours.mosquitto import Mosquitto, needs_mosquitto
from tests.runtime.forked import Forked
from tests.runtime.live import PATIENCE_S, until
from tests.runtime.processes import Processes, not_started, wait_until

OTHERS = [
    pytest.param("shoal", "5"),
    pytest.param("mosquitto", "5", marks=needs_mosquitto),
    pytest.param("mosquitto", "3.1.1", marks=(needs_mosquitto, pytest.mark.soak)),
]
MESSAGES = 60


class Shoal:
    """A shoal network in place of mosquitto."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._entered = not_started(folder, 1, name="other")
        self._processes = self._entered.__enter__()
        self._processes.start("B1")
        self.address = str(self._processes.network.broker("B1").address("mqtt"))

    def restart(self) -> None:
        self._processes.kill("B1")
        self._processes.start("B1")

    def stop(self) -> None:
        self._entered.__exit__(None, None, None)


class Bridged:
    """Our network, the other broker, and the bridge between them, each a process."""

    def __init__(self, folder: Path, here: Processes, other: Mosquitto | Shoal) -> None:
        self.here = here
        self.other = other
        self.address = str(here.network.broker("B1").address("mqtt"))
        self._file = folder / "bridge.toml"
        self._log = folder / "bridge.log"
        self._process: Forked | None = None
        (port,) = free_ports("127.0.0.1", 1)
        self._metrics = str(Address("127.0.0.1", port))

    @property
    def metrics(self) -> dict[tuple[str, ...], float]:
        """Prometheus metrics: name and labels to value."""
        with urllib.request.urlopen(f"http://{self._metrics}/metrics", timeout=PATIENCE_S) as found:
            text = found.read().decode()
        families = text_string_to_metric_families(text)
        rows = [row for family in families for row in family.samples]
        return {(row.name, *row.labels.values()): row.value for row in rows}

    def start(self, text: str, version: str) -> None:
        self._file.write_text(
            f'name = "b"\nhere.address = "{self.address}"\n'
            f'there = {{ address = "{self.other.address}", version = "{version}" }}\n{text}'
        )
        self._run()

    def _run(self) -> None:
        self._log.touch()
        ups = self._log.read_text().count("bridge up")
        words = ("bridge", str(self._file), "--metrics", self._metrics)
        self._process = Forked(words, self._log)
        wait_until(lambda: self._log.read_text().count("bridge up") > ups)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(PATIENCE_S)
            self._process.stdout.close()
            self._process = None

    def restart(self) -> None:
        self.kill()
        self._run()


@pytest.fixture
def bridged(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bridged]:
    kind = Shoal if request.param == "shoal" else Mosquitto
    folder = tmp_path / "here"
    folder.mkdir()
    with not_started(folder, 1) as here:
        here.start("B1")
        other = kind(tmp_path / "other")
        found = Bridged(tmp_path, here, other)
        try:
            yield found
        finally:
            found.kill()
            other.stop()


RULES = """
[[out]]
topic = "alarms/#"
where = "level > 3"
add = "shoal/"

[[in]]
topic = "sensors/#"
where = "warm > 20"
remove = "sensors/"
add = "site/"
"""


# After a restart mosquitto 2.0.11 forgets a session that began with a clean start.
KEPT = Keep(seconds=3_600)


async def collect(client: Client, topic: str, found: list[tuple[str, int]]) -> None:
    async with client.subscribe(topic, qos=1) as subscription:
        while True:
            message = await subscription.get()
            found.append((message.topic, json.loads(message.payload)["n"]))
            client.acknowledge(message)


@pytest.mark.parametrize(("bridged", "version"), OTHERS, indirect=["bridged"])
def test_acknowledged_messages_cross_whichever_process_is_killed(
    bridged: Bridged, version: str
) -> None:
    bridged.start(RULES, version)
    wanted_out = {("shoal/alarms/a", n) for n in range(MESSAGES) if n % 8 > 3}
    wanted_in = {("site/hall", n) for n in range(MESSAGES) if n % 2}
    out: list[tuple[str, int]] = []
    into: list[tuple[str, int]] = []

    async def publish(client: Client, topic: str, fields: Any) -> None:
        for n in range(MESSAGES):
            await client.publish(topic, json.dumps({"n": n, **fields(n)}).encode())
            await asyncio.sleep(0.01)

    async def run() -> None:
        async with (
            asyncio.timeout(2 * PATIENCE_S),
            Client(bridged.address, "w") as writer,
            Client(bridged.address, "r", keep=KEPT) as reader,
            Client(bridged.other.address, "ow") as other_writer,
            Client(bridged.other.address, "or", keep=KEPT) as other_reader,
        ):
            reading = [
                asyncio.create_task(collect(other_reader, "shoal/#", out)),
                asyncio.create_task(collect(reader, "site/#", into)),
            ]
            await until(lambda: len(other_reader._inbox.subscriptions) == 1)
            for client in (reader, other_reader):
                subscriptions = client._inbox.subscriptions.values()
                await asyncio.gather(*(each.granted() for each in subscriptions))
            writing = [
                asyncio.create_task(publish(writer, "alarms/a", lambda n: {"level": n % 8})),
                asyncio.create_task(
                    publish(other_writer, "sensors/hall", lambda n: {"warm": 20 + n % 2})
                ),
            ]
            await asyncio.sleep(0.1)
            await asyncio.to_thread(bridged.restart)
            await asyncio.to_thread(bridged.here.kill, "B1")
            await asyncio.to_thread(bridged.here.start, "B1")
            await asyncio.to_thread(bridged.other.restart)
            await asyncio.gather(*writing)
            with contextlib.suppress(TimeoutError):
                await until(lambda: set(out) >= wanted_out and set(into) >= wanted_in)
            assert (wanted_out - set(out), wanted_in - set(into)) == (set(), set())
            for task in reading:
                task.cancel()

    asyncio.run(run())
    assert set(out) == wanted_out
    assert set(into) == wanted_in


BOTH_WAYS = """
in = [{topic = "both/#"}]
out = [{topic = "both/#"}]
"""


@pytest.mark.parametrize("bridged", ["shoal"], indirect=True)
def test_a_carried_message_does_not_come_back(bridged: Bridged) -> None:
    bridged.start(BOTH_WAYS, "5")

    async def run() -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            Client(bridged.address, "here") as here,
            Client(bridged.other.address, "there") as there,
            here.subscribe("both/#") as at_home,
            there.subscribe("both/#") as abroad,
        ):
            for n in range(3):
                for client in (here, there):
                    await client.publish("both/a", b"%d" % n, attributes={"unit": "K"})
                for subscription in (at_home, abroad):
                    for _ in range(2):
                        message = await subscription.get()
                        assert (message.payload, message.attributes["unit"]) == (b"%d" % n, "K")
            assert not at_home.messages
            assert not abroad.messages

    asyncio.run(run())
    wait_until(lambda: bridged.metrics["shoal_bridge_carried_total", "in"] == 3)
    found = bridged.metrics
    assert found["shoal_bridge_carried_total", "out"] == 3
    for end in ("here", "there"):
        assert found["shoal_bridge_up", end] == found["shoal_bridge_connections_total", end] == 1
    assert found["shoal_bridge_waiting", "out"] == 0
    bridged.other.stop()
    wait_until(lambda: bridged.metrics["shoal_bridge_up", "there"] == 0)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"out": []}, "nothing is carried"),
        ({"out": [{"topic": "a/#", "where": "x >"}]}, "out[0].where"),
        ({"out": [{"topic": "a/#", "remove": "b/"}]}, "does not begin with 'b/'"),
        ({"out": [{"topic": "a/#/b"}]}, "out[0].topic"),
        ({"out": [{"topic": "$SYS/#"}]}, "begins with $"),
        ({"out": [{"topic": "a", "qos": 2}]}, "out[0].qos: 2 cannot be kept between brokers"),
        ({"there": {"address": "http://x"}}, "http is no way to a broker"),
        ({"there": {"address": "x", "versoin": "5"}}, "did you mean version?"),
        (
            {"there": {"address": "x", "version": "3.1.1"}, "in": [{"topic": "a/b"}]},
            "brings back, for ever",
        ),
    ],
)
def test_a_wrong_bridge_file_is_refused_with_the_reason(
    changed: dict[str, Any], problem: str
) -> None:
    data: dict[str, Any] = {
        "name": "b",
        "here": {"address": "x"},
        "there": {"address": "y"},
        "out": [{"topic": "a/#"}],
    }
    with pytest.raises(TomlError) as caught:
        parse_bridge(data | changed, "bridge.toml")
    assert problem in str(caught.value)
