"""Connections are accepted a few at a time, so that others are served in between."""

from __future__ import annotations

import asyncio
import socket

import pytest

from shoal.runtime.addresses import Address
from shoal.runtime.tls.listener import AT_ONCE, listen
from tests.runtime.live import on_loop, until

CLIENTS = 300


class Counting(asyncio.Protocol):
    def __init__(self, made: list[int]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made[-1] += 1


@on_loop
async def test_many_connections_are_accepted_in_slices() -> None:
    """A thousand at once would delay others by 300 ms."""
    made = [0]
    loop = asyncio.get_running_loop()

    def come_round() -> None:
        made.append(0)
        loop.call_soon(come_round)

    server = await listen(
        Address("127.0.0.1", 0), lambda: Counting(made), None, pytest.fail, lambda: 10.0
    )
    where = server.sockets[0].getsockname()
    clients = [socket.create_connection(where) for _ in range(CLIENTS)]  # they wait in the kernel
    loop.call_soon(come_round)
    await until(lambda: sum(made) == CLIENTS)
    assert max(made) <= 2 * AT_ONCE
    server.close()
    for client in clients:
        client.close()


@on_loop
async def test_a_connection_closed_before_its_acceptance_is_no_error() -> None:
    made = [0]
    server = await listen(
        Address("127.0.0.1", 0), lambda: Counting(made), None, pytest.fail, lambda: 10.0
    )
    where = server.sockets[0].getsockname()
    for _ in range(50):
        client = socket.create_connection(where)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
    with socket.create_connection(where) as client:
        await until(lambda: made[0] > 0)
    server.close()


@on_loop
async def test_a_socket_may_have_the_number_of_one_that_listened() -> None:
    for _ in range(3):
        server = await listen(
            Address("127.0.0.1", 0), lambda: Counting([0]), None, pytest.fail, lambda: 10.0
        )
        other = await listen(
            Address("127.0.0.1", 0), lambda: Counting([0]), None, pytest.fail, lambda: 10.0
        )
        where = other.sockets[0].getsockname()
        await asyncio.sleep(0.01)
        server.close()
        _, writer = await asyncio.open_connection(*where)
        writer.close()
        other.close()
