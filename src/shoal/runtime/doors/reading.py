"""Bytes of a client in pieces, one each time the loop comes round, so that others have their turn.

A loop may hand over a megabyte of tiny packets in one go, and again before it looks elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

# What is taken at once: of the smallest packets 16,000, which take some 30 ms.
PIECE_BYTES = 32_768


class Reading:
    """What one transport brings, to `take`; the rest of a large read waits, and it is paused."""

    def __init__(
        self,
        transport: asyncio.Transport,
        take: Callable[[bytes], None],
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self._transport = transport
        self._take = take
        self._piece_bytes = piece_bytes
        self._rest = b""
        self._is_paused = False
        self._is_due = False
        self._is_over = False

    def received(self, data: bytes) -> None:
        if not self._rest and len(data) <= self._piece_bytes:
            self._take(data)
            return
        self._rest += data
        self._transport.pause_reading()
        self._go_on_soon()

    def pause(self) -> None:
        """Take nothing more for now."""
        self._is_paused = True
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Go on."""
        self._is_paused = False
        if self._rest:
            self._go_on_soon()
        elif not self._transport.is_closing():
            self._transport.resume_reading()

    def end(self) -> None:
        """Nothing more comes; once all is taken nobody is known here, so that no cycle is left."""
        self._is_over = True
        if not self._rest:
            self._take = _nobody_takes

    def _go_on_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_due = False
        if self._is_paused:
            return
        most = self._piece_bytes
        piece, self._rest = self._rest[:most], self._rest[most:]
        self._take(piece)
        if self._rest:
            self._go_on_soon()
        elif self._is_over:
            self.end()
        elif not self._is_paused and not self._transport.is_closing():
            self._transport.resume_reading()


def _nobody_takes(data: bytes) -> None:
    """There is nothing to take any more."""
