"""Subscriptions of sessions that have ended, taken back a few at a time where there are many.

In a network each costs the broker machine some work, and one client may have 100,000.  Meanwhile
what they match is for nobody; groups choose among others.
"""

from __future__ import annotations

from collections import OrderedDict

from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.subscribed.subscriptions import Subscriptions
from shoal.mqtt.timers import Timers

# What is taken back at once, in work: some 20 ms.
MOST_AT_ONCE = 1_600

LEAVING_TIMER = "leaving"


class Nobody:
    """Takes what comes for a session that has ended, or is not here yet."""

    is_departed = True
    may_have_departed = False

    def __init__(self) -> None:
        self.known: dict[tuple[str, int], None] = {}
        self.held: list[Outgoing] = []

    def deliver(
        self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], now_us: int
    ) -> None:
        """It is for nobody."""


class Leaving:
    """Those of one broker."""

    def __init__(self, subscriptions: Subscriptions, timers: Timers) -> None:
        self._subscriptions = subscriptions
        self._timers = timers
        self._sessions: OrderedDict[Session, None] = OrderedDict()

    def add(self, session: Session) -> None:
        """A session has ended; nothing more is done with it but this."""
        if not self._subscriptions.forget(session, MOST_AT_ONCE):
            session.diversion = Nobody()
            self._sessions[session] = None
            self._timers.set((LEAVING_TIMER,), 0)

    def due(self, now_us: int) -> None:
        session = next(iter(self._sessions))
        if self._subscriptions.forget(session, MOST_AT_ONCE):
            del self._sessions[session]
        if self._sessions:
            self._timers.set((LEAVING_TIMER,), now_us + 1)  # others have their turn before that
