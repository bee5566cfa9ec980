"""Inputs that the machine has asked its driver to hold (`Hold`), in order.

Drivers stop reading their sources; this class keeps the inputs that were under way to the machine.
Assured ones stay unsettled. Pings are answered nevertheless.

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
    """Held inputs, also those that queue behind held ones after the release.

    Each is kept with the acknowledgement that its driver owes for it.
    """

    def __init__(self) -> None:
        self.is_on = False
        self._but: Container[BrokerId] = ()
        self.kept: deque[tuple[Input, Owed]] = deque()

    def hold(self, but: Container[BrokerId]) -> None:
        """Hold inputs, except those of these neighbours."""
        self._but, self.is_on = but, True

    def release(self) -> None:
        self.is_on = False

    @property
    def is_over(self) -> bool:
        """Whether nothing is held, and nothing is to be."""
        return not self.is_on and not self.kept

    def holds_back(self, neighbour: BrokerId) -> bool:
        """Whether the driver should not read this neighbour."""
        return self.is_on and neighbour not in self._but

    def keep(self, input: Input, owed: Owed) -> bool:
        """Keep an input if it must wait; returns whether it does."""
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
        """Whether a message of this neighbour is held."""
        return any(is_from(neighbour, each) for each, _ in self.kept)

    def drop(self, neighbour: BrokerId) -> None:
        """Drop the messages of a neighbour after the failure of its link."""
        self.kept = deque(each for each in self.kept if not is_from(neighbour, each[0]))


def _can_wait(input: Input) -> bool:
    """Whether inputs of this kind may be held."""
    if type(input) is Requested:
        return type(input.request) is not Ping
    return type(input) is Received


def is_from(neighbour: BrokerId, input: Input) -> bool:
    """Whether the input is a message of this neighbour."""
    return type(input) is Received and input.neighbour == neighbour
