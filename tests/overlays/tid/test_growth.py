"""Brokers join and leave a graph of trees with identifiers."""

from __future__ import annotations

import pytest

from shoal.broker.effects import Deliver, Leave
from shoal.broker.messages import Advertise, RoutedPublication, Subscribe, Unadvertise
from shoal.model import Publication
from shoal.overlays.tid.messages import Renew, TreeCopy, TreeId
from shoal.overlays.tid.waiting import TidDeliveries
from tests.broker.transcript import Stage, advertisement, publish, subscription
from tests.seeds.networks.random_changes import ChangingNetwork
from tests.seeds.networks.random_network import UNTIL_US


@pytest.mark.parametrize(("seed", "lossy"), [(13, False), (34, False), (5, True), (6, True)])
def test_joins_and_leaves_disturb_no_client(seed: int, lossy: bool) -> None:
    network = ChangingNetwork(seed, system="tid", lossy=lossy)
    assert network.run(UNTIL_US) == []
    assert network.world.departures


def test_a_new_tree_is_used_once_all_brokers_have_bound_to_it() -> None:
    """However slow: until then publications use the former tree."""
    here = Stage([("1", "2"), ("2", "3")], "tid")
    here.ask("1", "P", Advertise(advertisement("p")))
    here.ask("3", "S", Subscribe(subscription("s", client="S")))
    here.settle()
    here.tell("2", "1", Renew("3", 1_000))
    here.fire("1", ("renew",))
    here.carry("1", "2")
    here.ask("1", "P", publish(1))
    here.settle()
    here.ask("1", "P", publish(2))
    here.settle()
    first, _, second, _ = [copy.trees for _, _, copy in here.sent(TreeCopy)]
    assert first != second
    assert here.delivered() == [(1, "S"), (2, "S")]


def test_a_leaving_broker_sends_no_changes_of_a_tree_that_it_has_not_announced() -> None:
    """3 would take its way to the root from the change, over the broker that leaves."""
    here = Stage([("1", "2"), ("2", "3"), ("1", "3")], "tid")
    here.ask("1", "P", Advertise(advertisement("p")), Advertise(advertisement("q")))
    here.ask("3", "S", Subscribe(subscription("s", client="S")))
    here.settle()
    here.handle("2", Leave())
    here.settle()
    here.fire("1", ("renew",))
    here.ask("1", "P", Unadvertise("q"))
    while here.links["1", "2"]:
        here.carry("1", "2")
    here.settle()
    here.ask("1", "P", publish(1))
    here.settle()
    assert here.delivered() == [(1, "S")]


def test_publications_on_a_new_tree_wait_for_those_on_the_former() -> None:
    after: dict[TreeId, bool] = {"old": True, "new": False, "newer": False}
    deliveries = TidDeliveries(after.__getitem__)
    got: list[int] = []

    def add(number: int, tree: TreeId) -> list[object]:
        routed = RoutedPublication(
            Publication(publisher="P", sequence=number, published_us=0, attributes={}), str(number)
        )
        out: list[object] = []
        deliveries.add([Deliver("S", routed, ("s",), 1)], (tree,), out)  # type: ignore[arg-type]
        return out

    def look() -> None:
        out: list[object] = []
        deliveries.look(out)  # type: ignore[arg-type]
        found = [each for each in out if isinstance(each, Deliver)]
        got.extend(each.routed.publication.sequence for each in found)

    assert isinstance(add(0, "old")[0], Deliver)
    add(3, "newer"), add(1, "new"), add(2, "new")
    look()
    assert got == []
    after["newer"] = not deliveries.has("new")
    after["new"] = True
    look()
    assert got == [1, 2]
    after["newer"] = not deliveries.has("new")
    look()
    assert got == [1, 2, 3]
