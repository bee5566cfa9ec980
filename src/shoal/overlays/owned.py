"""Ids by owner, a client or neighbour: the cost of removing an owner depends on its own ids only.

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
        """Owners with ids."""
        return self._ids.keys()

    def add(self, client: ClientId | BrokerId, id: Id) -> None:
        """Add an id of an owner; known ones stay."""
        ids = self._ids.get(client)
        if ids is None:
            self._ids[client] = {id: None}
        else:
            ids[id] = None

    def remove(self, client: ClientId | BrokerId, id: Id) -> None:
        """Remove an id of an owner; KeyError for an unknown one."""
        ids = self._ids[client]
        del ids[id]
        if not ids:
            del self._ids[client]

    def of(self, client: ClientId | BrokerId) -> list[Id]:
        """All ids of an owner."""
        return list(self._ids.get(client, ()))

    def take(self, client: ClientId | BrokerId) -> list[Id]:
        """Remove an owner; returns its ids."""
        return list(self._ids.pop(client, ()))
