"""An idle or incomplete connection to the admin port is closed soon."""

from __future__ import annotations

import asyncio

import pytest

from shoal.runtime.operations import http_server
from tests.runtime.live import PATIENCE_S, on_loop
from tests.runtime.one_service import network, running


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /st",
        b"GET /health HTTP/1.1\r\nX: y\r\n",
        b"POST /drain HTTP/1.1\r\nContent-Length: 9\r\n\r\n{",
    ],
    ids=["nothing", "half a line", "half a head", "half a body"],
)
@on_loop
async def test_a_connection_without_a_request_is_closed_soon(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "REQUEST_S", 0.2)
    async with asyncio.timeout(PATIENCE_S), running(network(), "B1") as (service,):
        where = service.listening["admin"]
        reader, writer = await asyncio.open_connection(where.host, where.port)
        writer.write(said)
        await reader.read()  # until it is closed, with any answer
        writer.close()
        reader, writer = await asyncio.open_connection(where.host, where.port)
        for _ in range(3):  # a request in time may be followed by others over the same connection
            writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            assert await reader.readuntil(b'{"alive":true}')
            await asyncio.sleep(0.15)
        writer.close()
