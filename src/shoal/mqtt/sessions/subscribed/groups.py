"""The groups that share subscriptions, of one broker: their members, and whose turn it is.

All members of a group ask for the same (see `ClientSubscription.group`).  Whoever has waited
longest is next; members that are away take turns only while none is connected.

Source: MQTT Version 5.0, section 4.8.2.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from shoal.mqtt.sessions.session import ClientSubscription


class Group:
    """One group; equal only to itself, so that it can be filed as a subscription is."""

    __slots__ = ("_away", "_present")

    def __init__(self) -> None:
        # In the order of their turns.
        self._present: OrderedDict[ClientSubscription, None] = OrderedDict()
        self._away: OrderedDict[ClientSubscription, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._present) + len(self._away)

    def __iter__(self) -> Iterator[ClientSubscription]:
        yield from self._present
        yield from self._away

    def put(self, member: ClientSubscription) -> None:
        """A member comes, or its client connects or is gone."""
        is_present = member.session.outlet is not None
        here, elsewhere = self._present, self._away
        if not is_present:
            here, elsewhere = elsewhere, here
        elsewhere.pop(member, None)
        here.setdefault(member)

    def remove(self, member: ClientSubscription) -> None:
        """A member goes; nothing happens if it has gone."""
        self._present.pop(member, None)
        self._away.pop(member, None)

    def choose(self) -> ClientSubscription | None:
        """The member whose turn it is; None if none is left whose session goes on."""
        while members := self._present or self._away:
            member = next(iter(members))
            if member.session.is_departed:
                del members[member]  # it is about to be taken back
            elif members is self._present and member.session.outlet is None:
                self.put(member)  # as it is about to be told
            else:
                members.move_to_end(member)
                return member
        return None
