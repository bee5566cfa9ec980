"""What is done at a broker's MQTT side when its time has come."""

from __future__ import annotations

from shoal.mqtt.connection.connection import Connection
from shoal.mqtt.connection.rates import RATE_TIMER, Rates
from shoal.mqtt.federation.federation import Federation
from shoal.mqtt.federation.roaming.fetching import WAITING_TIMER
from shoal.mqtt.federation.roaming.questions import ASKING_TIMER
from shoal.mqtt.renewing import RENEWING_TIMER, Renewing
from shoal.mqtt.sessions.delivering.patience import PATIENCE_TIMER
from shoal.mqtt.sessions.sessions import SESSION_TIMER, WILL_TIMER, Sessions
from shoal.mqtt.sessions.spreading import Spreading
from shoal.mqtt.sessions.subscribed.leaving import LEAVING_TIMER, Leaving
from shoal.mqtt.sessions.subscribed.presence import PRESENCE_TIMER, Presence
from shoal.mqtt.sessions.system_topics import SystemTopics
from shoal.mqtt.timers import EXPIRY_TIMER, SILENCE_TIMER, Timers

# Sessions that end at once, and wills that are published: as much work as some 300 subscriptions
# that are taken back, a session as much as several, is done in one go.
TIMERS_WORK = 300
SESSION_WORK = 6
# A client that waits for its session in vain is refused; and some ask for theirs again.
WAITING_WORK = {WAITING_TIMER: 4, ASKING_TIMER: 100}
# And so much of what waits for clients is sent in one go, with what it takes to look for it.
MOST_SENT, LEAST_SENT = 2_000, 50

MORE_TIMER = "more"


class Due:
    """Hands each timer of one broker to the part that has set it."""

    def __init__(
        self,
        timers: Timers,
        spreading: Spreading,
        rates: Rates,
        sessions: Sessions,
        leaving: Leaving,
        presence: Presence,
        renewing: Renewing,
        federation: Federation | None,
        system_topics: SystemTopics,
    ) -> None:
        self._timers = timers
        self._spreading = spreading
        self._rates = rates
        self._sessions = sessions
        self._leaving = leaving
        self._presence = presence
        self._renewing = renewing
        self._federation = federation
        self._system_topics = system_topics

    def handle(self, now_us: int) -> None:
        """Do what is due by now, or as much of it as may be done in one go.

        What could change who gets a message that is being handed out is due behind it.
        """
        if self._spreading.is_on:
            self._spreading.go_on(now_us)
            return
        left, to_send = TIMERS_WORK, MOST_SENT
        for key in self._timers.due(now_us):
            match key:
                case (str(kind), Connection() as connection) if kind == SILENCE_TIMER:
                    again_us = connection.check_silence(now_us)
                    if again_us is not None:
                        self._timers.set(key, again_us)
                case (str(kind), Connection() as connection) if kind == MORE_TIMER:
                    if connection.session is None or connection.is_closed:
                        continue
                    if to_send > 0:
                        to_send -= LEAST_SENT + connection.session.pump(now_us)
                    else:  # behind what else is due
                        self._timers.set(key, now_us + 1)
                case (str(kind), Connection() as connection) if kind == PATIENCE_TIMER:
                    self._sessions.patience.go_on(connection, now_us)
                case (str(kind), Connection() as connection) if kind == RATE_TIMER:
                    self._rates.go_on(connection)
                case (str(kind), Connection() as connection) if kind == EXPIRY_TIMER:
                    left -= SESSION_WORK
                    connection.expire(now_us)
                case (str(kind), str(client_id)) if kind == SESSION_TIMER:
                    session = self._sessions[client_id]
                    left -= SESSION_WORK + session.queued + len(session.subscriptions)
                    self._sessions.end(session, now_us)
                case (str(kind), str(client_id)) if kind == WILL_TIMER:
                    left -= SESSION_WORK
                    self._sessions.will_is_due(self._sessions[client_id], now_us)
                case (str(kind),) if kind == LEAVING_TIMER:
                    self._leaving.due(now_us)
                case (str(kind),) if kind == PRESENCE_TIMER:
                    self._presence.due(now_us)
                case (str(kind),) if kind == RENEWING_TIMER:
                    self._renewing.due(now_us)
                case (str(kind), about) if self._federation is not None:
                    left -= WAITING_WORK.get(kind, 0)
                    self._federation.due(kind, about, now_us)
                case _:
                    self._system_topics.due(now_us)
            if left <= 0:
                break  # what else is due is when others have had their turn
