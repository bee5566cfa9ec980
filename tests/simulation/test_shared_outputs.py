"""A broker that sends one copy at a time: in turns, with loads by link, and nothing after a cut."""

from __future__ import annotations

import pytest

from shoal.broker.effects import LinkLoad
from shoal.overlays.registry import strategy_factory
from shoal.simulation.event_queue import EventQueue
from shoal.simulation.links.shared_outputs import OutputTurn, SharedOutputs
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.service import ServiceCosts
from shoal.simulation.world import World
from tests.broker.transcript import advertisement, publish, subscription


class Broker:
    """The sending turns of one broker, and its sent copies with their times."""

    def __init__(self, links: int) -> None:
        self.queue = EventQueue()
        outputs = SharedOutputs(self.queue)
        self.turns = [outputs.turn() for _ in range(links)]
        self.out: list[tuple[int, str]] = []

    def send(self, turn: OutputTurn, name: str, ready_us: int = 0, units: int = 1) -> None:
        turn.send(name, units, ready_us, 10 * units, self._arrive, 1)

    def _arrive(self, now_us: int, name: str) -> None:
        self.out.append((now_us, name))


def test_a_long_queue_delays_others_by_one_copy_only() -> None:
    broker = Broker(2)
    for number in range(5):
        broker.send(broker.turns[0], f"a{number}")
    broker.send(broker.turns[1], "b", ready_us=15)
    broker.queue.run_until(1_000)
    assert broker.out == [(11, "a0"), (21, "a1"), (31, "b"), (41, "a2"), (51, "a3"), (61, "a4")]


def test_loads_are_of_each_link() -> None:
    broker = Broker(2)
    one, other = broker.turns
    broker.send(one, "a", units=2)
    broker.send(one, "b")
    broker.send(other, "c")
    broker.queue.run_until(25)
    assert (one.load(), other.load()) == (LinkLoad(3, 2, 1), LinkLoad(1, 0, 1))
    assert (one.measure_us(), other.measure_us()) == (0, 20)
    broker.queue.run_until(100)
    assert (one.load(), other.load()) == (LinkLoad(0, 1, 0), LinkLoad(0, 1, 0))
    assert one.measure_us() == 30
    assert one.empty_us() == 41


def test_a_lost_link_sends_nothing_and_blocks_no_other() -> None:
    broker = Broker(2)
    one, other = broker.turns
    for name in ("a", "b"):
        broker.send(one, name)
    broker.send(one, "late", ready_us=12)
    broker.send(other, "c")
    broker.queue.run_until(5)
    assert one.empty_us() > broker.queue.now_us
    one.close()
    broker.queue.run_until(100)
    assert broker.out == [(21, "c")]


@pytest.mark.parametrize(("shared", "latest_us"), [(True, 301_200), (False, 101_200)])
def test_a_worlds_brokers_share_their_outputs_if_configured(shared: bool, latest_us: int) -> None:
    """A publication for three neighbours leaves one copy after the other."""
    costs = ServiceCosts(transmission_us=100_000, shared_outputs=shared)
    links = [("A", neighbour) for neighbour in "BCD"]
    world = World(links, strategy_factory("tree"), ConstantUnderlay(1_000), costs=costs)
    world.add_publisher("P", "A", "A")
    world.advertise(0, advertisement("p"))
    for neighbour in "BCD":
        row = subscription(neighbour, client=f"S{neighbour}")
        world.add_subscriber(row.client, neighbour)
        world.subscribe(2_000_000, neighbour, row)
    world.request(5_000_000, "P", publish(1))
    world.run(9_000_000)
    found = [row.delivered_us - 5_000_100 for row in world.trace.deliveries]
    assert len(found) == 3
    assert max(found) == latest_us - 100
