"""The tree is repaired when a neighbour is lost for good, and stays one tree if it returns."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from shoal.broker.effects import Effect, LinkState, OpenLink, Started
from shoal.broker.messages import Publish
from shoal.broker.strategy import BrokerContext
from shoal.overlays.registry import strategy_factory
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import Greeting, LinkStanding
from shoal.overlays.self_organising.links.healing import HEAL, HEAL_US
from shoal.overlays.self_organising.parameters import Mode, SelfOrganisingParameters
from shoal.overlays.self_organising.protocol import SelfOrganising
from shoal.overlays.tree.oracle import check_tables, expected_tables
from shoal.simulation.world import World
from tests.broker.transcript import advertisement, publication, subscription
from tests.examples import examples
from tests.seeds.faults.random_exchanges import is_tree
from tests.seeds.networks.random_network import SECOND_US, SeededUnderlay

LINE = [("A", "B"), ("B", "C"), ("C", "D")]
STAR = [("A", "B"), ("A", "C"), ("A", "D"), ("D", "E")]
FAULT_US = 20 * SECOND_US
HEALED_US = FAULT_US + 3 * HEAL_US


class Network:
    """A publisher and a subscriber of everything at each broker."""

    def __init__(self, links: list[tuple[str, str]], seed: int = 1, **rules: object) -> None:
        # Links are only exchanged if that saves everything.
        parameters = SelfOrganisingParameters(
            mode=Mode.EXCHANGE, interval_us=SECOND_US, least_gain_percent=100, **rules
        )
        factory = strategy_factory("self_organising", parameters)
        self.world = World(links, factory, SeededUnderlay(seed), seed=seed)
        self.brokers = sorted({end for ends in links for end in ends})
        self.sequence = 0
        self.homes = []
        for name in self.brokers:
            promise = advertisement(f"a{name}", publisher=f"P{name}")
            interest = subscription(f"s{name}", client=f"C{name}")
            self.world.add_publisher(promise.publisher, name, name)
            self.world.advertise(0, promise)
            self.world.add_subscriber(interest.client, name)
            self.world.subscribe(0, name, interest)
            self.homes.append((promise, interest, name))
        self.world.run(until_us=FAULT_US)

    def reached(self, brokers: list[str]) -> bool:
        """Whether a publication at each of these brokers reaches all of them once."""
        world, now_us = self.world, self.world.queue.now_us
        self.sequence += 1
        world.trace.deliveries.clear()
        for name in brokers:
            row = publication(self.sequence, f"P{name}", x=self.sequence)
            world.request(now_us, f"P{name}", Publish((row,)))
        world.run(until_us=now_us + 3 * SECOND_US)
        found = sorted(
            (row.publication.publisher[1:], row.broker) for row in world.trace.deliveries
        )
        return found == sorted((source, target) for source in brokers for target in brokers)

    def problems(self) -> list[str]:
        """Differences from one tree with the oracle's tables."""
        links = sorted(self.world.links)
        if not is_tree(self.brokers, links):
            return [f"links are {links}"]
        nodes = self.world.brokers.items()
        up = {tuple(sorted((name, other))) for name, node in nodes for other in node.links}
        problems = [] if up == {*links} else [f"up are {sorted(up)}"]
        expected = expected_tables(
            links,
            [(promise, home) for promise, _, home in self.homes],
            [(interest, home) for _, interest, home in self.homes],
        )
        tables = {name: node.machine.strategy.tables for name, node in nodes}  # type: ignore[attr-defined]
        return problems + check_tables(expected, tables)


@pytest.mark.parametrize("cut", LINE)
def test_a_link_that_stays_broken_is_replaced(cut: tuple[str, str]) -> None:
    network = Network(LINE)
    network.world.cut(FAULT_US, *cut)
    network.world.run(until_us=HEALED_US)
    assert network.reached(network.brokers)
    assert not network.problems()
    assert tuple(sorted(cut)) not in network.world.links
    network.world.heal(HEALED_US + 10 * SECOND_US, *cut)
    network.world.run(until_us=HEALED_US + 20 * SECOND_US)
    assert not network.problems()
    assert network.reached(network.brokers)


