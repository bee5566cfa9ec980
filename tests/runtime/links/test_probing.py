"""Probes of brokers to which there is no link."""

from __future__ import annotations

import asyncio

from shoal.runtime.addresses import Address
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.links.peer_settings import PeerSettings
from shoal.runtime.links.probing import Probes
from tests.runtime.live import on_asyncio, until


@on_asyncio
async def test_a_cancelled_probe_closes_its_connection() -> None:
    """A broker that joins again ends its probes when another broker has opened a link."""
    ended = asyncio.Event()

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        ended.set()
        writer.close()

    server = await asyncio.start_server(read, "127.0.0.1", 0)
    where = Address(*server.sockets[0].getsockname()[:2])
    settings = PeerSettings(network="n", neighbours=(), addresses={"B2": where}, incarnation=1)
    probes = Probes("B1", settings, Clock())
    asking = asyncio.create_task(probes.why_not_taken("B2", where))
    await until(lambda: bool(probes._expected))
    asking.cancel()
    async with asyncio.timeout(2):
        await ended.wait()
    assert not probes._expected
    server.close()
