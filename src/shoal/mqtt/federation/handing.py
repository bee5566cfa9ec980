"""What is for many groups of shared subscriptions, handed on a few at a time.

A client may be in tens of thousands of groups, and each gets a copy of a message.  Meanwhile the
clients of this broker publish nothing more, so that what they publish comes in its order; all else
goes on.  While the driver wants nothing taken from clients, as links are full of copies, it waits.

So is what a broker is told that joins (see `joining`), which may be all of a million messages.

>>> handing = Handing(Timers(), lambda: False)
>>> handed = []
>>> def hand(names):
...     for name in names:
...         handed.append(name)
...         yield MOST_AT_ONCE // 2
>>> handing.take(hand("abc"), now_us=1), handed, handing.is_on
(None, ['a', 'b'], True)
>>> handing.go_on(2), handed, handing.is_on
(None, ['a', 'b', 'c'], False)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from shoal.mqtt.timers import Timers

# What is handed on at once, some 10 ms: a copy for a member here is one, as are so many bytes of a
# copy for another broker, which is several by itself.
MOST_AT_ONCE = 600
COPY_WORK = 4
BYTES_PER_WORK = 8_192
# How long it waits while nothing may be taken from clients.
HELD_US = 10_000

HANDING_TIMER = "handing"


class Handing:
    """Of one broker; while it `is_on` the timer is set, and `go_on` is called when it is due."""

    def __init__(
        self, timers: Timers, is_held: Callable[[], bool], timer: str = HANDING_TIMER
    ) -> None:
        self.now_us = 0
        self._timer = (timer, ())
        self._timers = timers
        self._is_held = is_held
        self._steps: deque[Iterator[int]] = deque()
        # How much more may be done now.
        self._left = MOST_AT_ONCE

    @property
    def is_on(self) -> bool:
        """Whether something waits."""
        return bool(self._steps)

    def take(self, steps: Iterator[int], now_us: int) -> None:
        """Take these steps, behind all that waits; each yields how much work it was.

        At once, as far as what else was taken at this time leaves room for it.
        """
        self._steps.append(steps)
        if len(self._steps) > 1:
            return
        if now_us != self.now_us:
            self.now_us, self._left = now_us, MOST_AT_ONCE
        self._take_steps()

    def go_on(self, now_us: int) -> None:
        """A turn."""
        self.now_us, self._left = now_us, MOST_AT_ONCE
        if self._is_held():
            self._timers.set(self._timer, now_us + HELD_US)
        else:
            self._take_steps()

    def finish(self, now_us: int) -> None:
        """All that is left, at once, unless it must wait."""
        while self._steps and not self._is_held():
            self.go_on(now_us)

    def _take_steps(self) -> None:
        while self._steps and self._left > 0:
            for work in self._steps[0]:
                self._left -= work
                if self._left <= 0:
                    break
            else:
                self._steps.popleft()
        if self._steps:  # others have their turn before that
            self._timers.set(self._timer, self.now_us + 1)


def copy_work(size: int) -> int:
    """How much work a copy of so many bytes for another broker is."""
    return COPY_WORK + size // BYTES_PER_WORK
