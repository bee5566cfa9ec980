"""A cycle in the brokers' records, after all were killed during an exchange."""

from __future__ import annotations

from itertools import pairwise

import pytest

from shoal.broker.strategy import ProtocolError
from shoal.language import parse
from shoal.model import Advertisement, Subscription
from shoal.overlays.registry import strategy_factory
from shoal.overlays.self_organising.links.cycles import CycleRound
from shoal.overlays.self_organising.parameters import Mode, SelfOrganisingParameters
from shoal.overlays.system import Picture
from shoal.overlays.tree.oracle import table_problems
from shoal.simulation.world import World
from tests.contract.drivers import _Near

SECOND_US = 1_000_000


def world(names: list[str], *more: tuple[str, str], pinned: tuple[tuple[str, str], ...]) -> World:
    """Brokers linked in a ring, and more, with a publisher and a subscriber, after a while."""
    parameters = SelfOrganisingParameters(
        mode=Mode.EXCHANGE, interval_us=SECOND_US, pinned=pinned, least_gain_percent=100
    )
    links = [*pairwise([*names, names[0]]), *more]
    found = World(links, strategy_factory("self_organising", parameters), _Near(), seed=1)
    found.add_publisher("P", names[0], names[0])
    found.advertise(SECOND_US, Advertisement(id="a", publisher="P", filter=parse("x >= 0")))
    found.add_subscriber("C", names[-1])
    found.subscribe(
        2 * SECOND_US, names[-1], Subscription(id="s", client="C", filter=parse("x > 0"))
    )
    found.run(30 * SECOND_US)
    return found


@pytest.mark.parametrize("size", [3, 4, 5])
@pytest.mark.parametrize("pins", [0, 1])
def test_a_cycle_loses_its_last_removable_link(size: int, pins: int) -> None:
    names = [f"B{number}" for number in range(1, size + 1)]
    ring = sorted(tuple(sorted(ends)) for ends in pairwise([*names, names[0]]))
    pinned = tuple((left, right) for left, right in ring[len(ring) - pins :])
    found = world(names, ("B1", "A1"), pinned=pinned)
    gone = ring[-1 - pins]
    assert sorted(found.links) == sorted([("A1", "B1"), *(each for each in ring if each != gone)])
    promise = Advertisement(id="a", publisher="P", filter=parse("x >= 0"))
    interest = Subscription(id="s", client="C", filter=parse("x > 0"))
    picture = Picture(found.links, [(promise, "B1")], [(interest, names[-1])])
    strategies = {name: node.machine.strategy for name, node in found.brokers.items()}
    assert table_problems(picture, strategies) == []


def test_invalid_messages_are_refused() -> None:
    for cycle in (("A", "B"), ("A", "B", "A"), ("A", "B", "C", "D")):
        with pytest.raises(ProtocolError):
            CycleRound(cycle).check("C", "A")
