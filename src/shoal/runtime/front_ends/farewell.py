"""Ends a client's connection so that the client reads the last packets.

A socket that is closed with unread input resets its connection, and a client that is still sending
notices that before it reads: the reason of the DISCONNECT, the server to use, and even
acknowledgements are lost. So the broker only says that it is through, goes on reading, and closes
when the client does, or a moment later.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from contextlib import suppress

from shoal.runtime.front_ends.reading import PIECE_BYTES, ReadRounds, SocketReading

# Long enough for a client to read the last packets and close; a slower client is cut off.
LINGER_S = 1.0
# Linux alone says that the other end has said its last word; elsewhere a reset counts.
_HANGUPS = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


class Lingering(asyncio.Protocol):
    """A client's connection, which the broker ends on its side first."""

    _transport: asyncio.Transport
    _reading: SocketReading
    pause_reading: Callable[[], None]
    resume_reading: Callable[[], None]
    # Bytes that are read of it at once.
    _piece_bytes = PIECE_BYTES

    def __init__(self) -> None:
        self._is_half_closed = False
        self._is_over = False

    def _begin(
        self, transport: asyncio.Transport, take: Callable[[bytes], None], rounds: ReadRounds
    ) -> None:
        """The client is there; its input goes to `take`."""
        self._transport = transport
        self._reading = SocketReading(transport, take, rounds, self._piece_bytes)
        self.pause_reading = self._reading.pause
        self.resume_reading = self._reading.resume

    def data_received(self, data: bytes) -> None:
        self._reading.received(data)

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone; the reader closes in its turn."""
        self._reading.end(self._lost)
        self.pause_reading = self._reading.pause

    def _lost(self) -> None:
        """The client is gone, and all its input is taken."""

    def half_close(self) -> None:
        """End output behind written data, and read on."""
        if not self._is_half_closed and not self._transport.is_closing():
            self._send_close()
            self._is_half_closed = True
            self.pause_reading = self._resume_reading
            # The last write may have found that the client has reset the connection.
            if self._transport.can_write_eof() and not self._transport.is_closing():
                # A client that has gone is an error of asyncio's own loop; its end is on its way.
                with suppress(OSError):
                    self._transport.write_eof()
            self._reading.resume()

    def close(self) -> None:
        """Say no more, and hear no more."""
        self.half_close()
        if not self._is_over and not self._transport.is_closing():
            self._is_over = True
            asyncio.get_running_loop().call_later(LINGER_S, self._transport.close)

    def is_gone(self) -> bool:
        """Return whether the client has closed, even if its earlier input is not read yet."""
        connection = self._transport.get_extra_info("socket")
        if self._transport.is_closing() or connection is None:
            return True
        poll = select.poll()
        poll.register(connection.fileno(), _HANGUPS)
        return bool(poll.poll(0))

    def unwritten(self) -> int:
        """Return how many bytes are still to be written to the client."""
        return self._transport.get_write_buffer_size()

    def certificate(self) -> bytes | None:
        """Return the client's TLS certificate, in DER."""
        shaken = self._transport.get_extra_info("ssl_object")
        shown: bytes | None = None if shaken is None else shaken.getpeercert(binary_form=True)
        return shown

    def _send_close(self) -> None:
        """Send the last bytes."""

    def _resume_reading(self) -> None:
        """Keep reading input, or discard it."""
