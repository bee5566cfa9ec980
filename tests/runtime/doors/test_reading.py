"""What a transport brings is taken in pieces; over WebSocket in smaller ones."""

from __future__ import annotations

import asyncio

import pytest

from shoal.runtime.doors.farewell import Lingering
from shoal.runtime.doors.reading import PIECE_BYTES, Reading
from shoal.runtime.doors.sockets.mqtt_socket import MqttSocket
from shoal.runtime.doors.sockets.websocket import WebSocket
from tests.runtime.live import on_loop, until


class Transport(asyncio.Transport):
    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return False


@on_loop
async def test_pieces_are_of_so_many_bytes_and_come_in_order() -> None:
    taken: list[bytes] = []
    reading = Reading(Transport(), taken.append, 100)
    data = bytes(range(250))
    reading.received(data)
    await until(lambda: sum(map(len, taken)) == 250)
    assert b"".join(taken) == data
    assert max(map(len, taken)) == 100


@pytest.mark.parametrize(
    ("kind", "most"), [(MqttSocket, PIECE_BYTES), (WebSocket, 8_192)], ids=["tcp", "websocket"]
)
def test_a_turn_of_tiny_messages_is_short(kind: type[Lingering], most: int) -> None:
    """5,000 messages of one byte, which 32 KB of a WebSocket may be, took 0.1 s."""
    assert kind._piece_bytes == most
