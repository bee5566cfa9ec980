"""The inhabitants of a simulated world: brokers with queues, links, publishers.

These are drivers: they bring inputs to the pure machines, in order and at the right virtual
time, and carry their effects out.  The paths of a publication (`BrokerNode.receive`,
`Link.send`) are the simulator's inner loop and written for speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappush
from typing import Any, NamedTuple, Protocol

import msgspec

from shoal.broker.effects import (
    CancelTimer,
    CloseLink,
    Deliver,
    Effect,
    Input,
    Notify,
    OpenLink,
    Received,
    Record,
    Requested,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
    Watch,
)
from shoal.broker.messages import Carrier, Message, PublicationBatch, Publish, Rejected
from shoal.broker.publisher import Publisher, PublisherEffect, ToBroker, WakeUp
from shoal.broker.strategy import Strategy
from shoal.model import BrokerId, ClientId, Publication, SubscriptionId
from shoal.simulation.event_queue import Action, EventQueue
from shoal.simulation.links import Frame
from shoal.simulation.service import Meter, Monitor, ServiceCosts

# How long until a neighbour, or a client, notices that a broker is gone or back.
DETECTION_US = 1_000_000


class Machine(Protocol):
    """A broker, with or without reliable links around it."""

    @property
    def id(self) -> BrokerId: ...

    @property
    def strategy(self) -> Strategy: ...

    def handle(self, input: Input, now_us: int) -> list[Effect]: ...


class Delivery(msgspec.Struct, frozen=True):
    """A publication reached a subscriber."""

    publication: Publication
    subscriptions: tuple[SubscriptionId, ...]
    client: ClientId
    broker: BrokerId
    delivered_us: int
    hops: int


class Published(msgspec.Struct, frozen=True):
    """A publisher handed a publication to the network, at this broker."""

    publication: Publication
    broker: BrokerId
    at_us: int


class Refused(NamedTuple):
    """A broker rejected a client's request."""

    client: ClientId
    reason: str
    at_us: int


class Trace:
    """Everything that happened and is worth a row, in the order it happened."""

    def __init__(self) -> None:
        self.published: list[Published] = []
        self.deliveries: list[Delivery] = []
        self.refused: list[Refused] = []
        self.records: list[msgspec.Struct] = []


class Link:
    """One direction of an overlay link: an output queue, transmission, and the way."""

    def __init__(
        self,
        queue: EventQueue,
        target: BrokerNode,
        latency_us: int,
        transmission_us: int,
        close: Callable[[], None],
    ) -> None:
        self.close = close
        self._queue = queue
        self._arrive: Action = target.receive
        self.latency_us = latency_us
        self._transmission_us = transmission_us
        self._free_us = 0
        self._waited_us = 0
        self._sent = 0

    def send(self, input: Received, units: int, ready_us: int) -> int:
        """Queue a message that is ready at `ready_us`; the output's busy time for it."""
        free_us = self._free_us
        if free_us > ready_us:
            self._waited_us += free_us - ready_us
            ready_us = free_us
        self._sent += 1
        busy_us = units * self._transmission_us
        self._free_us = ready_us = ready_us + busy_us
        queue = self._queue
        queue.made = made = queue.made + 1
        heappush(queue.heap, (ready_us + self.latency_us, made, self._arrive, input))
        return busy_us

    def measure_us(self) -> int:
        """Average delay from output queue to the other end since the last call."""
        waited_us = self._waited_us // self._sent if self._sent else 0
        self._waited_us = self._sent = 0
        return waited_us + self._transmission_us + self.latency_us


