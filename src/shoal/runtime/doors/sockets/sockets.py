"""What a door of MQTT clients needs: their network connections, and who decides about them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from shoal.mqtt.access import Access, Admission, Credentials
from shoal.mqtt.connection.connection import Connection
from shoal.runtime.doors.reading import Rounds

# How much may wait to be written to a client before its session keeps the rest; a client that
# reads at all empties this in a moment.
WRITE_BUFFER_BYTES = 256 * 1_024


class LateAccess(Access, Protocol):
    """An `Access` whose answers may come later."""

    def take_owed(self) -> Credentials | None:
        """Whom `admit` has just left without an answer."""

    async def answer(self, credentials: Credentials, is_gone: Callable[[], bool]) -> Admission:
        """The answer that `admit` owes; `is_gone` says whether the client has hung up."""


class Socket(Protocol):
    """A client's network connection, whatever it is wrapped in."""

    def write(self, data: bytes) -> None: ...

    def half_close(self) -> None: ...

    def close(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_gone(self) -> bool:
        """Whether the client has hung up, even if what it said before is not read yet."""

    def unwritten(self) -> int:
        """How many bytes are still to be written to the client."""

    def certificate(self) -> bytes | None:
        """What the client has shown in TLS, in DER."""


class House(Protocol):
    """What a network connection tells the door that it leads to (see `mqtt_door`).

    `rounds` is the time that all connections may take together.
    """

    rounds: Rounds

    def opened(
        self, socket: Socket, transport: asyncio.BaseTransport, listener: str
    ) -> Connection: ...

    def received(self, connection: Connection, data: bytes) -> None: ...

    def resumed(self, connection: Connection) -> None: ...

    def lost(self, connection: Connection) -> None: ...

    def refused(self, transport: asyncio.BaseTransport, listener: str, why: str) -> None: ...
