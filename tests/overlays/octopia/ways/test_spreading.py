"""Publications that take one cluster's tree for all clusters, as their host's outputs are full."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from shoal.broker.effects import LinkLoad, Loads
from shoal.broker.messages import Advertise, RoutedPublication, Subscribe
from shoal.overlays.octopia.messages import Notification, SpreadCopy
from shoal.overlays.octopia.parameters import Congestion, Dynamic, OctopiaParameters
from tests.broker.transcript import Stage, advertisement, publish, subscription
from tests.overlays.octopia.stages import ProductStage


def stage() -> ProductStage:
    """P publishes at a0, with a subscriber at each broker."""
    here = ProductStage(dynamic=Dynamic.SPREAD)
    here.ask("a0", "P", Advertise(advertisement("p")))
    here.settle()
    for name in here.brokers:
        here.ask(name, name, Subscribe(subscription(name, client=name)))
    here.settle()
    return here


def arrivals(here: ProductStage) -> Counter[str]:
    return Counter(
        target for kind in (SpreadCopy, Notification) for _, target, _ in here.sent(kind)
    )


def test_nothing_is_spread_while_no_output_is_congested() -> None:
    here = stage()
    here.ask("a0", "P", publish(1))
    here.settle()
    assert not list(here.sent(SpreadCopy))
    assert sorted(client for _, client in here.delivered()) == sorted(here.brokers)


@pytest.mark.parametrize(
    ("congested", "tree"),
    [
        # The host's way in its own tree is full: the tree of the least congested other way.
        ([("a0", "b0", 50), ("a0", "a1", 3)], {("a0", "a2"), ("a2", "b2"), ("b2", "c2")}),
        # Its ways to others are full: its own tree.
        ([("a0", "a1", 50), ("a0", "a2", 3)], {("a0", "b0"), ("b0", "c0")}),
    ],
)
def test_every_broker_gets_one_copy_along_one_tree(
    congested: list[tuple[str, str, int]], tree: set[tuple[str, str]]
) -> None:
    here = stage()
    here.congest(*congested)
    here.ask("a0", "P", publish(1))
    here.settle()
    assert {(source, target) for source, target, _ in here.sent(SpreadCopy)} == tree
    assert arrivals(here) == dict.fromkeys(here.brokers.keys() - {"a0"}, 1)
    assert sorted(client for _, client in here.delivered()) == sorted(here.brokers)


def test_beyond_a_broken_link_each_cluster_is_entered_separately() -> None:
    """Brokers there have ways of their own; no subscriber receives it twice."""
    here = stage()
    here.congest(("a0", "b0", 50), ("a0", "a2", 3))
    here.ask("a0", "P", publish(1))
    here.carry("a0", "a1")
    here.break_link("b1", "a1")
    here.carry("a1", "a2")
    here.settle()
    here.ask("a0", "P", publish(2))
    here.settle()
    got = Counter(here.delivered())
    assert set(got.values()) == {1}
    # Unassured publications on the lost link are lost.
    assert {client for number, client in got if number == 2} >= here.brokers.keys() - {"b1", "c1"}


def test_unsettled_publications_of_a_lost_link_take_the_usual_way() -> None:
    here = stage()
    here.congest(("a0", "b0", 50), ("a0", "a2", 3))
    here.ask("a0", "P", publish(1))
    (source, target, spread) = next(here.sent(SpreadCopy))
    assert (source, target) == ("a0", "a1")
    here.break_link("a0", "a1")
    effects: list[object] = []
    assured = tuple(
        RoutedPublication(
            msgspec.structs.replace(routed.publication, assured=True), routed.message_id
        )
        for routed in spread.publications  # type: ignore[attr-defined]
    )
    carrier = spread.with_publications(assured)  # type: ignore[attr-defined]
    here.brokers["a0"].strategy.returned("a1", carrier, 10, effects)
    here.carry_out("a0", effects)  # type: ignore[arg-type]
    here.settle()
    got = {client for _, client in here.delivered()}
    assert got >= {name for name in here.brokers if name[1] != "1"}


def test_nothing_is_spread_if_a_cluster_has_an_additional_region() -> None:
    """There are as many brokers as in a whole product of the host's regions."""
    parameters = OctopiaParameters(
        rows=(("a0", "a1", "a2"), ("b0", "b1", ""), ("c0", "", "")),
        parents=(0, 1),
        dynamic=Dynamic.SPREAD,
        congestion=Congestion.PAPER,
    )
    here = Stage(parameters.product().links, "octopia", parameters)
    here.ask("a1", "P", Advertise(advertisement("p")))
    here.settle()
    for name in here.brokers:
        here.ask(name, name, Subscribe(subscription(name, client=name)))
    here.settle()
    here.handle("a1", Loads({each: LinkLoad(50, 50, 50) for each in ("a0", "a2", "b1")}))
    here.ask("a1", "P", publish(1))
    here.settle()
    assert sorted(each.client for _, each in here.deliveries) == sorted(here.brokers)
