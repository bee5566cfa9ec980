"""Publishers of a front end's clients on a live broker: their requests go to the brokers at which
they publish.

`shoal.mqtt.front_end.publishers` decides; this module sends to this broker's own machine or, over
forwarding channels, to a distant one, brings back brokers' notices, and slows down clients whose
publisher is held up.

A client that follows its publisher is redirected: it is not read until its new broker has handled
all its publications, and then told to connect there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from shoal.broker.ack_tracker import AckTracker, Errand, is_assured
from shoal.broker.effects import Deliver, Record, Requested
from shoal.broker.messages import Advertise, Message, Pong, Publish
from shoal.clients.forwarding_channel import (
    ChannelForgotten,
    ForwardingChannelEvent,
    Lost,
    Stranded,
)
from shoal.clients.records import MigrationRecord
from shoal.model import Advertisement, BrokerId, ClientId, Publication
from shoal.mqtt.front_end.publishers import AskBroker, FrontEndEffect, FrontEndPublishers
from shoal.runtime.driving.flushing import Phase
from shoal.runtime.links.forwarding_channels import ForwardingChannels
from shoal.runtime.node import Node

_MICROSECONDS = 1_000_000


class LivePublishers:
    """The publishers of one node's clients.

    `at_pong` gets the broker that has answered the front end itself, `at_wait` the client to pause
    or resume, `settled` the publications that can have no more takers, `heard` clients whose
    advertisements the machine has handled. `follows` returns whether a client may be redirected to
    a broker, `owes` whether it still waits for an answer, and `send_on` redirects it, and reports
    so by `was_sent`.
    """

    def __init__(self, node: Node, forwarding_channels: ForwardingChannels) -> None:
        self.publishers = FrontEndPublishers(node.id)
        self.at_wait: Callable[[ClientId, bool], None] = _ignore_wait
        self.follows: Callable[[ClientId, BrokerId], bool] = _follows_none
        self.owes: Callable[[ClientId], bool] = _owes_none
        self.send_on: Callable[[ClientId, BrokerId], None] = _ignore_redirect
        self.settled: Callable[[Sequence[Publication]], None] = _ignore_publications
        self.heard: Callable[[ClientId, Advertisement], None] = _ignore_wait
        self.at_pong: Callable[[BrokerId], None] = _ignore_pong
        self._node = node
        self._forwarding_channels = forwarding_channels
        # Clients that are about to be sent to where their publisher is.
        self._leaving: dict[ClientId, BrokerId] = {}
        self._sent: set[ClientId] = set()
        self._waiting: set[ClientId] = set()
        self._to_do: deque[FrontEndEffect] = deque()
        self._is_busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us: int | None = None
        forwarding_channels.owner = self
        node.at_flush(Phase.DELIVER, self._send_on)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def status(self) -> list[dict[str, Any]]:
        """One row per publisher, for people."""
        return [
            {
                "publisher": publisher.client,
                "front_end": self._node.id,
                "broker": publisher.broker,
                "is_moving": publisher.moving,
                "held_back": publisher.held_back,
                "moved": publisher.moved,
            }
            for publisher in self.publishers
        ]

    # --- the front end's side ---------------------------------------------------------------

    def request(self, requested: Requested) -> None:
        """A client of the front end asks."""
        client = requested.client
        if client not in self.publishers:
            self._node.attach(client, _PublisherPort(self, client))
        now_us = self._node.clock.now_us()
        self._carry_out(self.publishers.request(client, requested.request, now_us))
        self._check_waiting(client)  # held input has no effect

    def is_waiting(self, client: ClientId | None) -> bool:
        """Return whether nothing should be read from this client for now."""
        return client in self._waiting

    # --- the brokers' side ------------------------------------------------------------------

    def ask(self, broker: BrokerId, client: ClientId, request: Message) -> None:
        """The front end itself asks a distant broker."""
        self._forwarding_channels.ask(broker, client, request)

    def noticed(self, broker: BrokerId, client: ClientId, message: Message) -> None:
        if type(message) is Pong and client not in self.publishers:
            self.at_pong(broker)
            return
        now_us = self._node.clock.now_us()
        self._carry_out(self.publishers.notified(broker, client, message, now_us))

    def happened(self, event: ForwardingChannelEvent) -> None:
        now_us = self._node.clock.now_us()
        match event:
            case Lost(broker):
                self._carry_out(self.publishers.lost(broker, now_us))
            case ChannelForgotten(broker, requests):
                self._carry_out(self.publishers.forgotten(broker, requests, now_us))
            case Stranded(broker, requests):
                self._carry_out(self.publishers.stranded(broker, requests, now_us))

    def found(self, broker: BrokerId) -> None:
        self.publishers.found(broker)

    def filled(self, broker: BrokerId, full: bool) -> None:
        self.publishers.filled(broker, full)
        for client in self.publishers.those_at(broker):
            self._check_waiting(client)

    def uses(self, broker: BrokerId) -> bool:
        return self.publishers.uses(broker)

    # --- effects ----------------------------------------------------------------------------

    def _carry_out(self, effects: list[FrontEndEffect]) -> None:
        """One after the other: a broker's immediate answers come behind pending effects."""
        self._to_do += effects
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._to_do:
                self._do(self._to_do.popleft())
        finally:
            self._is_busy = False
        self._set_publishers_timer()

    def _do(self, effect: FrontEndEffect) -> None:
        match effect:
            case AskBroker(broker, client, request):
                if broker == self._node.id:
                    ack_tracker = self._ack_tracker(client, request, AckTracker)
                    self._node.request(client, request, ack_tracker=ack_tracker)
                else:
                    ack_tracker = self._ack_tracker(client, request, Errand)
                    self._forwarding_channels.ask(broker, client, request, ack_tracker)
                    if ack_tracker is not None:
                        ack_tracker.settle()
                if client not in self.publishers:
                    self._detach(client)
                self._check_waiting(client)
            case Record(row):
                self._node.rows.record(row)
                if isinstance(row, MigrationRecord):
                    self._has_moved(row.publisher, row.target)

    def _ack_tracker(
        self, client: ClientId, request: Message, kind: type[AckTracker]
    ) -> AckTracker | None:
        """Return a tracker for publications with a waiting publisher, and for advertisements."""
        if isinstance(request, Advertise):
            if kind is AckTracker:
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
        self._check_waiting(client)

    def _send_on(self) -> None:
        """Redirect those clients whose new broker has handled everything."""
        for client, broker in list(self._leaving.items()):
            if not self.publishers.is_at(client, broker):
                del self._leaving[client]
                self._check_waiting(client)
            elif client in self._sent:
                continue
            elif self._forwarding_channels.is_empty(broker) and not self.owes(client):
                self._sent.add(client)
                self.send_on(client, broker)

    def was_sent(self, client: ClientId, problem: str) -> None:
        """A client has gone to where its publisher is, or stays."""
        self._sent.discard(client)
        self._leaving.pop(client, None)
        self._check_waiting(client)

    def _detach(self, client: ClientId) -> None:
        port = self._node.client(client)
        if isinstance(port, _PublisherPort):
            self._node.detach(client)

    def _check_waiting(self, client: ClientId) -> None:
        must_wait = client in self._leaving or self.publishers.must_wait(client)
        if must_wait != (client in self._waiting):
            if must_wait:
                self._waiting.add(client)
            else:
                self._waiting.discard(client)
            self.at_wait(client, must_wait)

    def _set_publishers_timer(self) -> None:
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


class _PublisherPort:
    """A client as the front end's own machine sees it."""

    def __init__(self, publishers: LivePublishers, client: ClientId) -> None:
        self._publishers = publishers
        self._client = client

    def deliver(self, delivery: Deliver) -> None:
        """Ignored: the front end itself subscribes for its clients."""

    def notify(self, message: Message) -> None:
        publishers = self._publishers
        publishers.noticed(publishers._node.id, self._client, message)


def _follows_none(client: ClientId, broker: BrokerId) -> bool:
    return False


def _ignore_redirect(client: ClientId, broker: BrokerId) -> None:
    """Placeholder until a listener is set."""


def _ignore_pong(broker: BrokerId) -> None:
    """Placeholder until a listener is set."""


def _ignore_wait(client: ClientId, what: object) -> None:
    """Placeholder until a listener is set."""


def _owes_none(client: ClientId) -> bool:
    return False


def _ignore_publications(publications: Sequence[Publication]) -> None:
    """Placeholder until a listener is set."""
