"""Bytes of clients in pieces, so much each time the loop comes round, then others have theirs.

A loop may hand over a megabyte of tiny packets in one go, and again before it looks elsewhere; and
as much of each of a thousand connections, which may all be one client's.  Nor are thousands of
connections that end at once all looked after at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVarTuple

# Bytes that are read at once: of the smallest packets 16,000, which take some 30 ms. Short payloads
# need not count, as they take no time.
PIECE_BYTES = 32_768
# Time for which all connections together are read per round of the loop, about; plus one piece.
ROUND_S = 0.02
# A piece this small is read at once all the same, since a client that waits for a PINGRESP sends no
# more.
SMALL_BYTES = 64

What = TypeVarTuple("What")


class ReadRounds:
    """The time that connections of one loop may take of it before it comes round.

    Those for which there is none left wait in their order; `now_s` is a clock that never runs back.
    """

    def __init__(self, now_s: Callable[[], float] | None = None) -> None:
        self._now_s = now_s if now_s is not None else asyncio.get_running_loop().time
        # True if those that waited are being read.
        self.is_coming_round = False
        self._spent_s = 0.0
        self._is_due = False
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def has_time(self) -> bool:
        """Return whether a connection may be read now, before those that wait."""
        return self._spent_s < ROUND_S and not self._waiting

    def spend(self, do: Callable[[*What], object], *what: *What) -> None:
        """Have this done now."""
        began_s = self._now_s()
        try:
            do(*what)
        finally:
            self._spent_s += self._now_s() - began_s
            if self._spent_s >= ROUND_S / 4:
                self._resume_soon()

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call this once there is time for it."""
        self._waiting.append(go_on)
        self._resume_soon()

    def _resume_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._come_round)

    def _come_round(self) -> None:
        """The loop has served all ready sockets; resume at least one connection.

        If few wait, each is resumed more than once: the resulting output is written together.
        """
        self._is_due, self.is_coming_round = False, True
        self._spent_s = 0.0
        try:
            for _ in range(len(self._waiting)):
                self._waiting.popleft()()
                if self._spent_s >= ROUND_S:
                    break
            while self._waiting and self._spent_s < ROUND_S / 2:
                self._waiting.popleft()()
        finally:
            self.is_coming_round = False
            if self._waiting:
                self._resume_soon()


class SocketReading:
    """Input of one transport, passed to `take`; the rest of a large read waits, and the transport
    is paused.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        take: Callable[[bytes], None],
        rounds: ReadRounds,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self._transport = transport
        self._take = take
        self._rounds = rounds
        self._piece_bytes = piece_bytes
        self._rest = b""
        self._is_paused = False
        self._is_waiting = False
        # called when all input is taken and the transport is closed
        self._then: Callable[[], None] | None = None

    def received(self, data: bytes) -> None:
        if not self._rest:
            size = len(data)
            if size <= SMALL_BYTES or (size <= self._piece_bytes and self._rounds.has_time):
                self._rounds.spend(self._take, data)
                return
        self._rest += data
        self._transport.pause_reading()
        self._await_round()

    def put_back(self, data: bytes) -> None:
        """Put back the end of the last input that was too much: it comes again, before all else."""
        self._rest = data + self._rest
        self._transport.pause_reading()
        self._await_round()

    def pause(self) -> None:
        """Take nothing more for now."""
        self._is_paused = True
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Go on."""
        self._is_paused = False
        if self._rest:
            self._await_round()
        elif not self._transport.is_closing():
            self._transport.resume_reading()

    def end(self, then: Callable[[], None]) -> None:
        """Nothing more comes; `then` is called in its turn, once all is taken that may be."""
        self._then = then
        if not self._rest and self._rounds.has_time:
            self._drop_references()
        else:
            self._rounds.wait(self._drop_references)

    def _await_round(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._rounds.wait(self._resume)

    def _resume(self) -> None:
        self._is_waiting = False
        if self._is_paused:
            return
        most = self._piece_bytes
        piece, self._rest = self._rest[:most], self._rest[most:]
        self._rounds.spend(self._take, piece)
        if self._rest:
            self._await_round()
        elif not self._is_paused and not self._transport.is_closing():
            self._transport.resume_reading()

    def _drop_references(self) -> None:
        """Drop all references at the end, so that no cycle is left."""
        if self._rest and not self._is_paused:
            self._rounds.wait(self._drop_references)
            return
        self._rest, self._take = b"", _ignore_input
        then, self._then = self._then, None
        if then is not None:
            self._rounds.spend(then)


def _ignore_input(data: bytes) -> None:
    """There is nothing to take any more."""
