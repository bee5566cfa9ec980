"""Who is away for long while its only neighbour leaves the network finds the others."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from shoal.broker.effects import Leave, LinkChanged, LinkState, OpenLink, Received
from shoal.broker.machine import Broker
from shoal.broker.strategy import StrategyFactory
from shoal.overlays.registry import strategy_factory
from shoal.overlays.self_organising.parameters import Mode, Parameters
from shoal.overlays.tree.messages import Absent
from shoal.simulation.world import World
from tests.examples import examples
from tests.seeds.networks.random_network import SECOND_US, SeededUnderlay

FAULT_US = 20 * SECOND_US
# Above how long who leaves waits for neighbours that are away.
BACK_US = FAULT_US + 90 * SECOND_US
END_US = BACK_US + 60 * SECOND_US

Links = list[tuple[str, str]]


def systems() -> dict[str, StrategyFactory]:
    found = {"tree": strategy_factory("tree"), "grape": strategy_factory("grape")}
    for mode in Mode:
        parameters = Parameters(mode=mode, interval_us=SECOND_US)
        found[f"self_organising {mode.value}"] = strategy_factory("self_organising", parameters)
    return found


def begin(system: str, links: Links, leavers: str = "B") -> World:
    """X is killed, and then each of these leaves."""
    world = World(links, systems()[system], SeededUnderlay(1), seed=1)
    world.crash(FAULT_US, "X")
    for number, name in enumerate(leavers):
        at_us = FAULT_US + (1 + 70 * number) * SECOND_US
        world.queue.push(at_us, partial(leave, world), name)
    return world


def leave(world: World, now_us: int, name: str) -> None:
    world.brokers[name].bring(now_us, Leave())


def is_tree(links: Links, brokers: set[str]) -> bool:
    reached = {min(brokers)}
    for _ in brokers:
        reached |= {end for link in links if reached & {*link} for end in link}
    return reached == brokers and len(links) == len(brokers) - 1


@pytest.mark.parametrize("system", systems())
@pytest.mark.parametrize(
    "links",
    [
        [("A", "B"), ("B", "X")],
        [("A", "B"), ("B", "C"), ("B", "X")],
        [("A", "B"), ("B", "X"), ("C", "X"), ("D", "X")],
    ],
    ids=["leaf", "inner", "others behind"],
)
def test_who_is_back_finds_the_network(system: str, links: Links) -> None:
    world = begin(system, links)
    world.restart(BACK_US, "X")
    world.run(END_US)
    assert "B" in world.departures
    assert is_tree(list(world.links), {end for link in links for end in link} - {"B"})
    assert all(node.machine.strategy.is_ready for node in world.brokers.values())


@pytest.mark.parametrize("system", systems())
def test_who_inherits_an_absent_broker_leaves_it_to_the_next(system: str) -> None:
    world = begin(system, [("A", "B"), ("A", "C"), ("B", "X")], leavers="BA")
    world.restart(BACK_US + 100 * SECOND_US, "X")
    world.run(END_US + 100 * SECOND_US)
    assert {*world.departures} == {"A", "B"}
    assert world.links == [("C", "X")]


@pytest.mark.parametrize("system", systems())
def test_who_is_back_as_its_neighbour_leaves_is_linked_once(system: str) -> None:
    """Whichever of the two comes first, and with whatever under way."""
    links = [("A", "B"), ("B", "C"), ("B", "X")]
    world = begin(system, links)
    world.run(BACK_US)
    left_us = world.departures["B"]
    for early_us in range(-SECOND_US, SECOND_US, SECOND_US // 5):
        world = begin(system, links)
        world.restart(left_us - early_us, "X")
        world.run(END_US)
        assert is_tree(list(world.links), {"A", "C", "X"}), early_us


@pytest.mark.parametrize("state", LinkState)
def test_only_when_the_leaver_has_gone_its_neighbours_are_opened(state: LinkState) -> None:
    """A link that fails comes back, and the leaver may stay."""
    broker = Broker("A", ("B",), strategy_factory("tree"))
    broker.handle(Received("B", Absent(1, {"X": (), "A": ()})), 2)
    effects = broker.handle(LinkChanged("B", state), 3)
    opened = [OpenLink("X", is_lasting=True)] if state is LinkState.ENDED else []
    assert [each for each in effects if isinstance(each, OpenLink)] == opened


@pytest.mark.parametrize("system", systems())
def test_who_is_all_that_absent_brokers_have_in_common_waits_for_one(system: str) -> None:
    world = begin(system, [("B", "X"), ("B", "Y")])
    world.crash(FAULT_US, "Y")
    world.restart(BACK_US + 100 * SECOND_US, "X")
    world.restart(BACK_US + 200 * SECOND_US, "Y")
    world.run(BACK_US + 100 * SECOND_US)
    assert not world.departures
    world.run(END_US + 200 * SECOND_US)
    assert world.links == [("X", "Y")]


@pytest.mark.parametrize("system", systems())
@pytest.mark.parametrize("seed", [*range(examples(15)), 73, 149, 315, 393])
def test_brokers_are_away_while_others_leave(seed: int, system: str) -> None:
    """The last four: one lay between two that were away."""
    random = Random(f"absent/{seed}")
    names = [f"N{number}" for number in range(random.randint(4, 8))]
    links = [
        tuple(sorted((names[random.randrange(number)], names[number])))
        for number in range(1, len(names))
    ]
    world = World(links, systems()[system], SeededUnderlay(seed), seed=seed)
    away = random.sample(names, random.choice((1, 1, 2)))
    others = [name for name in names if name not in away]
    for name in away:
        at_us = random.randint(15, 40) * SECOND_US
        world.crash(at_us, name)
        world.restart(at_us + random.randint(20 * SECOND_US, 160 * SECOND_US), name)
    for name in random.sample(others, random.randint(1, max(1, len(others) - 1))):
        at_us = random.randint(20 * SECOND_US, 120 * SECOND_US)
        world.queue.push(at_us, partial(leave, world), name)
    world.run(7 * 60 * SECOND_US)
    assert is_tree(list(world.links), {*names} - {*world.departures})
    assert all(node.machine.strategy.is_ready for node in world.brokers.values())
