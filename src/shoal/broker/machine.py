"""The broker: one pure machine for all drivers and systems.

`handle(input, now_us)` is its only entry. The same object runs in the simulator and behind real
sockets. Errors of a peer or client become effects (a refusal, a record), never an exception; errors
of a driver (time running backwards) raise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random
from typing import Any

from shoal.broker.effects import (
    Answered,
    Costs,
    Dead,
    Departed,
    Effect,
    Input,
    Leave,
    LeaveRefused,
    LinkChanged,
    LinkState,
    Loads,
    MeasuredDelays,
    Notify,
    Order,
    ProcessAnswered,
    Received,
    Record,
    Requested,
    Returned,
    Started,
    Stay,
    Stays,
    TimerFired,
)
from shoal.broker.messages import Message, Ping, Pong, PublicationBatch, Rejected, Together
from shoal.broker.records import RefusalRecord
from shoal.broker.routing_decision import RoutingDecision, RoutingQuery
from shoal.broker.scaling_status import ScalingStatus
from shoal.broker.strategy import BrokerContext, ProtocolError, Strategy, StrategyFactory
from shoal.broker.together import joined
from shoal.matching import Outcomes, OutcomesFactory
from shoal.model import BrokerId, ClientId


class Broker:
    """One broker.

    `neighbours` are the brokers with links at its start, `expected` those whose links will come up;
    `seed` initialises the randomness of its system, and `outcomes` creates the routing outcomes. If
    it `joins`, consecutive messages to one neighbour are sent as one (`together.py`); without,
    messages are those that the papers count. A broker that is no founder joins the network.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        neighbours: tuple[BrokerId, ...],
        system: StrategyFactory,
        seed: int = 0,
        expected: tuple[BrokerId, ...] = (),
        outcomes: OutcomesFactory = Outcomes,
        *,
        joins: bool = False,
        is_founder: bool = True,
    ) -> None:
        self.id = broker_id
        self._joins = joins
        self._now_us = 0

        def strategy(expected: tuple[BrokerId, ...]) -> Strategy:
            random = Random(f"{seed}/{broker_id}")
            context = BrokerContext(broker_id, neighbours, random, expected, outcomes, is_founder)
            return system(context)

        self._make_strategy = strategy
        self.expect(expected)

    def expect(self, expected: tuple[BrokerId, ...]) -> None:
        """Set the brokers whose links will come up, if they are known only now, before the
        start."""
        self._strategy = self._make_strategy(expected)
        self._receive_batch = self._strategy.receive_batch

    @property
    def strategy(self) -> Strategy:
        """The system at this broker, for inspection."""
        return self._strategy

    @property
    def description(self) -> Mapping[str, int]:
        """The number of objects of each kind that it holds, for display."""
        return self._strategy.description

    @property
    def congested(self) -> Mapping[BrokerId, int]:
        """Neighbours with congested links, with the begin of the congestion (µs)."""
        return self._strategy.congested

    @property
    def is_ready(self) -> bool:
        """Whether publications of local clients need not wait."""
        return self._strategy.is_ready

    @property
    def awaited(self) -> Collection[BrokerId]:
        """Brokers that must answer before this broker is complete."""
        return self._strategy.awaited

    @property
    def keeps_order(self) -> bool:
        """Whether each subscriber gets a publisher's publications in order."""
        return self._strategy.keeps_order

    @property
    def ordered_by(self) -> str | None:
        """The attribute that defines ordered streams by its text, if there is one."""
        return self._strategy.ordered_by

    def routing_decision(self, asked: RoutingQuery) -> RoutingDecision | None:
        """The next hops of a publication from here (see `Strategy`)."""
        return self._strategy.routing_decision(asked)

    @property
    def survey(self) -> Mapping[str, Any] | None:
        """The planner's information about the system (see `Strategy`)."""
        return self._strategy.survey

    @property
    def obstacle(self) -> str:
        """The reason why the broker cannot leave now, as its system knows; empty if it can."""
        return self._strategy.obstacle

    @property
    def is_leaving(self) -> bool:
        """Whether the broker was leaving when its driver stopped, and still is."""
        return self._strategy.is_leaving

    @property
    def successor(self) -> BrokerId | None:
        """The neighbour that would be this broker's successor, if the system has one."""
        return self._strategy.successor

    @property
    def scaling(self) -> ScalingStatus | None:
        """The state of its decisions about the number of brokers (see `Strategy`)."""
        return self._strategy.scaling

    def handle(self, input: Input, now_us: int) -> list[Effect]:
        """Take one input at `now_us` (µs, never less than before); returns its effects."""
        if now_us < self._now_us:
            raise ValueError(f"broker {self.id}: time went back from {self._now_us} to {now_us}")
        self._now_us = now_us
        out: list[Effect] = []
        if type(input) is Received:
            message = input.message
            try:
                if type(message) is PublicationBatch:
                    # A bound method in a local variable is found faster.
                    receive_batch = self._receive_batch
                    receive_batch(input.neighbour, message, now_us, out)
                elif type(message) is Together:
                    self._take_all(input.neighbour, message, now_us, out)
                else:
                    self._strategy.receive(input.neighbour, message, now_us, out)
            except ProtocolError as error:
                out.append(self._refusal(input.neighbour, error))
        elif type(input) is Requested:
            self._request(input.client, input.request, now_us, out)
        else:
            self._notice(input, now_us, out)
        return joined(out) if self._joins and len(out) > 1 and not _carries(input) else out

    def _take_all(
        self, neighbour: BrokerId, message: Together, now_us: int, out: list[Effect]
    ) -> None:
        """Handle messages that came together; an error of one does not affect the others."""
        for each in message.messages:
            try:
                self._strategy.receive(neighbour, each, now_us, out)
            except ProtocolError as error:
                out.append(self._refusal(neighbour, error))

    def _request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        if type(request) is Ping:
            out.append(Notify(client, Pong(request.session)))
            return
        if type(request) is Together:
            for each in request.messages:
                self._request(client, each, now_us, out)
            return
        try:
            self._strategy.request(client, request, now_us, out)
        except ProtocolError as error:
            out += [self._refusal(client, error), Notify(client, Rejected(str(error)))]

    def _notice(self, input: Input, now_us: int, out: list[Effect]) -> None:
        match input:
            case TimerFired(key):
                self._strategy.timer(key, now_us, out)
            case LinkChanged(neighbour, LinkState.UP | LinkState.FAILED as state, False):
                self._strategy.passing_link(neighbour, state, now_us, out)
            case LinkChanged(neighbour, state):
                self._strategy.link(neighbour, state, now_us, out)
            case Returned(neighbour, carrier):
                self._strategy.returned(neighbour, carrier, now_us, out)
            case MeasuredDelays():
                self._strategy.measured(input)
            case Loads():
                self._strategy.loads(input, now_us, out)
            case Costs():
                self._strategy.costs(input, now_us, out)
            case Departed(broker, ""):
                self._strategy.departed(broker, now_us, out)
            case Departed(broker, successor):
                self._strategy.succeeded(broker, successor, now_us, out)
            case Leave():
                try:
                    self._strategy.leave(now_us, out)
                except ProtocolError as error:
                    out.append(Stays(str(error)))
            case Stay() | Dead() | Order():
                try:
                    self._obey(input, now_us, out)
                    out.append(Answered())
                except ProtocolError as error:
                    out.append(Answered(str(error)))
            case ProcessAnswered():
                self._strategy.process_answered(input, now_us, out)
            case LeaveRefused(reason):
                self._strategy.leave_refused(reason, now_us, out)
            case Started():
                self._strategy.start(input, now_us, out)

    def _obey(self, order: Stay | Dead | Order, now_us: int, out: list[Effect]) -> None:
        match order:
            case Stay():
                self._strategy.stay(now_us, out)
            case Dead(broker, others):
                self._strategy.declare_dead(broker, others, now_us, out)
            case Order(name, said):
                self._strategy.order(name, said, now_us, out)

    def _refusal(self, sender: str, error: ProtocolError) -> Record:
        return Record(RefusalRecord(broker=self.id, sender=sender, reason=str(error)))


def _carries(input: Input) -> bool:
    """Whether the input brings publications: their effects are not joined."""
    match input:
        case Received(_, message) | Requested(_, message):
            return message.carries
    return False
