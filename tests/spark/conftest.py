"""The pipeline's one Spark, and brokers that log beside it, on a loop of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from shoal.client import Client
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.network_file import NetworkFile, dump_network
from tests.pipeline.conftest import spark
from tests.runtime.live import PATIENCE_S, until
from tests.runtime.log_serving.test_log_serving import logging_network
from tests.runtime.one_service import running

__all__ = ["spark"]


@pytest.fixture(autouse=True)
def active(spark: SparkSession) -> None:
    """Make this session the active one again, if a test had one of its own."""
    spark.createDataFrame([], "x int")


class LoggingBrokers:
    """Brokers that run in a thread; `file` is their network file, with the ports they have."""

    def __init__(self, folder: Path, count: int, **log: Any) -> None:
        self.file = folder / "network.toml"
        storage = {"folder": str(folder / "data"), "sync": "never"}
        self._network = logging_network(folder, count, log=log, storage=storage)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stack = AsyncExitStack()
        self.services: dict[str, BrokerService] = {}
        self.clients: dict[str, Client] = {}
        self._thread.start()
        self.run(self._start())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    async def _start(self) -> None:
        names = [each.name for each in self._network.brokers]
        found = await self._stack.enter_async_context(running(self._network, *names))
        self.services = dict(zip(names, found, strict=True))
        await until(lambda: not any(each.missing() for each in found))
        for name, service in self.services.items():
            client = Client(str(service.listening["mqtt"]), f"client of {name}")
            self.clients[name] = await self._stack.enter_async_context(client)
        self.file.write_text(dump_network(self._with_ports()))

    def _with_ports(self) -> NetworkFile:
        import msgspec

        brokers = tuple(
            msgspec.structs.replace(each, log=str(self.services[each.name].listening["log"]))
            for each in self._network.brokers
        )
        return msgspec.structs.replace(self._network, brokers=brokers)

    def publish(self, broker: str, topic: str, *payloads: bytes) -> None:
        async def publish() -> None:
            for each in payloads:
                await self.clients[broker].publish(topic, each, qos=1)

        self.run(publish())

    def log(self, broker: str) -> dict[str, Any]:
        """The broker's log, as its status has it."""

        async def ask() -> Any:
            return self.services[broker].status()["log"]

        found: dict[str, Any] = self.run(ask())
        return found

    def staged(self, service: BrokerService) -> list[dict[str, Any]]:
        """Queries of which a broker knows batches."""

        async def ask() -> Any:
            assert service.staging is not None
            return service.staging.rows()

        found: list[dict[str, Any]] = self.run(ask())
        return found

    def stop(self) -> None:
        self.run(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


Start = Callable[..., LoggingBrokers]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts brokers that log, as many as are asked for."""
    found: list[LoggingBrokers] = []

    def start(count: int = 1, **log: Any) -> LoggingBrokers:
        found.append(LoggingBrokers(tmp_path, count, **log))
        return found[-1]

    yield start
    for each in found:
        each.stop()
