"""What a machine has asked its driver to hold back (`Hold`), in the order it came.

Who brings it keeps the rest where it is; here is what was under way to the machine at that moment.
What somebody waits for stays unsettled.  Pings are answered all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container

from shoal.broker.custody import Custody
from shoal.broker.effects import Input, Received, Requested
from shoal.broker.messages import Ping
from shoal.model import BrokerId

Brought = tuple[Input, Custody | None]


class Holding:
    """Inputs that wait, and those behind them."""

    def __init__(self) -> None:
        self.is_on = False
        self._but: Container[BrokerId] = ()
        self._kept: deque[Brought] = deque()

    def hold(self, but: Container[BrokerId]) -> None:
        """Keep what comes from now on, except from these neighbours."""
        self._but, self.is_on = but, True

    def release(self) -> None:
        self.is_on = False

    def holds_back(self, neighbour: BrokerId) -> bool:
        """Whether nothing of a neighbour should be brought."""
        return self.is_on and neighbour not in self._but

    def keep(self, input: Input, custody: Custody | None) -> bool:
        """Keep an input that has come, if it must wait."""
        if not (self.is_on or self._kept) or not self._is_held(input):
            return False
        if type(input) is Received and not self.holds_back(input.neighbour):
            waits = any(_is_from(input.neighbour, each) for each, _ in self._kept)
        else:
            waits = True
        if waits:
            self._kept.append((input, custody))
        return waits

    def next(self) -> Brought | None:
        """Take out the first input that need not wait any longer."""
        for place, (input, custody) in enumerate(self._kept):
            is_wanted = type(input) is Received and not self.holds_back(input.neighbour)
            if is_wanted or not self.is_on:
                del self._kept[place]
                return input, custody
        return None

    def drop(self, neighbour: BrokerId) -> None:
        """The link to this neighbour is lost, and with it what was not handled."""
        self._kept = deque(each for each in self._kept if not _is_from(neighbour, each[0]))

    @staticmethod
    def _is_held(input: Input) -> bool:
        """Whether such inputs wait at all."""
        if type(input) is Requested:
            return type(input.request) is not Ping
        return type(input) is Received


def _is_from(neighbour: BrokerId, input: Input) -> bool:
    return type(input) is Received and input.neighbour == neighbour
