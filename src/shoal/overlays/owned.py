"""What each client has at a broker: who goes takes just that along, not a look at all there is.

>>> owned = Owned()
>>> for client, id in (("a", "s1"), ("b", "s2"), ("a", "s3")):
...     owned.add(client, id)
>>> owned.remove("b", "s2")
>>> owned.of("a"), owned.of("b"), list(owned.clients)
(['s1', 's3'], [], ['a'])
"""

from __future__ import annotations

from collections.abc import KeysView
from typing import Generic, TypeVar

from shoal.model import ClientId

Id = TypeVar("Id", bound=str)


class Owned(Generic[Id]):
    """Ids by client, in the order in which they came."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: dict[ClientId, dict[Id, None]] = {}

    @property
    def clients(self) -> KeysView[ClientId]:
        """Who has something."""
        return self._ids.keys()

    def add(self, client: ClientId, id: Id) -> None:
        """A client has this, too, or still."""
        self._ids.setdefault(client, {})[id] = None

    def remove(self, client: ClientId, id: Id) -> None:
        """It has this no more; KeyError if it had not."""
        ids = self._ids[client]
        del ids[id]
        if not ids:
            del self._ids[client]

    def of(self, client: ClientId) -> list[Id]:
        """All that a client has."""
        return list(self._ids.get(client, ()))
