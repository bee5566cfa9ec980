"""The publishers of a door's clients on a live broker: their requests go where they publish.

`shoal.mqtt.door.publishers` decides; this asks this broker's own machine or, over couriers, a
distant one, brings back what brokers tell, and slows down clients whose publisher is held up.

A client that follows is sent after its publisher: it is read no more until its new broker has
handled all that it had published, and then told to go there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from shoal.broker.custody import Custody, Errand, is_assured
from shoal.broker.effects import Deliver, Record, Requested
from shoal.broker.messages import Advertise, Message, Pong, Publish
from shoal.clients.courier import CourierEvent, Forgotten, Lost, Stranded
from shoal.clients.records import MigrationRecord
from shoal.model import Advertisement, BrokerId, ClientId, Publication
from shoal.mqtt.door.publishers import AskBroker, DoorEffect, Publishers
from shoal.runtime.driving.flushing import Phase
from shoal.runtime.links.couriers import Couriers
from shoal.runtime.node import Node

_MICROSECONDS = 1_000_000


class LivePublishers:
    """The publishers of one node's clients.

    `at_pong` is told which broker has answered the door itself, `at_wait` whom to read no more, and
    when to, `settled` which publications nothing can take any more, `heard` with what a client has
    promised the machine is done.  `follows` is asked whether a
    client may be sent to a broker, `owes` whether it still waits for an answer, and `send_on` sends
    it, and says so by `was_sent`.
    """

    def __init__(self, node: Node, couriers: Couriers) -> None:
        self.publishers = Publishers(node.id)
        self.at_wait: Callable[[ClientId, bool], None] = _nobody_waits
        self.follows: Callable[[ClientId, BrokerId], bool] = _nobody_follows
        self.owes: Callable[[ClientId], bool] = _nobody_is_owed
        self.send_on: Callable[[ClientId, BrokerId], None] = _nobody_goes
        self.settled: Callable[[Sequence[Publication]], None] = _nobody_asks
        self.heard: Callable[[ClientId, Advertisement], None] = _nobody_waits
        self.at_pong: Callable[[BrokerId], None] = _nobody_pings
        self._node = node
        self._couriers = couriers
        # Clients that are about to be sent to where their publisher is.
        self._leaving: dict[ClientId, BrokerId] = {}
        self._sent: set[ClientId] = set()
        self._waiting: set[ClientId] = set()
        self._to_do: deque[DoorEffect] = deque()
        self._is_busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us: int | None = None
        couriers.owner = self
        node.at_flush(Phase.DELIVER, self._send_on)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def status(self) -> list[dict[str, Any]]:
        """One row per publisher, for people."""
        return [
            {
                "publisher": publisher.client,
                "door": self._node.id,
                "broker": publisher.broker,
                "is_moving": publisher.moving,
                "held_back": publisher.held_back,
                "moved": publisher.moved,
            }
            for publisher in self.publishers
        ]

    # --- the door's side ----------------------------------------------------------------------

    def request(self, requested: Requested) -> None:
        """A client of the door asks."""
        client = requested.client
        if client not in self.publishers:
            self._node.attach(client, _Port(self, client))
        now_us = self._node.clock.now_us()
        self._carry_out(self.publishers.request(client, requested.request, now_us))
        self._check(client)  # what is held back has no effect

    def is_waiting(self, client: ClientId | None) -> bool:
        """Whether nothing should be read from this client for now."""
        return client in self._waiting

    # --- the brokers' side --------------------------------------------------------------------

    def ask(self, broker: BrokerId, client: ClientId, request: Message) -> None:
        """The door itself asks a distant broker."""
        self._couriers.ask(broker, client, request)

    def noticed(self, broker: BrokerId, client: ClientId, message: Message) -> None:
        if type(message) is Pong and client not in self.publishers:
            self.at_pong(broker)
            return
        now_us = self._node.clock.now_us()
        self._carry_out(self.publishers.notified(broker, client, message, now_us))

    def happened(self, event: CourierEvent) -> None:
        now_us = self._node.clock.now_us()
        match event:
            case Lost(broker):
                self._carry_out(self.publishers.lost(broker, now_us))
            case Forgotten(broker, requests):
                self._carry_out(self.publishers.forgotten(broker, requests, now_us))
            case Stranded(broker, requests):
                self._carry_out(self.publishers.stranded(broker, requests, now_us))

    def found(self, broker: BrokerId) -> None:
        self.publishers.found(broker)

    def filled(self, broker: BrokerId, full: bool) -> None:
        self.publishers.filled(broker, full)
        for client in self.publishers.those_at(broker):
            self._check(client)

    def uses(self, broker: BrokerId) -> bool:
        return self.publishers.uses(broker)

    # --- effects ------------------------------------------------------------------------------

    def _carry_out(self, effects: list[DoorEffect]) -> None:
        """One after the other: what a broker answers at once comes behind what is to do already."""
        self._to_do += effects
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._to_do:
                self._do(self._to_do.popleft())
        finally:
            self._is_busy = False
        self._set_timer()

    def _do(self, effect: DoorEffect) -> None:
        match effect:
            case AskBroker(broker, client, request):
                if broker == self._node.id:
                    custody = self._custody(client, request, Custody)
                    self._node.request(client, request, custody=custody)
                else:
                    custody = self._custody(client, request, Errand)
                    self._couriers.ask(broker, client, request, custody)
                    if custody is not None:
                        custody.settle()
                if client not in self.publishers:
                    self._detach(client)
                self._check(client)
            case Record(row):
                self._node.rows.record(row)
                if isinstance(row, MigrationRecord):
                    self._has_moved(row.publisher, row.target)

    def _custody(self, client: ClientId, request: Message, kind: type[Custody]) -> Custody | None:
        """Of publications for which somebody waits, and of what a client promises."""
        if isinstance(request, Advertise):
            if kind is Custody:
                return kind(partial(self.heard, client, request.advertisement))
            # Elsewhere it was promised before.
            self.heard(client, request.advertisement)
        if isinstance(request, Publish) and is_assured(request):
            return kind(partial(self.settled, request.publications))
        return None

    def _has_moved(self, client: ClientId, broker: BrokerId) -> None:
        self._leaving.pop(client, None)
        if broker != self._node.id and self.follows(client, broker):
            self._leaving[client] = broker
            self._node.schedule_flush()
        self._check(client)

    def _send_on(self) -> None:
        """Send those clients away whose new broker has handled everything."""
        for client, broker in list(self._leaving.items()):
            if not self.publishers.is_at(client, broker):
                del self._leaving[client]
                self._check(client)
            elif client in self._sent:
                continue
            elif self._couriers.is_empty(broker) and not self.owes(client):
                self._sent.add(client)
                self.send_on(client, broker)

    def was_sent(self, client: ClientId, problem: str) -> None:
        """A client has gone to where its publisher is, or stays."""
        self._sent.discard(client)
        self._leaving.pop(client, None)
        self._check(client)

    def _detach(self, client: ClientId) -> None:
        port = self._node.client(client)
        if isinstance(port, _Port):
            self._node.detach(client)

    def _check(self, client: ClientId) -> None:
        must_wait = client in self._leaving or self.publishers.must_wait(client)
        if must_wait != (client in self._waiting):
            if must_wait:
                self._waiting.add(client)
            else:
                self._waiting.discard(client)
            self.at_wait(client, must_wait)

    def _set_timer(self) -> None:
        deadline_us = self.publishers.deadline_us
        if deadline_us == self._timer_us:
            return
        self.stop()
        self._timer_us = deadline_us
        if deadline_us is not None:
            delay_s = max(0, deadline_us - self._node.clock.now_us()) / _MICROSECONDS
            self._timer = self._node.loop.call_later(delay_s, self._advance)

    def _advance(self) -> None:
        self._timer = self._timer_us = None
        self._carry_out(self.publishers.advance(self._node.clock.now_us()))


class _Port:
    """A client as the door's own machine sees it."""

    def __init__(self, publishers: LivePublishers, client: ClientId) -> None:
        self._publishers = publishers
        self._client = client

    def deliver(self, delivery: Deliver) -> None:
        """Nothing is: what a client wants is asked for, and delivered, by its door."""

    def notify(self, message: Message) -> None:
        publishers = self._publishers
        publishers.noticed(publishers._node.id, self._client, message)


def _nobody_follows(client: ClientId, broker: BrokerId) -> bool:
    return False


def _nobody_goes(client: ClientId, broker: BrokerId) -> None:
    """Until there is somebody who does."""


def _nobody_pings(broker: BrokerId) -> None:
    """Until there is somebody who does."""


def _nobody_waits(client: ClientId, what: object) -> None:
    """Until there is somebody to tell."""


def _nobody_is_owed(client: ClientId) -> bool:
    return False


def _nobody_asks(publications: Sequence[Publication]) -> None:
    """Until there is somebody who does."""
