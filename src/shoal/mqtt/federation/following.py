"""Answers questions of the broker's system about clients that follow redirects.

The system asks which subscribers got traced publications (see `Audience`), for the subscriptions of
each client (see `SubscriberInterests`), and for a client's distance from some brokers. Only the
client's own broker can measure that for an MQTT client: the front end answers with its own round
trips, as if all its clients were beside it.

The front end publishes under its own name for clients without advertisements. The front end itself
cannot move; it answers so when the system orders it to move, or asks for its distances.
"""

from __future__ import annotations

from collections.abc import Container

from shoal.broker.messages import Message, Ping
from shoal.clients.front_ends import WhoHad, WhoWants
from shoal.clients.messages import CannotMove, PingRequest, PingTimes, Relocate
from shoal.model import BrokerId, MessageId
from shoal.mqtt.front_end.network import FrontEnd
from shoal.mqtt.front_end.publishers import AskBroker
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.sessions.audience import Audience
from shoal.mqtt.sessions.subscriber_interests import SubscriberInterests

# How long a measured round trip is valid, and the timeout of a measurement.
FRESH_US = 10 * MICROSECONDS
ANSWER_US = 5 * MICROSECONDS


class Following:
    """One broker's answers. `servers` are the brokers to which clients can be redirected."""

    def __init__(
        self,
        broker_id: BrokerId,
        front_end: FrontEnd,
        audience: Audience,
        wishes: SubscriberInterests,
    ) -> None:
        self.servers: Container[BrokerId] = ()
        self._broker_id = broker_id
        self._front_end = front_end
        self._audience = audience
        self._wishes = wishes
        # Round trips with the time of their measurement; and pings without an answer.
        self._round_trips: dict[BrokerId, tuple[int, int]] = {}
        self._pinged: dict[BrokerId, int] = {}
        self._questions: list[tuple[PingRequest, int]] = []

    def notified(self, message: Message, now_us: int) -> list[AskBroker]:
        """Handle a question of the broker; returns the resulting requests to it and to others."""
        match message:
            case WhoHad(session):
                had = self._audience.who_had(session, now_us)
                return [] if had is None else [self._to(self._broker_id, had)]
            case WhoWants():
                self._wishes.begin()
            case Relocate():
                return [self._to(self._broker_id, CannotMove())]
            case PingRequest(session) if session.publisher == self._front_end.client:
                return [self._to(self._broker_id, CannotMove())]
            case PingRequest():
                self._questions.append((message, now_us))
                pings = [
                    self._ping(broker, now_us)
                    for broker in self._missing(message, now_us)
                    if now_us - self._pinged.get(broker, -ANSWER_US) >= ANSWER_US
                ]
                return pings + self._answers(now_us)
        return []

    def ponged(self, broker: BrokerId, now_us: int) -> list[AskBroker]:
        """Handle another broker's pong."""
        pinged_us = self._pinged.pop(broker, None)
        if pinged_us is None:
            return []
        self._round_trips[broker] = (now_us - pinged_us, now_us)
        return self._answers(now_us)

    def _to(self, broker: BrokerId, request: Message) -> AskBroker:
        return AskBroker(broker, self._front_end.client, request)

    def _ping(self, broker: BrokerId, now_us: int) -> AskBroker:
        self._pinged[broker] = now_us
        return self._to(broker, Ping(MessageId(self._broker_id, self._front_end.client, 0)))

    def _missing(self, question: PingRequest, now_us: int) -> list[BrokerId]:
        """The brokers of a question without a valid round trip, among the possible servers."""
        return [
            broker
            for broker in question.brokers
            if broker in self.servers
            and broker != self._broker_id
            and now_us - self._round_trips.get(broker, (0, -FRESH_US))[1] >= FRESH_US
        ]

    def _answers(self, now_us: int) -> list[AskBroker]:
        """Answer the questions that can be answered; silent brokers are left out at the timeout."""
        questions, self._questions = self._questions, []
        answers = []
        for question, asked_us in questions:
            if now_us - asked_us >= ANSWER_US:
                continue  # its broker waits no more
            if self._missing(question, now_us):
                self._questions.append((question, asked_us))
                continue
            known = {self._broker_id: 0} | {
                broker: self._round_trips[broker][0]
                for broker in question.brokers
                if broker in self.servers and broker != self._broker_id
            }
            times = {broker: known[broker] for broker in question.brokers if broker in known}
            answers.append(self._to(self._broker_id, PingTimes(question.session, times)))
        return answers
