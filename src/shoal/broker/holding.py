"""What a machine has asked its driver to hold back (`Hold`), in the order it came.

Who brings it keeps the rest where it is; here is what was under way to the machine at that moment.
What somebody waits for stays unsettled.  Pings are answered all the same.

>>> from shoal.broker.messages import Goodbye
>>> holding: Holding[None] = Holding()
>>> holding.hold(("B1",))
>>> inputs = [Received("B2", Goodbye()), Received("B1", Goodbye()), Requested("c", Goodbye())]
>>> [holding.keep(input, None) for input in inputs]
[True, False, True]
>>> holding.release()
>>> holding.keep(Received("B1", Goodbye()), None)
True
>>> [type(holding.next()[0]).__name__ for _ in range(3)], holding.is_over
(['Received', 'Requested', 'Received'], True)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import Generic, TypeVar

from shoal.broker.effects import Input, Received, Requested
from shoal.broker.messages import Ping
from shoal.model import BrokerId

Owed = TypeVar("Owed")


class Holding(Generic[Owed]):
    """Inputs that wait, also behind those that waited before them when the machine releases them.

    Each is kept with what its driver owes for it.
    """

    def __init__(self) -> None:
        self.is_on = False
        self._but: Container[BrokerId] = ()
        self.kept: deque[tuple[Input, Owed]] = deque()

    def hold(self, but: Container[BrokerId]) -> None:
        """Keep what comes from now on, except from these neighbours."""
        self._but, self.is_on = but, True

    def release(self) -> None:
        self.is_on = False

    @property
    def is_over(self) -> bool:
        """Whether nothing is kept, and nothing is to be."""
        return not self.is_on and not self.kept

    def holds_back(self, neighbour: BrokerId) -> bool:
        """Whether nothing of a neighbour should be brought."""
        return self.is_on and neighbour not in self._but

    def keep(self, input: Input, owed: Owed) -> bool:
        """Keep an input that has come, if it must wait."""
        if self.is_over or not _can_wait(input):
            return False
        if self.is_on and type(input) is Received and not self.holds_back(input.neighbour):
            waits = self.keeps_of(input.neighbour)
        else:
            waits = True
        if waits:
            self.kept.append((input, owed))
        return waits

    def next(self) -> tuple[Input, Owed] | None:
        """Take out the first input that need not wait any longer."""
        for place, (input, owed) in enumerate(self.kept):
            is_wanted = type(input) is Received and not self.holds_back(input.neighbour)
            if is_wanted or not self.is_on:
                del self.kept[place]
                return input, owed
        return None

    def keeps_of(self, neighbour: BrokerId) -> bool:
        """Whether a message of this neighbour waits."""
        return any(is_from(neighbour, each) for each, _ in self.kept)

    def drop(self, neighbour: BrokerId) -> None:
        """The link to this neighbour is lost, and with it what was not handled."""
        self.kept = deque(each for each in self.kept if not is_from(neighbour, each[0]))


def _can_wait(input: Input) -> bool:
    """Whether such inputs wait at all."""
    if type(input) is Requested:
        return type(input.request) is not Ping
    return type(input) is Received


def is_from(neighbour: BrokerId, input: Input) -> bool:
    """Whether it is a message of this neighbour."""
    return type(input) is Received and input.neighbour == neighbour
