"""Operators' orders to a ring: swaps, undoing the last change, pinning all brokers."""

from __future__ import annotations

import pytest

from shoal.broker.effects import Order
from shoal.overlays.dynatops.view import View
from tests.overlays.dynatops.test_trees import BROKERS, SECOND_US, Ring

MANAGER = "B0"


def order(ring: Ring, broker: str, name: str, **said: str) -> str:
    """The broker's answer; then the ring comes to rest."""
    refused = ring.world.trace.refused
    before = len(refused)
    ring.world.brokers[broker].bring(ring.now_us, Order(name, said))
    ring.now_us += SECOND_US
    ring.world.run(ring.now_us)
    return "".join(each.reason for each in refused[before:])


def view(ring: Ring) -> View:
    """The view of all brokers."""
    views = [ring.strategy(each).membership.view for each in BROKERS]
    one = views[0]
    assert one is not None
    assert all(each == one for each in views)
    return one


def test_a_swap_can_be_undone_and_then_all_brokers_pinned() -> None:
    ring = Ring(reconfigure_us=SECOND_US, price_percent=0)
    assert order(ring, MANAGER, "swap", brokers="B3,B5") == ""
    assert [view(ring).members[at] for at in (3, 5)] == ["B5", "B3"]
    assert order(ring, MANAGER, "undo") == ""
    assert (view(ring).members, view(ring).is_held) == (BROKERS, True)
    for _ in range(3):
        ring.publish()
    assert view(ring).members == BROKERS


def test_a_swap_of_the_manager_can_be_undone() -> None:
    ring = Ring(reconfigure_us=SECOND_US, price_percent=0)
    for _ in range(3):
        ring.publish()
    assert view(ring).members != BROKERS
    assert order(ring, MANAGER, "undo") == ""
    assert view(ring).members == BROKERS


def test_a_pinned_broker_stays_pinned_under_every_manager() -> None:
    ring = Ring(reconfigure_us=SECOND_US, price_percent=0)
    assert order(ring, MANAGER, "stop") == ""
    ring.world.crash(ring.now_us, MANAGER)
    ring.world.restart(ring.now_us + 3 * SECOND_US, MANAGER)
    ring.now_us += 5 * SECOND_US
    ring.world.run(ring.now_us)
    assert view(ring).is_held
    before = view(ring).members
    for _ in range(3):
        ring.publish()
    assert view(ring).members == before
    assert order(ring, MANAGER, "go") == ""
    for _ in range(3):
        ring.publish()
    assert view(ring).members != before


def test_pinned_brokers_stay_and_others_swap_within_their_region() -> None:
    pinned, regions = ("B1", "B4"), (BROKERS[:6],)
    ring = Ring(reconfigure_us=SECOND_US, price_percent=0, pinned=pinned, regions=regions)
    for _ in range(3):
        ring.publish()
    members = view(ring).members
    assert members != BROKERS
    assert [members[1], members[4]] == ["B1", "B4"]
    assert {*members[:6]} == {*BROKERS[:6]}
    assert order(ring, MANAGER, "swap", brokers="B2,B4") == "B4 is pinned"


@pytest.mark.parametrize(
    ("broker", "name", "brokers", "problem"),
    [
        ("B3", "stop", "", "B0 decides that"),
        (MANAGER, "swap", "B1,B99", "no broker 'B99' stands on the ring"),
        (MANAGER, "undo", "", "no change of places can be taken back"),
        (MANAGER, "fly", "", "'fly' is none of swap, undo, stop, go"),
    ],
)
def test_refused_orders_have_a_reason(broker: str, name: str, brokers: str, problem: str) -> None:
    assert order(Ring(), broker, name, brokers=brokers) == problem
