"""Reports the subscriptions of this broker's clients to its system, if that has asked.

The system sees one client, the front end; the report names the front end's subscriptions that stand
for those of each client. Changes are reported together, at most once in `EACH_US`, and at most
`MOST_TOLD` subscriptions at a time; of a client with more than `MOST_OF_ONE` the first ones.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

from shoal.clients.front_ends import Stayed, Wants, Wish
from shoal.model import ClientId
from shoal.mqtt.front_end.network import FrontEnd
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions
from shoal.mqtt.timers import MqttTimers

WISHES_TIMER = "wishes"
EACH_US = MICROSECONDS // 2
MOST_TOLD = 2_000
MOST_OF_ONE = 500


class SubscriberInterests:
    """The reports of one broker."""

    def __init__(
        self,
        sessions: Sessions,
        subscriptions: SessionSubscriptions,
        front_end: FrontEnd,
        timers: MqttTimers,
    ) -> None:
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._front_end = front_end
        self._timers = timers
        self._changed: OrderedDict[ClientId, None] = OrderedDict()
        self._is_timed = False
        self._next_us = 0

    def begin(self) -> None:
        """Begin to report: all clients now, and changes later."""
        self._front_end.asking.ask_for_all()
        self._subscriptions.at_wish = self._has_changed
        for session in self._sessions:
            self._has_changed(session)

    def stayed(self, client: ClientId) -> None:
        """Report a client that the system wanted elsewhere, and that has not moved."""
        if self._subscriptions.at_wish is not None:
            self._front_end.say(Stayed(client))

    def report_some(self, now_us: int) -> None:
        """Report some clients; the others soon."""
        self._is_timed, self._next_us = False, now_us + EACH_US
        left, wishes = MOST_TOLD, []
        while self._changed and left > 0:
            client, _ = self._changed.popitem(last=False)
            wish = self._wish(client)
            wishes.append(wish)
            left -= 1 + len(wish.subscriptions)
        self._front_end.say(Wants(tuple(wishes)))
        if self._changed:
            self._tell_later()

    def _has_changed(self, session: Session) -> None:
        self._changed[session.client_id] = None
        if not self._is_timed:
            self._tell_later()

    def _tell_later(self) -> None:
        self._is_timed = True
        self._timers.set((WISHES_TIMER, ()), self._next_us)

    def _wish(self, client: ClientId) -> Wish:
        session = self._sessions.get(client)
        if session is None or session.is_departed:
            return Wish(client, ())
        some = islice(session.subscriptions.values(), MOST_OF_ONE)
        asked_for = self._front_end.asked_for
        ids = (asked_for(each.wanted_topics, each.content, each.pace) for each in some)
        session_writer = session.session_writer
        return Wish(
            client,
            tuple(id for id in ids if id is not None),
            session.entered_us,
            session_writer is not None and session_writer.connection.follows,
        )
