"""Reads of a transport are handled in pieces, over WebSocket in smaller ones."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

from shoal.runtime.front_ends.reading import PIECE_BYTES, ROUND_S, ReadRounds, SocketReading
from shoal.runtime.front_ends.sockets.mqtt_socket import MqttSocket
from shoal.runtime.front_ends.sockets.websocket import WebSocket
from tests.runtime.live import on_loop, until


class Transport(asyncio.Transport):
    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


class Work:
    """Handles input at so many seconds a byte, and records the round of the loop."""

    def __init__(self, second_bytes: float = 1_000_000.0) -> None:
        self.now_s = 0.0
        self.taken: list[bytes] = []
        # The times of the loop's rounds.
        self.rounds: list[float] = [0.0]
        self._second_bytes = second_bytes

    def take(self, piece: bytes) -> None:
        self.taken.append(piece)
        self.now_s += len(piece) / self._second_bytes

    def come_round(self) -> None:
        self.rounds.append(self.now_s)
        asyncio.get_running_loop().call_soon(self.come_round)


class Client:
    """The client of a connection."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.unread = 0


class FrontEnd:
    """Has its connections by number; the loss of each takes a while."""

    each_s = 0.001
    # The number of bytes that it accepts at once.
    most = PIECE_BYTES

    def __init__(self, work: Work) -> None:
        self.rounds = ReadRounds(lambda: work.now_s)
        self._work = work
        self._opened = 0

    def opened(self, socket: Any, transport: asyncio.Transport, listener: str) -> Any:
        self._opened += 1
        return Client(self._opened - 1)

    def received(self, connection: Any, data: bytes) -> None:
        connection.unread = max(0, len(data) - self.most)
        self._work.take(data[: self.most])

    def resumed(self, connection: Any) -> None: ...

    def refused(self, transport: asyncio.BaseTransport, listener: str, why: str) -> None: ...

    def lost(self, connection: Any) -> None:
        self._work.taken.append(b"%d" % connection.number)
        self._work.now_s += self.each_s


@on_loop
async def test_pieces_are_bounded_and_in_order() -> None:
    taken: list[bytes] = []
    reading = SocketReading(Transport(), taken.append, ReadRounds(), 100)
    data = bytes(range(250))
    reading.received(data)
    await until(lambda: sum(map(len, taken)) == 250)
    assert b"".join(taken) == data
    assert max(map(len, taken)) == 100


@on_loop
async def test_many_connections_together_take_no_longer_than_one() -> None:
    """300 connections of 30 ms each must not delay the loop by 9 s."""
    work = Work()
    rounds = ReadRounds(lambda: work.now_s)
    asyncio.get_running_loop().call_soon(work.come_round)
    floods = [SocketReading(Transport(), work.take, rounds, PIECE_BYTES) for _ in range(50)]
    for number, reading in enumerate(floods):
        reading.received(bytes([number]) * PIECE_BYTES)
        reading.received(bytes([number]) * PIECE_BYTES)
    pings = SocketReading(Transport(), work.take, rounds, PIECE_BYTES)
    pings.received(b"\xc0\0")
    assert work.taken[-1] == b"\xc0\0"  # at once, as always
    await until(lambda: len(work.taken) == 101)
    longest_s = max(later - before for before, later in pairwise(work.rounds))
    assert longest_s < ROUND_S + 2 * PIECE_BYTES / 1_000_000
    order = [piece[0] for piece in work.taken if len(piece) > 2]
    assert order == [0, *range(50), *range(1, 50)]


@on_loop
async def test_few_waiting_connections_get_several_slices_in_a_round() -> None:
    """Their results are written together; others wait no longer than for many."""
    work = Work(second_bytes=10_000_000.0)
    rounds = ReadRounds(lambda: work.now_s)
    asyncio.get_running_loop().call_soon(work.come_round)
    [reading, other] = [
        SocketReading(Transport(), work.take, rounds, PIECE_BYTES) for _ in range(2)
    ]
    reading.received(b"1" * 10 * PIECE_BYTES)
    other.received(b"2" * 10 * PIECE_BYTES)
    await until(lambda: len(work.taken) == 20)
    assert [piece[:1] for piece in work.taken] == [b"1", b"2"] * 10
    spent_s = [later - before for before, later in pairwise(work.rounds)]
    assert max(spent_s) < ROUND_S / 2 + 2 * PIECE_BYTES / 10_000_000
    assert sum(each > 0 for each in spent_s) <= 7


