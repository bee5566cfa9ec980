"""Moves clients: those of a broker before it leaves the network, and those that move by themselves.

A client that moves is silent for a while at each step, so that none of its messages is under way:
it disconnects, connects to the nearest broker that stays, and resumes. A subscriber misses
publications meanwhile; a publisher holds its publications back. `drain` and `move` lose nothing: a
subscriber subscribes at the new broker first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shoal.broker.messages import Goodbye
from shoal.model import BrokerId, ClientId, Subscription
from shoal.simulation.event_queue import EventQueue
from shoal.simulation.links.underlay import ClientLatencies
from shoal.simulation.nodes import DETECTION_US, BrokerNode
from shoal.simulation.publishers import PublisherNode
from shoal.simulation.subscribers import Ask, SimulatedSubscribers

# Above any way through the network, with messages that are sent again.
PAUSE_US = 5_000_000


class Refuge:
    """Refuges of leaving brokers' clients; and publishers that move for another reason."""

    def __init__(
        self,
        queue: EventQueue,
        publishers: Mapping[ClientId, PublisherNode],
        subscribers: SimulatedSubscribers,
        brokers: Mapping[BrokerId, BrokerNode],
        neighbours: Callable[[BrokerId], tuple[BrokerId, ...]],
        ask: Ask,
        latency_us: ClientLatencies,
        takes_clients: Callable[[BrokerId], bool],
    ) -> None:
        self._queue = queue
        self._latency_us = latency_us
        self._takes_clients = takes_clients
        self._publishers = publishers
        self._subscribers = subscribers
        self._brokers = brokers
        self._neighbours = neighbours
        self._ask = ask
        self.chosen: dict[BrokerId, BrokerId] = {}
        # Of brokers that stayed after all.
        self.former: dict[BrokerId, BrokerId] = {}

    def end(self, broker: BrokerId) -> None:
        """The broker does not leave: clients that want it come to it."""
        if broker in self.chosen:
            self.former[broker] = self.chosen.pop(broker)

    # --- subscriptions ------------------------------------------------------------------------

    def refuge_for(self, broker: BrokerId) -> BrokerId:
        """Return the broker for clients that want this broker."""
        while broker in self.chosen:
            broker = self.chosen[broker]
        return broker

    def subscribe(self, now_us: int, argument: tuple[BrokerId, Subscription]) -> None:
        broker, subscription = argument
        self._subscribers.subscribe(now_us, self.refuge_for(broker), subscription)

    # --- clients that go ----------------------------------------------------------------------

    def move(self, now_us: int, argument: tuple[ClientId, BrokerId, str | None]) -> None:
        """Move a client to a broker that runs and does not leave; it stands at that place then, if
        one is given.
        """
        client, broker, place = argument
        node, publisher = self._brokers.get(broker), self._publishers.get(client)
        if node is None or not node.running or self.refuge_for(broker) != broker:
            return
        if place is not None:
            self._latency_us.stand(client, place)
        if client in self._subscribers:
            self._subscribers.move(now_us, client, broker)
        if publisher is not None and publisher.machine.broker != broker:
            self.send(now_us, publisher, broker)

    def drain(
        self, now_us: int, argument: tuple[BrokerId, Callable[[int, BrokerId], None]]
    ) -> None:
        """Move the broker's clients away without a loss, and have no others come; then call with
        the broker.
        """
        broker, then = argument
        if broker not in self._brokers:
            return
        clients = self._subscribers.near(broker)
        publishers = [
            node
            for node in self._publishers.values()
            if broker in node.machine.brokers and not node.machine.gone
        ]
        if self._choose(broker):
            if not (clients or publishers):
                then(now_us, broker)
                return
            for client in clients:
                self._subscribers.move(now_us, client, self.refuge_for(broker))
            for node in publishers:
                self.send(now_us, node, broker)
        self._queue.push(now_us + DETECTION_US, self.drain, argument)

    def _choose(self, broker: BrokerId) -> bool:
        """Have a refuge for the broker's clients, unless no broker stays."""
        if broker not in self.chosen:
            refuge = self._nearest(broker)
            if refuge is None:
                return False
            self.chosen[broker] = refuge
        return True

    def empty(self, now_us: int, broker: BrokerId) -> None:
        """Redirect the broker's clients, unless no broker stays."""
        if not self._choose(broker):
            return
        for client in self._subscribers.near(broker):
            self._subscribers.go(now_us, client, broker)
            self._queue.push(now_us + PAUSE_US, self._come, (broker, client))
        for node in self._publishers.values():
            if node.machine.broker == broker:
                self.send(now_us, node, broker)

    def send(self, now_us: int, node: PublisherNode, broker: BrokerId) -> None:
        """Have a publisher go to a broker, or to where its clients go; not if it moves already."""
        if not (node.machine.moving or node.is_paused or node.machine.gone):
            node.pause()
            self._queue.push(
                now_us + PAUSE_US, self._disconnect, (node.machine.broker, broker, node)
            )

    def _nearest(self, broker: BrokerId) -> BrokerId | None:
        reached = [broker]
        for each in reached:
            if each not in self.chosen and each != broker and self._takes_clients(each):
                return each
            near = self._neighbours(each) or sorted(self._brokers)
            reached += [other for other in near if other not in reached]
        return None

    def _come(self, now_us: int, argument: tuple[BrokerId, ClientId]) -> None:
        broker, client = argument
        self._subscribers.come(now_us, client, self.refuge_for(broker), broker)

    def _disconnect(self, now_us: int, argument: tuple[BrokerId, BrokerId, PublisherNode]) -> None:
        source, target, node = argument
        client = node.machine.client
        if node.machine.moving or node.machine.broker != source:
            node.resume(now_us)  # the network moves it already
        elif not node.machine.gone:
            self._ask(now_us, source, client, Goodbye())
            node.disconnect()
            self._queue.push(now_us + PAUSE_US, self._reconnect, (target, node))

    def _reconnect(self, now_us: int, argument: tuple[BrokerId, PublisherNode]) -> None:
        broker, node = argument
        node.connect(self.refuge_for(broker), now_us)
        self._queue.push(now_us + PAUSE_US, self._resume_publisher, node)

    def _resume_publisher(self, now_us: int, node: PublisherNode) -> None:
        """Resume a publisher at its broker, or move it on if the broker leaves by now."""
        broker = node.machine.broker
        if self.refuge_for(broker) == broker:
            node.resume(now_us)
        else:
            self._disconnect(now_us, (broker, broker, node))