@pytest.mark.parametrize("dead", ["A", "D"])
def test_a_broker_that_stays_down_is_linked_around_and_told_on_its_return(dead: str) -> None:
    network = Network(STAR)
    others = [name for name in network.brokers if name != dead]
    network.world.crash(FAULT_US, dead)
    network.world.run(until_us=HEALED_US)
    assert network.reached(others)
    network.world.restart(HEALED_US + 5 * SECOND_US, dead)
    network.world.run(until_us=HEALED_US + 20 * SECOND_US)
    assert not network.problems()
    assert network.reached(network.brokers)


def test_a_broker_that_returns_soon_is_not_replaced() -> None:
    network = Network(STAR)
    network.world.crash(FAULT_US, "A")
    network.world.restart(FAULT_US + HEAL_US // 2, "A")
    network.world.run(until_us=HEALED_US)
    assert sorted(network.world.links) == sorted(STAR)
    assert not network.problems()


@pytest.mark.parametrize("rules", [{"frozen": True}, {"forbidden": (("A", "C"), ("B", "D"))}])
def test_the_operator_may_forbid_repairs(rules: dict[str, object]) -> None:
    network = Network(LINE, **rules)
    network.world.cut(FAULT_US, "B", "C")
    network.world.run(until_us=HEALED_US)
    assert sorted(network.world.links) == LINE


@pytest.mark.parametrize("has_asked", [False, True])
def test_a_broker_told_that_its_lost_link_was_removed_seeks_no_replacement(has_asked: bool) -> None:
    """Otherwise a second replacement would close a cycle.

    If it has asked already, the other end may have agreed to another broker's request.
    """
    parameters = SelfOrganisingParameters(mode=Mode.EXCHANGE)
    lone = SelfOrganising(BrokerContext("B1", ("B2", "B3"), Random(1)), parameters)
    out: list[Effect] = []
    lone.start(Started(), 10, out)
    lone.overlay.healing.on_broadcast(("B9", "B2"))
    lone.link("B2", LinkState.FAILED, 20, out)
    if has_asked:
        lone.timer((HEAL, "B2"), 30, out)
        lone.link("B9", LinkState.FAILED, 40, out)
    lone.link("B2", LinkState.UP, 50, out)
    lone.receive("B2", Greeting(LinkStanding(False, 45), ()), 60, out)
    out.clear()
    lone.timer((HEAL, "B2"), 70, out)
    assert (OpenLink("B9") in out) == has_asked


@pytest.mark.parametrize("seed", range(examples(12)))
def test_long_cuts_and_crashes_end_in_one_tree(seed: int) -> None:
    """Cuts and crashes that last about as long as a repair takes."""
    random = Random(f"healing/{seed}")
    names = [f"B{number}" for number in range(random.randint(3, 8))]
    links = [(names[random.randrange(place)], names[place]) for place in range(1, len(names))]
    network = Network(links, seed)
    world, last_us = network.world, FAULT_US
    for _ in range(random.randint(1, 4)):
        at_us = FAULT_US + random.randint(0, 4 * HEAL_US)
        until_us = at_us + random.randint(HEAL_US // 2, 4 * HEAL_US)
        if random.random() < 0.5:
            ends = random.choice([*links, *combinations(names, 2)])
            world.cut(at_us, *ends)
            world.heal(until_us, *ends)
        else:
            broker = random.choice(names)
            world.crash(at_us, broker)
            world.restart(until_us, broker)
        last_us = max(last_us, until_us)
    world.run(until_us=last_us + 6 * HEAL_US)
    assert not network.problems()
    assert network.reached(network.brokers)
