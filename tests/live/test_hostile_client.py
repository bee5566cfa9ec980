"""One client sends the worst of every kind; another's ping is answered within 100 ms."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path

import pytest

from shoal.mqtt.encoder import encode
from shoal.mqtt.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.packets import Connect
from tests.live.processes import Processes, up
from tests.mqtt.hostile import Hostile, hostile_inputs
from tests.runtime.live import PATIENCE_S

MOST_S = 0.1
# What only the machine was slow at does not come again.
ATTEMPTS = 3
PAUSE_S = 0.005


def kept_waiting_s(*processes: int) -> float:
    """How long these have waited for a processor that others had; 0 where no system tells."""
    found = 0.0
    for process in processes:
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{process}/schedstat").read_text(encoding="ascii")
            found += int(text.split()[1]) / 1e9
    return found


class Pings:
    """A client that asks whether the broker is there, again and again.

    What the broker's process and this one wait for processors does not count.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, broker: int
    ) -> None:
        self.longest_s = 0.0
        self._reader, self._writer = reader, writer
        self._processes = (broker, os.getpid())

    def _now_s(self) -> float:
        return time.perf_counter() - kept_waiting_s(*self._processes)

    async def run(self) -> None:
        while True:
            started_s = self._now_s()
            self._writer.write(b"\xc0\0")
            assert await self._reader.readexactly(2) == b"\xd0\0"
            self.longest_s = max(self.longest_s, self._now_s() - started_s)
            await asyncio.sleep(PAUSE_S)


async def _connect(host: str, port: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(host, int(port))


async def _send(host: str, port: str, hostile: Hostile) -> None:
    """Send it, and wait until the broker has answered or closed."""
    reader, writer = await _connect(host, port)
    try:
        if hostile.is_connected:
            writer.write(encode(Connect("hostile"), MQTT_5))
            assert await reader.read(65_536)
        async with asyncio.timeout(PATIENCE_S):
            for packet in hostile.packets:
                writer.write(packet)
                await reader.read(65_536)
    except ConnectionError:
        pass  # refused
    finally:
        writer.transport.abort()


@pytest.mark.soak
def test_nobody_holds_up_anybody_else(tmp_path: Path) -> None:
    async def longest_ping(network: Processes, hostile: Hostile) -> float:
        host, _, port = network.address("B2").rpartition(":")
        reader, writer = await _connect(host, port)
        writer.write(encode(Connect("pings", version=MQTT_3_1_1), MQTT_3_1_1))
        assert await reader.readexactly(4) == b"\x20\x02\0\0"
        pings = Pings(reader, writer, process)
        pinging = asyncio.create_task(pings.run())
        try:
            await _send(host, port, hostile)
            await asyncio.sleep(hostile.lasts_s)
            assert not pinging.done()
        finally:
            pinging.cancel()
            writer.close()
        return pings.longest_s

    with up(tmp_path, "--brokers", "3") as network:
        asyncio.run(network.whole())
        process = asyncio.run(network.statuses())["B2"]["pid"]
        slow = {}
        for hostile in hostile_inputs():
            found_s = MOST_S
            for _ in range(ATTEMPTS):
                found_s = min(found_s, asyncio.run(longest_ping(network, hostile)))
                if found_s < MOST_S:
                    break
            else:
                slow[hostile.name] = found_s
    assert slow == {}
