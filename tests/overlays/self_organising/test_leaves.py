"""Brokers that leave where links change: what a link was before is not what it is now."""

from __future__ import annotations

import msgspec
import pytest

from shoal.broker.effects import (
    CancelTimer,
    EndLink,
    Leave,
    Left,
    LinkChanged,
    LinkState,
    Requested,
    Started,
    TimerFired,
)
from shoal.broker.messages import Advertise, Subscribe, Unsubscribe
from shoal.overlays.self_organising.links.memory import STANDINGS
from shoal.overlays.self_organising.quiet_ring.ring_messages import Greeting, Standing
from shoal.overlays.tree.messages import Abandon, Behind, Flushed, Prepare, Stop, Succeed, Succeeded
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
    broker.hears(*received("B1", Succeeded(1)))
    assert EndLink("B2") in broker.did
    broker.hears(*received("B1", Greeting(Standing(True, broker.now_us))))
    assert Unsubscribe("s") not in broker.says("B1")


def test_who_leaves_begins_anew_when_a_neighbour_leaves_first() -> None:
    """Its other neighbour was asked to move to one that was gone, and was still for ever."""
    leaver = Told("B2", "B1", "B3", system="self_organising").hears(Leave())
    assert leaver.says("B3") == [Prepare(1, "B1", ())]
    leaver.hears(*received("B1", Greeting(Standing(False, 1))))
    assert Abandon(1) in leaver.says("B3")


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
    centre.hears(*received("B1", Succeeded(1)))
    assert remembered(centre) == {"B1": True, "B2": True, "B4": False}
    centre.hears(*received("B2", Greeting(Standing(False, 99))))
    assert remembered(centre) == {"B1": True, "B2": False, "B4": False}


def test_who_has_moved_remembers_the_centre_at_once() -> None:
    broker = prepared(LinkChanged("B1", LinkState.UP))
    broker.hears(*received("B2", Stop(1, 1), Flushed(1)), *received("B1", Succeeded(1)))
    assert remembered(broker) == {"B1": True, "B2": False, "B4": False}


def test_who_has_started_again_waits_for_the_links_that_it_remembers_before_it_leaves() -> None:
    rows = msgspec.to_builtins({"B1": Standing(True, 5), "B2": Standing(True, 5)})
    started = Started(former=(), give_up_us=60_000_000, facts={STANDINGS: rows})
    broker = Told("B3", system="self_organising").hears(started, Leave())
    assert Left() not in broker.did
    broker.hears(LinkChanged("B1", LinkState.FAILED), TimerFired(("leave",)))
    assert Left() not in broker.did
