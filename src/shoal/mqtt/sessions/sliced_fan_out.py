"""Sliced fan-out: delivers a message to many sessions in several time slices, in order.

Later messages wait behind it, and so do all inputs that could change the receivers: connections
handle only PINGREQ and acknowledgements of their clients (`ConnectionStatus`), no other timer is
due (`TimerDispatch`), and deliveries of the machine wait (`MqttArrivals`). The subscribers at its
begin get the message, unless they unsubscribe before their slice.

A fan-out to sessions that outlast a restart is recorded itself: its begin together with the
acceptance of the message, and its end after all its effects (see `journal`). A broker that was
killed in between delivers the message to the remaining sessions.

>>> spreading = SlicedFanOut(MqttTimers())
>>> handed = []
>>> def hand(names):
...     for name in names:
...         handed.append(name)
...         yield MOST_AT_ONCE // 2
>>> spreading.begin(hand("abc"), lambda: handed.append("through"))
>>> spreading.then(lambda now_us: handed.append("behind"))
>>> spreading.run_slice(7), handed, spreading.is_on
(None, ['a', 'b'], True)
>>> spreading.run_slice(8), handed[2:], spreading.is_on
(None, ['c', 'through', 'behind'], False)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.timers import MqttTimers

# Sessions per time slice: with recording and socket writes some 30 ms.
MOST_AT_ONCE = 2_000

SPREADING_TIMER = "spreading"


class PendingFanOut(Protocol):
    """Records sliced fan-outs (see `journal`)."""

    def spreads(self, message: PublishedMessage) -> None: ...

    def spread_to(self, message: PublishedMessage, group: str) -> None: ...

    def spread_is_over(self, message: PublishedMessage) -> None: ...


class SlicedFanOut:
    """The fan-out of one broker; while it `is_on` its timer is set, which calls `run_slice`."""

    def __init__(self, timers: MqttTimers) -> None:
        self.is_on = False
        self.most = MOST_AT_ONCE
        # The time of the present slice.
        self.now_us = 0
        # Called when nothing is left.
        self.at_end: list[Callable[[], None]] = []
        self._timers = timers
        self._steps: Iterator[int] | None = None
        self._is_through: Callable[[], None] | None = None
        self._behind: deque[Callable[[int], object]] = deque()

    def begin(self, steps: Iterator[int], is_through: Callable[[], None] | None = None) -> None:
        """Begin with these steps, each of which yields the number of sessions it stands for.

        No other steps may be under way; actions of `then` may wait.
        """
        assert self._steps is None
        self._steps, self._is_through = steps, is_through
        self._set_on()

    def then(self, do: Callable[[int], object]) -> None:
        """Do this after all that is under way; it may begin a fan-out itself."""
        self._behind.append(do)
        self._set_on()

    @property
    def is_stepping(self) -> bool:
        """Whether steps are under way, or about to be."""
        return self._steps is not None

    def _set_on(self) -> None:
        if not self.is_on:
            self.is_on = True
            self._timers.set((SPREADING_TIMER,), 0)

    def run_slice(self, now_us: int) -> None:
        """Run the next time slice."""
        self.now_us = now_us
        left = self.most
        while left > 0:
            if self._steps is None:
                if not self._behind:
                    self._end_fan_out()
                    return
                left -= 1
                do = self._behind.popleft()
                self.is_on = bool(self._behind)
                do(now_us)
                self.is_on = True
                continue
            for work in self._steps:
                left -= work
                if left <= 0:
                    break
            else:
                is_through, self._steps, self._is_through = self._is_through, None, None
                if is_through is not None:
                    is_through()
        self._timers.set((SPREADING_TIMER,), now_us + 1)  # after a time slice of other inputs

    def finish(self, now_us: int) -> None:
        """Run all remaining slices at once."""
        while self.is_on:
            self.run_slice(now_us)

    def _end_fan_out(self) -> None:
        self.is_on = False
        self._timers.cancel((SPREADING_TIMER,))
        at_end, self.at_end = self.at_end, []
        for tell in at_end:
            tell()
