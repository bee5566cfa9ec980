"""From one mosquitto through a network to another, while everything on the way is killed.

Our brokers and bridges are killed; a mosquitto is stopped, as it writes its state only then. The
reader at the second mosquitto receives everything that the first has acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.client import Client
from shoal.client.terms import Keep
from tests.live.neighbours.mosquitto import Mosquitto, needs_mosquitto
from tests.runtime.forked import Forked
from tests.runtime.live import PATIENCE_S, until
from tests.runtime.processes import Processes, not_started, wait_until

MESSAGES, FAULTS = 400, 8
IN = """name = "in"
here.address = "{here}"
there = {{ address = "{there}", version = "3.1.1" }}
in = [{{ topic = "load/#", where = "n >= 0", add = "via/" }}]
"""
OUT = """name = "out"
here.address = "{here}"
there = {{ address = "{there}", version = "3.1.1" }}
out = [{{ topic = "via/load/#", where = "n >= 0", remove = "via/", add = "final/" }}]
"""


class Bridge:
    """One bridge as a process."""

    def __init__(self, file: Path, text: str) -> None:
        file.write_text(text, encoding="utf-8")
        self._file, self._log = file, file.with_suffix(".log")
        self.start()
        wait_until(lambda: "bridge up" in self._log.read_text(encoding="utf-8"))

    def start(self) -> None:
        self._log.touch()
        self._process = Forked(("bridge", str(self._file)), self._log)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE_S)
        self._process.stdout.close()

    def restart(self) -> None:
        self.kill()
        self.start()


def restart(here: Processes, name: str) -> None:
    here.kill(name)
    here.start(name)


@needs_mosquitto
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_nothing_acknowledged_is_lost_between_two_mosquittos(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    (tmp_path / "here").mkdir()
    with not_started(tmp_path / "here", 2) as here:
        for name in ("B1", "B2"):
            here.start(name)
        first, second = Mosquitto(tmp_path / "first"), Mosquitto(tmp_path / "second")
        bridges: list[Bridge] = []
        try:
            for name, broker, other, text in (
                ("in", "B1", first, IN),
                ("out", "B2", second, OUT),
            ):
                address = here.network.broker(broker).address("mqtt")
                text = text.format(here=address, there=other.address)
                bridges.append(Bridge(tmp_path / f"{name}.toml", text))
            faults: list[Callable[[], None]] = [
                first.restart,
                second.restart,
                *(bridge.restart for bridge in bridges),
                lambda: restart(here, "B1"),
                lambda: restart(here, "B2"),
            ]
            asyncio.run(carry(first, second, [chance.choice(faults) for _ in range(FAULTS)]))
        finally:
            for bridge in bridges:
                bridge.kill()
            first.stop()
            second.stop()


async def carry(first: Mosquitto, second: Mosquitto, faults: list[Callable[[], None]]) -> None:
    """Publish at the first mosquitto meanwhile; all of it arrives at the second."""
    found: list[int] = []

    async def read(reader: Client) -> None:
        async with reader.subscribe("final/#", qos=1) as subscription:
            while True:
                message = await subscription.get()
                found.append(json.loads(message.payload)["n"])
                reader.acknowledge(message)

    async def write(writer: Client) -> None:
        for n in range(MESSAGES):
            await writer.publish("load/a", json.dumps({"n": n}).encode(), qos=1)
            await asyncio.sleep(0.01)

    async with (
        asyncio.timeout(3 * PATIENCE_S),
        Client(first.address, "writer", keep=Keep(seconds=3_600)) as writer,
        Client(second.address, "reader", keep=Keep(seconds=3_600)) as reader,
    ):
        reading = asyncio.create_task(read(reader))
        await until(lambda: bool(reader._inbox.subscriptions))
        await asyncio.gather(*(each.granted() for each in reader._inbox.subscriptions.values()))
        writing = asyncio.create_task(write(writer))
        for fault in faults:
            await asyncio.sleep(0.3)
            await asyncio.to_thread(fault)
        await writing
        await until(lambda: set(found) >= set(range(MESSAGES)))
        reading.cancel()
