"""The publishers of a simulated world: their machines, between their applications and brokers."""

from __future__ import annotations

from collections.abc import Mapping

from shoal.broker.effects import Record, Requested
from shoal.broker.messages import Advertise, Message, Publish, Unadvertise
from shoal.clients.publisher import Publisher, PublisherEffect, ToBroker, WakeUp
from shoal.model import BrokerId, ClientId
from shoal.simulation.event_queue import EventQueue
from shoal.simulation.nodes import DETECTION_US, BrokerNode
from shoal.simulation.trace import Published, Trace


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
        self._kept: list[Message] | None = None
        # Advertisements made between a disconnect and the next connection.
        self._late: list[Message] | None = None

    def request(self, now_us: int, request: Message) -> None:
        """The application asks."""
        if self._kept is not None and not self._may_go_first(request):
            self._kept.append(request)
        elif self._late is not None:
            self._late.append(request)
        else:
            self.carry_out(self.machine.request(request, now_us), now_us)

    def _may_go_first(self, request: Message) -> bool:
        """An advertisement must have spread before its publications go on."""
        kept = self._kept or ()
        return type(request) is Advertise and not any(type(each) is Unadvertise for each in kept)

    @property
    def is_paused(self) -> bool:
        return self._kept is not None

    def pause(self) -> None:
        """Hold the application's requests."""
        self._kept = []

    def disconnect(self) -> None:
        """Its broker takes no requests any more."""
        self._late = []

    def connect(self, broker: BrokerId, now_us: int) -> None:
        """Connect to another broker, with all advertisements."""
        late, self._late = self._late or [], None
        self.carry_out(self.machine.come_home(broker, (), now_us), now_us)
        for request in late:
            self.request(now_us, request)

    def resume(self, now_us: int) -> None:
        """Send held requests, and resume."""
        kept, self._kept = self._kept or [], None
        for request in kept:
            self.request(now_us, request)

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
        """The client goes away, and with it all that it holds back; its connections' ends reach the
        brokers like its words.
        """
        self._kept = self._late = None
        self.carry_out(self.machine.leave(), now_us)

    def _woken(self, now_us: int, _: None) -> None:
        self.carry_out(self.machine.woken(now_us), now_us)

    def carry_out(self, effects: list[PublisherEffect], now_us: int) -> None:
        for effect in effects:
            if type(effect) is ToBroker:
                self._send_to_broker(effect.broker, effect.request, now_us)
            elif type(effect) is WakeUp:
                self._queue.push(effect.at_us, self._woken, None)
            elif type(effect) is Record:
                self._trace.records.append(effect.record)

    def _send_to_broker(self, broker: BrokerId, request: Message, now_us: int) -> None:
        if type(request) is Publish:
            for publication in request.publications:
                self._trace.published.append(Published(publication, broker, now_us))
        node = self._brokers.get(broker)
        if node is not None:
            at_us = now_us + self._client_latency_us[broker, self.machine.client]
            self._queue.push(at_us, node.receive, Requested(self.machine.client, request))
        if node is None or not node.running:
            self._queue.push(now_us + DETECTION_US, self.lost, broker)
