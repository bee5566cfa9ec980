"""What each client of this broker wants, told to its system once that has asked for it.

The system sees one client, the door; it is told by which of the door's subscriptions clients get
what they want.  Changes are told together, at most once in `EACH_US`, and no more than `MOST_TOLD`
subscriptions at a time; of a client that has more than `MOST_OF_ONE` those count that came first.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

from shoal.clients.doors import Stayed, Wants, Wish
from shoal.model import ClientId
from shoal.mqtt.door.network import Door
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.subscriptions import Subscriptions
from shoal.mqtt.timers import Timers

WISHES_TIMER = "wishes"
EACH_US = MICROSECONDS // 2
MOST_TOLD = 2_000
MOST_OF_ONE = 500


class Wishes:
    """Those of one broker's clients."""

    def __init__(
        self, sessions: Sessions, subscriptions: Subscriptions, door: Door, timers: Timers
    ) -> None:
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._door = door
        self._timers = timers
        self._changed: OrderedDict[ClientId, None] = OrderedDict()
        self._is_timed = False
        self._next_us = 0

    def begin(self) -> None:
        """The system asks: it is told of all that are here, and of what changes from now on."""
        self._door.asking.ask_for_all()
        self._subscriptions.at_wish = self._has_changed
        for session in self._sessions:
            self._has_changed(session)

    def stayed(self, client: ClientId) -> None:
        """The system wanted a client elsewhere, and it has not gone there."""
        if self._subscriptions.at_wish is not None:
            self._door.say(Stayed(client))

    def due(self, now_us: int) -> None:
        """Tell of some; of the others soon."""
        self._is_timed, self._next_us = False, now_us + EACH_US
        left, wishes = MOST_TOLD, []
        while self._changed and left > 0:
            client, _ = self._changed.popitem(last=False)
            wish = self._wish(client)
            wishes.append(wish)
            left -= 1 + len(wish.subscriptions)
        self._door.say(Wants(tuple(wishes)))
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
        ids = (self._door.asked_for(each.wanted_topics, each.content) for each in some)
        outlet = session.outlet
        return Wish(
            client,
            tuple(id for id in ids if id is not None),
            session.entered_us,
            outlet is not None and outlet.connection.follows,
        )