class BrokerNode:
    """A broker machine with its input queue, its links and its clients' output queue."""

    def __init__(
        self,
        machine: Machine,
        queue: EventQueue,
        costs: ServiceCosts,
        trace: Trace,
        meter: Meter,
        client_latency_us: Mapping[tuple[BrokerId, ClientId], int],
        publishers: Mapping[ClientId, PublisherNode],
        open_link: Callable[[BrokerId, BrokerId], None],
    ) -> None:
        self.id = machine.id
        self.links: dict[BrokerId, Link] = {}
        self.meter = meter
        self._queue = queue
        self._costs = costs
        self._processing_us = costs.processing_us
        self._matching_us = costs.matching_us
        self._search_ns = costs.matching_per_subscription_ns
        self._client_transmission_us = costs.client_transmission_us
        self._trace = trace
        self._monitor: Monitor | None = None
        self._client_latency_us = client_latency_us
        self._publishers = publishers
        self._open_link = open_link
        self._free_us = 0
        self._client_free_us = 0
        self._timers: dict[TimerKey, int] = {}
        self.start(machine)

    def start(self, machine: Machine) -> None:
        """Run this machine from now on (at first, and after a crash)."""
        self.running = True
        self.machine = machine
        self._handle = machine.handle
        self._subscriptions = machine.strategy.searched

    def stop(self) -> None:
        """Crash: take nothing more in, and forget the timers."""
        self.running = False
        self._timers.clear()

    # --- inputs -------------------------------------------------------------------------------

    def receive(self, now_us: int, input: Any) -> None:
        """A message or request arrives: wait for its turn, serve it, handle it."""
        if not self.running:
            return
        message: Any = input.message if type(input) is Received else input.request
        kind = type(message)
        if kind is Frame:
            message = message.message
            kind = type(message)
        start_us = self._free_us
        if start_us < now_us:
            start_us = now_us
        meter = self.meter
        if start_us >= meter.window_end_us:
            meter.roll(start_us)
        if kind is PublicationBatch or kind is Publish or issubclass(kind, Carrier):
            units = len(message.publications)
            matching_us = self._matching_us
            if self._search_ns:
                matching_us += self._search_ns * len(self._subscriptions) // 1_000
            service_us = self._processing_us + units * matching_us
            meter.messages_in += units
            monitor = self._monitor
            if monitor is not None:
                monitor.handled += 1
                monitor.input_queue_us += start_us - now_us
                monitor.matching_us += service_us
        else:
            service_us = self._processing_us
            meter.messages_in += 1
            meter.control_in += 1
        meter.input_busy_us += service_us
        self._free_us = done_us = start_us + service_us
        self._carry_out(self._handle(input, done_us), done_us)

    def bring(self, now_us: int, input: Input) -> None:
        """An input that costs no service: a link's change, the monitor's report."""
        if not self.running:
            return
        now_us = max(now_us, self._free_us)
        if now_us >= self.meter.window_end_us:
            self.meter.roll(now_us)
        self._carry_out(self._handle(input, now_us), now_us)

    def _fire(self, now_us: int, argument: tuple[TimerKey, int]) -> None:
        key, number = argument
        if self._timers.get(key) == number:
            del self._timers[key]
            self.bring(now_us, TimerFired(key))

    def report(self, now_us: int) -> None:
        """Tell the machine its recent delays, if it watches them, as a monitor beside it would."""
        if self._monitor is not None:
            output_us = {name: link.measure_us() for name, link in self.links.items()}
            self.bring(now_us, self._monitor.report(output_us))

    # --- effects ------------------------------------------------------------------------------

    def _carry_out(self, effects: list[Effect], now_us: int) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                message: Any = effect.message  # type: ignore[union-attr]
                received = Received(self.id, message)
                kind = type(message)
                if kind is Frame:
                    message = message.message
                    kind = type(message)
                meter = self.meter
                units = 1
                if kind is PublicationBatch or issubclass(kind, Carrier):
                    units = len(message.publications)
                else:
                    meter.control_out += 1
                meter.messages_out += units
                link = self.links.get(effect.neighbour)  # type: ignore[union-attr]
                if link is not None:  # a broker may still send while it learns that a link is down
                    meter.output_busy_us += link.send(received, units, now_us)
            elif kind is Deliver:
                self._deliver(effect, now_us)  # type: ignore[arg-type]
            else:
                self._control(effect, now_us)

    def _deliver(self, effect: Deliver, now_us: int) -> None:
        transmission_us = self._client_transmission_us
        start_us = self._client_free_us
        if start_us < now_us:
            start_us = now_us
        self._client_free_us = end_us = start_us + transmission_us
        meter = self.meter
        meter.messages_out += 1
        meter.output_busy_us += transmission_us
        client = effect.client
        delivered_us = end_us + self._client_latency_us[self.id, client]
        monitor = self._monitor
        if monitor is not None:
            monitor.delivered += 1
            monitor.client_output_us += delivered_us - now_us
        self._trace.deliveries.append(
            Delivery(
                effect.routed.publication,
                effect.subscriptions,
                client,
                self.id,
                delivered_us,
                effect.hops,
            )
        )

    def _control(self, effect: Effect, now_us: int) -> None:
        match effect:
            case Notify(client, message):
                self.meter.messages_out += 1
                self.meter.control_out += 1
                self._notify(client, message, now_us)
            case SetTimer(key, at_us, work):
                self._timers[key] = number = self._queue.made + 1
                due_us = max(at_us, now_us)
                if work is not None:
                    due_us += self._costs.work_us(work)
                    self.meter.roll(now_us)
                    self.meter.input_busy_us += due_us - now_us
                self._queue.push(due_us, self._fire, (key, number))
            case CancelTimer(key):
                self._timers.pop(key, None)
            case Record(record):
                self._trace.records.append(record)
            case Watch():
                self._monitor = self._monitor or Monitor()
            case OpenLink(neighbour):
                self._open_link(self.id, neighbour)
            case CloseLink(neighbour):
                link = self.links.get(neighbour)
                if link is not None:  # else it is down already, and about to be noticed
                    link.close()

    def _notify(self, client: ClientId, message: Message, now_us: int) -> None:
        at_us = now_us + self._client_latency_us[self.id, client]
        if isinstance(message, Rejected):
            self._trace.refused.append(Refused(client, message.reason, at_us))
        publisher = self._publishers.get(client)
        if publisher is not None:
            self._queue.push(at_us, publisher.notified, (self.id, message))


