"""The session directory: the owners of sessions that are not here, as announced by brokers.

>>> homes = SessionDirectory()
>>> homes.put("c", SessionOwner("B2", at_us=5, user="ann"))
>>> homes.get("c"), homes.get("d")
('B2', None)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from shoal.ledger import Ledger, LedgerMeasure
from shoal.model import BrokerId
from shoal.mqtt.federation.controls import Entered
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.memory.journal_records import HomeEnd, HomePut

# The approximate memory of an entry.
HOME_BYTES = 500


class SessionOwner(NamedTuple):
    """The broker that owns a client's session, the fencing token of its entry, and its user.

    `had_us`: this broker owned it itself, in transfers up to that fencing token.
    """

    broker: BrokerId
    at_us: int
    user: str = ""
    had_us: int = 0


class SessionDirectory:
    """Session owners by client."""

    def __init__(self) -> None:
        # Records changes, if there is one.
        self.journal: SessionJournal | None = None
        self._homes: dict[str, SessionOwner] = {}

    def register(self, ledger: Ledger) -> None:
        """Register the table; its bound are the limits of the owning brokers."""
        ledger.register(
            "sessions elsewhere",
            lambda: LedgerMeasure(len(self._homes), len(self._homes) * HOME_BYTES),
        )

    def entry(self, client_id: str) -> SessionOwner | None:
        """The entry of a client."""
        return self._homes.get(client_id)

    def get(self, client_id: str) -> BrokerId | None:
        home = self._homes.get(client_id)
        return None if home is None else home.broker

    def whereabouts(self, client_ids: Iterable[str], to: BrokerId) -> Iterator[Entered]:
        """The entries of these clients, for a broker that has started and may not know them."""
        for client_id in client_ids:
            home = self._homes.get(client_id)
            if home is not None and home.broker != to:
                yield Entered(client_id, home.broker, home.at_us, True, None, home.user)

    def owned_by(self, owners: Collection[BrokerId]) -> Iterator[Entered | None]:
        """The entries of sessions of these brokers, and None for each other entry; they may change
        between two steps.
        """
        for client_id in tuple(self._homes):
            home = self._homes.get(client_id)
            if home is None or home.broker not in owners:
                yield None
            else:
                yield Entered(client_id, home.broker, home.at_us, True, None, home.user)

    def puts(self) -> Iterator[HomePut]:
        """All entries, for the journal; they may change between two steps."""
        for client_id in tuple(self._homes):
            home = self._homes.get(client_id)
            if home is not None:
                yield HomePut(client_id, *home)

    def put(self, client_id: str, home: SessionOwner) -> None:
        """Set the owner of a session."""
        if self._homes.get(client_id) != home:
            self._homes[client_id] = home
            if self.journal is not None:
                self.journal.home(HomePut(client_id, *home))

    def pop(self, client_id: str) -> None:
        """Remove the entry of a client."""
        if self._homes.pop(client_id, None) is not None and self.journal is not None:
            self.journal.home(HomeEnd(client_id))
