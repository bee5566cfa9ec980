"""Dispatches the timers of a broker's MQTT side."""

from __future__ import annotations

from shoal.mqtt.connection.connection import Connection
from shoal.mqtt.connection.rates import RATE_TIMER, RateLimits
from shoal.mqtt.federation.federation import Federation
from shoal.mqtt.federation.session_transfer.fetching import WAITING_TIMER
from shoal.mqtt.federation.session_transfer.questions import ASKING_TIMER
from shoal.mqtt.renewing import RENEWING_TIMER, Renewing
from shoal.mqtt.replaying.log_replays import REPLAY_TIMER, LogReplays
from shoal.mqtt.sessions.conflating import CONFLATION_TIMER, Conflation
from shoal.mqtt.sessions.delivering.slow_consumers import PATIENCE_TIMER
from shoal.mqtt.sessions.live_gate import LiveGate
from shoal.mqtt.sessions.session import SubscriptionConflator
from shoal.mqtt.sessions.sessions import SESSION_TIMER, WILL_TIMER, Sessions
from shoal.mqtt.sessions.sliced_fan_out import SlicedFanOut
from shoal.mqtt.sessions.subscribed.leaving import LEAVING_TIMER, GroupLeaving
from shoal.mqtt.sessions.subscribed.presence import PRESENCE_TIMER, Presence
from shoal.mqtt.sessions.system_topics import SystemTopics
from shoal.mqtt.timers import EXPIRY_TIMER, SILENCE_TIMER, MqttTimers

# The work of one call for sessions that end and wills that are published: as much as removing some
# 300 subscriptions. A session is as much work as several subscriptions.
TIMERS_WORK = 300
SESSION_WORK = 6
# Refusing a client whose session did not come in time; and asking for sessions again.
WAITING_WORK = {WAITING_TIMER: 4, ASKING_TIMER: 100}
# A step of a replay, which may send a slice of messages.
REPLAY_WORK = 20
# Queued messages that one call sends, and the cost of one session without its messages.
MOST_SENT, LEAST_SENT = 2_000, 50

MORE_TIMER = "more"


class TimerDispatch:
    """Calls the owner of each timer of one broker."""

    def __init__(
        self,
        timers: MqttTimers,
        spreading: SlicedFanOut,
        rates: RateLimits,
        sessions: Sessions,
        leaving: GroupLeaving,
        presence: Presence,
        renewing: Renewing,
        federation: Federation | None,
        replays: LogReplays,
        conflation: Conflation,
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
        self._replays = replays
        self._conflation = conflation
        self._system_topics = system_topics

    def handle(self, now_us: int) -> None:
        """Handle timers that are due, up to a bound of work.

        While a sliced fan-out runs only its next slice runs: other timers could change the
        audience.
        """
        if self._spreading.is_on:
            self._spreading.run_slice(now_us)
            return
        left, to_send = TIMERS_WORK, MOST_SENT
        for key in self._timers.take_due(now_us):
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
                    else:  # after the other timers that are due
                        self._timers.set(key, now_us + 1)
                case (str(kind), Connection() as connection) if kind == PATIENCE_TIMER:
                    self._sessions.patience.resume(connection, now_us)
                case (str(kind), Connection() as connection) if kind == RATE_TIMER:
                    self._rates.resume(connection)
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
                    self._leaving.leave_some(now_us)
                case (str(kind),) if kind == PRESENCE_TIMER:
                    self._presence.announce_some(now_us)
                case (str(kind),) if kind == RENEWING_TIMER:
                    self._renewing.renew_some(now_us)
                case (str(kind), LiveGate() as gate) if kind == REPLAY_TIMER:
                    left -= REPLAY_WORK
                    self._replays.run_step(gate, now_us)
                case (str(kind), SubscriptionConflator() as conflator) if kind == CONFLATION_TIMER:
                    left -= 1 + self._conflation.on_conflation_timer(conflator, now_us)
                case (str(kind), about) if self._federation is not None:
                    left -= WAITING_WORK.get(kind, 0)
                    self._federation.on_federation_timer(kind, about, now_us)
                case _:
                    self._system_topics.publish_all(now_us)
            if left <= 0:
                break  # the rest follows after a time slice of other inputs
