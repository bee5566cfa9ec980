"""The coordinates of brokers, as far as one member knows them.

A broker says its own when a link comes up and when it wants to join; views carry those of all
members. A broker's own word replaces what a view said of it.

>>> known = MemberCoordinates("A", {"A": (48.2, 16.4)})
>>> known.note("B", (52.5, 13.4))
>>> known.of(["A", "B", "C"]), known.own
({'A': (48.2, 16.4), 'B': (52.5, 13.4)}, (48.2, 16.4))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.dynatops.structures.geography import Coordinates, is_on_earth


class MemberCoordinates:
    """At one broker; `own` is None if it stands nowhere."""

    def __init__(self, broker: BrokerId, known: Mapping[BrokerId, Coordinates]) -> None:
        self._broker = broker
        self._known = dict(known)
        self.own = self._known.get(broker)

    def get(self, broker: BrokerId) -> Coordinates | None:
        return self._known.get(broker)

    def of(self, members: Iterable[BrokerId]) -> Mapping[BrokerId, Coordinates]:
        """The coordinates of those members that have some."""
        return {each: self._known[each] for each in members if each in self._known}

    def note(self, broker: BrokerId, coordinates: Coordinates | None) -> None:
        """A broker says where it stands, or that it stands nowhere.

        ProtocolError for a place that is not on earth.
        """
        if coordinates is None:
            self._known.pop(broker, None)
        elif is_on_earth(coordinates):
            self._known[broker] = coordinates
        else:
            raise ProtocolError(f"{broker} says that it is at {coordinates}")

    def learn(self, said: Mapping[BrokerId, Coordinates]) -> None:
        """Take the coordinates that a view carries, except this broker's own."""
        self._known |= {each: at for each, at in said.items() if each != self._broker}
