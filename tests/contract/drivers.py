"""Two drivers of brokers with one interface: the simulator, and nodes linked over loopback.

A test makes requests of clients and calls `settle`. Deliveries and refusals must then be the same
in both drivers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from shoal.broker.effects import Deliver, Requested
from shoal.broker.messages import (
    Advertise,
    Goodbye,
    Publish,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.messages import Message as Request
from shoal.broker.routing_decision import RoutingDecision, RoutingQuery
from shoal.language import parse
from shoal.model import (
    Advertisement,
    Attributes,
    BrokerId,
    ClientId,
    Publication,
    Subscription,
)
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.overlays.system import Picture
from shoal.runtime.front_ends.clients import LocalClient
from shoal.simulation.trace import DeliveryEvent
from shoal.simulation.world import World
from tests.runtime.live import PATIENCE_S, LiveNetwork
from tests.systems import covering, eager, with_cycles

# Virtual time in which every request takes effect.
SETTLE_US = 10_000_000
# The live network is at rest when this many polls in a row see nothing under way.
QUIET_LOOKS = 20
LOOK_S = 0.005

Links = Iterable[tuple[BrokerId, BrokerId]]


class Driver(Protocol):
    """A running network on a tree of these links, with further links where the system allows
    cycles.

    A system that opens its own links gets only their ends.

    `deliveries` lists what reached clients, in order; `refused` the reasons of refusals.
    """

    deliveries: list[DeliveryEvent]
    refused: list[str]

    def publisher(self, client: ClientId, broker: BrokerId) -> None:
        """Add a client that will publish, first at this broker."""

    def ask(self, client: ClientId, *requests: Request) -> None:
        """Send requests of a publisher, one after the other."""

    def ask_at(self, broker: BrokerId, client: ClientId, request: Request) -> None:
        """Send a subscriber's request to a broker."""

    def routing_decision(self, broker: BrokerId, asked: RoutingQuery) -> RoutingDecision | None:
        """The neighbours and clients to which a broker would send a publication."""

    def settle(self) -> None:
        """Return when every request has had its effect."""

    def close(self) -> None: ...


