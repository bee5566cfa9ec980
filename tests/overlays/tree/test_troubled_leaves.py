"""Leaves in which links fail at the worst moment, with neighbours that are away, or far."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from shoal.broker.effects import Effect, EndLink, Input, LinkChanged, LinkState, ResetLink, Send
from shoal.overlays.registry import strategy_factory
from shoal.overlays.tree.messages import Absent, Prepare, Prepared, Refuse, Stayed
from shoal.simulation.world import World
from tests.overlays.tree.test_absent import (
    BACK_US,
    END_US,
    FAULT_US,
    begin,
    is_tree,
    leave,
    systems,
)
from tests.overlays.tree.test_succession import all_stopped, stopping
from tests.overlays.tree.told import Told, received
from tests.seeds.networks.random_network import SECOND_US, SeededUnderlay

UP, FAILED, ENDED = LinkState.UP, LinkState.FAILED, LinkState.ENDED
LINKS = [("A", "B"), ("B", "C"), ("B", "X")]
TREES = pytest.mark.parametrize("system", systems())
LATE = pytest.mark.parametrize("late_us", [0, 2_000])


def once(
    world: World, name: str, says: Callable[[Effect], bool], then: Callable[[int], None]
) -> None:
    """Something happens as soon as a broker has said that."""
    node, said = world.brokers[name], list[int]()
    handle = node._handle

    def watched(input: Input, now_us: int) -> list[Effect]:
        out = handle(input, now_us)
        if not said and any(map(says, out)):
            said.append(now_us)
            then(now_us)
        return out

    node._handle = watched


def is_last_word(effect: Effect) -> bool:
    return isinstance(effect, Send) and isinstance(effect.message, Absent)


@TREES
@LATE
def test_who_is_away_is_left_to_somebody_though_the_last_link_fails(
    system: str, late_us: int
) -> None:
    """It was left to nobody, and cut off for good; X is away for longer than anybody waits."""
    world = begin(system, LINKS)
    once(world, "B", is_last_word, lambda now_us: world.cut(now_us + late_us, "A", "B"))
    once(world, "B", is_last_word, lambda now_us: world.heal(now_us + 5 * SECOND_US, "A", "B"))
    world.restart(BACK_US + 60 * SECOND_US, "X")
    world.run(END_US + 240 * SECOND_US)
    assert "B" in world.departures
    assert is_tree(list(world.links), {"A", "C", "X"})


@TREES
@LATE
def test_who_is_away_is_left_to_somebody_though_the_centre_is_killed(
    system: str, late_us: int
) -> None:
    world = begin(system, LINKS)

    def kill(now_us: int) -> None:
        world.crash(now_us + late_us, "A")
        world.restart(now_us + 5 * SECOND_US, "A")

    once(world, "B", is_last_word, kill)
    world.restart(BACK_US + 60 * SECOND_US, "X")
    world.run(END_US + 240 * SECOND_US)
    assert "B" in world.departures
    assert is_tree(list(world.links), {"A", "C", "X"})


@TREES
@pytest.mark.parametrize("what", ["cut", "kill"])
def test_a_leaf_keeps_its_last_link_that_fails_when_another_is_back(system: str, what: str) -> None:
    """It went on with the one that was back, and the other end of the link was left alone."""
    world = begin(system, [("A", "B"), ("B", "X")])

    def fail(now_us: int) -> None:
        world.restart(now_us, "X")
        at_us, until_us = now_us + 2_000, now_us + 100_000
        if what == "cut":
            world.cut(at_us, "A", "B")
            world.heal(until_us, "A", "B")
        else:
            world.crash(at_us, "A")
            world.restart(until_us, "A")

    once(world, "B", is_last_word, fail)
    world.run(END_US + 120 * SECOND_US)
    assert "B" in world.departures
    assert world.links == [("A", "X")]


@pytest.mark.parametrize("links", [[("A", "B"), ("A", "C")], [("A", "B"), ("B", "C")]])
@pytest.mark.parametrize("early_us", [15_000, 25_000, 40_000])
def test_who_joins_as_a_broker_ends_its_last_link_is_not_left_alone(
    links: list[tuple[str, str]], early_us: int
) -> None:
    """B left once more, as J's only neighbour.  A plain tree's link ends at once here."""
    system, said = "self_organising exchange", list[int]()
    for joins in (False, True):
        world = World(links, systems()[system], SeededUnderlay(1), seed=1)
        once(world, "B", lambda effect: effect == EndLink("A"), said.append)
        world.queue.push(FAULT_US, partial(leave, world), "B")
        if joins:
            world.add_broker(said[0] - early_us, "J", ["B"])
        world.run(FAULT_US + 60 * SECOND_US)
    assert "B" in world.departures
    assert is_tree(list(world.links), {"A", "C", "J"})


@TREES
@pytest.mark.parametrize("early_us", [0, 1_000, 5_000, 20_000])
def test_nobody_leaves_while_a_neighbour_that_is_back_has_yet_to_greet(
    system: str, early_us: int
) -> None:
    """It was left to another, and then told that its link had ended as any other's."""
    links, said = [("A", "B"), ("B", "X")], list[int]()
    world = begin(system, links)
    once(world, "B", is_last_word, said.append)
    world.run(BACK_US)
    world = begin(system, links)
    world.restart(said[0] - SECOND_US - early_us, "X")
    world.run(END_US)
    assert "B" in world.departures
    assert world.links == [("A", "X")]


