"""One connection of a client: bytes in and out, pings, and flow control."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol, cast

from shoal.client.events import SessionError
from shoal.client.wires import Wire


class ConnectionOwner(Protocol):
    """The owner of a connection."""

    def received(self, socket: ClientSocket, data: bytes) -> None:
        """Handle bytes; SessionError when the connection must end."""

    def lost(self, socket: ClientSocket) -> None:
        """Handle the end of the connection."""

    def ping(self) -> None:
        """Send a PINGREQ."""


class ClientSocket(asyncio.Protocol):
    """One connection; `ended` has the reason of its end, `elsewhere` the target of a redirect.

    `problem` is an error of the network, or of TLS.
    """

    def __init__(self, client: ConnectionOwner, wire: Wire) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.elsewhere: str | None = None
        self.was_up = False
        self.problem: Exception | None = None
        self.writable = asyncio.Event()
        self.writable.set()
        self._client = client
        self._wire = wire
        self._pinging: asyncio.TimerHandle | None = None
        self._opened_s = asyncio.get_running_loop().time()

    @property
    def age_s(self) -> float:
        """The time since it was opened."""
        return asyncio.get_running_loop().time() - self._opened_s

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if opening := self._wire.opening():
            self._transport.write(opening)

    def data_received(self, data: bytes) -> None:
        try:
            came, answer = self._wire.unwrap(data)
            if answer and not self._transport.is_closing():
                self._transport.write(answer)
            if came:
                self._client.received(self, came)
            if self._wire.problem is not None:
                raise self._wire.problem
        except SessionError as error:
            self._end(error)
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if self._pinging is not None:
            self._pinging.cancel()
        self.problem = error
        self.writable.set()
        self._client.lost(self)
        self._end(None)

    def _end(self, error: SessionError | None) -> None:
        with contextlib.suppress(asyncio.InvalidStateError):
            if error is None:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(error)

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def write(self, data: bytes) -> None:
        # Bytes for a closing connection are lost; the session keeps what matters.
        if not self._transport.is_closing() and (wrapped := self._wire.wrap(data)):
            self._transport.write(wrapped)

    def close(self) -> None:
        self._transport.close()

    def hold_reading(self, hold: bool) -> None:
        if hold:
            self._transport.pause_reading()
        elif not self._transport.is_closing():
            self._transport.resume_reading()

    def keep_alive(self, interval_s: int) -> None:
        """Ping the broker well within its timeout; 0 is no timeout."""
        if interval_s:
            loop = asyncio.get_running_loop()
            self._pinging = loop.call_later(interval_s * 0.75, self._ping, interval_s)

    def _ping(self, interval_s: int) -> None:
        self._client.ping()
        self.keep_alive(interval_s)
