"""Removes the subscriptions of ended sessions, in time slices.

In a network each subscription costs the broker machine some work, and one client may have 100,000.
Meanwhile their matches are dropped; groups choose other members.
"""

from __future__ import annotations

from collections import OrderedDict

from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions
from shoal.mqtt.timers import MqttTimers

# The work of one time slice: some 20 ms.
MOST_AT_ONCE = 1_600

LEAVING_TIMER = "leaving"


class DroppedMessages:
    """Drops messages for a session that has ended, or is not installed yet."""

    is_departed = True
    may_have_departed = False

    def __init__(self) -> None:
        self.known: dict[tuple[str, int], None] = {}
        self.held: list[Outgoing] = []

    def deliver(
        self,
        message: PublishedMessage,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        now_us: int,
        via: tuple[str, ...] = (),
    ) -> None:
        """Drop the message."""


class GroupLeaving:
    """The ended sessions of one broker."""

    def __init__(self, subscriptions: SessionSubscriptions, timers: MqttTimers) -> None:
        self._subscriptions = subscriptions
        self._timers = timers
        self._sessions: OrderedDict[Session, None] = OrderedDict()

    def add(self, session: Session) -> None:
        """Add an ended session, which is not used otherwise any more."""
        if not self._subscriptions.forget(session, MOST_AT_ONCE):
            session.diversion = DroppedMessages()
            self._sessions[session] = None
            self._timers.set((LEAVING_TIMER,), 0)

    def leave_some(self, now_us: int) -> None:
        session = next(iter(self._sessions))
        if self._subscriptions.forget(session, MOST_AT_ONCE):
            del self._sessions[session]
        if self._sessions:
            self._timers.set((LEAVING_TIMER,), now_us + 1)  # after a time slice of other inputs
