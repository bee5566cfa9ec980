"""Connections between brokers: their dialling can be stopped at any moment."""

from __future__ import annotations

import asyncio

import pytest

from shoal.broker.wire import framed
from shoal.runtime.addresses import Address
from shoal.runtime.links.peer_connections import PeerConnection, dial, listen_for_peers
from tests.runtime.live import on_loop


class IgnoringBroker:
    """Accepts connections and ignores them."""

    def opened(self, connection: PeerConnection) -> None: ...

    def greeted(self, connection: PeerConnection, hello: object) -> None: ...

    def received(self, connection: PeerConnection, data: bytes) -> None: ...

    def closed(self, connection: PeerConnection) -> None: ...


@on_loop
async def test_dialling_stopped_just_when_connected_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(*_: object, **__: object) -> tuple[None, PeerConnection]:
        await asyncio.sleep(0)
        dialling.cancel()
        return None, PeerConnection(IgnoringBroker(), is_dialled=True)

    async def keep_dialling() -> None:
        while True:
            await dial(IgnoringBroker(), Address("127.0.0.1", 1), None)
            await loop.create_future()

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "create_connection", connect)
    dialling = loop.create_task(keep_dialling())
    await asyncio.wait([dialling], timeout=5)
    assert dialling.cancelled()


@on_loop
async def test_strangers_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    server = await listen_for_peers(IgnoringBroker(), Address("127.0.0.1", 0), None)
    where = server.sockets[0].getsockname()[:2]
    for _ in range(30):
        reader, writer = await asyncio.open_connection(*where)
        writer.write(framed(b"hello"))
        await reader.read()  # it is told why, and let go
        writer.close()
    server.close()
    assert (
        len([row for row in caplog.records if row.getMessage() == "peer connection refused"]) == 1
    )
