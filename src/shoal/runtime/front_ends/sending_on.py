"""Redirects clients of a front end to other brokers, by order of the operator or the system.

A client that allows it follows its publisher, which moves to its subscribers; or it is redirected
to the broker where its publications enter or where clients with similar subscriptions are, which
the system finds by queries to the front end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from shoal.broker.messages import Message
from shoal.clients.front_ends import StandsFor
from shoal.model import BrokerId, ClientId
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.connection.effects import ClientEffect
from shoal.mqtt.federation.moving import Servers
from shoal.mqtt.front_end.publishers import AskBroker
from shoal.runtime.front_ends.publishers import LivePublishers
from shoal.runtime.node import Node

# Reasons for a redirect: the client follows its publisher, or the system placed it.
NEARER = "another broker is nearer to the subscribers"
BETTER = "another broker suits what it gets"

_log = logging.getLogger(__name__)


class SendingOn:
    """Destinations of one front end's clients: `servers` are the other brokers' listeners."""

    def __init__(
        self,
        node: Node,
        clients: BrokerClients,
        servers: Servers,
        publishers: LivePublishers | None,
        carry_out: Callable[[list[ClientEffect]], object],
    ) -> None:
        self._node = node
        self._clients = clients
        self._servers = servers
        self._publishers = publishers
        self._carry_out = carry_out
        # The system's queries about clients, until its earlier deliveries are in sessions.
        self._questions: list[Message] = []
        # Clients that the system redirected and that are still here, until the system is told.
        self._stayed: list[ClientId] = []
        if clients.federation is not None:
            node.asides.at_move = self._move_for_machine
            clients.federation.moving.servers = clients.federation.following.servers = servers
        if publishers is not None:
            publishers.follows = self._follows
            publishers.send_on = self._send_on
            publishers.at_pong = self._ponged

    def move(
        self, client: ClientId, broker: BrokerId, done: Callable[[str], None], reason: str
    ) -> None:
        """Send a client to another broker (see `shoal.mqtt.federation.moving`)."""
        assert self._clients.federation is not None
        now_us = self._node.clock.now_us()
        self._clients.federation.moving.move(client, broker, now_us, done, reason)
        self._carry_out(self._clients.take_effects())
        self._node.schedule_flush()

    # --- queries of the broker's system --------------------------------------------------------

    def stand_for_clients(self) -> None:
        """Say that the front end's clients may be asked about."""
        assert self._clients.audience is not None
        assert self._clients.front_end is not None
        self._clients.audience.is_asked = True
        self._node.request(self._clients.front_end.client, StandsFor())

    def asked(self, message: Message) -> None:
        """The broker asks about clients."""
        self._questions.append(message)
        self._node.schedule_flush()

    def answer(self) -> None:
        """Answer the queries; all earlier deliveries are in sessions."""
        questions, self._questions = self._questions, []
        stayed, self._stayed = self._stayed, []
        if self._clients.federation is not None:
            for message in questions:
                now_us = self._node.clock.now_us()
                self._ask_brokers(self._clients.federation.following.notified(message, now_us))
            for client in stayed:
                self._clients.federation.wishes.stayed(client)

    def _ponged(self, broker: BrokerId) -> None:
        assert self._clients.federation is not None
        self._ask_brokers(
            self._clients.federation.following.ponged(broker, self._node.clock.now_us())
        )

    def _ask_brokers(self, asks: Iterable[AskBroker]) -> None:
        for broker, client, request in map(msgspec.structs.astuple, asks):
            if broker == self._node.id:
                self._node.request(client, request)
            elif self._publishers is not None:
                self._publishers.ask(broker, client, request)

    # --- redirects -----------------------------------------------------------------------------

    def _move_for_machine(self, client: ClientId, broker: BrokerId) -> None:
        """The broker's system wants a client elsewhere."""

        def done(problem: str) -> None:
            if problem:
                _log.info("a client stays", extra={"client": client, "problem": problem})
                self._stayed.append(client)
                self._node.schedule_flush()

        self.move(client, broker, done, BETTER)

    def _follows(self, client: ClientId, broker: BrokerId) -> bool:
        connection = self._clients.connection(client)
        terms = connection.terms if connection is not None else None
        if connection is None or terms is None or not terms.follows:
            return False
        return connection.credentials.listener in self._servers.get(broker, {})

    def _send_on(self, client: ClientId, broker: BrokerId) -> None:
        """A client follows its publisher, which has moved."""
        assert self._publishers is not None
        self.move(client, broker, partial(self._publishers.was_sent, client), NEARER)
