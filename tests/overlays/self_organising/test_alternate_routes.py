"""Alternate routes of subscriptions are dropped again, by every incarnation of a broker.

They arise from an exchange that is heard of too late. A broker with one takes part in no exchange
and does not leave, so none may stay.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shoal.broker.effects import Received
from shoal.broker.messages import Subscribe, Unsubscribe
from shoal.overlays.tree.oracle import check_tables, expected_tables
from shoal.simulation.world import World
from tests.examples import at_length, one_in
from tests.forced_exchanges import Exchanged, Refused
from tests.overlays.self_organising.link_reconfiguration.test_link_reconfiguration import Cycle
from tests.overlays.self_organising.test_late_decisions import STEP_US, LateDecision
from tests.seeds.networks.random_network import SECOND_US

# The decider returns: cycles, the link to remove, seeds.
CASES = [(6, 1, 2), (6, 2, 2), (6, 3, 2), (5, 3, 4), (5, 4, 4), (6, 3, 5)]
# (broker with the alternate route, its neighbour, its last hop).
Alternates = set[tuple[str, str, str]]
# Moments of one case: some ten within 0.1 s.
MOMENTS = 12


def running_brokers(news: LateDecision) -> list[str]:
    return [name for name, node in news.world.brokers.items() if node.running]


def alternates(news: LateDecision) -> Alternates:
    found = set()
    for name in running_brokers(news):
        tree = news.network.strategy(name).tree
        for id, messages_sent in tree.propagation.alternate_routes._alternates.items():
            last_hop = tree.tables.subscriptions[id].last_hop
            found |= {(name, str(hop), str(last_hop)) for hop in messages_sent}
    return found


def until_alternates(case: tuple[int, int, int], count: int) -> tuple[LateDecision, Alternates]:
    """Run until alternate routes appear for the so-many-th time."""
    links, remove, seed = case
    news = LateDecision(links, remove, 0, seed)
    at_us = news.decide()
    news.world.crash(at_us, "B0")
    news.world.restart(at_us + 13 * SECOND_US, "B0")
    now_us, before = at_us + 13 * SECOND_US, Alternates()
    while now_us < at_us + 16 * SECOND_US:
        now_us += STEP_US
        news.world.run(until_us=now_us)
        found = alternates(news)
        if found - before:
            count -= 1
            if count < 0:
                return news, found - before
        before = found
    return news, Alternates()


def _crash(place: int) -> Callable[[World, tuple[str, str, str]], None]:
    return lambda world, word: world.crash(world.queue.now_us, word[place])


def _crash_and_restart(place: int) -> Callable[[World, tuple[str, str, str]], None]:
    def happen(world: World, word: tuple[str, str, str]) -> None:
        world.crash(world.queue.now_us, word[place])
        world.restart(world.queue.now_us + 2 * SECOND_US, word[place])

    return happen


def _cut(place: int) -> Callable[[World, tuple[str, str, str]], None]:
    return lambda world, word: world.cut(world.queue.now_us, word[0], word[place])


def _cut_and_heal(place: int) -> Callable[[World, tuple[str, str, str]], None]:
    def happen(world: World, word: tuple[str, str, str]) -> None:
        world.cut(world.queue.now_us, word[0], word[place])
        world.heal(world.queue.now_us + 2 * SECOND_US, word[0], word[place])

    return happen


def _leave(place: int) -> Callable[[World, tuple[str, str, str]], None]:
    return lambda world, word: world.remove_broker(world.queue.now_us, word[place])


LIVES = {
    "nothing": lambda world, word: None,
    "its neighbour dies": _crash(1),
    "its neighbour dies and comes back": _crash_and_restart(1),
    "its neighbour leaves": _leave(1),
    "its link is cut for good": _cut(1),
    "its link is cut and healed": _cut_and_heal(1),
    "the last hop dies": _crash(2),
    "the last hop dies and comes back": _crash_and_restart(2),
    "the last hop leaves": _leave(2),
    "its last hop's link is cut for good": _cut(2),
    "its last hop's link is cut and healed": _cut_and_heal(2),
    "its broker dies and comes back": _crash_and_restart(0),
    "its broker leaves": _leave(0),
}


def _live(case: tuple[int, int, int], life: str, moments: int) -> None:
    for count in range(moments):
        news, found = until_alternates(case, count)
        if not found:
            assert count
            return
        world = news.world
        LIVES[life](world, min(found))
        world.run(until_us=world.queue.now_us + 60 * SECOND_US)
        assert not alternates(news)
        assert not [
            each for each in running_brokers(news) if news.network.strategy(each).overlay.busy
        ]


@pytest.mark.parametrize("life", one_in(3, LIVES))
@pytest.mark.parametrize("case", [CASES[1], *at_length([(CASES[2],)])])
def test_alternate_routes_are_dropped(case: tuple[int, int, int], life: str) -> None:
    _live(case, life, 2)


@pytest.mark.soak
@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("case", CASES)
def test_alternate_routes_are_dropped_at_any_moment(case: tuple[int, int, int], life: str) -> None:
    _live(case, life, MOMENTS)


def test_no_tables_turn_if_an_alternate_route_appears_while_quiesced() -> None:
    """One of the two routes is unknown to the rest of the cycle, so it would never be withdrawn."""
    network = Cycle(3)
    world, node = network.world, network.world.brokers["B1"]
    (interest,) = (each for each, home in network.interests if home == network.beside["B1"])
    begun_us = world.queue.now_us
    network.exchange(2, until_us=begun_us)
    for now_us in range(begun_us, begun_us + SECOND_US, STEP_US):
        world.run(until_us=now_us)
        if network.strategy("B1").overlay._ring.is_quiesced:
            break
    node.bring(now_us, Received("B2", Subscribe(interest)))
    world.run(until_us=now_us + SECOND_US)
    (record,) = world.trace.records
    assert record == Refused("B1 has two words of one subscription")
    taken_back = Received("B2", Unsubscribe(interest.id))
    world.queue.push(now_us + SECOND_US, node.bring, taken_back)
    world.run(until_us=now_us + SECOND_US)
    network.exchange(2)
    assert isinstance(world.trace.records[-1], Exchanged)
    expected = expected_tables(world.links, network.advertised, network.interests)
    tables = {name: network.strategy(name).tables for name in world.brokers}
    assert not check_tables(expected, tables)
