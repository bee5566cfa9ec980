"""Networks of processes for tests: `shoal up`, and kills and pauses of single brokers."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from shoal.cli.main import main
from shoal.model import BrokerId
from shoal.runtime import serving
from shoal.runtime.network_file import load_network
from shoal.runtime.network_sections import BrokerSection
from shoal.runtime.supervisor import get_json
from tests.runtime.live import PATIENCE_S, status_of

SHOAL = (sys.executable, "-m", "shoal.cli.main")


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


class Processes:
    """A network that `shoal up` runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.network = load_network(path)

    def address(self, broker: BrokerId) -> str:
        """The address for MQTT clients."""
        return self.network.broker(broker).mqtt

    async def statuses(self) -> dict[BrokerId, dict[str, Any]]:
        """The statuses of the brokers that answer."""
        found = await asyncio.gather(*map(_status, self.network.brokers))
        names = [broker.name for broker in self.network.brokers]
        return {name: answer for name, answer in zip(names, found, strict=True) if answer}

    async def status(self, broker: BrokerId) -> dict[str, Any]:
        """The status of a broker, which must answer."""
        return await status_of(self.network.broker(broker).address("admin"))

    async def kill(self, broker: BrokerId) -> None:
        """Kill a broker; `shoal up` starts it again after a pause."""
        os.kill((await self.status(broker))["pid"], signal.SIGKILL)

    @asynccontextmanager
    async def stopped(self, *brokers: BrokerId) -> AsyncIterator[None]:
        """Pause these brokers meanwhile."""
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
        """Wait until every broker is ready, with all its links."""
        async with asyncio.timeout(3 * PATIENCE_S):
            while True:
                found = await self.statuses()
                if len(found) == len(self.network.brokers) and all(
                    not each["missing"] for each in found.values()
                ):
                    return
                await asyncio.sleep(0.1)


async def _status(broker: BrokerSection) -> dict[str, Any]:
    address = broker.address("admin")
    assert address is not None
    with suppress(OSError):
        return await get_json(address, "/status")
    return {}


class _Up:
    """`shoal up` in a thread, so that brokers are forked from a process with all modules loaded.

    `tests/cli/live/test_up.py` starts it as a process, and stops it by Ctrl-C.
    """

    def __init__(self, words: tuple[str, ...]) -> None:
        self._words = words
        self.is_up = threading.Event()
        self.code: int | str | None = None
        self._stop: Callable[[], object] = lambda: None
        self._patch = patch.object(serving, "run_until_signal", self._run)
        self._thread = threading.Thread(target=self._main)
        self._thread.start()

    def _main(self) -> None:
        self._patch.start()
        try:
            main(self._words)
        except SystemExit as ended:
            self.code = ended.code
        finally:
            self._patch.stop()
            self.is_up.set()

    def _run(self, work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
        self._patch.stop()  # the command has set it
        is_up = self.is_up

        class Stop(asyncio.Event):
            """Replaces the wait for Ctrl-C, once all brokers run."""

            async def wait(self) -> Literal[True]:
                is_up.set()
                return await super().wait()

        async def run() -> None:
            stop = Stop()
            self._stop = partial(asyncio.get_running_loop().call_soon_threadsafe, stop.set)
            await work(stop)

        asyncio.run(run())

    def stop(self) -> None:
        self._stop()
        self._thread.join(PATIENCE_S)


@contextmanager
def up(folder: Path, *options: str) -> Iterator[Processes]:
    """A network of processes."""
    network = _Up(("up", "--port", "0", "--folder", str(folder), *options))
    try:
        network.is_up.wait()
        assert network.code is None
        yield Processes(folder / "network.toml")
    finally:
        network.stop()
    assert network.code == 0
