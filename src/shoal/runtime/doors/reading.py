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

# What is taken at once: of the smallest packets 16,000, which take some 30 ms.  Short payloads need
# not count, as they take no time.
PIECE_BYTES = 32_768
# How long all connections together are read before the loop comes round, about; one piece more.
ROUND_S = 0.02
# So much is taken at once all the same, as whoever waits for a PINGRESP has said no more.
SMALL_BYTES = 64

What = TypeVarTuple("What")


class Rounds:
    """The time that connections of one loop may take of it before it comes round.

    Those for which there is none left wait in their order; `now_s` is a clock that never runs back.
    """

    def __init__(self, now_s: Callable[[], float] | None = None) -> None:
        self._now_s = now_s if now_s is not None else asyncio.get_running_loop().time
        # Whether those that waited are being read.
        self.is_coming_round = False
        self._spent_s = 0.0
        self._is_due = False
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def has_time(self) -> bool:
        """Whether somebody may be read now, before those that wait."""
        return self._spent_s < ROUND_S and not self._waiting

    def spend(self, do: Callable[[*What], object], *what: *What) -> None:
        """Have this done now."""
        began_s = self._now_s()
        try:
            do(*what)
        finally:
            self._spent_s += self._now_s() - began_s
            if self._spent_s >= ROUND_S / 4:
                self._go_on_soon()

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call this once there is time for it."""
        self._waiting.append(go_on)
        self._go_on_soon()

    def _go_on_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._come_round)

    def _come_round(self) -> None:
        """The loop has looked at all that was ready; one at least goes on.

        Where few wait, each goes on more than once: what comes of it is written together.
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
                self._go_on_soon()


class Reading:
    """What one transport brings, to `take`; the rest of a large read waits, and it is paused."""

    def __init__(
        self,
        transport: asyncio.Transport,
        take: Callable[[bytes], None],
        rounds: Rounds,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self._transport = transport
        self._take = take
        self._rounds = rounds
        self._piece_bytes = piece_bytes
        self._rest = b""
        self._is_paused = False
        self._is_waiting = False
        # Who hears that all is taken, once nothing more comes.
        self._then: Callable[[], None] | None = None

    def received(self, data: bytes) -> None:
        if not self._rest:
            size = len(data)
            if size <= SMALL_BYTES or (size <= self._piece_bytes and self._rounds.has_time):
                self._rounds.spend(self._take, data)
                return
        self._rest += data
        self._transport.pause_reading()
        self._wait()

    def put_back(self, data: bytes) -> None:
        """So much of what was taken last was too much: it comes again, before all else."""
        self._rest = data + self._rest
        self._transport.pause_reading()
        self._wait()

    def pause(self) -> None:
        """Take nothing more for now."""
        self._is_paused = True
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Go on."""
        self._is_paused = False
        if self._rest:
            self._wait()
        elif not self._transport.is_closing():
            self._transport.resume_reading()

    def end(self, then: Callable[[], None]) -> None:
        """Nothing more comes; `then` is called in its turn, once all is taken that may be."""
        self._then = then
        if not self._rest and self._rounds.has_time:
            self._end()
        else:
            self._rounds.wait(self._end)

    def _wait(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._rounds.wait(self._go_on)

    def _go_on(self) -> None:
        self._is_waiting = False
        if self._is_paused:
            return
        most = self._piece_bytes
        piece, self._rest = self._rest[:most], self._rest[most:]
        self._rounds.spend(self._take, piece)
        if self._rest:
            self._wait()
        elif not self._is_paused and not self._transport.is_closing():
            self._transport.resume_reading()

    def _end(self) -> None:
        """In the end nobody is known here, so that no cycle is left."""
        if self._rest and not self._is_paused:
            self._rounds.wait(self._end)
            return
        self._rest, self._take = b"", _nobody_takes
        then, self._then = self._then, None
        if then is not None:
            self._rounds.spend(then)


def _nobody_takes(data: bytes) -> None:
    """There is nothing to take any more."""
