"""One publisher's publications over several roots at once, and in order again at their homes.

Roots are not equally near, and only a topic's root knows which homes want a publication.  So it
tells the entry, too, while the publication is on its way; the entry tells each home the numbers of
those that it gets, in the publisher's order; and a home delivers what has come in that order.  All
of it belongs to one view: what is lost ends the view, and in the next one all is sent again.

    entry -> root -> home       the publication
             root -> entry      for which homes it is (`Bound`)
                     entry -> home   whose turn it is there (`HomeTurn`), which nothing overtakes

The other design, where homes tell the entry what waits there and hear up to where all has come,
needs no word from roots, but one more from each home, and lets all wait for the slowest home.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId
from shoal.overlays.dynatops.messages import Arriving


class Turns:
    """At an entry, of one publisher: what is under way, until it is known for which homes.

    >>> turns = Turns()
    >>> turns.sent([1, 2])
    >>> turns.found([2], ("B",)), dict(turns.due())
    (None, {})
    >>> turns.found([1], ("A", "B")), dict(turns.due())
    (None, {'A': [1], 'B': [1, 2]})
    """

    def __init__(self) -> None:
        # By number, None while that is not known.
        self._waiting: dict[int, tuple[BrokerId, ...] | None] = {}

    def sent(self, numbers: Iterable[int]) -> None:
        """These are under way, in this order."""
        self._waiting.update(dict.fromkeys(numbers))

    def found(self, numbers: Iterable[int], homes: tuple[BrokerId, ...]) -> None:
        """These are for these homes."""
        for number in numbers:
            if number in self._waiting:
                self._waiting[number] = homes

    def due(self) -> Mapping[BrokerId, list[int]]:
        """By home, the next of which all before them are known, too; each is said once."""
        told: dict[BrokerId, list[int]] = {}
        for number, homes in list(self._waiting.items()):
            if homes is None:
                break
            del self._waiting[number]
            for home in homes:
                told.setdefault(home, []).append(number)
        return told


class Parked:
    """At a home, of one publisher: what came before its turn, and whose turn it is."""

    __slots__ = ("_came", "_turns")

    def __init__(self) -> None:
        self._came: dict[int, tuple[Arriving, RoutedPublication]] = {}
        self._turns: deque[int] = deque()

    def __len__(self) -> int:
        """How many publications wait."""
        return len(self._came)

    def __bool__(self) -> bool:
        return bool(self._came or self._turns)

    def put(self, carrier: Arriving, routed: RoutedPublication) -> None:
        self._came[routed.message_id.number] = carrier, routed

    def turn(self, numbers: Iterable[int]) -> None:
        """These are next."""
        self._turns.extend(numbers)

    def due(self) -> Iterator[tuple[Arriving, RoutedPublication]]:
        """Those that have come and whose turn it is."""
        while self._turns and (came := self._came.pop(self._turns[0], None)) is not None:
            self._turns.popleft()
            yield came