class PublisherNode:
    """A publisher's client: carries its requests to brokers and their answers back."""

    def __init__(
        self,
        machine: Publisher,
        queue: EventQueue,
        trace: Trace,
        brokers: Mapping[BrokerId, BrokerNode],
        client_latency_us: Mapping[tuple[BrokerId, ClientId], int],
    ) -> None:
        self.machine = machine
        self._queue = queue
        self._trace = trace
        self._brokers = brokers
        self._client_latency_us = client_latency_us

    def request(self, now_us: int, request: Message) -> None:
        """The application asks."""
        self.carry_out(self.machine.request(request, now_us), now_us)

    def notified(self, now_us: int, argument: tuple[BrokerId, Message]) -> None:
        broker, message = argument
        self.carry_out(self.machine.notified(broker, message, now_us), now_us)

    def lost(self, now_us: int, broker: BrokerId) -> None:
        """The client notices that a broker does not answer."""
        self.carry_out(self.machine.lost(broker, now_us), now_us)

    def reconnected(self, now_us: int, broker: BrokerId) -> None:
        """The client notices that a broker is back."""
        self.carry_out(self.machine.reconnected(broker, now_us), now_us)

    def leave(self, now_us: int) -> None:
        """The client goes away; its connections' ends reach the brokers like its words."""
        self.carry_out(self.machine.leave(), now_us)

    def _woken(self, now_us: int, _: None) -> None:
        self.carry_out(self.machine.woken(now_us), now_us)

    def carry_out(self, effects: list[PublisherEffect], now_us: int) -> None:
        client = self.machine.client
        for effect in effects:
            match effect:
                case ToBroker(broker, request):
                    if type(request) is Publish:
                        for publication in request.publications:
                            self._trace.published.append(Published(publication, broker, now_us))
                    at_us = now_us + self._client_latency_us[broker, client]
                    node = self._brokers[broker]
                    self._queue.push(at_us, node.receive, Requested(client, request))
                    if not node.running:
                        self._queue.push(now_us + DETECTION_US, self.lost, broker)
                case WakeUp(at_us):
                    self._queue.push(at_us, self._woken, None)
                case Record(record):
                    self._trace.records.append(record)
