"""A subscription that two neighbours say, and a client here that others say is elsewhere.

What is remembered of it holds up leaves and exchanges of links, so none may stay: whoever said it
takes it back, dies, leaves, or is linked anew.
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
    """Of a broker with neighbours A, B and D; a publisher beyond D wants all."""
    found = Propagation(["A", "B", "D"])
    found.add_advertisement(advertisement("a"), "D", [])
    return found


def say(table: Propagation, hop: BrokerId | None, *, is_new_link: bool = False) -> list[Effect]:
    out: list[Effect] = []
    table.add_subscription(ROW, hop, out, is_new_link=is_new_link)
    return out


def take_back(table: Propagation, hop: BrokerId | None) -> list[Effect]:
    out: list[Effect] = []
    table.remove_subscription(ROW.id, hop, out)
    return out


def last_hop(table: Propagation) -> BrokerId | None:
    return table.tables.subscriptions[ROW.id].last_hop


def test_what_a_new_link_brings_holds_when_the_last_hop_takes_back_its_own() -> None:
    rows = table()
    assert say(rows, "A") == [Send("D", Subscribe(ROW))]
    assert say(rows, "B", is_new_link=True) == []
    assert last_hop(rows) == "A"
    assert take_back(rows, "A") == [Send("D", Unsubscribe("s")), Send("D", Subscribe(ROW))]
    assert last_hop(rows) == "B"
    take_back(rows, "B")
    assert not rows.tables.subscriptions
    assert not rows.alternate_routes


def test_what_comes_later_holds_and_what_held_before_is_remembered() -> None:
    rows = table()
    say(rows, "A")
    say(rows, "B")
    assert last_hop(rows) == "B"
    take_back(rows, "B")
    assert last_hop(rows) == "A"
    assert not rows.alternate_routes


def test_what_is_taken_back_meanwhile_is_not_remembered() -> None:
    rows = table()
    say(rows, "A")
    say(rows, "B", is_new_link=True)
    take_back(rows, "B")
    assert not rows.alternate_routes
    take_back(rows, "A")
    assert not rows.tables.subscriptions


def test_a_client_here_is_not_forgotten_for_what_is_said_elsewhere() -> None:
    rows = table()
    say(rows, None)
    say(rows, "A")
    assert last_hop(rows) == "A"
    take_back(rows, "A")
    assert last_hop(rows) is None
    say(rows, "A")
    take_back(rows, None)
    take_back(rows, "A")
    assert not rows.tables.subscriptions
    assert not rows.alternate_routes


def test_what_a_lost_neighbour_said_is_forgotten() -> None:
    rows = table()
    say(rows, "A")
    say(rows, "B", is_new_link=True)
    rows.unlink("B")
    assert not rows.alternate_routes


def two_words(is_word_of: str) -> Propagation:
    """A says the subscription, and B, too; one of the two is remembered."""
    rows = table()
    first, second = ("B", "A") if is_word_of == "B" else ("A", "B")
    say(rows, second)
    say(rows, first, is_new_link=True)
    assert rows.alternate_routes.has(ROW.id, first)
    return rows


def test_a_follower_remembers_the_leaving_brokers_word_as_the_successors() -> None:
    rows = two_words("A")
    Contraction(rows, TableExchange(())).follow(LinkChange("C", 1, "A", ("here",)), [])
    assert rows.alternate_routes.has(ROW.id, "C")
    take_back(rows, "B")
    assert last_hop(rows) == "C"
    take_back(rows, "C")
    assert not rows.tables.subscriptions
    assert not rows.alternate_routes


def test_the_successor_remembers_the_leaving_brokers_word_as_of_the_broker_behind_it() -> None:
    """A leaves; it had the subscription from C, which says it again over the new link."""
    rows = two_words("A")
    facts = Facts((Side("C", (), (ROW,)),))
    Contraction(rows, TableExchange(())).succeed(LinkChange("here", 1, "A", ("C",)), facts, [])
    assert not rows.alternate_routes.has(ROW.id, "A")
    say(rows, "C", is_new_link=True)
    take_back(rows, "B")
    assert last_hop(rows) == "C"
    take_back(rows, "C")
    assert not rows.tables.subscriptions
    assert not rows.alternate_routes


@pytest.mark.parametrize("word", ["A", "B"])
@pytest.mark.parametrize("gone", ["A", "B"])
def test_one_word_is_left_of_two_when_a_neighbour_is_gone(word: str, gone: str) -> None:
    rows, other = two_words(word), {"A": "B", "B": "A"}[gone]
    rows.unlink(gone)
    rows.forget(gone, [])
    assert last_hop(rows) == other
    assert not rows.alternate_routes


@pytest.mark.parametrize("word", ["A", "B"])
def test_who_is_linked_anew_and_says_it_no_more_is_not_remembered(word: str) -> None:
    rows, other = two_words(word), {"A": "B", "B": "A"}[word]
    rows.unlink(word)
    rows.link(word, [])
    assert last_hop(rows) == other
    assert not rows.alternate_routes


def test_a_broker_with_two_words_of_a_subscription_does_not_leave() -> None:
    """Neighbours cannot be told of both."""
    leaving_broker = Broker("X", ("A", "B"), strategy_factory("tree"))
    tree = leaving_broker.strategy.propagation  # type: ignore[attr-defined]
    say(tree, "A")
    say(tree, "B")
    assert not any(isinstance(each, Send) for each in leaving_broker.handle(Leave(), 1))
    leaving_broker.handle(Received("A", Unsubscribe(ROW.id)), 2)
    assert any(isinstance(each, Send) for each in leaving_broker.handle(TimerFired(TIMER), 10**6))