class Clients:
    """Short forms of requests, for any driver."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.publications: list[Publication] = []

    def advertise(self, client: ClientId, name: str, where: str = "x >= 0") -> None:
        promise = Advertisement(id=name, publisher=client, filter=parse(where))
        self.driver.ask(client, Advertise(promise))

    def unadvertise(self, client: ClientId, name: str) -> None:
        self.driver.ask(client, Unadvertise(name))

    def publish(self, client: ClientId, *attributes: Attributes) -> None:
        for each in attributes:
            publication = Publication(
                publisher=client,
                sequence=len(self.publications),
                published_us=0,
                attributes=each,
            )
            self.publications.append(publication)
            self.driver.ask(client, Publish((publication,)))

    def subscribe(
        self, broker: BrokerId, client: ClientId, name: str, where: str = "x >= 0"
    ) -> Subscription:
        subscription = Subscription(id=name, client=client, filter=parse(where))
        self.driver.ask_at(broker, client, Subscribe(subscription))
        return subscription

    def unsubscribe(self, broker: BrokerId, client: ClientId, name: str) -> None:
        self.driver.ask_at(broker, client, Unsubscribe(name))

    def leave(self, broker: BrokerId, client: ClientId) -> None:
        self.driver.ask_at(broker, client, Goodbye())

    def got(self, client: ClientId) -> list[int]:
        """The sequence numbers that reached a client, in order."""
        return [
            each.publication.sequence for each in self.driver.deliveries if each.client == client
        ]


class Simulated:
    """The simulator."""

    def __init__(self, system: str, links: Links, *, is_covering: bool = False) -> None:
        links = tuple(links)
        brokers = names_of(links)
        factory = strategy_factory(system, _parameters(system, brokers, is_covering))
        ways = () if SYSTEMS[system].shape.opens_links else with_cycles(system, brokers, links)
        self._world = World(ways, factory, _Near(), brokers=brokers, seed=1)
        self._until_us = 0
        self.settle()

    @property
    def deliveries(self) -> list[DeliveryEvent]:
        return self._world.trace.deliveries

    @property
    def refused(self) -> list[str]:
        return [each.reason for each in self._world.trace.refused]

    def publisher(self, client: ClientId, broker: BrokerId) -> None:
        self._world.add_publisher(client, broker, broker)

    def ask(self, client: ClientId, *requests: Request) -> None:
        for request in requests:
            self._world.request(self._now_us(), client, request)

    def ask_at(self, broker: BrokerId, client: ClientId, request: Request) -> None:
        node = self._world.brokers[broker]
        self._world.add_subscriber(client, broker)
        self._world.queue.push(self._now_us(), node.receive, Requested(client, request))

    def routing_decision(self, broker: BrokerId, asked: RoutingQuery) -> RoutingDecision | None:
        return self._world.brokers[broker].machine.strategy.routing_decision(asked)

    def _now_us(self) -> int:
        self._until_us += 1_000
        return self._until_us

    def settle(self) -> None:
        self._until_us += SETTLE_US
        self._world.run(self._until_us)

    def close(self) -> None: ...


class _Near:
    """Any two places are a millisecond apart."""

    def latency_us(self, source_place: str, target_place: str) -> int:
        return 1_000


class Live:
    """Nodes in this process, linked over loopback."""

    def __init__(self, system: str, links: Links, *, is_covering: bool = False) -> None:
        links = tuple(links)
        self._brokers = names_of(links)
        self._is_linked_at_start = not SYSTEMS[system].shape.opens_links
        self._oracle = SYSTEMS[system].oracle
        self._network = LiveNetwork(
            with_cycles(system, self._brokers, links) if self._is_linked_at_start else (),
            system,
            _parameters(system, self._brokers, is_covering),
            brokers=self._brokers,
        )
        self._network.delivered = self._delivered  # type: ignore[method-assign]
        self._runner = asyncio.Runner()
        self._clients: dict[ClientId, LocalClient] = {}
        self.deliveries: list[DeliveryEvent] = []
        self._run(self._start())

    def _run(self, work: object) -> None:
        self._runner.run(asyncio.wait_for(work, 3 * PATIENCE_S))  # type: ignore[arg-type]

    async def _start(self) -> None:
        for name in sorted(self._brokers, reverse=True):
            await self._network.start(name)
        await self._wait_for(self._is_linked)

    def _is_linked(self) -> bool:
        if self._is_linked_at_start:
            return not any(links.away for links in self._network.links.values())
        if (oracle := self._oracle) is not None:
            nodes = self._network.nodes.items()
            return not oracle(
                Picture((), (), ()), {name: row.machine.strategy for name, row in nodes}
            )
        return all(
            len([row for row in links.status() if row["state"] == "up"]) == len(self._brokers) - 1
            for links in self._network.links.values()
        )

    async def _wait_for(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(LOOK_S)

    def _delivered(self, delivery: Deliver, now_us: int) -> None:
        routed = delivery.routed
        self.deliveries.append(
            DeliveryEvent(
                routed.publication,
                delivery.subscriptions,
                delivery.client,
                "",
                now_us,
                delivery.hops,
            )
        )

    @property
    def refused(self) -> list[str]:
        return [reason for each in self._clients.values() for reason in each.rejections]

    def publisher(self, client: ClientId, broker: BrokerId) -> None:
        self._clients[client] = self._network.client(client, broker)

    def ask(self, client: ClientId, *requests: Request) -> None:
        async def ask() -> None:
            for request in requests:
                self._clients[client]._send_client_request(request)

        self._run(ask())

    def ask_at(self, broker: BrokerId, client: ClientId, request: Request) -> None:
        node = self._network.nodes[broker]
        if node.client(client) is None:
            node.attach(client, _Listener())

        async def ask() -> None:
            node.request(client, request)

        self._run(ask())

    def routing_decision(self, broker: BrokerId, asked: RoutingQuery) -> RoutingDecision | None:
        return self._network.nodes[broker].machine.routing_decision(asked)

    def settle(self) -> None:
        self._run(self._settle())

    async def _settle(self) -> None:
        looks, before = 0, -1
        while looks < QUIET_LOOKS:
            await asyncio.sleep(LOOK_S)
            busy = any(
                row["buffered_bytes"]
                for links in self._network.links.values()
                for row in links.status()
            )
            now = len(self.deliveries)
            looks = 0 if busy or now != before else looks + 1
            before = now

    def close(self) -> None:
        async def stop() -> None:
            for name in list(self._network.nodes):
                await self._network.kill(name)

        self._run(stop())
        self._runner.close()


class _Listener:
    """A subscriber; the trace records its deliveries."""

    def deliver(self, delivery: Deliver) -> None: ...

    def notify(self, message: msgspec.Struct) -> None: ...


def _parameters(
    system: str, brokers: tuple[BrokerId, ...], is_covering: bool
) -> msgspec.Struct | None:
    parameters = eager(system, 20, brokers)
    return covering(system, parameters) if is_covering else parameters


def names_of(links: Links) -> tuple[BrokerId, ...]:
    return tuple(dict.fromkeys(name for link in links for name in link))


DRIVERS: dict[str, Callable[..., Driver]] = {"simulated": Simulated, "live": Live}
