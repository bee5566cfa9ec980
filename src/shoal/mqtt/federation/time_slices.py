"""Time slices for messages with many groups of shared subscriptions.

A client may be in tens of thousands of groups, and each gets a copy of a message. Meanwhile the
clients of this broker are not read, so that their publications stay in order; other input is
handled. While the driver suspends input of clients because links are full of copies, this waits.
The same class slices the answers to a joining broker (see `joining`), which may have a million
messages.

>>> handing = TimeSlices(MqttTimers(), lambda: False)
>>> handed = []
>>> def hand(names):
...     for name in names:
...         handed.append(name)
...         yield MOST_AT_ONCE // 2
>>> handing.take(hand("abc"), now_us=1), handed, handing.is_on
(None, ['a', 'b'], True)
>>> handing.run_slice(2), handed, handing.is_on
(None, ['a', 'b', 'c'], False)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from shoal.mqtt.timers import MqttTimers

# The work of one time slice, some 10 ms: a copy for a local member is one unit; a copy for another
# broker is COPY_WORK, and one more for each BYTES_PER_WORK.
MOST_AT_ONCE = 600
COPY_WORK = 4
BYTES_PER_WORK = 8_192
# The pause while input of clients is suspended.
HELD_US = 10_000

HANDING_TIMER = "handing"


class TimeSlices:
    """The steps of one broker; while it `is_on` its timer is set, which calls `run_slice`."""

    def __init__(
        self, timers: MqttTimers, is_held: Callable[[], bool], timer: str = HANDING_TIMER
    ) -> None:
        self.now_us = 0
        self._timer = (timer, ())
        self._timers = timers
        self._is_held = is_held
        self._steps: deque[Iterator[int]] = deque()
        # The work left in this time slice.
        self._left = MOST_AT_ONCE

    @property
    def is_on(self) -> bool:
        """Whether steps wait."""
        return bool(self._steps)

    def take(self, steps: Iterator[int], now_us: int) -> None:
        """Append steps, each of which yields its work.

        They begin at once, within the work left in the present time slice.
        """
        self._steps.append(steps)
        if len(self._steps) > 1:
            return
        if now_us != self.now_us:
            self.now_us, self._left = now_us, MOST_AT_ONCE
        self._take_steps()

    def run_slice(self, now_us: int) -> None:
        """Run the next time slice."""
        self.now_us, self._left = now_us, MOST_AT_ONCE
        if self._is_held():
            self._timers.set(self._timer, now_us + HELD_US)
        else:
            self._take_steps()

    def finish(self, now_us: int) -> None:
        """Run all remaining steps at once, unless input is suspended."""
        while self._steps and not self._is_held():
            self.run_slice(now_us)

    def _take_steps(self) -> None:
        while self._steps and self._left > 0:
            for work in self._steps[0]:
                self._left -= work
                if self._left <= 0:
                    break
            else:
                self._steps.popleft()
        if self._steps:  # after a time slice of other inputs
            self._timers.set(self._timer, self.now_us + 1)


def copy_work(size: int) -> int:
    """The work of a copy of `size` bytes for another broker."""
    return COPY_WORK + size // BYTES_PER_WORK
