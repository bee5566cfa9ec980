"""Members by key, such as a client's ids: a key's cost depends on its own members only.

Most keys have one member, in tables of up to millions of keys: it takes no dict of its own (some
200 bytes), which only a second one makes.

>>> groups = Groups()
>>> for client, id in (("a", "s1"), ("b", "s2"), ("a", "s3")):
...     groups.add(client, id)
>>> groups.remove("b", "s2")
>>> groups.of("a"), groups.of("b"), list(groups.keys)
(['s1', 's3'], [], ['a'])
>>> groups.take("a"), groups.of("a")
(['s1', 's3'], [])
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, KeysView
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Member = TypeVar("Member", bound=Hashable)


class Groups(Generic[Key, Member]):
    """Members by key, in the order in which they came. A member may be anything but a dict."""

    __slots__ = ("_members",)

    def __init__(self) -> None:
        self._members: dict[Key, Member | dict[Member, None]] = {}

    @property
    def keys(self) -> KeysView[Key]:
        """Keys with members."""
        return self._members.keys()

    def add(self, key: Key, member: Member) -> None:
        """Add a member of a key; known ones stay."""
        known = self._members.setdefault(key, member)
        if isinstance(known, dict):
            known[member] = None
        elif known != member:
            self._members[key] = {known: None, member: None}

    def remove(self, key: Key, member: Member) -> None:
        """Remove a member of a key; KeyError for an unknown one."""
        known = self._members[key]
        if not isinstance(known, dict):
            if known != member:
                raise KeyError(member)
            del self._members[key]
            return
        del known[member]
        if not known:
            del self._members[key]

    def within(self, key: Key) -> Collection[Member]:
        """A key's members, in constant time; to be read before anything changes."""
        if key not in self._members:
            return ()
        known = self._members[key]
        return known if isinstance(known, dict) else (known,)

    def of(self, key: Key) -> list[Member]:
        """A list of a key's members."""
        return list(self.within(key))

    def take(self, key: Key) -> list[Member]:
        """Remove a key; returns its members."""
        found = self.of(key)
        self._members.pop(key, None)
        return found
