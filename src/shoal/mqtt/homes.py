"""Where the sessions of clients are that are not here, as other brokers have said.

>>> homes = Homes()
>>> homes.put("c", "B2", at_us=5)
>>> homes.get("c"), homes.get("d")
('B2', None)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from shoal.model import BrokerId

if TYPE_CHECKING:
    from shoal.mqtt.journal import Journal


class Homes:
    """The broker that has a client's session, and when the client entered it."""

    def __init__(self) -> None:
        # Is told what changes, if there is one.
        self.journal: Journal | None = None
        self._homes: dict[str, tuple[BrokerId, int]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def entry(self, client_id: str) -> tuple[BrokerId, int] | None:
        """The broker, and when the client entered it."""
        return self._homes.get(client_id)

    def get(self, client_id: str) -> BrokerId | None:
        home = self._homes.get(client_id)
        return None if home is None else home[0]

    def put(self, client_id: str, broker: BrokerId, at_us: int) -> None:
        """The session is there."""
        if self._homes.get(client_id) != (broker, at_us):
            self._homes[client_id] = (broker, at_us)
            if self.journal is not None:
                self.journal.home(client_id, broker, at_us)

    def pop(self, client_id: str) -> BrokerId | None:
        """It is there no more; where it was."""
        home = self._homes.pop(client_id, None)
        if home is None:
            return None
        if self.journal is not None:
            self.journal.home_ended(client_id)
        return home[0]
