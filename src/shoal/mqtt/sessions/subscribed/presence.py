"""Announces connects and disconnects of clients to the groups of their shared subscriptions.

A client may be in tens of thousands of groups, so this takes time slices. Meanwhile some groups
have the client's former state: a message may wait for it that another member could have got.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice

from shoal.mqtt.sessions.session import ClientSubscription, Session
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions
from shoal.mqtt.timers import MqttTimers

# Groups per time slice, some 10 ms.
MOST_AT_ONCE = 1_000

PRESENCE_TIMER = "presence"


class Presence:
    """The announcements of one broker's clients."""

    def __init__(self, subscriptions: SessionSubscriptions, timers: MqttTimers) -> None:
        self._subscriptions = subscriptions
        self._timers = timers
        self._untold: OrderedDict[Session, Iterator[ClientSubscription]] = OrderedDict()

    def changed(self, session: Session) -> None:
        """Handle a connect or disconnect of the session's client."""
        self._subscriptions.presence_is_told(session)
        shared = [each for each in session.subscriptions.values() if each.shared]
        self._untold.pop(session, None)
        if not shared:
            return
        self._untold[session] = iter(shared)
        if not self._announce_to_groups(session):
            self._timers.set((PRESENCE_TIMER,), 0)

    def announce_some(self, now_us: int) -> None:
        """Run the next time slice."""
        self._announce_to_groups(next(iter(self._untold)))
        if self._untold:
            self._timers.set((PRESENCE_TIMER,), now_us + 1)  # after a time slice of other inputs

    def _announce_to_groups(self, session: Session) -> bool:
        """Announce to some groups; returns whether none is left."""
        some = list(islice(self._untold[session], MOST_AT_ONCE))
        for subscription in some:
            if session.subscriptions.get(subscription.text) is subscription:
                self._subscriptions.presence_changed(subscription)
        if len(some) < MOST_AT_ONCE:
            del self._untold[session]
            return True
        return False