@TREES
def test_who_has_moved_is_left_to_nobody(system: str) -> None:
    """B's link to X failed as it was to end.  A minute later B left X, as one that is away, to A,
    who had joined meanwhile: a cycle, in which a plain tree's messages go round for ever.
    """
    world = World([("B", "C"), ("B", "X")], systems()[system], SeededUnderlay(1), seed=1)

    def cut(now_us: int) -> None:
        world._wiring.cut(now_us, ("B", "X"))  # before anything else happens
        world.heal(now_us + 3 * SECOND_US, "B", "X")

    once(world, "X", lambda effect: effect == EndLink("B"), cut)
    world.queue.push(FAULT_US, partial(leave, world), "B")
    world.add_broker(FAULT_US + 20 * SECOND_US, "A", ["B"])
    world.run(FAULT_US + 160 * SECOND_US)
    assert "B" in world.departures
    assert is_tree(list(world.links), {"A", "C", "X"})


@pytest.mark.parametrize(
    ("system", "moved"),
    [("tree", ("B5", "B6")), ("grape", ("B5", "B6")), ("self_organising", ("B5",))],
)
def test_neighbours_say_who_of_the_absent_has_moved(system: str, moved: tuple[str, ...]) -> None:
    """Where links are remembered, who is away may have moved from here, too."""
    broker = Told("B3", "B2", "B5", "B6", system=system).hears(LinkChanged("B6", FAILED))
    broker.hears(*received("B2", Prepare(1, "B1", (), ("B4", "B5", "B6"))))
    assert broker.says("B2") == [Prepared(1, moved)]


@pytest.mark.parametrize("latency_us", [250_000, 600_000])
def test_brokers_that_are_far_from_each_other_leave(latency_us: int) -> None:
    """Each attempt was given up after two seconds, in which no more than a half of it is done."""

    class Far:
        def latency_us(self, one: str, other: str) -> int:
            return latency_us

    world = World(LINKS, strategy_factory("tree"), Far(), seed=1)
    world.queue.push(SECOND_US, partial(leave, world), "B")
    world.run(120 * SECOND_US)
    assert "B" in world.departures


@pytest.mark.parametrize("system", ["tree", "grape"])
def test_who_has_stayed_is_told_of_while_it_is_a_neighbour(system: str) -> None:
    """The centre ended a link of the tree's, to who had come to it since."""
    leaver = all_stopped(stopping(system), 1)
    leaver.hears(LinkChanged("B4", ENDED), *received("B3", Refuse(1)))
    assert ResetLink("B1") in leaver.did
    for stayed in ([Stayed(1, ("B3",))], []):
        leaver.hears(LinkChanged("B1", FAILED), LinkChanged("B1", UP))
        assert [each for each in leaver.says("B1") if isinstance(each, Stayed)] == stayed
        leaver.hears(LinkChanged("B3", ENDED))
