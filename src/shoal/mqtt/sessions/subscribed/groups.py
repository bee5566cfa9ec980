"""Groups of shared subscriptions at one broker: their members, and which is next.

All members of a group have the same filters (see `ClientSubscription.group`). The member that has
waited longest is next; disconnected members are chosen only while none is connected. Members whose
sessions have moved to another broker, and are only kept here, are not chosen.

Source: MQTT Version 5.0, section 4.8.2.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from shoal.mqtt.sessions.session import ClientSubscription


class GroupMembers(NamedTuple):
    """The number of connected members of a group, and of all."""

    present: int
    total: int


class SharedGroup:
    """One group; equal only to itself, so that the index can hold it like a subscription."""

    __slots__ = ("_away", "_gone", "_present")

    def __init__(self) -> None:
        # In the order of their turns.
        self._present: OrderedDict[ClientSubscription, None] = OrderedDict()
        self._away: OrderedDict[ClientSubscription, None] = OrderedDict()
        # Members whose sessions are elsewhere.
        self._gone: OrderedDict[ClientSubscription, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._present) + len(self._away) + len(self._gone)

    @property
    def members(self) -> GroupMembers:
        """The counts without sessions that are known to be elsewhere."""
        return GroupMembers(len(self._present), len(self._present) + len(self._away))

    def put(self, member: ClientSubscription) -> None:
        """Add a member, or update it after a connect, a disconnect or a move of its session."""
        if member.session.is_departed:
            to = self._gone
        else:
            to = self._away if member.session.session_writer is None else self._present
        if member not in to:
            self.remove(member)
            to[member] = None

    def remove(self, member: ClientSubscription) -> None:
        """Remove a member, if it is there."""
        for among in (self._present, self._away, self._gone):
            among.pop(member, None)

    def choose(self, *, is_any: bool = True) -> ClientSubscription | None:
        """The next member; None if no member takes messages.

        Without `is_any` only a connected one.
        """
        member = self._next(self._present)
        if member is None and is_any:
            member = self._next(self._away)
            if member is None and any(not each.session.is_departed for each in self._gone):
                for each in list(self._gone):
                    self.put(each)
                member = self._next(self._present) or self._next(self._away)
        return member

    def _next(self, members: OrderedDict[ClientSubscription, None]) -> ClientSubscription | None:
        left = len(members)
        while members and left:
            left -= 1
            member = next(iter(members))
            self.put(member)  # its state may have changed unannounced
            if member in members:
                members.move_to_end(member)
                diversion = member.session.diversion
                if diversion is None or not diversion.may_have_departed:
                    return member
        return None
