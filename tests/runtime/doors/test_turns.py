"""What one read of a client brings is handled in turns of the loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packets import Connect, Publish
from tests.runtime.live import on_loop, until
from tests.runtime.one_service import network, running


@pytest.mark.parametrize("brokers", [1, 2])
@on_loop
async def test_what_is_too_much_for_one_turn_waits_for_the_next(
    brokers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two publications, each a turn, were one where a broker is alone: 0.11 s."""
    monkeypatch.setattr("shoal.mqtt.connection.serving.TURN", 1)
    async with running(network(brokers), "B1") as (service,):
        door = service.door
        assert door is not None
        taken, plain = [0], door.received

        def received(connection: Any, data: bytes) -> None:
            before = door.clients.statistics.publications_received
            plain(connection, data)
            taken.append(door.clients.statistics.publications_received - before)

        monkeypatch.setattr(door, "received", received)
        where = service.listening["mqtt"]
        _, writer = await asyncio.open_connection(where.host, where.port)
        writer.write(encode(Connect("p"), 5))
        await until(lambda: door.clients.statistics.connected == 1)
        writer.write(encode(Publish("a", b"x"), 5) * 10)
        await until(lambda: door.clients.statistics.publications_received == 10)
        assert max(taken) == 1
        writer.close()
