"""A broker joins a simulated network, whatever its own parameters list, and remains a member.

The parameters of the joining broker list it among the founders, as a network file written after the
join does.
"""

from __future__ import annotations

from itertools import pairwise, product

import msgspec
import pytest

from shoal.broker.strategy import BrokerContext, Strategy
from shoal.model import BrokerId
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.world import World
from tests.broker.transcript import advertisement, publish, subscription
from tests.systems import eager, with_cycles

SECOND_US = 1_000_000
FOUNDERS = ("B1", "B2", "B3")
NEW = "J1"
GROWING = [name for name, system in SYSTEMS.items() if system.grows]


def calm(system: str, brokers: tuple[str, ...]) -> msgspec.Struct | None:
    """Parameters for exactly these brokers, under which no broker starts a change of its own."""
    return eager(system, 1_000, brokers)


class Network:
    """Three founders with a publisher and a subscriber each, and a broker that joins.

    Its clock is ahead of the founders' by `ahead_us`.
    """

    def __init__(self, system: str, *, is_listed: bool, ahead_us: int = 0) -> None:
        founders = strategy_factory(system, calm(system, FOUNDERS), FOUNDERS)
        everybody = (*FOUNDERS, NEW) if is_listed else None
        later = strategy_factory(system, calm(system, everybody or ()), everybody)

        def strategy(context: BrokerContext) -> Strategy:
            return (founders if context.broker in FOUNDERS else later)(context)

        shape = SYSTEMS[system].shape
        links = () if shape.opens_links else with_cycles(system, FOUNDERS, pairwise(FOUNDERS))
        self.world = World(
            links,
            strategy,
            ConstantUnderlay(5_000),
            brokers=FOUNDERS,
            seed=1,
            clocks_us={NEW: ahead_us},
        )
        self.sent = 0
        for broker in FOUNDERS:
            self.add_clients(broker, 0)

    def add_clients(self, broker: BrokerId, at_us: int, name: str = "") -> None:
        """Add a publisher and a subscriber at a broker; `deaf` refers to them by this name or the
        broker's.
        """
        name = name or broker
        self.world.add_publisher(f"P{name}", broker, f"home of P{name}")
        self.world.advertise(at_us, advertisement(f"a{name}", publisher=f"P{name}"))
        self.world.add_subscriber(f"S{name}", f"home of S{name}")
        self.world.subscribe(at_us, broker, subscription(f"s{name}", client=f"S{name}"))

    def run(self, seconds: int) -> None:
        self.world.run(self.world.queue.now_us + seconds * SECOND_US)

    def deaf(self, *brokers: BrokerId) -> list[tuple[str, str]]:
        """Pairs of publisher and subscriber at these brokers whose publication arrives not once,
        but never or twice.
        """
        self.sent += 1
        for broker in brokers:
            client = f"P{broker}"
            self.world.request(
                self.world.queue.now_us, client, publish(self.sent, publisher=client)
            )
        self.run(30)
        got = [
            (row.publication.publisher, row.client)
            for row in self.world.trace.deliveries
            if row.publication.sequence == self.sent
        ]
        wanted = [(f"P{one}", f"S{other}") for one in brokers for other in brokers]
        return [pair for pair in wanted if got.count(pair) != 1]


# Where the parameters of a system list each broker's place, the joining broker asks for its place.
CASES = [
    pytest.param((system, is_listed), id=f"{system}-{'listed' if is_listed else 'unlisted'}")
    for system, is_listed in product(GROWING, (False, True))
    if not (is_listed and SYSTEMS[system].links is not None)
]


@pytest.fixture(params=CASES)
def network(request: pytest.FixtureRequest) -> Network:
    """A network in its first state, joined by a broker."""
    system, is_listed = request.param
    found = Network(system, is_listed=is_listed)
    found.run(5)
    found.world.add_broker(found.world.queue.now_us, NEW, ["B2"])
    found.run(20)
    found.add_clients(NEW, found.world.queue.now_us)
    found.run(20)
    return found


def test_clients_of_a_joined_broker_reach_all_others(network: Network) -> None:
    assert network.deaf(*FOUNDERS, NEW) == []
    assert not network.world.trace.refused


def test_a_network_with_a_joined_broker_restarts(network: Network) -> None:
    now_us = network.world.queue.now_us
    for broker in (*FOUNDERS, NEW):
        network.world.crash(now_us, broker)
        network.world.restart(now_us + 2 * SECOND_US, broker)
    network.run(120)
    assert network.deaf(*FOUNDERS, NEW) == []


def test_a_network_restarts_after_its_first_founder_left(network: Network) -> None:
    network.world.remove_broker(network.world.queue.now_us, "B1")
    network.run(60)
    assert "B1" in network.world.departures
    now_us = network.world.queue.now_us
    stay = ("B2", "B3", NEW)
    for broker in stay:
        network.world.crash(now_us, broker)
        network.world.restart(now_us + 2 * SECOND_US, broker)
    network.run(120)
    assert network.deaf(*stay) == []


def test_a_joined_broker_stays_linked_when_its_first_neighbour_leaves(network: Network) -> None:
    network.world.remove_broker(network.world.queue.now_us, "B2")
    network.run(60)
    assert "B2" in network.world.departures
    assert network.deaf("B1", "B3", NEW) == []


def test_a_broker_that_has_left_joins_again(network: Network) -> None:
    network.world.remove_broker(network.world.queue.now_us, NEW)
    network.run(60)
    assert NEW in network.world.departures
    network.world.add_broker(network.world.queue.now_us, NEW, ["B1"])
    network.run(30)
    network.add_clients(NEW, network.world.queue.now_us, "those of today")
    network.run(20)
    assert network.deaf(*FOUNDERS, "those of today") == []


@pytest.mark.parametrize("system", GROWING)
def test_a_broker_joins_over_a_joined_one_whose_clock_is_ahead(system: str) -> None:
    network = Network(system, is_listed=False, ahead_us=200 * SECOND_US)
    network.run(5)
    for broker, link in ((NEW, "B2"), ("J2", NEW)):
        network.world.add_broker(network.world.queue.now_us, broker, [link])
        network.run(20)
        network.add_clients(broker, network.world.queue.now_us)
        network.run(20)
    assert network.deaf(*FOUNDERS, NEW, "J2") == []
