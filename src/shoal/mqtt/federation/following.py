"""What a broker's system asks its door about clients that follow, so as to send them elsewhere.

It asks who had which traced publications (see `Audience`), what each client wants (see `Wishes`),
and how far a client is from some brokers.  Nobody can measure that for a client of MQTT but at the
broker where it is: the door answers with its own round trips, as if all its clients were beside it.

What clients publish that advertise nothing, the door publishes under its own name.  The door itself
cannot move, and says so when the system sends it away or asks how far it is from other brokers.
"""

from __future__ import annotations

from collections.abc import Container

from shoal.broker.messages import Message, Ping
from shoal.clients.doors import WhoHad, WhoWants
from shoal.clients.messages import CannotMove, PingRequest, PingTimes, Relocate
from shoal.model import BrokerId, MessageId
from shoal.mqtt.door.network import Door
from shoal.mqtt.door.publishers import AskBroker
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.sessions.audience import Audience
from shoal.mqtt.sessions.wishes import Wishes

# How long a round trip counts, and how long an answer is waited for.
FRESH_US = 10 * MICROSECONDS
ANSWER_US = 5 * MICROSECONDS


class Following:
    """One broker's part.  `servers` are the brokers that clients can be sent to."""

    def __init__(self, broker_id: BrokerId, door: Door, audience: Audience, wishes: Wishes) -> None:
        self.servers: Container[BrokerId] = ()
        self._broker_id = broker_id
        self._door = door
        self._audience = audience
        self._wishes = wishes
        # Round trips, and when they were measured; who was pinged when and has not answered.
        self._round_trips: dict[BrokerId, tuple[int, int]] = {}
        self._pinged: dict[BrokerId, int] = {}
        self._questions: list[tuple[PingRequest, int]] = []

    def notified(self, message: Message, now_us: int) -> list[AskBroker]:
        """The broker asks; what it, and others, are asked in turn."""
        match message:
            case WhoHad(session):
                had = self._audience.who_had(session, now_us)
                return [] if had is None else [self._to(self._broker_id, had)]
            case WhoWants():
                self._wishes.begin()
            case Relocate():
                return [self._to(self._broker_id, CannotMove())]
            case PingRequest(session) if session.publisher == self._door.client:
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
        """Another broker has answered."""
        pinged_us = self._pinged.pop(broker, None)
        if pinged_us is None:
            return []
        self._round_trips[broker] = (now_us - pinged_us, now_us)
        return self._answers(now_us)

    def _to(self, broker: BrokerId, request: Message) -> AskBroker:
        return AskBroker(broker, self._door.client, request)

    def _ping(self, broker: BrokerId, now_us: int) -> AskBroker:
        self._pinged[broker] = now_us
        return self._to(broker, Ping(MessageId(self._broker_id, self._door.client, 0)))

    def _missing(self, question: PingRequest, now_us: int) -> list[BrokerId]:
        """Whose round trip is not known, of those that clients can be sent to."""
        return [
            broker
            for broker in question.brokers
            if broker in self.servers
            and broker != self._broker_id
            and now_us - self._round_trips.get(broker, (0, -FRESH_US))[1] >= FRESH_US
        ]

    def _answers(self, now_us: int) -> list[AskBroker]:
        """To what can be answered by now; who does not answer is left out in the end."""
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