@on_loop
async def test_the_rest_of_a_piece_comes_first_in_the_next_slice() -> None:
    work = Work()
    front_end = FrontEnd(work)
    socket = MqttSocket(front_end)
    socket.connection_made(Transport())
    asyncio.get_running_loop().call_soon(work.come_round)
    data = b"".join(bytes([number]) * PIECE_BYTES for number in range(5))
    socket.data_received(data)
    socket.data_received(b"more")
    socket.pause_reading()
    await asyncio.sleep(0.01)
    assert work.taken == [data[:PIECE_BYTES]]
    socket.resume_reading()
    socket.connection_lost(None)
    await until(lambda: work.taken[-1] == b"0")
    assert b"".join(work.taken) == data + b"more0"
    assert max(map(len, work.taken)) == PIECE_BYTES
    longest_s = max(later - before for before, later in pairwise(work.rounds))
    assert longest_s < ROUND_S + 2 * PIECE_BYTES / 1_000_000


@on_loop
async def test_a_paused_connection_continues_later() -> None:
    work = Work()
    rounds = ReadRounds(lambda: work.now_s)
    first, second = (SocketReading(Transport(), work.take, rounds, PIECE_BYTES) for _ in range(2))
    first.received(b"1" * PIECE_BYTES)
    second.received(b"2" * PIECE_BYTES)
    second.pause()
    await asyncio.sleep(0.01)
    assert len(work.taken) == 1
    second.received(b"3" * 100)
    second.resume()
    await until(lambda: len(work.taken) == 3)
    assert [piece[:1] for piece in work.taken] == [b"1", b"2", b"3"]


@on_loop
async def test_many_lost_connections_are_handled_in_slices() -> None:
    """5,000 lost connections in one round would take 0.3 s."""
    work = Work()
    front_end = FrontEnd(work)
    sockets = [MqttSocket(front_end) for _ in range(200)]
    for socket in sockets:
        socket.connection_made(Transport())
    asyncio.get_running_loop().call_soon(work.come_round)
    for socket in sockets:
        socket.connection_lost(None)
    await until(lambda: len(work.taken) == 200)
    longest_s = max(later - before for before, later in pairwise(work.rounds))
    assert longest_s < ROUND_S + 2 * front_end.each_s
    assert work.taken == [b"%d" % number for number in range(200)]


@on_loop
async def test_a_loss_is_handled_after_earlier_bytes() -> None:
    """The rest that waits for its slice must be handled before the loss."""
    work = Work()
    front_end = FrontEnd(work)
    first, last = MqttSocket(front_end), MqttSocket(front_end)
    for socket in (first, last):
        socket.connection_made(Transport())
        socket.data_received(b"x" * 3 * PIECE_BYTES)
    last.connection_lost(None)
    await until(lambda: len(work.taken) == 7)
    assert work.taken[-1] == b"1"
    assert sum(map(len, work.taken)) == 6 * PIECE_BYTES + 1


@on_loop
async def test_a_lost_waiting_connection_is_not_served() -> None:
    work = Work()
    socket = MqttSocket(FrontEnd(work))
    socket.connection_made(Transport())
    socket.data_received(b"x" * 9 * PIECE_BYTES)
    socket.pause_reading()
    socket.connection_lost(None)
    await until(lambda: bool(work.taken))
    await asyncio.sleep(0.01)
    assert work.taken == [b"0"]


def test_a_slice_of_tiny_messages_is_short() -> None:
    """5,000 messages of one byte, which 32 KB of a WebSocket may be, would take 0.1 s."""
    assert WebSocket._piece_bytes == 8_192
