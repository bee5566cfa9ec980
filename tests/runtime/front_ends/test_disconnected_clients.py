"""Sockets of disconnected clients: writes to them do not disturb other clients' flushes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvloop

from shoal.runtime.front_ends.reading import ReadRounds
from shoal.runtime.front_ends.sockets.mqtt_socket import MqttSocket


class FrontEnd:
    """Accepts everything, and records lost connections."""

    def __init__(self) -> None:
        self.lost_connections: list[Any] = []
        self.rounds = ReadRounds()

    def opened(self, socket: Any, transport: asyncio.Transport, listener: str) -> Any:
        return object()

    def received(self, connection: Any, data: bytes) -> None: ...

    def lost(self, connection: Any) -> None:
        self.lost_connections.append(connection)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_packets_for_a_lost_connection_are_dropped(loop: Any) -> None:
    async def run() -> None:
        front_end, sockets = FrontEnd(), []

        def protocol() -> MqttSocket:
            sockets.append(MqttSocket(front_end))  # type: ignore[arg-type]
            return sockets[-1]

        server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        while not sockets:
            await asyncio.sleep(0.001)
        writer.transport.abort()
        while not front_end.lost_connections:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        (socket,) = sockets
        socket.write(b"a" * 100)
        socket.pause_reading()
        socket.resume_reading()
        socket.half_close()
        socket.close()
        server.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(run(), 20))
