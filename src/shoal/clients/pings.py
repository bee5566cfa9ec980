"""Measures a client's distance from some brokers: it pings them, and reports to the requester."""

from __future__ import annotations

from shoal.broker.messages import Ping
from shoal.clients.messages import PingRequest, PingTimes
from shoal.model import BrokerId, MessageId


class Pings:
    """The answer to one request, complete when all brokers have answered."""

    def __init__(self, request: PingRequest, now_us: int) -> None:
        self._session = request.session
        self._waiting = set(request.brokers)
        self._round_trip_us: dict[BrokerId, int] = {}
        self._sent_us = now_us
        self.asks = [(broker, Ping(request.session)) for broker in request.brokers]

    def answered(self, broker: BrokerId, session: MessageId, now_us: int) -> PingTimes | None:
        """Note a broker's answer; returns the times after the last one."""
        if session != self._session or broker not in self._waiting:
            return None
        self._waiting.discard(broker)
        self._round_trip_us[broker] = now_us - self._sent_us
        return None if self._waiting else PingTimes(session, self._round_trip_us)
