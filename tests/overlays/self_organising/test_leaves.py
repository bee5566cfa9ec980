"""Brokers that leave where links change: what a link was before is not what it is now."""

from __future__ import annotations

import msgspec
import pytest

from shoal.broker.effects import (
    CancelTimer,
    Departed,
    EndLink,
    Leave,
    Left,
    LinkChanged,
    LinkState,
    Requested,
    Started,
    TimerFired,
)
from shoal.broker.messages import Advertise, Message, Subscribe, Unsubscribe
from shoal.overlays.self_organising.links.memory import STANDINGS
from shoal.overlays.self_organising.quiet_ring.ring_messages import Greeting, Standing
from shoal.overlays.tree.messages import (
    Abandon,
    Absent,
    Behind,
    Flushed,
    Prepare,
    Prepared,
    Stop,
    Stopped,
    Succeed,
    Succeeded,
)
from tests.broker.transcript import advertisement, subscription
from tests.overlays.tree.told import Told, received

GREET = ("greet", "B1")


def prepared(*before: object) -> Told:
    """B3, which has heard these, is to move from B2 to B1, and has a subscriber."""
    broker = Told("B3", "B2", system="self_organising")
    broker.hears(
        *received("B2", Advertise(advertisement("a"))),
        Requested("C", Subscribe(subscription("s"))),
        *before,
        *received("B2", Prepare(1, "B1", ())),
    )
    return broker


@pytest.mark.parametrize("state", [LinkState.UP, LinkState.FAILED, LinkState.ENDED])
def test_who_waits_to_greet_a_stranger_waits_anew_when_its_link_changes(state: object) -> None:
    broker = Told("B3", "B2", system="self_organising").hears(LinkChanged("B1", LinkState.UP))
    broker.hears(LinkChanged("B1", state))  # type: ignore[arg-type]
    assert broker.did[0] == CancelTimer(GREET)


def test_the_link_that_takes_a_leavers_place_is_no_stranger() -> None:
    broker = prepared(LinkChanged("B1", LinkState.UP))
    assert not broker.hears(TimerFired(GREET)).says("B1")


def test_a_link_that_was_a_strangers_begins_with_what_the_tables_say() -> None:
    """Lost: what it was told in the leaver's place was taken back, as if not told for good."""
    broker = prepared(LinkChanged("B1", LinkState.UP), LinkChanged("B1", LinkState.ENDED))
    broker.hears(LinkChanged("B1", LinkState.UP), *received("B2", Stop(1, 1), Flushed(1)))
    broker.hears(*received("B1", Succeeded(1, 0)))
    assert EndLink("B2") in broker.did
    broker.hears(*received("B1", Greeting(Standing(True, broker.now_us))))
    assert Unsubscribe("s") not in broker.says("B1")


def test_who_leaves_begins_anew_when_a_neighbour_leaves_first() -> None:
    """Its other neighbour was asked to move to one that was gone, and was still for ever."""
    leaver = Told("B2", "B1", "B3", system="self_organising").hears(Leave())
    assert leaver.says("B3") == [Prepare(1, "B1", ())]
    leaver.hears(*received("B1", Greeting(Standing(False, 1))))
    assert Abandon(1) in leaver.says("B3")


def test_who_leaves_takes_the_word_of_who_has_moved_for_the_end_of_its_link() -> None:
    """Else it waits for the end of a link that is none of the tree's any more, for ever."""
    leaver = Told("B2", "B1", "B3", system="self_organising").hears(Leave())
    leaver.hears(*received("B3", Prepared(1)), *received("B1", Prepared(1)))
    leaver.hears(*received("B3", Stopped(1, 1)), *received("B1", Stopped(1, 1)))
    leaver.hears(*received("B3", Greeting(Standing(False, 99))))
    assert EndLink("B1") in leaver.did
    leaver.hears(LinkChanged("B3", LinkState.ENDED), LinkChanged("B1", LinkState.ENDED))
    assert Left() in leaver.did


def test_who_has_moved_greets_nobody_over_the_link_that_ends() -> None:
    """It had come up as a stranger's, five seconds before."""
    broker = prepared(LinkChanged("B1", LinkState.UP))
    broker.hears(*received("B2", Stop(1, 1), Flushed(1)), *received("B1", Succeeded(1, 0)))
    assert not broker.hears(TimerFired(("greet", "B2"))).says("B2")


def remembered(broker: Told) -> dict[str, bool]:
    memory = broker.machine.strategy.overlay.memory  # type: ignore[attr-defined]
    return {name: memory.standing(name).is_in for name in ("B1", "B2", "B4")}


def test_a_centre_remembers_who_has_heard_of_it() -> None:
    """Else it would disown the leaver after a crash, with whom all have stayed."""
    centre = Told("B3", "B2", system="self_organising")
    centre.hears(*received("B2", Prepare(1, "B3", ("B1", "B4"))))
    centre.hears(LinkChanged("B1", LinkState.UP), LinkChanged("B4", LinkState.UP))
    others = (Behind("B1", (), ()), Behind("B4", (), ()))
    centre.hears(*received("B2", Stop(1, 1), Succeed(1, others)))
    assert remembered(centre) == {"B1": False, "B2": True, "B4": False}
    centre.hears(*received("B1", Succeeded(1, 0)))
    assert remembered(centre) == {"B1": True, "B2": True, "B4": False}
    centre.hears(*received("B2", Greeting(Standing(False, 99))))
    assert remembered(centre) == {"B1": True, "B2": False, "B4": False}


