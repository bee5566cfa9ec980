"""Publishes a broker's counters as retained messages under `$SYS`, at an interval."""

from __future__ import annotations

from shoal.mqtt.limits import MICROSECONDS, MqttLimits
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.fan_out import FanOut
from shoal.mqtt.sessions.retained import RetainedStore
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions
from shoal.mqtt.statistics import Statistics
from shoal.mqtt.timers import MqttTimers

STATISTICS_TIMER = "statistics"


class SystemTopics:
    """The `$SYS` topics of one broker, local to it; never published at an interval of 0."""

    def __init__(
        self,
        limits: MqttLimits,
        statistics: Statistics,
        sessions: Sessions,
        subscriptions: SessionSubscriptions,
        retained: RetainedStore,
        fan_out: FanOut,
        timers: MqttTimers,
        now_us: int,
    ) -> None:
        self._statistics = statistics
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._retained = retained
        self._fan_out = fan_out
        self._timers = timers
        self.renew(limits, now_us)

    def renew(self, limits: MqttLimits, now_us: int) -> None:
        """Install new limits."""
        self._interval_us = limits.statistics_interval_s * MICROSECONDS
        if self._interval_us:
            self._timers.set((STATISTICS_TIMER,), now_us)
        else:
            self._timers.cancel((STATISTICS_TIMER,))

    def publish_all(self, now_us: int) -> None:
        """Publish all of them."""
        statistics = self._statistics
        statistics.sessions = len(self._sessions)
        statistics.publications_dropped = self._sessions.dropped
        statistics.subscriptions = self._subscriptions.count
        statistics.retained = len(self._retained)
        for topic, text in statistics.texts(now_us).items():
            message = PublishedMessage(
                topic, text.encode(), publisher="", published_us=now_us, retain=True
            )
            self._retained.keep(message, now_us)
            self._fan_out.route(message, now_us)
        self._timers.set((STATISTICS_TIMER,), now_us + self._interval_us)
