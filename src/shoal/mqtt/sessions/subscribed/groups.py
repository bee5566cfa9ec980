"""The groups that share subscriptions, of one broker: their members, and whose turn it is.

All members of a group ask for the same (see `ClientSubscription.group`).  Whoever has waited
longest is next; members that are away take turns only while none is connected.  Those whose
sessions are at another broker by now, and only kept here, have none.

Source: MQTT Version 5.0, section 4.8.2.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from shoal.mqtt.sessions.session import ClientSubscription


class Members(NamedTuple):
    """How many members of a group are connected, and how many there are."""

    present: int
    total: int


class Group:
    """One group; equal only to itself, so that it can be filed as a subscription is."""

    __slots__ = ("_away", "_gone", "_present")

    def __init__(self) -> None:
        # In the order of their turns.
        self._present: OrderedDict[ClientSubscription, None] = OrderedDict()
        self._away: OrderedDict[ClientSubscription, None] = OrderedDict()
        # Of sessions that are elsewhere.
        self._gone: OrderedDict[ClientSubscription, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._present) + len(self._away) + len(self._gone)

    @property
    def members(self) -> Members:
        """Without sessions that are elsewhere, as far as the group was told."""
        return Members(len(self._present), len(self._present) + len(self._away))

    def put(self, member: ClientSubscription) -> None:
        """A member comes, or its client connects or is gone, or its session is elsewhere."""
        if member.session.is_departed:
            to = self._gone
        else:
            to = self._away if member.session.outlet is None else self._present
        if member not in to:
            self.remove(member)
            to[member] = None

    def remove(self, member: ClientSubscription) -> None:
        """A member goes; nothing happens if it has gone."""
        for among in (self._present, self._away, self._gone):
            among.pop(member, None)

    def choose(self, *, is_any: bool = True) -> ClientSubscription | None:
        """The member whose turn it is; None if there is none that takes what comes.

        Without `is_any` only one whose client is connected.
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
            self.put(member)  # as it may be about to be told
            if member in members:
                members.move_to_end(member)
                diversion = member.session.diversion
                if diversion is None or not diversion.may_have_departed:
                    return member
        return None