def test_who_has_moved_remembers_the_centre_at_once() -> None:
    broker = prepared(LinkChanged("B1", LinkState.UP))
    broker.hears(*received("B2", Stop(1, 1), Flushed(1)), *received("B1", Succeeded(1, 0)))
    assert remembered(broker) == {"B1": True, "B2": False, "B4": False}


def test_who_has_started_again_waits_for_the_links_that_it_remembers_before_it_leaves() -> None:
    rows = msgspec.to_builtins({"B1": Standing(True, 5), "B2": Standing(True, 5)})
    started = Started(former=(), give_up_us=60_000_000, facts={STANDINGS: rows})
    broker = Told("B3", system="self_organising").hears(started, Leave())
    assert Left() not in broker.did
    broker.hears(LinkChanged("B1", LinkState.FAILED), TimerFired(("leave",)))
    assert Left() not in broker.did


# --- who was away as a neighbour left -------------------------------------------------------------


def inheriting() -> Told:
    """B3, whose neighbour B2 has left as B6 was away from that, and who has a link to B6 now."""
    heir = Told("B3", "B1", "B2", system="self_organising")
    heir.hears(*received("B2", Absent(1, {"B6": ()})), LinkChanged("B2", LinkState.ENDED))
    return heir.hears(LinkChanged("B6", LinkState.UP))


def greeted(heir: Told, broker: Told) -> list[Message]:
    """What B6 says to its greeting."""
    broker.hears(LinkChanged("B3", LinkState.UP), *received("B3", *heir.says("B6")))
    return broker.says("B3")


def test_who_was_away_as_its_neighbour_left_is_linked_to_who_came_in_its_place() -> None:
    heir = inheriting()
    assert heir.says("B6") == [Greeting(Standing(True, 2, "B2"))]
    broker = Told("B6", "B2", system="self_organising").hears(LinkChanged("B2", LinkState.FAILED))
    heir.hears(*received("B6", *greeted(heir, broker)))
    assert is_neighbour(heir, "B6")
    assert is_neighbour(broker, "B3")


def test_who_has_heard_that_its_neighbour_left_is_linked_as_well() -> None:
    heir = inheriting()
    broker = Told("B6", "B2", system="self_organising").hears(LinkChanged("B2", LinkState.FAILED))
    greeted(heir, broker.hears(Departed("B2")))
    assert is_neighbour(broker, "B3")


def test_who_had_parted_from_who_left_has_its_place_elsewhere() -> None:
    """The leaver had not heard of that: a cycle was closed."""
    heir = inheriting()
    broker = Told("B6", "B2", system="self_organising")
    broker.hears(LinkChanged("B7", LinkState.UP), *received("B2", Prepare(1, "B7", ())))
    broker.hears(LinkChanged("B7", LinkState.UP), *received("B2", Stop(1, 1), Flushed(1)))
    broker.hears(*received("B7", Succeeded(1, 0)))
    assert not remembered(broker)["B2"]
    answers = greeted(heir, broker)
    assert not is_neighbour(broker, "B3")
    heir.hears(*received("B6", *answers))
    assert EndLink("B6") in heir.did
    assert not is_neighbour(heir, "B6")


def is_neighbour(broker: Told, neighbour: str) -> bool:
    is_one: bool = broker.machine.strategy.tree.is_neighbour(neighbour)  # type: ignore[attr-defined]
    return is_one


# --- clocks, and lives of links -------------------------------------------------------------------


def test_both_ends_of_a_link_in_a_leavers_place_remember_it_since_one_moment() -> None:
    """Where clocks differ, a later word of one end was older than what the other remembered."""
    centre = Told("B1", "B2", system="self_organising")
    centre.now_us = 10**9
    centre.hears(*received("B2", Prepare(1, "B1", ("B3",))), LinkChanged("B3", LinkState.UP))
    centre.hears(*received("B2", Stop(1, 1), Succeed(1, (Behind("B3", (), ()),))))
    broker = prepared(LinkChanged("B1", LinkState.UP), LinkChanged("B1", LinkState.ENDED))
    broker.hears(LinkChanged("B1", LinkState.UP), *received("B2", Stop(1, 1), Flushed(1)))
    broker.hears(*received("B1", *centre.says("B3")))
    centre.hears(*received("B3", *broker.says("B1")))
    assert standing(centre, "B3") == standing(broker, "B1")


def standing(broker: Told, neighbour: str) -> Standing:
    found: Standing = broker.machine.strategy.overlay.memory.standing(neighbour)  # type: ignore[attr-defined]
    return found


def test_a_greeting_is_answered_once_in_each_life_of_a_link() -> None:
    broker = Told("B3", "B2", system="self_organising").hears(LinkChanged("B1", LinkState.UP))
    assert broker.hears(TimerFired(GREET)).says("B1")
    broker.hears(*received("B2", Prepare(1, "B1", ())), *received("B2", Abandon(1)))
    broker.hears(LinkChanged("B1", LinkState.ENDED), LinkChanged("B1", LinkState.UP))
    broker.hears(*received("B1", Greeting(Standing(True, 99))))
    assert Greeting in map(type, broker.says("B1"))


def test_tables_do_not_turn_as_a_neighbour_parts_while_they_must_be_still() -> None:
    broker = prepared(LinkChanged("B1", LinkState.UP))
    broker.hears(LinkChanged("B4", LinkState.UP), *received("B4", Greeting(Standing(True, 9))))
    assert is_neighbour(broker, "B4")
    broker.hears(*received("B2", Stop(1, 1)), *received("B4", Greeting(Standing(False, 99))))
    assert is_neighbour(broker, "B4")
    broker.hears(*received("B2", Flushed(1)), *received("B1", Succeeded(1, 0)))
    assert not is_neighbour(broker, "B4")
