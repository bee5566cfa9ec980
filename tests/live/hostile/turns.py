"""Brokers in a thread of their own, with a measurement of each turn of their loop.

A turn is one call of the loop; nothing else is served meanwhile. It is measured in the thread's
processor time, so other processes do not count, nor do the clients in other threads.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from shoal.matching import MatchIndex
from shoal.model import BrokerId
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.serving import calm_collector
from tests.runtime.live import PATIENCE_S


class Turns:
    """The longest turn since the last question, and its callback."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.what = ""

    def took(self, seconds: float, what: object) -> None:
        """Record a turn."""
        if seconds > self.longest_s:
            self.longest_s, self.what = seconds, repr(what)

    def take(self) -> tuple[float, str]:
        """The longest turn in seconds, and its callback; then begin anew."""
        found = self.longest_s, self.what
        self.longest_s, self.what = 0.0, ""
        return found


class Served:
    """Running brokers, with the measurement of their turns."""

    def __init__(self, services: dict[BrokerId, BrokerService], turns: Turns) -> None:
        self.services = services
        self.turns = turns

    def address(self, broker: BrokerId, listener: str = "mqtt") -> tuple[str, int]:
        where = self.services[broker].listening[listener]
        return where.host, where.port


@contextmanager
def served(network: NetworkFile) -> Iterator[Served]:
    """All brokers of a network, once they are ready."""
    turns = Turns()
    ready: Future[Served] = Future()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def main() -> None:
        services = {each.name: BrokerService(network, each.name) for each in network.brokers}
        try:
            for service in services.values():
                await service.start()
            async with asyncio.timeout(PATIENCE_S):
                while any(service.missing() for service in services.values()):
                    await asyncio.sleep(0.01)
            ready.set_result(Served(services, turns))
            await stop.wait()
            for service in services.values():
                await service.stop()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(main())
        loop.close()

    thread = threading.Thread(target=run, name="brokers")
    with _clocked(thread, turns):
        thread.start()
        try:
            yield ready.result(PATIENCE_S)
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(PATIENCE_S)


@contextmanager
def _clocked(thread: threading.Thread, turns: Turns) -> Iterator[None]:
    """Measure every callback of this thread's loop."""
    plain, may_wait, thresholds = asyncio.Handle._run, MatchIndex.may_wait, gc.get_threshold()

    def run(self: Any) -> None:
        if threading.current_thread() is not thread:
            plain(self)
            return
        what, began_s = self._callback, time.thread_time()
        plain(self)
        turns.took(time.thread_time() - began_s, what)

    asyncio.Handle._run = run  # type: ignore[method-assign]
    # As a process of its own does.
    MatchIndex.may_wait = False
    calm_collector()
    try:
        yield
    finally:
        asyncio.Handle._run = plain  # type: ignore[method-assign]
        MatchIndex.may_wait = may_wait
        gc.set_threshold(*thresholds)
        gc.unfreeze()
