"""A broker that is away as its neighbour leaves, and as the one that stands in leaves in turn."""

from __future__ import annotations

from functools import partial

import pytest

from shoal.broker.effects import EndLink, Leave, LinkChanged, LinkState, TimerFired
from shoal.overlays.registry import strategy_factory
from shoal.overlays.self_organising.parameters import Mode, Parameters
from shoal.overlays.self_organising.quiet_ring.ring_messages import Greeting, Standing
from shoal.overlays.tree.messages import Absent, Flushed, Prepare, Stop, Succeeded
from shoal.simulation.world import World
from tests.overlays.tree.test_absent import leave
from tests.overlays.tree.told import Told, received
from tests.seeds.networks.random_network import SECOND_US

UP, FAILED, ENDED = LinkState.UP, LinkState.FAILED, LinkState.ENDED
LEAVE = TimerFired(("leave",))
LATER_US = 200 * SECOND_US


def told(name: str, *neighbours: str) -> Told:
    return Told(name, *neighbours, system="self_organising")


def is_neighbour(broker: Told, name: str) -> bool:
    return bool(broker.machine.strategy.tree.is_neighbour(name))  # type: ignore[attr-defined]


def heir() -> Told:
    """T has come in S's place, and S in L's; B6 was away all the time."""
    former = told("S", "L", "T")
    former.now_us = 1_000
    former.hears(*received("L", Absent(1, {"B6": ()})), LinkChanged("L", ENDED))
    former.now_us += LATER_US
    former.hears(Leave())
    while not any(isinstance(each, EndLink) for each in former.did):
        former.now_us += SECOND_US
        former.hears(LEAVE)
    (absent,) = [each for each in former.says("T") if isinstance(each, Absent)]
    broker = told("T", "S", "U")
    broker.now_us = former.now_us
    return broker.hears(*received("S", absent), LinkChanged("S", ENDED), LinkChanged("B6", UP))


def meet(broker: Told, other: Told) -> None:
    other.hears(LinkChanged("T", UP), *received("T", *broker.says("B6")))
    broker.hears(*received("B6", *other.says("T")))


def test_who_had_parted_from_the_first_declines_the_second() -> None:
    """It took the second for a neighbour as well, which closed a cycle."""
    other = told("B6", "L").hears(LinkChanged("B7", UP))
    other.hears(*received("L", Prepare(1, "B7", ())), LinkChanged("B7", UP))
    other.hears(*received("L", Stop(1, 1), Flushed(1)), *received("B7", Succeeded(1, 0)))
    meet(heir(), other)
    assert is_neighbour(other, "B7")
    assert not is_neighbour(other, "T")


def test_who_has_not_heard_that_somebody_stood_in_counts_from_the_first() -> None:
    """It had parted from S long ago, and refused the only link that it would ever be offered."""
    other = told("B6", "L", "S")
    other.hears(*received("S", Greeting(Standing(False, 99))), LinkChanged("S", ENDED))
    other.hears(LinkChanged("L", FAILED))
    meet(heir(), other)
    assert is_neighbour(other, "T")


def test_who_has_moved_while_the_heir_was_away_is_told_in_whose_place_it_stands() -> None:
    """The heir said the link of before, which the other had parted from, and that was all."""
    broker = told("T", "S", "U", "B6").hears(LinkChanged("B6", FAILED))
    broker.now_us = LATER_US
    broker.hears(*received("S", Absent(1, {"B6": ()})), LinkChanged("S", ENDED))
    broker.hears(LinkChanged("B6", UP))
    other = told("B6", "S", "T")
    other.hears(*received("T", Greeting(Standing(False, 99))), LinkChanged("T", ENDED))
    other.hears(LinkChanged("S", FAILED))
    meet(broker, other)
    assert is_neighbour(other, "T")
    assert is_neighbour(broker, "B6")


class _Far:
    """O is far away."""

    def latency_us(self, one: str, other: str) -> int:
        return 150_000 if "O" in (one, other) else 10_000


@pytest.mark.parametrize("leave_us", [31_000_000, 31_370_000, 31_385_000, 31_700_000])
def test_who_leaves_adopts_nobody(leave_us: int) -> None:
    """B2, which leaves, took O in for B3: it was alone for ever."""
    parameters = Parameters(mode=Mode.EXCHANGE, interval_us=SECOND_US, least_gain_percent=100)
    links = [("B1", "B2"), ("B2", "B3"), ("B2", "B4"), ("B3", "O")]
    world = World(links, strategy_factory("self_organising", parameters), _Far(), seed=1)
    world.cut(20 * SECOND_US, "B3", "O")
    world.heal(60 * SECOND_US, "B3", "O")
    world.queue.push(leave_us, partial(leave, world), "B2")
    world.run(120 * SECOND_US)
    assert "B2" in world.departures
    assert [*world.brokers["O"].machine.strategy.tree.propagation.neighbours]  # type: ignore[union-attr,attr-defined]
