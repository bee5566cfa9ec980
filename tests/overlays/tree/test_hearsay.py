"""A subscription that two neighbours say, and a client here that others say is elsewhere."""

from __future__ import annotations

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import Subscribe, Unsubscribe
from shoal.model import BrokerId
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
    assert not rows.hearsay


def test_what_comes_later_holds_and_what_held_before_is_remembered() -> None:
    rows = table()
    say(rows, "A")
    say(rows, "B")
    assert last_hop(rows) == "B"
    take_back(rows, "B")
    assert last_hop(rows) == "A"
    assert not rows.hearsay


def test_what_is_taken_back_meanwhile_is_not_remembered() -> None:
    rows = table()
    say(rows, "A")
    say(rows, "B", is_new_link=True)
    take_back(rows, "B")
    assert not rows.hearsay
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
    assert not rows.hearsay


def test_what_a_lost_neighbour_said_is_forgotten() -> None:
    rows = table()
    say(rows, "A")
    say(rows, "B", is_new_link=True)
    rows.unlink("B")
    assert not rows.hearsay
