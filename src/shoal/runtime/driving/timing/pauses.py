"""Detects that this process did not run: it was stopped, its machine slept, or it got no processor.

Messages that arrived meanwhile wait in its sockets. So failure detection reads the sockets first:
late timers are put off once, and rounds count only their regular length.

>>> put_off_s(due_us=5_000_000, now_us=5_100_000), put_off_s(due_us=5_000_000, now_us=7_000_000)
(0.0, 2.0)
>>> rounds = TickRounds(every_s=1.0)
>>> [rounds.missed_us(now_us) for now_us in (5_000_000, 6_000_000, 7_900_000, 70_000_000)]
[0, 0, 900000, 61100000]
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shoal.runtime.driving.timing.clock import Clock

_MICROSECONDS = 1_000_000
# A loop that is only busy is not that late.
LONG_US = _MICROSECONDS
# Time enough to read pending input, and for neighbours to connect again.
MOST_US = 5 * _MICROSECONDS


def put_off_s(due_us: int, now_us: int) -> float:
    """Return how long a timer that fires now should wait, in seconds; 0 if it is not very late."""
    late_us = now_us - due_us
    return min(late_us, MOST_US) / _MICROSECONDS if late_us > LONG_US else 0.0


class Alarm:
    """Calls once at `at_us`, or later if this process did not run then: see above.

    A timer that is due when it is set is not late, however long ago it was due.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        at_us: int,
        call: Callable[[], object],
    ) -> None:
        now_us = clock.now_us()
        self._loop, self._clock, self._call = loop, clock, call
        self._at_us = max(at_us, now_us)
        delay_s = (self._at_us - now_us) / _MICROSECONDS
        self._handle: asyncio.TimerHandle | None = loop.call_later(delay_s, self._due)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _due(self) -> None:
        self._handle = None  # the handle refers to this object: no cycle is left afterwards
        pause_s = put_off_s(self._at_us, self._clock.now_us())
        if pause_s:
            self._handle = self._loop.call_later(pause_s, self._call)
        else:
            self._call()


class TickRounds:
    """Rounds of a periodic task."""

    def __init__(self, every_s: float) -> None:
        self._every_us = round(every_s * _MICROSECONDS)
        self._last_us: int | None = None

    def missed_us(self, now_us: int) -> int:
        """A round begins: how much later than it should; 0 for the first.

        A loop that is always a little late is as good as paused for a part of the time.
        """
        last_us, self._last_us = self._last_us, now_us
        return 0 if last_us is None else max(0, now_us - last_us - self._every_us)
