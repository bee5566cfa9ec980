"""What a live broker writes once its loop is through with the sockets that are ready, in order."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable

from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.driving.weighing import TURN_US


class Phase(enum.IntEnum):
    """The steps of a flush, in their order, so that nobody hears of what could still be lost.

    DELIVER   what came for local clients reaches their sessions
    SETTLE    so what caused it is settled
    RECORD    what must survive this process is written where it does
    LINKS     neighbours are written to, and told what is settled
    CLIENTS   clients are written to, and told what is acknowledged
    """

    DELIVER = 0
    SETTLE = 1
    RECORD = 2
    LINKS = 3
    CLIENTS = 4


class Flushing:
    """Whoever has something to write, by phase; `then` is called behind them all."""

    def __init__(self, then: Callable[[], None], clock: Clock) -> None:
        self._then = then
        self._clock = clock
        self._calls: list[tuple[Phase, Callable[[], None]]] = []
        self._is_due = False
        # Whether what was delivered took a turn, and the rest waits for the next.
        self._has_delivered = False

    def at(self, phase: Phase, call: Callable[[], None]) -> None:
        """Call this at each flush, in its phase."""
        self._calls.append((phase, call))
        self._calls.sort(key=lambda entry: entry[0])

    def schedule(self) -> None:
        """Flush once the loop is through with what is ready now."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._flush_due)

    def _flush_due(self) -> None:
        """What takes a turn to deliver is written in the next, together with what comes meanwhile.

        Only there can a flush be cut: what is told is told of all that was recorded.
        """
        self._is_due = False
        if not self._has_delivered:
            began_us = self._clock.now_us()
            self.flush_only(Phase.DELIVER)
            if self._clock.now_us() - began_us >= TURN_US:
                self._has_delivered = True
                self.schedule()
                return
        self.flush()

    def flush(self) -> None:
        """Settle what has been gathered, then write it out, each socket once."""
        self._is_due = self._has_delivered = False
        for _, call in self._calls:
            call()
        self._then()

    def flush_only(self, phase: Phase) -> None:
        """Only what is due in this phase; it may have more to do when all is flushed."""
        for of, call in self._calls:
            if of is phase:
                call()
