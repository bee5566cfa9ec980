"""Interfaces of an MQTT front end to network connections and to access control."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from shoal.mqtt.access import Access, ClientAdmission, ClientCredentials
from shoal.mqtt.connection.connection import Connection
from shoal.runtime.front_ends.reading import ReadRounds

# Bytes that may wait for a client's socket before its session keeps the rest; a client that reads
# at all empties this quickly.
WRITE_BUFFER_BYTES = 256 * 1_024


class LateAccess(Access, Protocol):
    """An `Access` that may answer later."""

    def take_owed(self) -> ClientCredentials | None:
        """Return the client that `admit` has just left without an answer."""

    async def answer(
        self, credentials: ClientCredentials, is_gone: Callable[[], bool]
    ) -> ClientAdmission:
        """The answer that `admit` owes; `is_gone` says whether the client has hung up."""


class Socket(Protocol):
    """A client's network connection, whatever it is wrapped in."""

    def write(self, data: bytes) -> None: ...

    def half_close(self) -> None: ...

    def close(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_gone(self) -> bool:
        """Return whether the client has hung up, even if its earlier input is not read yet."""

    def unwritten(self) -> int:
        """Return how many bytes are still to be written to the client."""

    def certificate(self) -> bytes | None:
        """Return the client's TLS certificate, in DER."""


class ConnectionHost(Protocol):
    """Callbacks of a network connection to its front end (see `mqtt_front_end`).

    `rounds` is the time that all connections may take together.
    """

    rounds: ReadRounds

    def opened(
        self, socket: Socket, transport: asyncio.BaseTransport, listener: str
    ) -> Connection: ...

    def received(self, connection: Connection, data: bytes) -> None: ...

    def resumed(self, connection: Connection) -> None: ...

    def lost(self, connection: Connection) -> None: ...

    def refused(self, transport: asyncio.BaseTransport, listener: str, why: str) -> None: ...
