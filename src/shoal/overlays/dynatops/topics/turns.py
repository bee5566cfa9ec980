"""Turns: one publisher's publications take several roots at once, and are reordered at their homes.

Roots differ in distance, and only a topic's root knows the homes of a publication. So it also sends
them to the entry, while the publication is in transit; the entry sends each home the numbers of its
publications, in the publisher's order; and a home delivers arrived ones in that order. All of it
belongs to one view: a loss ends the view, and in the next one all is retransmitted.

    entry -> root -> home       the publication
             root -> entry      its homes (`EntryBound`)
                     entry -> home   the next numbers there (`HomeTurn`), which nothing overtakes

The alternative, in which homes report waiting numbers to the entry and get back the number up to
which all have arrived, needs no message from roots, but one more from each home, and makes all wait
for the slowest home.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId
from shoal.overlays.dynatops.messages import UserArriving


class PublisherTurns:
    """At an entry, of one publisher: publications in transit, until their homes are known.

    >>> turns = PublisherTurns()
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
        """These are in transit, in this order."""
        self._waiting.update(dict.fromkeys(numbers))

    def found(self, numbers: Iterable[int], homes: tuple[BrokerId, ...]) -> None:
        """The homes of these are known."""
        for number in numbers:
            if number in self._waiting:
                self._waiting[number] = homes

    def due(self) -> Mapping[BrokerId, list[int]]:
        """By home, the next numbers whose predecessors are all known, too.

        Each is returned once.
        """
        told: dict[BrokerId, list[int]] = {}
        for number, homes in list(self._waiting.items()):
            if homes is None:
                break
            del self._waiting[number]
            for home in homes:
                told.setdefault(home, []).append(number)
        return told


class HeldTurns:
    """At a home, of one publisher: early publications, and the next numbers."""

    __slots__ = ("_came", "_turns")

    def __init__(self) -> None:
        self._came: dict[int, tuple[UserArriving, RoutedPublication]] = {}
        self._turns: deque[int] = deque()

    def __len__(self) -> int:
        """Number of waiting publications."""
        return len(self._came)

    def __bool__(self) -> bool:
        return bool(self._came or self._turns)

    def put(self, carrier: UserArriving, routed: RoutedPublication) -> None:
        self._came[routed.message_id.number] = carrier, routed

    def turn(self, numbers: Iterable[int]) -> None:
        """These are next."""
        self._turns.extend(numbers)

    def due(self) -> Iterator[tuple[UserArriving, RoutedPublication]]:
        """The publications that have arrived and are next."""
        while self._turns and (came := self._came.pop(self._turns[0], None)) is not None:
            self._turns.popleft()
            yield came
