"""Alternate routes: a subscription from two neighbours, or from one for a client that is here.

An alternate route holds up leaves and exchanges of links, so none may stay: its neighbour withdraws
it, dies, leaves, or is linked anew.
"""

from __future__ import annotations

import pytest

from shoal.broker.effects import Effect, Leave, Received, Send, TimerFired
from shoal.broker.machine import Broker
from shoal.broker.messages import Subscribe, Unsubscribe
from shoal.model import BrokerId
from shoal.overlays.coordination.host import TIMER
from shoal.overlays.coordination.messages import Facts, LinkChange, Side
from shoal.overlays.registry import strategy_factory
from shoal.overlays.tree.contraction import Contraction
from shoal.overlays.tree.exchange import TableExchange
from shoal.overlays.tree.propagation import Propagation
from tests.broker.transcript import advertisement, subscription

ROW = subscription("s", "x > 0")


def table() -> Propagation:
    """Tables of a broker with neighbours A, B and D; a publisher beyond D wants all."""
    found = Propagation(["A", "B", "D"])
    found.add_advertisement(advertisement("a"), "D", [])
    return found


def announce(
    table: Propagation, hop: BrokerId | None, *, is_new_link: bool = False
) -> list[Effect]:
    out: list[Effect] = []
    table.add_subscription(ROW, hop, out, is_new_link=is_new_link)
    return out


def take_back(table: Propagation, hop: BrokerId | None) -> list[Effect]:
    out: list[Effect] = []
    table.remove_subscription(ROW.id, hop, out)
    return out


def last_hop(table: Propagation) -> BrokerId | None:
    return table.tables.subscriptions[ROW.id].last_hop


def test_a_new_links_subscription_holds_when_the_last_hop_withdraws_its_own() -> None:
    rows = table()
    assert announce(rows, "A") == [Send("D", Subscribe(ROW))]
    assert announce(rows, "B", is_new_link=True) == []
    assert last_hop(rows) == "A"
    assert take_back(rows, "A") == [Send("D", Unsubscribe("s")), Send("D", Subscribe(ROW))]
    assert last_hop(rows) == "B"
    take_back(rows, "B")
    assert not rows.tables.subscriptions
    assert not rows.alternate_routes


def test_the_later_route_is_used_and_the_former_one_becomes_the_alternate() -> None:
    rows = table()
    announce(rows, "A")
    announce(rows, "B")
    assert last_hop(rows) == "B"
    take_back(rows, "B")
    assert last_hop(rows) == "A"
    assert not rows.alternate_routes


def test_a_withdrawn_subscription_is_no_alternate() -> None:
    rows = table()
    announce(rows, "A")
    announce(rows, "B", is_new_link=True)
    take_back(rows, "B")
    assert not rows.alternate_routes
    take_back(rows, "A")
    assert not rows.tables.subscriptions


def test_a_local_clients_subscription_is_kept_beside_a_neighbours() -> None:
    rows = table()
    announce(rows, None)
    announce(rows, "A")
    assert last_hop(rows) == "A"
    take_back(rows, "A")
    assert last_hop(rows) is None
    announce(rows, "A")
    take_back(rows, None)
    take_back(rows, "A")
    assert not rows.tables.subscriptions
    assert not rows.alternate_routes


def test_a_lost_neighbours_alternates_are_dropped() -> None:
    rows = table()
    announce(rows, "A")
    announce(rows, "B", is_new_link=True)
    rows.unlink("B")
    assert not rows.alternate_routes


def with_alternate(is_word_of: str) -> Propagation:
    """Both A and B send the subscription; one of the two is the alternate route."""
    rows = table()
    first, second = ("B", "A") if is_word_of == "B" else ("A", "B")
    announce(rows, second)
    announce(rows, first, is_new_link=True)
    assert rows.alternate_routes.has(ROW.id, first)
    return rows


def test_a_neighbour_keeps_the_leaving_brokers_alternate_as_the_successors() -> None:
    rows = with_alternate("A")
    Contraction(rows, TableExchange(())).follow(LinkChange("C", 1, "A", ("here",)), [])
    assert rows.alternate_routes.has(ROW.id, "C")
    take_back(rows, "B")
    assert last_hop(rows) == "C"
    take_back(rows, "C")
    assert not rows.tables.subscriptions
    assert not rows.alternate_routes


def test_the_successor_keeps_the_leaving_brokers_alternate_as_its_neighbours() -> None:
    """A leaves; it had the subscription from C, which sends it again over the new link."""
    rows = with_alternate("A")
    facts = Facts((Side("C", (), (ROW,)),))
    Contraction(rows, TableExchange(())).succeed(LinkChange("here", 1, "A", ("C",)), facts, [])
    assert not rows.alternate_routes.has(ROW.id, "A")
    announce(rows, "C", is_new_link=True)
    take_back(rows, "B")
    assert last_hop(rows) == "C"
    take_back(rows, "C")
    assert not rows.tables.subscriptions
    assert not rows.alternate_routes


@pytest.mark.parametrize("word", ["A", "B"])
@pytest.mark.parametrize("gone", ["A", "B"])
def test_one_route_of_two_is_left_when_a_neighbour_is_dead(word: str, gone: str) -> None:
    rows, other = with_alternate(word), {"A": "B", "B": "A"}[gone]
    rows.unlink(gone)
    rows.forget(gone, [])
    assert last_hop(rows) == other
    assert not rows.alternate_routes


@pytest.mark.parametrize("word", ["A", "B"])
def test_a_relinked_neighbours_alternate_is_dropped_if_not_repeated(word: str) -> None:
    rows, other = with_alternate(word), {"A": "B", "B": "A"}[word]
    rows.unlink(word)
    rows.link(word, [])
    assert last_hop(rows) == other
    assert not rows.alternate_routes


def test_a_broker_with_an_alternate_route_does_not_leave() -> None:
    """Neighbours cannot be told of both."""
    leaving_broker = Broker("X", ("A", "B"), strategy_factory("tree"))
    tree = leaving_broker.strategy.propagation  # type: ignore[attr-defined]
    announce(tree, "A")
    announce(tree, "B")
    assert not any(isinstance(each, Send) for each in leaving_broker.handle(Leave(), 1))
    leaving_broker.handle(Received("A", Unsubscribe(ROW.id)), 2)
    assert any(isinstance(each, Send) for each in leaving_broker.handle(TimerFired(TIMER), 10**6))
