"""Networks of processes for tests: `shoal up`, who runs as what, and killing one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from shoal.model import BrokerId
from shoal.runtime.network_file import load_network
from shoal.runtime.network_sections import BrokerSection
from shoal.runtime.supervisor import get_json
from tests.runtime.live import PATIENCE_S, status_of

SHOAL = (sys.executable, "-m", "shoal.cli.main")


class Processes:
    """A network that `shoal up` runs."""

    def __init__(self, process: subprocess.Popen[str], path: Path) -> None:
        self.process = process
        self.path = path
        self.network = load_network(path)

    def address(self, broker: BrokerId) -> str:
        """Where MQTT clients connect."""
        return self.network.broker(broker).mqtt

    async def statuses(self) -> dict[BrokerId, dict[str, Any]]:
        """What the brokers that answer say."""
        found = await asyncio.gather(*map(_status, self.network.brokers))
        names = [broker.name for broker in self.network.brokers]
        return {name: answer for name, answer in zip(names, found, strict=True) if answer}

    async def status(self, broker: BrokerId) -> dict[str, Any]:
        """What one of them says, which must be there."""
        return await status_of(self.network.broker(broker).address("admin"))

    async def kill(self, broker: BrokerId) -> None:
        """kill -9; `shoal up` starts it again after a pause."""
        os.kill((await self.status(broker))["pid"], signal.SIGKILL)

    @asynccontextmanager
    async def stopped(self, *brokers: BrokerId) -> AsyncIterator[None]:
        """These do nothing meanwhile."""
        statuses = await asyncio.gather(*map(self.status, brokers))
        pids = [status["pid"] for status in statuses]
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    async def whole(self) -> None:
        """Wait until every broker is ready."""
        async with asyncio.timeout(3 * PATIENCE_S):
            while True:
                found = await self.statuses()
                if len(found) == len(self.network.brokers) and all(
                    each["ready"] for each in found.values()
                ):
                    return
                await asyncio.sleep(0.1)


async def _status(broker: BrokerSection) -> dict[str, Any]:
    address = broker.address("admin")
    assert address is not None
    with suppress(OSError):
        return await get_json(address, "/status")
    return {}


@contextmanager
def up(folder: Path, *options: str) -> Iterator[Processes]:
    """A network of processes, stopped by Ctrl-C at the end."""
    command = (*SHOAL, "up", "--port", "0", "--folder", str(folder), *options)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if "Ctrl-C stops it" in line:
                    break
            yield Processes(process, folder / "network.toml")
        finally:
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
        assert rest == "stopped\n"
        assert process.wait(PATIENCE_S) == 0
