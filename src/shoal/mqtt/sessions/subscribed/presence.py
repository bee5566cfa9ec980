"""Whose clients are here, told to the groups of their shared subscriptions, a few at a time.

A client may be in tens of thousands of groups.  Meanwhile some of them still take it for away, or
for here: then a message waits for it that another member might have had.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice

from shoal.mqtt.sessions.session import ClientSubscription, Session
from shoal.mqtt.sessions.subscribed.subscriptions import Subscriptions
from shoal.mqtt.timers import Timers

# What is told at once, some 10 ms.
MOST_AT_ONCE = 1_000

PRESENCE_TIMER = "presence"


class Presence:
    """Of the clients of one broker."""

    def __init__(self, subscriptions: Subscriptions, timers: Timers) -> None:
        self._subscriptions = subscriptions
        self._timers = timers
        self._untold: OrderedDict[Session, Iterator[ClientSubscription]] = OrderedDict()

    def changed(self, session: Session) -> None:
        """The session's client came or left: its groups choose among others now."""
        self._subscriptions.presence_is_told(session)
        shared = [each for each in session.subscriptions.values() if each.shared]
        self._untold.pop(session, None)
        if not shared:
            return
        self._untold[session] = iter(shared)
        if not self._tell(session):
            self._timers.set((PRESENCE_TIMER,), 0)

    def due(self, now_us: int) -> None:
        """Go on."""
        self._tell(next(iter(self._untold)))
        if self._untold:
            self._timers.set((PRESENCE_TIMER,), now_us + 1)  # others have their turn before that

    def _tell(self, session: Session) -> bool:
        """Tell some; whether that were all."""
        some = list(islice(self._untold[session], MOST_AT_ONCE))
        for subscription in some:
            if session.subscriptions.get(subscription.text) is subscription:
                self._subscriptions.presence_changed(subscription)
        if len(some) < MOST_AT_ONCE:
            del self._untold[session]
            return True
        return False
