"""Relays between brokers that can be cut, hang or be slow.

Each broker reaches each other broker through its own relay port. So one direction of one pair can
fail while everything else works, which kills and pauses cannot do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import permutations

HOST = "127.0.0.1"
_PIECE_BYTES = 65_536

# (source, destination) of a direction.
Way = tuple[str, str]


class Cables:
    """The relays between any two brokers; `ports` has the port on which each broker listens for
    others.
    """

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._ports = ports
        self._cables = {frozenset(way): _Cable() for way in permutations(ports, 2)}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> dict[Way, int]:
        """Open the port through which the first broker of each pair reaches the second."""
        ways = {}
        for way in permutations(self._ports, 2):
            server = await asyncio.start_server(self._taker(way), HOST, 0)
            self._servers.append(server)
            ways[way] = server.sockets[0].getsockname()[1]
        return ways

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()

    # --- faults -------------------------------------------------------------------------------

    def cut(self, one: str, other: str) -> None:
        """Close the connections of a pair, and refuse new ones."""
        self._cables[frozenset((one, other))].cut()

    def hang(self, ways: Iterable[Way]) -> None:
        """Hold all data of these directions, with connections open; it passes after `mend`."""
        for way in ways:
            self._cables[frozenset(way)].passes(way).clear()

    def slow(self, one: str, other: str, delay_s: float) -> None:
        """Delay each chunk by so long, in both directions."""
        self._cables[frozenset((one, other))].delay_s = delay_s

    def mend(self, one: str, other: str) -> None:
        self._cables[frozenset((one, other))].mend()

    # --- connections --------------------------------------------------------------------------

    def _taker(self, way: Way):  # type: ignore[no-untyped-def]
        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            with suppress(OSError, asyncio.CancelledError):
                await self._relay(way, reader, writer)
            writer.transport.abort()

        return take

    async def _relay(
        self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        cable, (one, other) = self._cables[frozenset(way)], way
        if cable.is_cut:
            return
        there, back = await asyncio.open_connection(HOST, self._ports[other])
        transports = {writer.transport, back.transport}
        cable.transports |= transports
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(cable.carry((one, other), reader, back))
                both.create_task(cable.carry((other, one), there, writer))
        except* OSError:
            pass
        finally:
            cable.transports -= transports
            back.transport.abort()


class _Cable:
    """The relay of one pair."""

    def __init__(self) -> None:
        self.is_cut = False
        self.delay_s = 0.0
        self.transports: set[asyncio.WriteTransport] = set()
        self._passes: dict[Way, asyncio.Event] = {}

    def passes(self, way: Way) -> asyncio.Event:
        """Whether data passes from the first broker to the second."""
        if way not in self._passes:
            self._passes[way] = event = asyncio.Event()
            event.set()
        return self._passes[way]

    def cut(self) -> None:
        self.is_cut = True
        for transport in self.transports:
            transport.abort()

    def mend(self) -> None:
        self.is_cut, self.delay_s = False, 0.0
        for event in self._passes.values():
            event.set()

    async def carry(
        self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Relay chunks, and the end of the stream."""
        is_open = True
        while is_open:
            data = await reader.read(_PIECE_BYTES)
            await self.passes(way).wait()
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            if self.is_cut:
                return
            if data:
                writer.write(data)
                await writer.drain()
            else:
                is_open = False
                writer.close()
