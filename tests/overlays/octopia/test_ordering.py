"""A publisher's way changes only when what went before has arrived."""

from __future__ import annotations

import pytest

from shoal.broker.effects import LinkLoad, Loads
from shoal.broker.messages import Advertise, Subscribe
from shoal.overlays.octopia.messages import Probe, ProbePassed
from shoal.overlays.octopia.parameters import Dynamic
from tests.broker.transcript import advertisement, publish, subscription
from tests.overlays.octopia.stages import ProductStage

CROWDED = ("b2", "b0", 40)


def stage() -> ProductStage:
    """P at b2; S1 in cluster 0, S2 in cluster 1, both beyond region c."""
    here = ProductStage(dynamic=Dynamic.ORDERED)
    for client, home in (("S1", "c0"), ("S2", "c1")):
        here.ask(home, client, Subscribe(subscription(client, client=client)))
    here.ask("b2", "P", Advertise(advertisement("p")))
    here.settle()
    here.ask("b2", "P", publish(0))
    here.carry("b2", "b1")
    return here


def got(here: ProductStage, client: str) -> list[int]:
    return [number for number, name in here.delivered() if name == client]


def test_what_comes_meanwhile_waits_for_what_is_on_the_former_way() -> None:
    here = stage()
    here.congest(CROWDED)
    here.ask("b2", "P", publish(1), publish(2))
    assert [row[:2] for row in here.sent(Probe)] == [("b2", "b0")]
    assert here.brokers["b2"].strategy.description["kept"] == 2
    here.carry("b2", "b1", 2)  # to cluster 1 nothing has to wait
    while here.links["b1", "c1"]:
        here.carry("b1", "c1")
    assert got(here, "S2") == [0, 1, 2]
    assert got(here, "S1") == []
    here.settle()
    assert got(here, "S1") == [0, 1, 2]
    assert ("b2", "b1", 0b001) in here.copies()
    assert here.brokers["b2"].strategy.description["detours"] == 1
    assert not any(each.strategy.routing.kept for each in here.brokers.values())


def test_a_probe_visits_the_whole_cluster_and_comes_back() -> None:
    here = stage()
    here.congest(CROWDED)
    here.ask("b2", "P", publish(1))
    here.settle()
    assert sorted(row[:2] for row in here.sent(Probe)) == [("b0", "a0"), ("b0", "c0"), ("b2", "b0")]
    assert len(list(here.sent(ProbePassed))) == 3


def test_a_detour_is_left_when_the_shortest_way_has_long_been_free() -> None:
    here = stage()
    here.congest(CROWDED)
    here.ask("b2", "P", publish(1))
    here.settle()
    here.handle("b2", Loads({"b0": LinkLoad(0, 40, 0)}))
    here.ask("b2", "P", publish(2))
    here.settle()
    assert here.brokers["b2"].strategy.description["detours"] == 1
    here.now_us += 2_000_000
    here.ask("b2", "P", publish(3))
    here.settle()
    assert here.brokers["b2"].strategy.description["detours"] == 0
    assert got(here, "S1") == [0, 1, 2, 3]
    assert ("b2", "b0", 0) in here.copies()[-4:]


def test_a_way_changes_only_for_one_that_costs_half() -> None:
    here = stage()
    here.congest(CROWDED, ("b2", "b1", 30))
    here.ask("b2", "P", publish(1))
    here.settle()
    assert not list(here.sent(Probe))
    assert got(here, "S1") == [0, 1]


def test_a_neighbour_that_is_lost_settles_its_part_of_a_probe() -> None:
    """What was unsettled there comes back by itself, before what was kept may go."""
    here = stage()
    here.congest(CROWDED)
    here.ask("b2", "P", publish(1))
    here.break_link("b2", "b0")
    here.now_us = here.timers["b2", ("retry",)]
    here.fire("b2", ("retry",))
    here.settle()
    assert here.brokers["b2"].strategy.description["kept"] == 1
    here.mend_link("b2", "b0")
    here.settle()
    assert got(here, "S1") == [1]


@pytest.mark.parametrize("dynamic", [Dynamic.ORDERED, Dynamic.STATIC])
def test_a_batch_whose_publications_go_different_ways_keeps_its_order(dynamic: Dynamic) -> None:
    """For several at the same broker, and in the same cluster, beside others elsewhere."""
    here = ProductStage(dynamic=dynamic)
    for client, home, where in (
        ("S1", "c0", "x >= 0"),
        ("S2", "b0", "x IN (0, 2, 4, 6)"),
        ("S3", "c1", "x = 2"),
        ("S4", "c2", "x >= 3"),
    ):
        here.ask(home, client, Subscribe(subscription(client, where, client)))
    here.ask("b2", "P", Advertise(advertisement("p", "x < 2")), Advertise(advertisement("q")))
    here.settle()
    here.ask("b2", "P", publish(*range(8)))
    here.settle()
    assert got(here, "S1") == list(range(8))
    assert got(here, "S2") == [0, 2, 4, 6]
    assert got(here, "S3") == [2]
    assert got(here, "S4") == [3, 4, 5, 6, 7]
