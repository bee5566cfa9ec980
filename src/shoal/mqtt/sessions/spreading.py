"""What goes to more sessions than a turn allows: a few at a time, in its order.

What comes meanwhile waits behind it.  So does all that could change who gets what: connections take
nothing from their clients but pings and what is said of publications they got (`Standing`), nothing
else is due (`Due`), and what the machine delivers waits (`Arrivals`).  Who subscribed when it came
gets it, unless that subscription is gone when its turn comes.

Where sessions outlast a kill, so does this: its beginning is on disk together with the word that it
was taken, and so is its end behind what it came to (see `journal`).  A broker that was killed in
between hands it to those who have not had it.

>>> spreading = Spreading(Timers())
>>> handed = []
>>> def hand(names):
...     for name in names:
...         handed.append(name)
...         yield MOST_AT_ONCE // 2
>>> spreading.begin(hand("abc"), lambda: handed.append("through"))
>>> spreading.then(lambda now_us: handed.append("behind"))
>>> spreading.go_on(7), handed, spreading.is_on
(None, ['a', 'b'], True)
>>> spreading.go_on(8), handed[2:], spreading.is_on
(None, ['c', 'through', 'behind'], False)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from shoal.mqtt.messages import Message
from shoal.mqtt.timers import Timers

# How many sessions one turn allows: with what it takes to record it and to write to their sockets
# some 30 ms.
MOST_AT_ONCE = 2_000

SPREADING_TIMER = "spreading"


class Spread(Protocol):
    """Who is told what of this must not be forgotten (see `journal`)."""

    def spreads(self, message: Message) -> None: ...

    def spread_to(self, message: Message, group: str) -> None: ...

    def spread_is_over(self, message: Message) -> None: ...


class Spreading:
    """Of one broker; while it `is_on` the timer is set, and `go_on` is called when it is due."""

    def __init__(self, timers: Timers) -> None:
        self.is_on = False
        self.most = MOST_AT_ONCE
        # When what is handed out now is.
        self.now_us = 0
        # Hear that nothing is left.
        self.at_end: list[Callable[[], None]] = []
        self._timers = timers
        self._steps: Iterator[int] | None = None
        self._is_through: Callable[[], None] | None = None
        self._behind: deque[Callable[[int], object]] = deque()

    def begin(self, steps: Iterator[int], is_through: Callable[[], None] | None = None) -> None:
        """Take these steps, in turns; each yields how many sessions it stands for.

        Nothing else may be on, but for what `then` has put behind.
        """
        assert self._steps is None
        self._steps, self._is_through = steps, is_through
        self._set_on()

    def then(self, do: Callable[[int], object]) -> None:
        """Do this behind all that is on; it may begin something itself."""
        self._behind.append(do)
        self._set_on()

    @property
    def is_stepping(self) -> bool:
        """Whether steps are being taken, or about to be."""
        return self._steps is not None

    def _set_on(self) -> None:
        if not self.is_on:
            self.is_on = True
            self._timers.set((SPREADING_TIMER,), 0)

    def go_on(self, now_us: int) -> None:
        """A turn."""
        self.now_us = now_us
        left = self.most
        while left > 0:
            if self._steps is None:
                if not self._behind:
                    self._end()
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
        self._timers.set((SPREADING_TIMER,), now_us + 1)  # others have their turn before that

    def finish(self, now_us: int) -> None:
        """All that is left, at once."""
        while self.is_on:
            self.go_on(now_us)

    def _end(self) -> None:
        self.is_on = False
        self._timers.cancel((SPREADING_TIMER,))
        at_end, self.at_end = self.at_end, []
        for tell in at_end:
            tell()
