"""A live broker's writes, in order, once its loop has served all sockets that are ready."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable

from shoal.runtime.driving.cost_estimator import TURN_US
from shoal.runtime.driving.timing.clock import Clock


class Phase(enum.IntEnum):
    """The steps of a flush in order, so that no peer learns of state that could still be lost.

    DELIVER   deliveries for local clients reach their sessions
    SETTLE    so their cause is settled
    RECORD    durable state is written to disk
    LINKS     neighbours are written to, with acknowledgements
    CLIENTS   clients are written to, with acknowledgements
    """

    DELIVER = 0
    SETTLE = 1
    RECORD = 2
    LINKS = 3
    CLIENTS = 4


class Flushing:
    """Registered writers, by phase; `then` is called after them all."""

    def __init__(self, then: Callable[[], None], clock: Clock) -> None:
        self._then = then
        self._clock = clock
        self._calls: list[tuple[Phase, Callable[[], None]]] = []
        self._is_due = False
        # True if delivery filled a time slice, and the rest waits for the next.
        self._has_delivered = False

    def at(self, phase: Phase, call: Callable[[], None]) -> None:
        """Call this at each flush, in its phase."""
        self._calls.append((phase, call))
        self._calls.sort(key=lambda entry: entry[0])

    def schedule(self) -> None:
        """Flush once the loop has served all ready sockets."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._flush_due)

    def _flush_due(self) -> None:
        """A delivery that fills a time slice is written in the next slice, with everything that
        arrives meanwhile.

        Only there can a flush be split: acknowledgements cover recorded state only.
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
        """Settle gathered deliveries, then write them out, each socket once."""
        self._is_due = self._has_delivered = False
        for _, call in self._calls:
            call()
        self._then()

    def flush_only(self, phase: Phase) -> None:
        """Run this phase only; it may have more to do in the full flush."""
        for of, call in self._calls:
            if of is phase:
                call()
