"""What each client, or each neighbour, has at a broker: who goes costs that, not a look at all.

>>> owned = Owned()
>>> for client, id in (("a", "s1"), ("b", "s2"), ("a", "s3")):
...     owned.add(client, id)
>>> owned.remove("b", "s2")
>>> owned.of("a"), owned.of("b"), list(owned.clients)
(['s1', 's3'], [], ['a'])
>>> owned.take("a"), owned.of("a")
(['s1', 's3'], [])
"""

from __future__ import annotations

from collections.abc import KeysView
from typing import Generic, TypeVar

from shoal.model import BrokerId, ClientId

Id = TypeVar("Id", bound=str)


class Owned(Generic[Id]):
    """Ids by client or neighbour, in the order in which they came."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: dict[ClientId | BrokerId, dict[Id, None]] = {}

    @property
    def clients(self) -> KeysView[ClientId | BrokerId]:
        """Who has something."""
        return self._ids.keys()

    def add(self, client: ClientId | BrokerId, id: Id) -> None:
        """It has this, too, or still."""
        ids = self._ids.get(client)
        if ids is None:
            self._ids[client] = {id: None}
        else:
            ids[id] = None

    def remove(self, client: ClientId | BrokerId, id: Id) -> None:
        """It has this no more; KeyError if it had not."""
        ids = self._ids[client]
        del ids[id]
        if not ids:
            del self._ids[client]

    def of(self, client: ClientId | BrokerId) -> list[Id]:
        """All that it has."""
        return list(self._ids.get(client, ()))

    def take(self, client: ClientId | BrokerId) -> list[Id]:
        """All that it had, and has no more."""
        return list(self._ids.pop(client, ()))
