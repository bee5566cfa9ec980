"""Publications returned to a broker that has left go on through its last neighbours."""

from __future__ import annotations

import pytest

from shoal.broker.effects import Leave, LinkChanged, LinkState, Returned
from shoal.broker.messages import Advertise, Subscribe
from shoal.overlays.octopia.messages import Notification, TurnTables
from shoal.overlays.octopia.places.roster import PlacesAnnounced, PlaceStage, RosterPlace
from shoal.overlays.octopia.routing import RETRY
from shoal.overlays.tree.messages import AdvertisementsSaid
from tests.broker.transcript import advertisement, publish, subscription
from tests.overlays.octopia.links.test_relinking import link
from tests.overlays.octopia.order.crowded import carry_all_but
from tests.overlays.octopia.stages import ProductStage


def leave(here: ProductStage, broker: str) -> None:
    here.handle(broker, Leave())
    here.settle()
    assert broker not in here.brokers["b1"].strategy.product.brokers


def end_links(here: ProductStage, leaving_broker: str, *but: str) -> None:
    """End all links of a broker that has left, except those with unsettled content."""
    neighbours = [other for one, other in here.links if one == leaving_broker and other not in but]
    for neighbour in neighbours:
        for one, other in ((leaving_broker, neighbour), (neighbour, leaving_broker)):
            here.handle(one, LinkChanged(other, LinkState.ENDED))
            if (one, RETRY) in here.timers:
                here.fire(one, RETRY)


def come_back(here: ProductStage, leaving_broker: str, neighbour: str) -> None:
    """The link to a neighbour is given up, and its content is unsettled."""
    sent = [
        each
        for source, target, each in here.sent(Notification)
        if (source, target) == (leaving_broker, neighbour)
    ]
    assert sent
    here.break_link(leaving_broker, neighbour)
    for each in sent:
        here.handle(leaving_broker, Returned(neighbour, each))
    here.fire(leaving_broker, RETRY)


def test_a_returned_publication_to_another_cluster_arrives_after_the_carrier_left() -> None:
    """Without a way it would be kept, dropped and settled (random growth)."""
    here = ProductStage("ab", (0,), 3)
    here.ask("b0", "S", Subscribe(subscription("s", client="S")))
    here.ask("a2", "T", Subscribe(subscription("t", client="T")))
    here.ask("b1", "P", Advertise(advertisement("p")))
    here.settle()
    here.congest(("b1", "b0", 20))
    here.ask("b1", "P", publish(1))
    assert here.copies() == [("b1", "b2", 1)]
    link(here, "b1", "a2")
    link(here, "b0", "a2")
    here.handle("b2", Leave())
    carry_all_but(here, ("b2", "b0"))
    assert here.brokers["b1"].strategy.product.brokers == ("a0", "a1", "a2", "b0", "b1")
    end_links(here, "b2", "b0", "b1")
    come_back(here, "b2", "b0")
    here.settle()
    assert here.delivered() == [(1, "T"), (1, "S")]


@pytest.mark.parametrize("host", ["b1", "a1"])
def test_a_returned_publication_enters_the_cluster_elsewhere_after_the_entry_left(
    host: str,
) -> None:
    """The broker that sent it enters the cluster anew, wherever its region is."""
    here = ProductStage("abc", (0, 0), 2)
    if host == "a1":
        link(here, "b0", "c0")
        link(here, "a1", "b0")
        leave(here, "a0")
        end_links(here, "a0")
    beyond = "a0" if host == "b1" else "c0"
    here.ask(beyond, "S", Subscribe(subscription("s", client="S")))
    here.ask(host, "P", Advertise(advertisement("p")))
    here.settle()
    here.ask(host, "P", publish(1))
    for entering in {host, "b1"}:
        link(here, entering, beyond)
    leave(here, "b0")
    assert here.delivered() == [(1, "S")]
    end_links(here, "b0", host, beyond)
    here.deliveries.clear()
    come_back(here, "b0", beyond)
    here.settle()
    assert here.delivered() == [(1, "S")]


def test_a_returned_publication_within_a_cluster_takes_the_present_way() -> None:
    """The broker that sent it there uses its present way."""
    here = ProductStage("abcd", (0, 1, 1), 2)
    here.ask("d0", "S", Subscribe(subscription("s", client="S")))
    here.ask("c1", "P", Advertise(advertisement("p")))
    here.settle()
    here.ask("c1", "P", publish(1))
    here.settle()
    for end in ("c0", "d0", "b1"):
        link(here, "a0", end)
    leave(here, "b0")
    assert here.delivered() == [(1, "S")]
    end_links(here, "b0", "c0", "d0")
    here.deliveries.clear()
    come_back(here, "b0", "d0")
    here.settle()
    assert here.delivered() == [(1, "S")]


def test_nothing_is_returned_to_a_neighbour_that_has_left_too() -> None:
    """Otherwise two such brokers would return it to each other."""
    here = ProductStage("ab", (0,), 2)
    here.ask("b0", "S", Subscribe(subscription("s", client="S")))
    here.ask("a1", "P", Advertise(advertisement("p")))
    here.settle()
    here.ask("a1", "P", publish(1))
    here.settle()
    link(here, "a1", "b0")
    leave(here, "a0")
    end_links(here, "a0", "a1", "b0")
    for broker in ("a0", "a1"):
        left = PlacesAnnounced((RosterPlace("a1", 9_000, PlaceStage.LEFT, 0, 0, 1),))
        here.tell("b1" if broker == "a1" else "a1", broker, left)
    come_back(here, "a0", "b0")
    here.settle()
    assert here.brokers["a0"].strategy.description["kept"] == 1


@pytest.mark.parametrize("is_lost", [False, True])
def test_no_cluster_is_entered_through_a_broker_that_is_leaving(is_lost: bool) -> None:
    """No way leads from there to any broker of its cluster."""
    here = ProductStage("abc", (0, 0), 2)
    link(here, "b0", "c0")
    link(here, "a1", "b0")
    here.handle("a0", Leave())
    while not any(type(each) is TurnTables for each in here.links["a0", "b0"]):
        here.carry(*next(way for way, messages in here.links.items() if messages))
    link(here, "b1", "a0")
    here.take_transcript()
    here.tell("b1", "a0", AdvertisementsSaid())
    said = "a0 -> b1: BitsSaid"
    assert said not in here.take_transcript()
    if is_lost:
        # Then it has to begin anew.
        here.break_link("a0", "c0")
        assert said in here.take_transcript()
    else:
        here.settle()
        assert "a0" not in here.brokers["b1"].strategy.product
        assert said not in here.take_transcript()
