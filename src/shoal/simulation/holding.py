"""What a simulated broker has asked its driver to hold back (`Hold`), in the order it came."""

from __future__ import annotations

from collections import deque
from collections.abc import Container

from shoal.broker.effects import Received, Requested
from shoal.model import BrokerId

Arrival = Received | Requested


class Holding:
    """Inputs that wait, also behind those that waited before them when the broker releases them."""

    def __init__(self) -> None:
        self._but: Container[BrokerId] = ()
        self._is_on = False
        self._kept: deque[Arrival] = deque()
        self._brought: Arrival | None = None

    def hold(self, but: Container[BrokerId]) -> None:
        """Keep what comes from now on, except from these neighbours."""
        self._but, self._is_on = but, True

    def release(self) -> None:
        self._is_on = False

    @property
    def is_over(self) -> bool:
        """Whether nothing is kept, and nothing is to be."""
        return not self._is_on and not self._kept

    def keep(self, input: Arrival) -> bool:
        """Keep an input that has come, if it must wait."""
        if input is self._brought:
            return False
        if self._is_on and self._passes(input):
            waits = self.keeps_of(input.neighbour)  # type: ignore[union-attr]
        else:
            waits = self._is_on or bool(self._kept)
        if waits:
            self._kept.append(input)
        return waits

    def next(self) -> Arrival | None:
        """Take out the first input that need not wait any longer."""
        for place, input in enumerate(self._kept):
            if self._passes(input):
                del self._kept[place]
                self._brought = input
                return input
        return None

    def keeps_of(self, neighbour: BrokerId) -> bool:
        """Whether a message of this neighbour waits."""
        return any(_is_from(neighbour, each) for each in self._kept)

    def drop(self, neighbour: BrokerId) -> None:
        """The link to this neighbour is lost, and with it what was not handled."""
        self._kept = deque(each for each in self._kept if not _is_from(neighbour, each))

    def _passes(self, input: Arrival) -> bool:
        return not self._is_on or (type(input) is Received and input.neighbour in self._but)


def _is_from(neighbour: BrokerId, input: Arrival) -> bool:
    return type(input) is Received and input.neighbour == neighbour
