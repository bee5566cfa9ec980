"""Clients of a simulated world go on from brokers that leave."""

from __future__ import annotations

import pytest

from shoal.overlays.registry import strategy_factory
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.refuge import PAUSE_US
from shoal.simulation.world import World
from tests.broker.transcript import advertisement, publish, subscription
from tests.systems import eager

SECOND_US = 1_000_000
# P goes on at its refuge after three pauses.
LEAVES_US = 10 * SECOND_US
RESUMES_US = LEAVES_US + 3 * PAUSE_US


def world() -> World:
    """P at B3 of a line, C at B1; B3 leaves, and P goes to B2."""
    brokers = ("B1", "B2", "B3")
    factory = strategy_factory("bluedove", eager("bluedove", brokers=brokers))
    made = World((("B1", "B2"), ("B2", "B3")), factory, ConstantUnderlay(1_000))
    made.add_publisher("P", "B3", "home of P")
    made.add_subscriber("C", "home of C")
    made.advertise(0, advertisement("a"))
    made.subscribe(0, "B1", subscription("s"))
    made.remove_broker(LEAVES_US, "B3")
    return made


@pytest.mark.parametrize("before_us", [1, PAUSE_US // 2, PAUSE_US - 1, PAUSE_US + 1])
def test_a_publisher_goes_on_from_a_refuge_that_leaves(before_us: int) -> None:
    """Also while it pauses there, and has not resumed."""
    made = world()
    made.remove_broker(RESUMES_US - before_us, "B2")
    made.request(RESUMES_US, "P", publish(1))
    made.run(RESUMES_US + 60 * SECOND_US)
    assert made.departures.keys() == {"B2", "B3"}
    assert made.publisher_broker("P") == "B1"
    assert [row.publication.sequence for row in made.trace.deliveries] == [1]


def test_a_publisher_that_leaves_while_it_pauses_drops_its_held_publications() -> None:
    made = world()
    made.request(RESUMES_US - PAUSE_US, "P", publish(1))
    made.leave(RESUMES_US - PAUSE_US // 2, "P")
    made.run(RESUMES_US + 60 * SECOND_US)
    assert not made.trace.deliveries
