"""Where the sessions of clients are that are not here, as other brokers have said.

>>> homes = Homes()
>>> homes.put("c", Home("B2", at_us=5, user="ann"))
>>> homes.get("c"), homes.get("d")
('B2', None)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from shoal.ledger import Ledger, Measure
from shoal.model import BrokerId
from shoal.mqtt.federation.controls import Entered
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.memory.journal_records import HomeEnd, HomePut

# What an entry takes, about.
HOME_BYTES = 500


class Home(NamedTuple):
    """The broker that has a client's session, when the client entered it, and whose it is.

    `had_us`: this broker had it itself, after journeys up to that stamp.
    """

    broker: BrokerId
    at_us: int
    user: str = ""
    had_us: int = 0


class Homes:
    """Homes by client."""

    def __init__(self) -> None:
        # Is told what changes, if there is one.
        self.journal: Journal | None = None
        self._homes: dict[str, Home] = {}

    def register(self, ledger: Ledger) -> None:
        """The brokers that have these sessions bound them."""
        ledger.register(
            "sessions elsewhere",
            lambda: Measure(len(self._homes), len(self._homes) * HOME_BYTES),
        )

    def entry(self, client_id: str) -> Home | None:
        """All that is known."""
        return self._homes.get(client_id)

    def get(self, client_id: str) -> BrokerId | None:
        home = self._homes.get(client_id)
        return None if home is None else home.broker

    def whereabouts(self, client_ids: Iterable[str], to: BrokerId) -> Iterator[Entered]:
        """What is known of these, for a broker that has started and may not know it."""
        for client_id in client_ids:
            home = self._homes.get(client_id)
            if home is not None and home.broker != to:
                yield Entered(client_id, home.broker, home.at_us, True, None, home.user)

    def puts(self) -> Iterator[HomePut]:
        """All of them; between two of them anything may change."""
        for client_id in tuple(self._homes):
            home = self._homes.get(client_id)
            if home is not None:
                yield HomePut(client_id, *home)

    def put(self, client_id: str, home: Home) -> None:
        """The session is there."""
        if self._homes.get(client_id) != home:
            self._homes[client_id] = home
            if self.journal is not None:
                self.journal.home(HomePut(client_id, *home))

    def pop(self, client_id: str) -> None:
        """It is there no more."""
        if self._homes.pop(client_id, None) is not None and self.journal is not None:
            self.journal.home(HomeEnd(client_id))
