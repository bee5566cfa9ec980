"""How far a client is from some brokers: it asks them, and tells who wanted to know."""

from __future__ import annotations

from shoal.broker.messages import Ping
from shoal.clients.messages import PingRequest, PingTimes
from shoal.model import BrokerId, MessageId


class Pings:
    """The answer to one request, which comes when all brokers have answered."""

    def __init__(self, request: PingRequest, now_us: int) -> None:
        self._session = request.session
        self._waiting = set(request.brokers)
        self._round_trip_us: dict[BrokerId, int] = {}
        self._sent_us = now_us
        self.asks = [(broker, Ping(request.session)) for broker in request.brokers]

    def answered(self, broker: BrokerId, session: MessageId, now_us: int) -> PingTimes | None:
        """A broker has answered; the times, if it was the last."""
        if session != self._session or broker not in self._waiting:
            return None
        self._waiting.discard(broker)
        self._round_trip_us[broker] = now_us - self._sent_us
        return None if self._waiting else PingTimes(session, self._round_trip_us)
