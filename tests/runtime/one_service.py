"""Broker services of a small network in this process."""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from shoal.runtime.broker_service import BrokerService
from shoal.runtime.free_ports import free_ports
from shoal.runtime.network_file import NetworkFile, dump_network, parse_network


def network(brokers: int = 1, **changes: Any) -> NetworkFile:
    ports = free_ports("127.0.0.1", brokers)
    keys = ("mqtt", "websocket", "admin")
    sections = [
        {"name": f"B{n}", "peers": f"127.0.0.1:{port}"} | dict.fromkeys(keys, "127.0.0.1:0")
        for n, port in enumerate(ports, 1)
    ]
    links = [[f"B{n}", f"B{n + 1}"] for n in range(1, brokers)]
    data = {"name": "n", "brokers": sections, "links": links, "access": {"anonymous": True}}
    return parse_network(data | changes)


@asynccontextmanager
async def running(network: NetworkFile, *names: str) -> AsyncIterator[list[BrokerService]]:
    services = [BrokerService(network, name) for name in names]
    for service in services:
        await service.start()
    try:
        yield services
    finally:
        for service in services:
            await service.stop()


def data_of(network: NetworkFile) -> dict[str, Any]:
    data: dict[str, Any] = tomllib.loads(dump_network(network))
    return data
